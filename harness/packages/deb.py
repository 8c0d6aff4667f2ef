# SPDX-License-Identifier: MIT
"""Reading .deb files without dpkg: an ar archive with two tar archives in it, control and data."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from harness.errors import RunError

MAGIC = b"!<arch>\n"
HEADER = 60
PACKED = {"": "r:", ".xz": "r|xz", ".gz": "r|gz", ".bz2": "r|bz2"}


def unpack(deb: Path, target: Path, place: Callable[[str], str | None] = lambda name: name) -> None:
    """Unpack the files of a .deb into the folder `target`, with their times and permissions.

    `place` says where a file goes, relative to `target`; None leaves it out. Nothing is written outside of `target`,
    through links either. RunError for a damaged file, and for one that leads out of it.
    """
    root = os.path.realpath(target)
    times: list[tuple[str, float]] = []
    good: set[str] = set()
    with _part(deb, "data") as archive:
        for member in archive:
            name = _name(deb, member.name)
            goal = place(name) if name else None
            if not goal:
                continue
            path = os.path.join(root, goal)  # noqa: PTH118  (thousands of files: texts are quicker)
            parent = os.path.dirname(path)  # noqa: PTH120
            if parent not in good:
                if not f"{os.path.realpath(parent)}/".startswith(f"{root}/"):
                    raise RunError(f"is damaged: {name} would be written outside", where=str(deb))
                os.makedirs(parent, exist_ok=True)  # noqa: PTH103
                good.add(parent)
            _extract(deb, archive, member, path, lambda linked: _linked(deb, root, place, linked))
            if member.isfile():
                times.append((path, member.mtime))
            elif not member.isdir():
                good.clear()  # a link may stand where a folder was
    for path, mtime in times:
        os.utime(path, (mtime, mtime))


def field(deb: Path, name: str) -> str:
    """One field of a .deb's control file, such as Depends, on one line; empty when it has none."""
    with _part(deb, "control") as archive:
        for member in archive:
            if member.name.removeprefix("./") == "control":
                stream = archive.extractfile(member)
                assert stream is not None
                return fields(stream.read().decode(errors="replace")).get(name, "")
    raise RunError("is damaged: it has no control file", where=str(deb))


def fields(text: str) -> dict[str, str]:
    """The fields of one paragraph of Debian's control data; continued lines are joined."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            found[name] = f"{found.get(name, '')} {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            found[name] = value.strip()
    return found


@contextmanager
def _part(deb: Path, name: str) -> Iterator[tarfile.TarFile]:
    """One of the two tar archives, opened; RunError where it cannot be read."""
    try:
        with deb.open("rb") as stream:
            packed, begin, size = _find(deb, stream, name)
            if packed not in PACKED:
                raise RunError(f"is packed as {packed[1:]}, which Debian's packages are not", where=str(deb))
            stream.seek(begin)
            data = io.BytesIO(stream.read(size)) if not packed else _Section(stream, size)
            with tarfile.open(fileobj=data, mode=PACKED[packed]) as archive:  # type: ignore[call-overload]
                yield archive
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError) as error:
        raise RunError(f"is damaged: {error}", where=str(deb)) from error


def _find(deb: Path, stream: BinaryIO, name: str) -> tuple[str, int, int]:
    """How the member NAME.tar… is packed, where its bytes begin, and how many they are."""
    if stream.read(len(MAGIC)) != MAGIC:
        raise RunError("is no .deb file", where=str(deb))
    while len(header := stream.read(HEADER)) == HEADER and header.endswith(b"`\n"):
        member = header[:16].decode(errors="replace").strip().removesuffix("/")
        try:
            size = int(header[48:58])
        except ValueError:
            break
        if member.startswith(f"{name}.tar"):
            return member.removeprefix(f"{name}.tar"), stream.tell(), size
        stream.seek(size + size % 2, os.SEEK_CUR)
    raise RunError(f"is damaged: it has no {name}.tar", where=str(deb))


class _Section(io.RawIOBase):
    """The next `size` bytes of a stream, as a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _name(deb: Path, name: str) -> str:
    plain = name.removeprefix("./").strip("/") if name != "." else ""
    if name.startswith("/") or ".." in plain.split("/"):
        raise RunError(f"is damaged: {name} would be written outside", where=str(deb))
    return plain


def _linked(deb: Path, root: str, place: Callable[[str], str | None], name: str) -> str:
    """The unpacked file that a hard link is another name of."""
    goal = place(_name(deb, name))
    path = os.path.realpath(os.path.join(root, goal or ""))  # noqa: PTH118
    if not goal or not path.startswith(f"{root}/"):
        raise RunError(f"is damaged: a link to {name}, which is not unpacked", where=str(deb))
    return path


def _extract(
    deb: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, linked: Callable[[str], str]
) -> None:
    if member.isdir():
        if os.path.islink(path):  # noqa: PTH114
            return  # an earlier package has a link there, and this one's files go through it
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        return
    if os.path.lexists(path):
        os.unlink(path)  # noqa: PTH108
    if member.issym():
        os.symlink(member.linkname, path)  # noqa: PTH211
    elif member.islnk():
        os.link(linked(member.linkname), path)
    elif member.isfile():
        stream = archive.extractfile(member)
        assert stream is not None
        with open(path, "wb") as sink:  # noqa: PTH123
            while block := stream.read(1 << 20):
                sink.write(block)
            os.fchmod(sink.fileno(), member.mode & 0o777)
    else:
        raise RunError(f"is damaged: {member.name} is neither file, folder nor link", where=str(deb))
