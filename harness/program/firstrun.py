# SPDX-License-Identifier: MIT
"""Which files of this host a program uses: it is run here once, watched by strace, where nothing that it does stays.

The run sees the host's files below layers in memory (overlayfs, in namespaces that every user may make): what it
writes is gone with it, and it has no network but a loopback of its own, as in the guest. A file that it asks for and
finds is one that it needs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from harness.packages.tree import tools
from harness.progress import note, step
from harness.scratch import scratch_space

#: A server runs for ever: what it has opened until then is what it needs to begin.
MOST_S = 20
#: Of the programs that lay the layers.
SETUP_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
#: Of the guest; what a program has of these is the guest's own.
NOT_FILES = ("/dev/", "/proc/", "/sys/", "/run/")
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (\d+)(?:<([^>]*)>)?")
_PATH = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
#: Bytes of a file that is copied, where no layer can lie on its folder.
MOST_COPIED = 16 << 20
#: Behind the lines that lay the layers.
_ENTER = """\
for own in dev proc sys; do mkdir "$up/root/$own" && mount --rbind "/$own" "$up/root/$own"; done
mkdir -p "$up/root$told" && mount --bind "$told" "$up/root$told"
exec chroot "$up/root" /bin/sh -c 'cd "$0" && exec "$@"' "$@"
"""


class Use(IntEnum):
    """What a program did with a file or folder."""

    ASKED = 0
    OPENED = 1
    LISTED = 2


def files_found(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: Path
) -> dict[Path, Use] | None:
    """Files and folders by what it did with them, the most if several; None, and a note, where it was not watched.

    `words`: the program and its arguments, as it starts in `folder`.
    """
    with scratch_space("first-run") as scratch:
        told = scratch / "told"
        told.mkdir()
        (scratch / "layers").mkdir()
        why = _run(words, folder, environment, stdin, scratch)
        if why:
            note(f"its files are not looked for here ({why}); --in names what it needs")
            return None
        return _found(told, folder)


#: What brings the loopback device up in a network namespace of one's own, where no program for that may be.
_LOOPBACK = """\
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh22x", b"lo", 0x49))  # SIOCSIFFLAGS: up, loopback, running
"""


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: Path, scratch: Path) -> str:
    """Run it; why that was not possible, or nothing."""
    told = scratch / "told"
    strace = [*tools().own("strace"), "-ff", "-o", told / "of", "-y", "-xx", "-qq", "-s", "4096", "-z"]
    given = [f"{name}={value}" for name, value in environment.items()]
    watched = ["env", "-i", *given, *map(str, strace), "-e", "trace=%file,getdents64", "-e", "signal=none", *words]
    layers = scratch / "layers"
    begin = ["set -e", f"told={shlex.quote(str(told))}", f"up={shlex.quote(str(layers))}"]
    begin += [shlex.join([sys.executable, "-Ic", _LOOPBACK]) + " || :"]
    begin += ['mount -t tmpfs tmpfs "$up"', 'mkdir "$up/root" "$up/layer"', *_layers(Path("/"), _mounts())]
    inside = ["/bin/sh", "-c", "\n".join([*begin, _ENTER]), "sh", folder, *watched]
    own_user = ["-r"] if os.geteuid() else []
    unshare = ["unshare", *own_user, "-mnpf", "--kill-child", "--propagation", "private", *map(str, inside)]
    errors = scratch / "errors"
    label = f"running {shlex.join(words)[:60]} here once, to see which files it needs"
    with step(label), stdin.open("rb") as source, errors.open("wb") as sink:
        try:
            subprocess.run(
                unshare,
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                env={"PATH": SETUP_PATH},
                timeout=MOST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            note(f"it was ended after {MOST_S} s: what it opens later is not known")
        except OSError as error:
            return f"unshare: {error.strerror}"
    if any(told.iterdir()):
        return ""
    lines = errors.read_text(errors="replace").strip().splitlines()
    return lines[0][:120] if lines else "no namespaces"


def _mounts() -> list[str]:
    """Where something is mounted on this host."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4].encode().decode("unicode_escape") for line in lines]


def _layers(folder: Path, mounts: Sequence[str]) -> Iterator[str]:
    """Shell text that makes $up/root like this host below a folder, without what is the guest's own.

    A layer lies on a folder in which nothing else is mounted: a user who is not root may lay it on no other. So what
    has mounts in it is gone through.
    """
    for path in sorted(folder.iterdir()):
        target = f'"$up"/root{shlex.quote(str(path))}'
        if f"{path}/".startswith(NOT_FILES) or path in (Path("/lost+found"), Path("/run")):
            continue
        if path.is_symlink():
            yield f"ln -s {shlex.quote(str(path.readlink()))} {target}"
        elif path.is_dir() and any(point.startswith(f"{path}/") for point in mounts):
            yield f"mkdir {target}"
            if os.access(path, os.R_OK | os.X_OK):
                yield from _layers(path, mounts)
        elif path.is_dir() and not re.search(r"[\\:,]", str(path)):
            own = f'n=$((n + 1)); mkdir {target} "$up/layer/$n" "$up/layer/$n.work"'
            options = f"lowerdir={path}{',userxattr' if os.geteuid() else ''}"
            there = f'-o {shlex.quote(options)},upperdir="$up/layer/$n",workdir="$up/layer/$n.work"'
            yield f"{own}; mount -t overlay overlay {there} {target}"
        elif path.is_file() and path.stat().st_size <= MOST_COPIED and os.access(path, os.R_OK):
            yield f"cp --preserve=mode,timestamps {shlex.quote(str(path))} {target}"


def _found(told: Path, folder: Path) -> dict[Path, Use]:
    seen: dict[Path, Use] = {}
    for file in told.iterdir():
        at = folder
        for line in file.read_text(errors="replace").splitlines():
            call = _CALL.match(line)
            if call is None:
                continue
            name, arguments, _, opened = call.groups()
            if name == "getdents64":
                listed = re.match(r"\d+<([^>]*)>", arguments)
                if listed:
                    seen[Path(_text(listed[1]))] = Use.LISTED
                continue
            given = [_text(text) for text in _PATH.findall(arguments)]
            if name == "chdir" and given:
                at = at / given[0]
            paths = given[:1] if name.startswith(("exec", "readlink")) else given
            base = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", arguments)
            below = Path(_text(base[1])) if base else at
            whole = [Path(os.path.normpath(below / path)) for path in paths]
            for path in [*whole, Path(_text(opened))] if opened else whole:
                if not f"{path}/".startswith(NOT_FILES) and exists(path):
                    use = Use.OPENED if opened or name.startswith("exec") else Use.ASKED
                    seen[path] = max(seen.get(path, use), use)
    return seen


def _text(text: str) -> str:
    r"""What strace writes as \x2f\x62."""
    if "\\x" not in text:
        return text
    return bytes.fromhex(text.replace("\\x", "")).decode(errors="surrogateescape")


def exists(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except OSError:  # a word may be anything, and too long for a name
        return False
