# SPDX-License-Identifier: MIT
"""One trial: a function from its description to its files and its record, and of nothing else."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from harness.artefacts.neutral import neutral
from harness.errors import KreproError, RunError
from harness.guest.mailbox import MailboxSession
from harness.guest.recorded import RecordedSession
from harness.guest.session import JobResult, Session
from harness.guest.ssh import SshSession
from harness.machine.hostsched import HOST_SCHED
from harness.machine.machine import Machine
from harness.machine.spec import PLUGIN_FOLDER, PREDICTIONS, RECORDING, RECORDING_KEYS, STREAM, prepare_folder
from harness.machine.tail import keep_end, read_tail
from harness.scratch import discard, scratch_folder
from harness.trial.model import Fidelity, TrialRecord, TrialSpec

log = logging.getLogger(__name__)

#: For a boot or a login: generous, as a host that is itself emulated takes a minute for either.
READY_TIMEOUT_S = 300.0
#: Host files of a machine that belong to a trial's raw data.
KEPT = ("console.log", "qemu.stderr", "diagnosis.txt")
EVENTS = "qmp-events.json"
#: Those with text of QEMU and of the harness about files of the host.
TOLD = ("qemu.stderr", "diagnosis.txt")
#: Bytes of one that are kept, the last ones.
MOST_TOLD = 1 << 24
#: Bytes of a console that are kept, the last ones: a guest may print for as long as it runs.
MOST_CONSOLE = 1 << 26
#: Bytes: less than what any guest leaves.
LEAST_FREE = 4096
#: Characters of a failed trial's reason; the files have it whole.
MOST_REASON = 500
Following = Callable[[Path], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def session_on(spec: TrialSpec, machine: Machine) -> Iterator[Session]:
    """The session that this trial's machine is reached by, ready to run a job."""
    if spec.machine.session == "mailbox":
        done = False
        if spec.state is None:  # booted: it comes to its mailbox by itself, and stops there as a restored one does
            machine.watch_host()
            done = not machine.stops_or_ends(READY_TIMEOUT_S)
        yield MailboxSession(machine, done=done)
        return
    if spec.machine.record == "replay":
        yield RecordedSession(machine)
        return
    if spec.state is None:
        machine.wait_ready(READY_TIMEOUT_S)
        machine.watch_host()
    else:
        machine.resume()
    if spec.keys is None:
        raise RunError("an ssh machine needs the keys of its image")
    session = SshSession(machine, spec.keys, READY_TIMEOUT_S)
    try:
        yield session
    finally:
        session.close()


def run_trial(spec: TrialSpec, following: Following | None = None) -> TrialRecord:
    """Boot or restore, run the workloads, collect, end. Writes `spec.folder`; a failed trial is a record too.

    `following` is around the workloads and gets the path of the guest's stream, a file that grows meanwhile.
    """
    try:
        scratch = scratch_folder(Path(tempfile.gettempdir()), "trial")
    except OSError as error:
        return failed_record(spec, _unexpected(error))
    started = time.monotonic()
    inside = f"raw/{spec.arm}/{spec.repetition}"
    seconds: dict[str, float] = {}
    reason: str | None = None
    machine = Machine(
        spec.machine,
        spec.files,
        scratch,
        incoming=spec.state.path if spec.state else None,
        paused=spec.state is not None,
        plugin=spec.plugin,
        file_bytes=spec.file_bytes,
    )
    accelerator = spec.machine.accelerator
    log.debug("trial %s %d begins: seed %d, %s", spec.arm, spec.repetition, spec.seed, spec.machine.clock)
    try:
        spec.folder.mkdir(parents=True, exist_ok=True)
        if spec.predictions is not None:
            (spec.folder / PREDICTIONS).write_text(spec.predictions, encoding="utf-8")
        prepare_folder(spec.machine, scratch, spec.job)
        if spec.recording is not None:
            shutil.copyfile(spec.recording, scratch / RECORDING)
        with machine:
            accelerator = machine.accelerator_in_use()  # type: ignore[assignment]
            if accelerator != spec.machine.accelerator:
                raise RunError(f"QEMU uses {accelerator} where {spec.machine.accelerator} was asked for")
            follow = following(scratch / STREAM) if following else contextlib.nullcontext()
            with session_on(spec, machine) as session, follow:
                seconds["ready"] = round(time.monotonic() - started, 3)
                result = session.run(spec.job, spec.folder, spec.timeout_s)
                reason = _job_failure(spec, result)
        if spec.machine.record == "record" and machine.process.returncode != 0:
            reason = reason or f"QEMU did not finish the recording (status {machine.process.returncode})"
    except KreproError as error:
        reason = str(error).replace(str(scratch), inside)
    except Exception as error:  # whatever it is, it costs this trial and no other
        reason = _unexpected(error).replace(str(scratch), inside)
    finally:
        seconds["trial"] = round(time.monotonic() - started, 3)
        if cut := machine.cut():
            reason = f"{cut} (KREPRO_OUTPUT_MIB allows more)"
        elif reason and not _has_room(scratch):  # QEMU goes on without what it cannot write
            reason = f"no space left for temporary files (TMPDIR), so {reason}"
        try:
            _keep(scratch, spec, machine)
        except (OSError, shutil.Error) as error:
            reason = reason or _unexpected(error)
        finally:
            discard(scratch)
    pmu = _pmu(spec)
    return _record(
        spec,
        _one_line(reason) if reason else None,
        fidelity=with_pmu(spec.machine.fidelity, pmu),
        pmu=pmu,
        argv=tuple(machine.argv),
        sandbox=machine.sandbox,
        seconds=seconds,
    )


