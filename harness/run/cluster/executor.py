# SPDX-License-Identifier: MIT
"""The executor that hands trials to a Dask cluster; which worker runs what, and when, is Dask's to decide.

A trial names its files by their hashes. What a worker lacks is put into the cluster once, and workers take it from
there. A worker that is lost costs nothing: Dask runs its trials elsewhere, up to its own limit
(`distributed.scheduler.allowed-failures`, three).
"""

from __future__ import annotations

import logging
import platform
import queue
import re
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Store, hash_file
from harness.errors import RunError, UsageError
from harness.machine.qemu import qemu_version
from harness.paths import INSTALLED
from harness.progress import note, warn
from harness.run.cluster import slurm
from harness.run.cluster.payload import Absent, Content, Payload, Ran, Unfit, files_of, unpack
from harness.run.cluster.worker import run_payload, stop
from harness.run.executor import Finished
from harness.scratch import remove_tree
from harness.sets.provenance import MEASURING, Host, cpu_model, source_hash
from harness.trial.execution import failed_record
from harness.trial.model import TrialSpec

INSTALL = (
    "pip install 'krepro[dask]'"
    if INSTALLED
    else ".venv/bin/python -m pip install --require-hashes --no-deps -r requirements-dask.lock"
)
#: The resource of which a worker has one per machine: a trial on the wall clock takes it.
MACHINE = "machine"
SLURM = "slurm"
#: How often a trial is run again that was lost with its worker, and how often what it needs or left is sent again.
MOST_TRIES = 3
#: Trials that are submitted, per thread of the cluster: a worker finds its next one there.
AHEAD = 2
TICK_S, CONNECT_S = 5.0, 10
_ADDRESS = re.compile(r"(?P<protocol>dask|tcp|tls)://(?P<place>[^/\s]+:\d+)")


@dataclass
class _Task:
    """A trial on its way; `tries`: how often it was submitted again because something was lost on the way.

    `sent`: contents (sha256) that it could find in the cluster when it was submitted last.
    """

    spec: TrialSpec
    tries: int = 0
    sent: frozenset[str] = frozenset()


