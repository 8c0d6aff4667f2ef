# SPDX-License-Identifier: MIT
"""Initramfs archives in the newc format (the kernel's driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from harness.errors import UsageError
from harness.image.programs import safe_name

#: Every file's time stamp, so that the same inputs give the same archive (2024-01-01 UTC).
MTIME = 1704067200
#: As the kernel's usr/gen_init_cpio counts them; its archives are the same, byte for byte.
FIRST_INODE = 721
BLOCK = 512
END = "TRAILER!!!"
#: Device nodes of every archive: name, mode, major, minor.
NODES = (("dev/console", 0o600, 5, 1), ("dev/null", 0o666, 1, 3))


def write_cpio(root: Path, target: Path, times: Mapping[str, int] | None = None) -> None:
    """Pack `root` as a newc archive owned by root, with fixed times and a console node; needs no root itself.

    `times`: seconds since 1970 of files whose time is not the fixed one, by their name in the archive.
    """
    with target.open("wb") as sink:
        inode = FIRST_INODE
        for name, mode, links, data, node in _entries(root):
            _put(sink, inode, name, mode, links, data, node, time=(times or {}).get(name, MTIME))
            inode += 1
        _put(sink, 0, END, 0, 1, b"", (0, 0), place=(0, 0), time=0)
        sink.write(b"\0" * (-sink.tell() % BLOCK))


def _entries(root: Path) -> Iterator[tuple[str, int, int, bytes, tuple[int, int]]]:
    """Name, mode, links, content and device of each: folders first, then nodes, files, links."""
    paths = sorted(root.rglob("*"))
    for path in paths:
        if not safe_name(name := path.relative_to(root).as_posix()):
            raise UsageError(f"file name {name!r} cannot go into an initramfs", where=str(root))
    plain = [path for path in paths if not path.is_symlink()]
    for path in plain:
        if path.is_dir():
            yield path.relative_to(root).as_posix(), stat.S_IFDIR | 0o755, 2, b"", (0, 0)
    for name, mode, major, minor in NODES:
        yield name, stat.S_IFCHR | mode, 1, b"", (major, minor)
    for path in plain:
        if not path.is_dir():
            mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
            yield path.relative_to(root).as_posix(), stat.S_IFREG | mode, 1, path.read_bytes(), (0, 0)
    for path in paths:
        if path.is_symlink():
            target = str(path.readlink()).encode() + b"\0"
            yield path.relative_to(root).as_posix(), stat.S_IFLNK | 0o777, 1, target, (0, 0)


def _put(
    sink: BinaryIO,
    inode: int,
    name: str,
    mode: int,
    links: int,
    data: bytes,
    node: tuple[int, int],
    place: tuple[int, int] = (3, 1),
    time: int = MTIME,
) -> None:
    text = name.encode() + b"\0"
    numbers = (inode, mode, 0, 0, links, time, len(data), *place, *node, len(text), 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + text
    sink.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))
