# SPDX-License-Identifier: MIT
"""Which files of this host a program uses: it is run here once, watched by strace, where nothing that it does stays.

The run sees the host's files below layers in memory (overlayfs, in namespaces that every user may make): what it
writes is gone with it, and it has no network, as in the guest. A file that it asks for and finds is one that it needs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path

from harness.packages.tree import tools
from harness.progress import note, step
from harness.scratch import discard, scratch_folder

#: A server runs for ever: what it has opened until then is what it needs to begin.
MOST_S = 20
#: Of the programs that lay the layers.
SETUP_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
#: Of the guest; what a program has of these is the guest's own.
NOT_FILES = ("/dev/", "/proc/", "/sys/", "/run/")
#: File systems whose files a layer can lie on.
LAYERED = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "overlay", "tmpfs", "squashfs", "nfs", "nfs4"}
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (\d+)(?:<([^>]*)>)?")
_PATH = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
#: Its first word is the folder that the run is in; the rest become the root, as overlays on mount points.
_LAYERS = """\
set -e
at=$1 up=$2 folder=$3; shift 3
mount -t tmpfs tmpfs "$up"
mkdir "$up/root"
n=0
while [ "$1" != -- ]; do
	n=$((n + 1))
	mkdir "$up/upper$n" "$up/work$n"
	mount -t overlay overlay -o "lowerdir=$1,upperdir=$up/upper$n,workdir=$up/work$n" "$up/root$1"
	shift
done
shift
for own in dev proc sys; do mount --rbind "/$own" "$up/root/$own"; done
mount --bind "$at" "$up/root$at"
exec chroot "$up/root" /bin/sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
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
    scratch = scratch_folder(Path(tempfile.gettempdir()), "first-run")
    try:
        told = scratch / "told"
        told.mkdir()
        (scratch / "layers").mkdir()
        why = _run(words, folder, environment, stdin, scratch)
        if why:
            note(f"its files are not looked for here ({why}); --in names what it needs")
            return None
        return _found(told, folder)
    finally:
        discard(scratch)


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: Path, scratch: Path) -> str:
    """Run it; why that was not possible, or nothing."""
    told = scratch / "told"
    strace = [*tools().own("strace"), "-ff", "-o", told / "of", "-y", "-xx", "-qq", "-s", "4096", "-z"]
    given = [f"{name}={value}" for name, value in environment.items()]
    watched = ["env", "-i", *given, *map(str, strace), "-e", "trace=%file,getdents64", "-e", "signal=none", *words]
    mounts = [f"{Path(mount)}" for mount in _mounts()]
    inside = ["/bin/sh", "-c", _LAYERS, "sh", told, scratch / "layers", folder, *mounts, "--", *watched]
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
    return lines[-1][:120] if lines else "no namespaces"


def _mounts() -> Iterator[str]:
    """Mount points of this host's files, each behind those that it lies below."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, kind = before.split()[4], after.split()[0]
        wanted = kind in LAYERED and not f"{point}/".startswith(NOT_FILES)
        if wanted and not re.search(r"[\\:,]", point) and Path(point).is_dir():
            found.append(point)
    yield from sorted(dict.fromkeys(found), key=lambda point: point.count("/") if point != "/" else -1)


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
                if not f"{path}/".startswith(NOT_FILES) and _exists(path):
                    use = Use.OPENED if opened or name.startswith("exec") else Use.ASKED
                    seen[path] = max(seen.get(path, use), use)
    return seen


def _text(text: str) -> str:
    r"""What strace writes as \x2f\x62."""
    if "\\x" not in text:
        return text
    return bytes.fromhex(text.replace("\\x", "")).decode(errors="surrogateescape")


def _exists(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except OSError:
        return False
