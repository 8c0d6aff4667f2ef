# SPDX-License-Identifier: MIT
"""Writing and checking a tar.zst file. Equal members give equal bytes, wherever and whenever they are written."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow

from harness.artefacts.store import hash_file
from harness.errors import UsageError

#: sha256 and name of each other member, as sha256sum has them; the first member.
SUMS = "SHA256SUMS"
BLOCK = 1 << 24
#: The largest SUMS that is read: a hundred thousand members of a hundred bytes.
MOST_SUMS = 10_000_000


@dataclass(frozen=True)
class Member:
    """A file of a capsule: its name below the capsule's folder, and where its bytes are now."""

    name: str
    path: Path

    @cached_property
    def sha256(self) -> str:
        return hash_file(self.path)


def write(path: Path, folder: str, members: Sequence[Member], moment: int, sums: Path) -> None:
    """Write `members`, by name, into a tar.zst file as files of `folder`; all are from `moment` (seconds of 1970).

    `sums`: where their list is kept while it is written. It comes first.
    """
    members = sorted(members, key=lambda member: member.name)
    sums.write_text("".join(f"{member.sha256}  {member.name}\n" for member in members))
    with path.open("wb") as target:
        for member in (Member(SUMS, sums), *members):
            header = tarfile.TarInfo(f"{folder}/{member.name}")
            header.size, header.mtime = member.path.stat().st_size, moment
            header.mode = 0o755 if member.path.stat().st_mode & 0o100 else 0o644
            target.write(_frame(header.tobuf(tarfile.PAX_FORMAT)))
            with member.path.open("rb") as source:
                _copy(source, target)
            if header.size % tarfile.BLOCKSIZE:
                target.write(_frame(bytes(-header.size % tarfile.BLOCKSIZE)))
        target.write(_frame(bytes(2 * tarfile.BLOCKSIZE)))


def damage(path: Path) -> str | None:
    """The first thing that is wrong with a capsule's members, naming the member; None where all are as written.

    UsageError when the file is no capsule.
    """
    at = "its beginning"
    sums: dict[str, str] | None = None
    folder = ""
    try:
        with (
            pyarrow.OSFile(str(path)) as raw,
            pyarrow.CompressedInputStream(raw, "zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            for entry in archive:
                top, _, at = entry.name.partition("/")
                if sums is None:
                    sums, folder = _sums(path, archive, entry), top
                    continue
                if top != folder or {"", ".", ".."}.intersection(entry.name.split("/")):
                    return f"{entry.name!a} leads out of its folder"
                wanted = sums.pop(at, None)
                if wanted is None:
                    return f"{at} is not in {SUMS}, or there twice"
                if not entry.isfile() or _hash(archive, entry) != wanted:
                    return f"{at} is not what {SUMS} says"
    except (OSError, tarfile.TarError, EOFError) as error:
        return f"cannot be read at {at}: {error}"
    if sums is None:
        raise UsageError("is no capsule: it is empty", where=str(path))
    return f"{min(sums)} is missing" if sums else None


def _sums(path: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> dict[str, str]:
    """The sha256 of each other member, by its name below the capsule's folder."""
    if not entry.name.endswith(f"/{SUMS}") or not entry.isfile() or entry.size > MOST_SUMS:
        raise UsageError(f"is no capsule: it does not begin with {SUMS}", where=str(path))
    lines = [line.partition("  ") for line in _read(archive, entry).read().decode(errors="replace").splitlines()]
    if not lines:
        raise UsageError(f"is no capsule: {SUMS} is empty", where=str(path))
    return {name: digest for digest, _, name in lines}


def _hash(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    return hashlib.file_digest(_read(archive, entry), "sha256").hexdigest()


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> BufferedReader:
    return cast(BufferedReader, archive.extractfile(entry))  # tarfile's own class, which is one


def _frame(data: bytes) -> bytes:
    return bytes(pyarrow.Codec("zstd").compress(data, asbytes=True))


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    while block := source.read(BLOCK):
        target.write(_frame(block))