class DaskExecutor:
    """Runs trials on the workers of a client's cluster. `place_of`: the place of a machine among those of the run."""

    def __init__(self, client: Any, descriptions: Mapping[tuple[str, int], str], place_of: Callable[[str, Host], int]):
        self._client = client
        self._descriptions = descriptions
        self._place_of = place_of
        self._name = secrets.token_hex(8)
        self._contents: dict[Path, Content] = {}
        self._sent: dict[str, Any] = {}
        self._unfit: dict[str, str] = {}
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running: dict[Any, _Task] = {}
        self._number = 0

    def run(self, trials: Sequence[TrialSpec], done: Finished) -> None:
        """Run all; those of the wall clock one per machine at a time. RunError when no worker can run them."""
        if trials and trials[0].machine.clock == "wall":
            self._check_machines()
        waiting = deque(_Task(spec) for spec in trials)
        try:
            while waiting or self._running:
                most = max(1, AHEAD * sum(self._client.nthreads().values()))
                while waiting and len(self._running) < most:
                    self._submit(waiting.popleft())
                slurm.check_left(self._client.cluster)
                with suppress(queue.Empty):
                    self._take(self._ended.get(timeout=TICK_S), done)
                    while True:
                        self._take(self._ended.get_nowait(), done)
        except BaseException:
            self._stop()
            raise

    def _submit(self, task: _Task) -> None:
        options: dict[str, Any] = {}
        if task.spec.machine.clock == "wall":
            options["resources"] = {MACHINE: 1}
        if self._unfit:
            options |= {"workers": self._fit(), "allow_other_workers": True}
        spec, task.sent = task.spec, frozenset(self._sent)
        self._number += 1
        key = f"{spec.arm}-{spec.repetition}-{self._name}-{self._number}"
        future = self._client.submit(run_payload, self._payload(spec), key=key, pure=False, **options)
        self._running[future] = task
        future.add_done_callback(self._ended.put)

    def _take(self, future: Any, done: Finished) -> None:
        task = self._running.pop(future)
        outcome = self._outcome(future)
        future.release()
        spec = task.spec
        failed: str | None = None
        if isinstance(outcome, Ran):
            try:
                remove_tree(spec.folder)
                unpack(outcome, spec.folder)
            except RunError as error:
                failed = self._again(task, str(error))
            else:
                place = self._place_of(outcome.machine, outcome.host)
                done(spec, outcome.record.model_copy(update={"host": place}))
                return
        elif isinstance(outcome, Absent):
            unsent = [sha256 for sha256 in outcome.hashes if not self._send(sha256)]
            lost = "what it needs was lost on its way" if unsent or task.sent.intersection(outcome.hashes) else None
            failed = self._again(task, lost)
        elif isinstance(outcome, Unfit):
            if outcome.worker not in self._unfit:
                self._unfit[outcome.worker] = outcome.reason
                warn(f"{outcome.worker} gets no trials: {outcome.reason}")
            if not self._fit():
                raise RunError(f"no worker can run trials; {outcome.worker}: {outcome.reason}")
            failed = self._again(task, None)
        else:
            failed = self._again(task, *outcome)
        if failed is not None:
            done(spec, failed_record(spec, failed))

    def _outcome(self, future: Any) -> Absent | Unfit | Ran | tuple[str, bool]:
        """What came of a task; or what was lost, and whether Dask has given up."""
        from distributed import KilledWorker

        if future.status == "finished":
            result: Absent | Unfit | Ran = future.result()
            return result
        if future.status == "cancelled":
            return "the scheduler dropped it", False
        error = future.exception()
        if isinstance(error, KilledWorker):
            return "the workers that ran it were lost", True
        raise RunError(
            f"a worker cannot run trials: {type(error).__name__}: {error}",
            hint="start workers in a checkout of the same commit, with the same packages",
        )

    def _again(self, task: _Task, lost: str | None, ends: bool = False) -> str | None:
        """Submit a trial once more; why it has failed, when that was often enough. `lost`: it is not its first time."""
        task.tries += lost is not None
        if lost is not None and (ends or task.tries > MOST_TRIES or self._begun(task.spec) > MOST_TRIES):
            return f"{lost}; it was begun {self._begun(task.spec)} times"
        self._submit(task)
        return None

    def _begun(self, spec: TrialSpec) -> int:
        """How often workers began to run it: Dask counts anew with every submission."""
        return sum(list(event[1]) == [spec.arm, spec.repetition] for event in self._client.get_events(self._name))

    def _send(self, sha256: str) -> bool:
        """Put content into the cluster, from where workers take it, unless it is there, and its worker too.

        False if it could not be: where the worker dies to which the scheduler gives it, Dask closes our connection
        instead of telling us (distributed.core.Server.handle_comm). The next call makes another.
        """
        from distributed.comm import CommClosedError

        if sha256 in self._sent and self._is_there(self._sent[sha256]):
            return True
        path = next(path for path, content in self._contents.items() if content.sha256 == sha256)
        data = path.read_bytes()
        self._sent.pop(sha256, None)
        with suppress(CommClosedError):
            self._sent[sha256] = self._client.scatter(data, hash=False)
        return sha256 in self._sent

    def _is_there(self, future: Any) -> bool:
        """Whether a worker has this content; Dask forgets what was lost with a worker."""
        try:
            return future.status == "finished" and any(self._client.who_has([future]).values())
        except CancelledError:
            return False

    def _payload(self, spec: TrialSpec) -> Payload:
        root = Store.default().root
        contents = {}
        for path in files_of(spec):
            if path not in self._contents:
                place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
                self._contents[path] = Content(hash_file(path), place)
            contents[path] = self._contents[path]
        return Payload(
            run=self._name,
            spec=spec,
            contents=contents,
            sent={one.sha256: self._sent[one.sha256].key for one in contents.values() if one.sha256 in self._sent},
            description=self._descriptions[spec.arm, spec.repetition],
            measuring=source_hash(MEASURING),
            qemu=qemu_version(),
            host=(cpu_model(), platform.release()),
        )

    def _fit(self) -> list[str]:
        return [worker for worker in self._client.nthreads() if worker not in self._unfit]

    def _check_machines(self) -> None:
        while not self._client.nthreads():
            slurm.check_left(self._client.cluster)
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=TICK_S)
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        if not any(worker["resources"].get(MACHINE) for worker in workers):
            raise UsageError(
                f"trials on the wall clock run one per machine, and no worker has the resource {MACHINE}",
                hint=f"start one worker per machine, with --resources {MACHINE}=1; under Slurm, with {slurm.ALONE}",
            )

    def _stop(self) -> None:
        """Nothing is waited for: what runs on workers is ended there, if they can still be told."""
        for future in self._running:
            with suppress(Exception):
                future.cancel()
        with suppress(Exception):
            self._client.run(stop, self._name, wait=False, on_error="ignore")


@contextmanager
def connected(where: str | None) -> Iterator[Any]:
    """A client of the scheduler at this address: dask://HOST:PORT, or tls://HOST:PORT with the certificates of Dask's
    configuration. With `slurm`, of a scheduler and of jobs that live as long as the client.

    None without an address. UsageError when Dask is not installed, or when there is no such scheduler.
    """
    if where is None:
        yield None
        return
    address = _ADDRESS.fullmatch(where)
    if address is None and where != SLURM:
        raise UsageError(f"--executor {where}: must be dask://HOST:PORT, tls://HOST:PORT or {SLURM}")
    try:
        import distributed

        if address is None:
            slurm.load()
    except ImportError as error:
        raise UsageError(f"--executor needs Dask: {error}", hint=INSTALL) from error
    # Dask tells of a worker that is gone by a list of what it had, or by a traceback; we tell by a line.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        scheduler = _url(address) if address is not None else stack.enter_context(slurm.jobs(MACHINE))
        try:
            client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(f"--executor {where}: {why}", hint="start it there: dask scheduler") from error
        try:
            note(f"{len(client.nthreads())} workers; Dask's dashboard: {client.dashboard_link}")
            yield client
        finally:
            with suppress(Exception):
                client.close(timeout=2)


def _url(address: re.Match[str]) -> str:
    return f"{'tls' if address['protocol'] == 'tls' else 'tcp'}://{address['place']}"
