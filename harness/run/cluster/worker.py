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

from harness.artefacts.store import Store, hash_file, hash_of
from harness.errors import KreproError, RunError
from harness.machine.qemu import qemu_version
from harness.run.cluster.payload import Absent, Content, Payload, Ran, Unfit, packed, relocated
from harness.run.description import describe_trial
from harness.scratch import discard, scratch_folder
from harness.sets.provenance import MEASURING, host, load, source_hash
from harness.trial.execution import run_trial
from harness.trial.model import TrialRecord, TrialSpec

KIND, FILE = "content", "file"
#: Hashes of files, by path and what `stat` says: a file of many MiB is not hashed for every trial.
_known: dict[tuple[str, int, int, int], str] = {}
#: Threads that run trials of a run, by its name.
_threads: dict[str, set[int]] = {}
_stopped: set[str] = set()


def run_payload(payload: Payload) -> Absent | Unfit | Ran:
    """Run a trial here, in a thread of a Dask worker; or say what is absent, or why it cannot be run here."""
    worker = _address()
    try:
        store = Store.default()
        absent = [sha256 for sha256 in _lacking(store, payload) if not fetch(sha256, payload.sent.get(sha256))]
        if absent:
            return Absent(worker, tuple(absent))
        places = {path: place for path, content in payload.contents.items() if (place := find(store, content))}
        if len(places) < len(payload.contents):
            return Unfit(worker, f"the store {store.root} does not keep what is put there")
        scratch = scratch_folder(Path(tempfile.gettempdir()), "payload")
    except (KreproError, OSError) as error:
        return Unfit(worker, str(error))
    try:
        spec = relocated(payload.spec, places.__getitem__, scratch / "trial")
        reason = _unfit(payload, spec)
        if reason is not None:
            return Unfit(worker, reason)
        before = load()
        _tell(payload)
        record = _run(payload.run, spec)
        data, files = packed(spec.folder) if spec.folder.is_dir() else (b"", {})
        record = record.neutral().model_copy(update={"description": describe_trial(spec)})
        return Ran(worker, socket.gethostname(), host(before), record, files, data)
    except (KreproError, OSError) as error:
        return Unfit(worker, str(error))
    finally:
        discard(scratch)


def _lacking(store: Store, payload: Payload) -> list[str]:
    return sorted({content.sha256 for content in payload.contents.values() if find(store, content) is None})


def fetch(sha256: str, key: str | None) -> bool:
    """Take content into this machine's store, from the worker that has it under this key; whether it has come whole."""
    if key is None:
        return False
    from distributed import get_client, get_worker
    from distributed.utils_comm import gather_from_workers

    client = get_client()
    # Not `client.gather`: in a worker it waits for ever for a key that it did not submit itself.
    having = client.sync(client.scheduler.who_has, keys=[key])
    data = client.sync(gather_from_workers, having, rpc=get_worker().rpc)[0].get(key, b"")
    if hashlib.sha256(data).hexdigest() != sha256:
        return False
    keep(Store.default(), sha256, data)
    return True


def keep(store: Store, sha256: str, data: bytes) -> None:
    """Put content into a store; one that is damaged there is replaced."""

    def write(folder: Path) -> Mapping[str, object]:
        (folder / FILE).write_bytes(data)
        return {}

    store.obtain(KIND, sha256[:12], {"sha256": sha256}, write)


async def stop(run: str) -> None:
    """End the guests of a run here, and begin none: nobody waits for them.

    A coroutine, because Dask runs nothing else without waiting for it.
    """
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


def _unfit(payload: Payload, spec: TrialSpec) -> str | None:
    if source_hash(MEASURING) != payload.measuring:
        return "the parts of krepro that run trials are others there"
    if qemu_version() != payload.qemu:
        return f"{qemu_version()} there, {payload.qemu} here"
    if spec.machine.accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "there is no usable /dev/kvm"
    if describe_trial(spec, host=payload.host) != payload.description:
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


def _tell(payload: Payload) -> None:
    """That a trial begins: who planned it counts how often it did."""
    from distributed import get_worker

    get_worker().log_event(payload.run, [payload.spec.arm, payload.spec.repetition])


def _address() -> str:
    from distributed import get_worker

    return str(get_worker().address)
