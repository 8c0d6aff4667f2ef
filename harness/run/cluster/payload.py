# SPDX-License-Identifier: MIT
"""A trial as it is sent to another machine: its spec, and every file that it names, by the hash of its content."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.artefacts.store import hash_tree
from harness.errors import RunError
from harness.guest.bulk import extract
from harness.sets.provenance import Host
from harness.trial.model import TrialRecord, TrialSpec


@dataclass(frozen=True)
class Content:
    """A file by its content. `place`: where it lies below a store that built it itself."""

    sha256: str
    place: str


@dataclass(frozen=True)
class Payload:
    """One trial. `contents`: by path as in `spec`; `sent`: under which key of Dask's a content (sha256) is to be had.
    `description`: the hash of all that it is a function of.

    `measuring`, `qemu`, `host` are those of the machine that planned it: what runs it must be the same, and the host is
    part of a description.
    """

    run: str
    spec: TrialSpec
    contents: Mapping[Path, Content]
    sent: Mapping[str, str]
    description: str
    measuring: str
    qemu: str
    host: tuple[str, str]


@dataclass(frozen=True)
class Absent:
    """The machine lacks these contents (sha256), and nobody has them for it."""

    worker: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class Unfit:
    """The machine cannot run the trial as it was planned."""

    worker: str
    reason: str


@dataclass(frozen=True)
class Ran:
    """The trial has ended there. `data`: its folder as tar; `files`: sha256 by path in it."""

    worker: str
    machine: str
    host: Host
    record: TrialRecord
    files: Mapping[str, str]
    data: bytes


def files_of(spec: TrialSpec) -> list[Path]:
    """Every file of the host that a trial reads."""
    paths = [spec.files.kernel, *spec.files.initrds, spec.files.halt, spec.files.stale, spec.recording]
    if spec.keys is not None:
        paths += [spec.keys.client, spec.keys.host]
    if spec.state is not None:
        paths.append(spec.state.path)
    if spec.plugin is not None:
        paths += [spec.plugin.path, *(Path(text) for text in spec.plugin.arguments.values() if text.startswith("/"))]
    return list(dict.fromkeys(path for path in paths if path is not None))


def relocated(spec: TrialSpec, to: Callable[[Path], Path], folder: Path) -> TrialSpec:
    """The same trial with other places of its files; it writes into `folder`."""
    files, keys, state, plugin = spec.files, spec.keys, spec.state, spec.plugin
    update: dict[str, object] = {
        "folder": folder,
        "files": files.model_copy(
            update={
                "kernel": to(files.kernel),
                "initrds": tuple(to(path) for path in files.initrds),
                "halt": files.halt and to(files.halt),
                "stale": files.stale and to(files.stale),
            }
        ),
        "recording": spec.recording and to(spec.recording),
    }
    if keys is not None:
        update["keys"] = type(keys)(client=to(keys.client), host=to(keys.host))
    if state is not None:
        update["state"] = state.model_copy(update={"path": to(state.path)})
    if plugin is not None:
        arguments = {
            key: str(to(Path(text))) if text.startswith("/") else text for key, text in plugin.arguments.items()
        }
        update["plugin"] = plugin.model_copy(update={"path": to(plugin.path), "arguments": arguments})
    return spec.model_copy(update=update)


def packed(folder: Path) -> tuple[bytes, dict[str, str]]:
    """A trial's folder as tar, and the hash of each file in it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return stream.getvalue(), hash_tree(folder)


def unpack(ran: Ran, folder: Path) -> None:
    """Write what a trial left into `folder`; RunError when it is not what was sent."""
    folder.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(ran.data)) as tar:
            for member in tar:
                extract(tar, member, folder)
    except (tarfile.TarError, OSError) as error:
        raise RunError(f"what {ran.worker} sent cannot be unpacked: {error}") from error
    if hash_tree(folder) != ran.files:
        raise RunError(f"what came from {ran.worker} is not what it sent")
