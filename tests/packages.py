# SPDX-License-Identifier: MIT
"""Debian packages made by hand, and locks of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import hash_file
from harness.packages.lock import Entry, Lock

MOMENT = "20240102T030405Z"


def ar(members: dict[str, bytes]) -> bytes:
    """An ar archive, as dpkg-deb writes one."""
    parts = [b"!<arch>\n"]
    for name, data in members.items():
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
        parts.append(data + b"\n" * (len(data) % 2))
    return b"".join(parts)


def tar(members: Sequence[tuple[tarfile.TarInfo, bytes]], packed: str = "xz") -> bytes:
    """A tar archive of these members."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{packed}", format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def member(name: str, data: bytes = b"", *, mode: int = 0o644, kind: bytes = tarfile.REGTYPE, to: str = "") -> tuple:
    """One member of a tar archive, and its content."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.type, info.linkname, info.mtime = len(data), mode, kind, to, 1_700_000_000
    return info, data


def control_of(name: str, version: str, more: str = "") -> bytes:
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{more}Description: x\n y\n"
    return tar([member("./control", control.encode())])


def deb_bytes(data: bytes, control: bytes = b"", packed: str = "xz") -> bytes:
    suffix = f".{packed}" if packed else ""
    return ar({"debian-binary": b"2.0\n", "control.tar.xz": control or control_of("x", "1"), f"data.tar{suffix}": data})


def make_deb(folder: Path, name: str, tree: Path, version: str = "1:2-3", more: str = "") -> Path:
    """A package NAME of the files below `tree`."""
    members = []
    for path in sorted(tree.rglob("*")):
        inside = f"./{path.relative_to(tree).as_posix()}"
        if path.is_symlink():
            members.append(member(inside, kind=tarfile.SYMTYPE, to=str(path.readlink())))
        elif path.is_dir():
            members.append(member(f"{inside}/", mode=0o755, kind=tarfile.DIRTYPE))
        else:
            members.append(member(inside, path.read_bytes(), mode=path.stat().st_mode & 0o777))
    deb = folder / f"{name}_{version.replace(':', '+')}_amd64.deb"
    deb.write_bytes(deb_bytes(tar(members), control_of(name, version, more)))
    return deb


def entry_of(deb: Path, *, needs: tuple[str, ...] | None = (), archive: str = "debian") -> Entry:
    """What a lock says of a package that `make_deb` made."""
    name, version, architecture = deb.stem.split("_")
    return Entry(
        package=name,
        version=version.replace("+", ":"),
        architecture=architecture,
        archive=archive,
        path=f"pool/main/{name[0]}/{name}/{name}_{version.rpartition('+')[2]}_{architecture}.deb",
        size=deb.stat().st_size,
        sha256=hash_file(deb),
        needs=needs,
        snapshot=MOMENT,
    )


def lock_of(*entries: Entry) -> Lock:
    return Lock(suites=("bookworm",), snapshot=MOMENT, tools=(), packages=entries)
