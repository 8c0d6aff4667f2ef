# SPDX-License-Identifier: MIT
"""What happens on another machine: find or take the contents that a trial needs, run it, and send what came of it."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.build.neutral import neutral
from harness.build.store import Store, hash_file, hash_of
from harness.cluster.parcel import Absent, Content, Parcel, Ran, Unfit, packed, relocated
from harness.errors import KreproError, RunError
from harness.experiment.execution import run_trial
from harness.experiment.trial import TrialRecord, TrialSpec
from harness.machine.saved import qemu_version
from harness.scratch import discard, scratch_folder
from harness.store.description import describe_trial
from harness.store.provenance import MEASURING, host, load, source_hash

KIND, FILE = "content", "file"
#: Hashes of files, by path and what `stat` says: a file of many MiB is not hashed for every trial.
_known: dict[tuple[str, int, int, int], str] = {}
#: Threads that run trials of a run, by its name.
_threads: dict[str, set[int]] = {}
_stopped: set[str] = set()


def run_parcel(parcel: Parcel, _delivered: object = None) -> Absent | Unfit | Ran:
    """Run a trial here, in a thread of a Dask worker; or say what is absent, or why it cannot be run here."""
    worker = _address()
    try:
        store = Store.default()
        there = {path: find(store, content) for path, content in parcel.contents.items()}
        absent = {parcel.contents[path].sha256 for path, place in there.items() if place is None}
        if absent:
            return Absent(worker, tuple(sorted(absent)))
        places = {path: place for path, place in there.items() if place is not None}
        scratch = scratch_folder(Path(tempfile.gettempdir()), "parcel")
    except (KreproError, OSError) as error:
        return Unfit(worker, str(error))
    try:
        spec = relocated(parcel.spec, places.__getitem__, scratch / "trial")
        reason = _unfit(parcel, spec)
        if reason is not None:
            return Unfit(worker, reason)
        before = load()
        record = _run(parcel.run, spec)
        data, files = packed(spec.folder) if spec.folder.is_dir() else (b"", {})
        record = record.model_copy(
            update={
                "argv": tuple(neutral(word) for word in record.argv),
                "reason": record.reason and neutral(record.reason),
                "description": describe_trial(spec),
            }
        )
        return Ran(worker, socket.gethostname(), host(before), record, files, data)
    except (KreproError, OSError) as error:
        return Unfit(worker, str(error))
    finally:
        discard(scratch)


def receive(sha256: str, data: bytes) -> None:
    """Take content into this machine's store; RunError when it is not what its hash says."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise RunError(f"content {sha256[:12]} was damaged on its way")

    def write(folder: Path) -> Mapping[str, object]:
        (folder / FILE).write_bytes(data)
        return {}

    Store.default().obtain(KIND, sha256[:12], {"sha256": sha256}, write)


def stop(run: str) -> None:
    """End the guests of a run here, and begin none: nobody waits for them."""
    _stopped.add(run)
    for thread in list(_threads.get(run, ())):
        with suppress(OSError):
            for child in Path(f"/proc/self/task/{thread}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


def find(store: Store, content: Content) -> Path | None:
    """A file with this content, built here or sent before; None where there is none, or a damaged one."""
    sent = store.root / KIND / hash_of({"sha256": content.sha256})[:32] / FILE
    for path in (store.root / content.place, sent):
        with suppress(OSError):
            if _hash(path) == content.sha256:
                return path
    return None


def _hash(path: Path) -> str:
    state = path.stat()
    key = (str(path), state.st_ino, state.st_size, state.st_mtime_ns)
    if key not in _known:
        _known[key] = hash_file(path)
    return _known[key]


def _unfit(parcel: Parcel, spec: TrialSpec) -> str | None:
    if source_hash(MEASURING) != parcel.measuring:
        return "the parts of krepro that run trials are others there"
    if qemu_version() != parcel.qemu:
        return f"{qemu_version()} there, {parcel.qemu} here"
    if spec.machine.accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "there is no usable /dev/kvm"
    if describe_trial(spec, host=parcel.host) != parcel.description:
        return "it would run another trial"
    return None


def _run(run: str, spec: TrialSpec) -> TrialRecord:
    if run in _stopped:
        raise RunError("the run was ended")
    thread = threading.get_native_id()
    threads = _threads.setdefault(run, set())
    threads.add(thread)
    try:
        return run_trial(spec)
    finally:
        threads.discard(thread)


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
