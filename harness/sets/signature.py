# SPDX-License-Identifier: MIT
"""Signatures of result sets: ssh-keygen's, over the manifest, which has the hash of every other file.

A finished set does not change, so its signature lies beside it: ID.sig. `ssh-keygen -Y verify -n krepro` reads it too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.artefacts.store import usable
from harness.errors import UsageError
from harness.sets.listing import MANIFEST, read_plain

#: What OpenSSH calls the namespace: a signature made for anything else does not hold here.
NAMESPACE = "krepro"
SIGNERS = Path("~/.ssh/allowed_signers")
TOOL = "ssh-keygen"
MOST_BYTES = 1 << 16
#: A line of a file of signers that has options, as allowed_signers of ssh-keygen(1) says.
WITH_OPTIONS = re.compile(r'[ \t]*(?:"[^"]*"|[^\s"#]+)[ \t]+((?:"[^"]*"|[^\s"])+)[ \t]')
NAMESPACES = re.compile(r'(?:^|,)namespaces="([^"]*)"', re.IGNORECASE)


def signature_file(root: Path) -> Path:
    """Where the signature of the set at `root` is, if there is one."""
    return root.with_name(f"{root.name}.sig")


def sign(root: Path, key: Path) -> Path:
    """Sign a set whose files have been verified, by an ssh key that ssh-keygen can use; the signature's file."""
    made = _run(root, "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    if made.returncode != 0:
        raise UsageError(
            f"cannot sign: {_last(made.stderr)}", where=str(key), hint="KREPRO_SIGNING_KEY names an ssh key"
        )
    path = signature_file(root)
    with usable(path.parent):
        path.write_bytes(made.stdout)
    return path


def signed_by(root: Path, signers: Path | None) -> str:
    """One line: who signed a set, by the names in the file `signers`, or that nobody did.

    UsageError when there is a signature that does not fit; and, where `signers` is given, when the set is unsigned or
    signed by a key that may not sign. Without it, it is told by the names in SIGNERS, if there is such a file.
    """
    allowed = (SIGNERS if signers is None else signers).expanduser()
    if signers is not None and not allowed.is_file():
        raise UsageError("there is no such file", where=str(allowed), hint="--signers")
    signature = signature_file(root)
    if not signature.is_file():
        if signers is not None:
            raise UsageError("is unsigned", where=str(root), hint=f"a signature would be {signature.name}, beside it")
        return "unsigned"
    if signers is None and shutil.which(TOOL) is None:
        return f"signed; nobody can tell by whom, as there is no {TOOL} here"
    _check_plain(signature)
    checked = _run(root, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature))
    if checked.returncode != 0:
        raise UsageError("is no signature of this set's manifest", where=str(signature))
    name = _named(root, signature, allowed) if allowed.is_file() else None
    key = checked.stdout.decode(errors="replace").strip().rpartition(" key ")[2]
    if name is None and signers is not None:
        raise UsageError(f"is signed by a key that {allowed} does not let sign now ({key})", where=str(root))
    return f"signed by {name} ({key})" if name else f"signed by a key that {allowed} does not name ({key})"


def vouched(root: Path, signers: Path | None = None) -> bool:
    """Whether a set is signed by a key whose owner's code is executed unasked.

    That is one which the file `signers` (SIGNERS, where it is None) lists with the option `namespaces="krepro"`: one
    that is listed for git's signatures alone does not do.
    """
    signature, allowed = signature_file(root), (SIGNERS if signers is None else signers).expanduser()
    try:
        _check_plain(signature)
        lines = [line for line in allowed.read_text(errors="replace").splitlines() if _is_for_code(line)]
        if not lines:
            return False
        with tempfile.NamedTemporaryFile("w", prefix=f"{NAMESPACE}-signers-") as chosen:
            chosen.write("".join(f"{line}\n" for line in lines))
            chosen.flush()
            return _named(root, signature, Path(chosen.name)) is not None
    except (OSError, UsageError):
        return False


def _is_for_code(line: str) -> bool:
    options = WITH_OPTIONS.match(line)
    named = NAMESPACES.search(options[1]) if options else None
    return named is not None and NAMESPACE in named[1].split(",")


def _check_plain(signature: Path) -> None:
    try:
        if signature.lstat().st_size > MOST_BYTES:
            raise UsageError("is no signature", where=str(signature))
        read_plain(signature)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(signature)) from error


def _named(root: Path, signature: Path, allowed: Path) -> str | None:
    known = _run(root, "-Y", "find-principals", "-s", str(signature), "-f", str(allowed))
    for name in known.stdout.decode(errors="replace").splitlines():
        words = ("-Y", "verify", "-n", NAMESPACE, "-s", str(signature), "-f", str(allowed), "-I", name)
        if _run(root, *words).returncode == 0:
            return name
    return None


def _run(root: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """ssh-keygen, which reads the manifest."""
    try:
        return subprocess.run([TOOL, *words], input=read_plain(root / MANIFEST), capture_output=True, check=False)
    except FileNotFoundError as error:
        raise UsageError(f"{TOOL} is not installed", hint="apt-get install openssh-client") from error


def _last(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it says nothing"
