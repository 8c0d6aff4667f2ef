# SPDX-License-Identifier: MIT
"""Bulk data from a guest: framed tar archives that it wrote to its virtio-serial port, a file on the host."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

from harness.errors import RunError

HEADER = re.compile(rb"krepro-bulk 1 (\d+)\n")
HEADER_LIMIT = 64
#: Folders in folders that a guest may leave: what reads them later calls itself for each level.
MAX_DEPTH = 64
TAR_END = bytes(2 * tarfile.BLOCKSIZE)


class Bulk:
    """Reads the frames of one machine's bulk file in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def complete(self) -> bool:
        """Whether the next frame is there whole; RunError when what is there is no frame."""
        return self._frame() is not None

    def unpack(self, target: Path) -> int:
        """Unpack the next frame below `target`, return its length in bytes.

        RunError when it is incomplete or not a tar archive of plain files and folders.
        """
        frame = self._frame()
        if frame is None:
            size = self.path.stat().st_size if self.path.exists() else 0
            raise RunError(
                f"the guest's data ends early, after {max(size - self._offset, 0)} bytes", where=str(self.path)
            )
        start, length = frame
        with self.path.open("rb") as stream:
            stream.seek(start + max(length - len(TAR_END), 0))
            if stream.read(len(TAR_END)) != TAR_END:  # tarfile takes an archive cut between two members for whole
                raise RunError("the guest's data is not a whole tar archive", where=str(self.path))
            stream.seek(start)
            try:
                with tarfile.open(fileobj=stream, mode="r|") as archive:
                    for member in archive:
                        if stream.tell() > start + length + tarfile.RECORDSIZE:
                            break
                        extract(archive, member, target)
            except (tarfile.TarError, OSError, ValueError) as error:  # ValueError: a NUL in a name
                raise RunError(f"the guest's data is not a tar archive: {error}", where=str(self.path)) from error
        self._offset = start + length
        return length

    def _frame(self) -> tuple[int, int] | None:
        if not self.path.exists():
            return None
        with self.path.open("rb") as stream:
            stream.seek(self._offset)
            head = stream.read(HEADER_LIMIT)
        match = HEADER.match(head)
        if match is None:
            if b"\n" in head or len(head) == HEADER_LIMIT:
                raise RunError("the guest's data does not start with a frame", where=str(self.path))
            return None
        start, length = self._offset + match.end(), int(match[1])
        return (start, length) if self.path.stat().st_size >= start + length else None


def extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Write one member below `target`: the guest is not trusted, so only plain files and folders, by our own modes.

    RunError for anything else. tarfile's extraction filters would do, but Debian 12's Python has none.
    """
    parts = [part for part in member.name.split("/") if part not in {"", "."}]
    if not _is_text(member.name):
        raise RunError(f"the guest left {member.name!a}, whose name is not UTF-8", where=str(target))
    if len(parts) > MAX_DEPTH:
        raise RunError(
            f"the guest left {parts[0]}/…, {len(parts)} levels deep; {MAX_DEPTH} are taken", where=str(target)
        )
    if member.sparse is not None:  # one of 2 KB may say that it is of 2^50 bytes
        raise RunError(f"the guest left {member.name}, a sparse file", where=str(target))
    if ".." in parts:
        raise RunError(f"the guest left {member.name!r}, which is outside the destination", where=str(target))
    path = target.joinpath(*parts)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif member.isreg():
        path.parent.mkdir(parents=True, exist_ok=True)
        content = archive.extractfile(member)
        assert content is not None
        with content, path.open("wb") as sink:
            shutil.copyfileobj(content, sink)
    else:
        raise RunError(f"the guest left {member.name}, neither file nor folder", where=str(target))


def _is_text(name: str) -> bool:
    """Whether a name can stand in a manifest; tarfile makes half surrogates of bytes that are no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