def with_pmu(kind: Literal["virtual", "emulated", "kvm"], pmu: str) -> Fidelity:
    """What kind of time a trial was in, with what its guest found out about its hardware counters by known work.

    An emulated machine of the host's clock has no counter that counts instructions.
    """
    if not pmu.startswith("ok:") or kind == "emulated":
        return kind
    return "kvm+pmu" if kind == "kvm" else "virtual+pmu"


def failed_record(spec: TrialSpec, reason: str) -> TrialRecord:
    """The record of a trial that nothing is known of but that it failed."""
    return _record(
        spec, reason, fidelity=spec.machine.fidelity, pmu="absent: the trial failed", argv=(), sandbox="", seconds={}
    )


def _record(
    spec: TrialSpec,
    reason: str | None,
    *,
    fidelity: Fidelity,
    pmu: str,
    argv: tuple[str, ...],
    sandbox: str,
    seconds: dict[str, float],
) -> TrialRecord:
    return TrialRecord(
        **spec.recorded,
        seed=spec.seed,
        status="failed" if reason else "ok",
        reason=reason,
        clock=spec.machine.clock,
        session=spec.machine.session,
        fidelity=fidelity,
        pmu=pmu,
        argv=argv,
        sandbox=sandbox,
        seconds=seconds,
    )


def _has_room(folder: Path) -> bool:
    free = os.statvfs(folder)
    return free.f_bavail * free.f_frsize >= LEAST_FREE


def _unexpected(error: Exception) -> str:
    """Of the host, or a bug of krepro."""
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror or error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return f"unexpected {type(error).__name__}: {error} (a bug of krepro at {where})"


def _one_line(text: str) -> str:
    """A reason that can be stored and shown: what a guest said may be anything."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(shown.encode("utf-8", "replace").decode().split())
    return line if len(line) <= MOST_REASON else f"{line[: MOST_REASON - 1]}…"


def _pmu(spec: TrialSpec) -> str:
    """What the known-work check in the guest said of its hardware counters."""
    if spec.machine.accelerator == "tcg" and not spec.machine.board.emulated_pmu:
        return "absent: TCG emulates no PMU"
    try:
        return read_tail(spec.folder / "pmu").strip()
    except OSError:
        return "absent: the guest's known-work check did not run"


def _job_failure(spec: TrialSpec, result: JobResult) -> str | None:
    if result.exit_status == 0:
        return None
    for workload in spec.workloads:
        failed = spec.folder / workload.name / "failed"
        if failed.is_file():
            return f"workload {workload.name}: {read_tail(failed).strip()}"
    last = result.stderr.strip().splitlines()[-1:] or [f"exit status {result.exit_status}"]
    return f"job: {last[0]}"


def _keep(scratch: Path, spec: TrialSpec, machine: Machine) -> None:
    target = spec.folder
    names: tuple[str, ...] = KEPT
    if spec.machine.record == "record":
        names = (*KEPT, RECORDING)
        shutil.copyfile(spec.files.initrds[-1], target / RECORDING_KEYS)
    for name in (*names, EVENTS, HOST_SCHED):
        if (target / name).is_dir():  # a guest may have left anything under a name of ours
            shutil.rmtree(target / name)
        source = scratch / name
        if name == "console.log" and source.is_file():
            keep_end(source, target / name, MOST_CONSOLE)
        elif source.is_file() and source.stat().st_size:
            shutil.copyfile(source, target / name)
    for name in TOLD:
        if (target / name).is_file():
            (target / name).write_text(neutral(read_tail(target / name, MOST_TOLD)), encoding="utf-8")
    if "stream" in spec.machine.devices and (scratch / STREAM).is_file():
        shutil.rmtree(target / STREAM, ignore_errors=True)  # a guest may have left anything under this name
        shutil.move(scratch / STREAM, target / STREAM)
    if (scratch / PLUGIN_FOLDER).is_dir():
        # A guest leaves by paths of its own choosing: what it put there would pass for the plugin's.
        shutil.rmtree(target / PLUGIN_FOLDER, ignore_errors=True)
        shutil.move(scratch / PLUGIN_FOLDER, target / PLUGIN_FOLDER)
    (target / EVENTS).write_text(json.dumps(machine.events(), indent=1) + "\n")
    schedule = machine.host_schedule()
    if schedule is not None:
        (target / HOST_SCHED).write_text(json.dumps(schedule, indent=1) + "\n")
