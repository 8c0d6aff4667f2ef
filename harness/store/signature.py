# SPDX-License-Identifier: MIT
"""Signatures of result sets: ssh-keygen's, over the manifest, which has the hash of every other file.

A finished set does not change, so its signature lies beside it: ID.sig. `ssh-keygen -Y verify -n krepro` reads it too.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.build.store import usable
from harness.errors import RunError, UsageError
from harness.store.listing import MANIFEST, read_plain

#: What OpenSSH calls the namespace: a signature made for anything else does not hold here.
NAMESPACE = "krepro"
SIGNERS = Path("~/.ssh/allowed_signers")
TOOL = "ssh-keygen"
MOST_BYTES = 1 << 16


def signature_file(root: Path) -> Path:
    """Where the signature of the set at `root` is, if there is one."""
    return root.with_name(f"{root.name}.sig")


def sign(root: Path, key: Path) -> Path:
    """Sign a set whose files have been verified, by an ssh key that ssh-keygen can use; the signature's file."""
    made = _run(root, "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    if made.returncode != 0:
        raise UsageError(f"cannot sign: {_last(made.stderr)}", where=str(key), hint="--key takes an ssh key")
    path = signature_file(root)
    with usable(path.parent):
        path.write_bytes(made.stdout)
    return path


def signed_by(root: Path, signers: Path | None) -> str:
    """One line: who signed a set, by the names in the file `signers` (SIGNERS, where it is None), or that nobody did.

    RunError when there is a signature that does not fit.
    """
    signature = signature_file(root)
    if not signature.is_file():
        return "unsigned"
    if shutil.which(TOOL) is None:
        return f"signed; nobody can tell by whom, as there is no {TOOL} here"
    try:
        if signature.lstat().st_size > MOST_BYTES:
            raise RunError("is no signature", where=str(signature))
        read_plain(signature)
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(signature)) from error
    checked = _run(root, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature))
    if checked.returncode != 0:
        raise RunError("is no signature of this set's manifest", where=str(signature))
    allowed = (SIGNERS if signers is None else signers).expanduser()
    if signers is not None and not allowed.is_file():
        raise UsageError("there is no such file", where=str(allowed), hint="--signers")
    name = _named(root, signature, allowed) if allowed.is_file() else None
    key = checked.stdout.decode(errors="replace").strip().rpartition(" key ")[2]
    return f"signed by {name} ({key})" if name else f"signed by a key that {allowed} does not name ({key})"


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
