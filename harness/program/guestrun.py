# SPDX-License-Identifier: MIT
"""One run of a user's own program in a guest, under a tracer: the trial, and what is left of it."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from rich.console import Console

from harness.artefacts.store import Store
from harness.cli.terminal import print_lines
from harness.errors import KreproError, RunError, UsageError
from harness.experiment.model import Arm, Experiment, Paper, Workload, load_experiment
from harness.image.build import build_layouts
from harness.image.cpio import write_cpio
from harness.kernel.lines import debug_file
from harness.machine.accelerator import choose_accelerator
from harness.machine.tail import read_tail
from harness.measure.tracer import Traced, Tracer, TracerFile
from harness.oracle.paths import PAGE
from harness.program.insideguest import ENDED, ROOT, STATUS, command
from harness.program.ownmodules import load_words, module_folders, not_loaded
from harness.program.subject import NAME, PROFILE, Subject, arm_on
from harness.progress import note, step, warn
from harness.run.prepared import oracle_of, seeded
from harness.scratch import scratch_folder
from harness.trial.execution import run_trial
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial
from harness.trial.prepare import (
    KernelBuild,
    PreparedArm,
    boot_files,
    build_for,
    machine_for,
    needs_tcg_here,
    trial_spec,
)

SEED = 1
#: Of the guest, in any case: the files are there packed and unpacked.
LEAST_MIB, TIMES_FILES = 448, 3
#: Pages of the padding that other seeds than the first have.
MOST_PADDING = 512
#: How many bytes QEMU may write beyond the trace.
MORE_BYTES = 1 << 30
#: The guest's seconds beyond the program's: it is asked to end, then killed, and its tracer writes what it has.
MORE_S = 600


@dataclass(frozen=True)
class GuestRun:
    """One run, ready: its trial, and what a report on it needs besides."""

    it: Subject
    spec: TrialSpec
    system_map: Path
    layouts: Path | None
    debug: Path | None

    def traced(self, record: TrialRecord) -> Traced:
        """What the trial left; RunError when the program was not traced."""
        it, left = self.it, self.spec.folder / NAME
        _check(record, left)
        return Traced(
            raw=self.spec.folder,
            left=left,
            root=it.things.root,
            words=it.words,
            folder=it.folder,
            system_map=self.system_map,
            chosen=it.request.chosen,
            layouts=self.layouts,
            debug=self.debug,
            ended_s=it.request.timeout if (left / ENDED).exists() else None,
            time_line=it.request.to == "perfetto",
        )


def planned(store: Store, it: Subject, kernel: str, *, seed: int = SEED, repetition: int = 0) -> GuestRun:
    """A run of it on a kernel, which is built or fetched; what it will leave lies in a folder of the subject's."""
    request, tracer = it.request, it.tracer.tracer
    arm = arm_on(kernel, request, it.tracer, it.experiment)
    packages = () if it.experiment == PROFILE else load_experiment(it.experiment).packages
    built = build_for(store, kernel, it.experiment, packages, without_modules=tracer.modules != "needed")
    loaded = load_words(store, built, module_folders(request.modules), it.things.root)
    layouts = _layouts(store, built, it.experiment, tracer)
    debug = debug_file(store, built.recipe) if request.lines else None
    text = command(tracer.command, it.folder, [*loaded, *it.words], request.timeout)
    only = _only(arm, text, request.timeout + MORE_S)
    spec = _trial(store, it, scratch_folder(it.scratch, "guest"), only, built, PlannedTrial(NAME, repetition, seed))
    spec = spec.model_copy(update={"file_bytes": (request.most_mib << 20) + MORE_BYTES})
    return GuestRun(it, spec, built.kernel.file("System.map"), layouts, debug)


def traced(store: Store, it: Subject, kernel: str, console: Console) -> Traced:
    """Trace it on a kernel. RunError when it was not traced."""
    run = planned(store, it, kernel)
    watched = it.tracer if it.request.params.get("watch") else None
    label = f"tracing {shlex.join(it.words)}"
    if watched is None:
        with step(label):
            return run.traced(run_trial(run.spec))
    note(label)  # its lines say that it goes on
    return run.traced(run_trial(run.spec, partial(watching, watched, console)))


def exit_status(program: Traced) -> int:
    """As a shell has it."""
    file = program.left / STATUS
    try:
        return int(file.read_text())
    except (OSError, ValueError) as error:
        raise RunError("the tracer told no exit status of the program", where=str(file)) from error


def _layouts(store: Store, built: KernelBuild, folder: Path, tracer: Tracer) -> Path | None:
    """The module of the tracer's layouts for this kernel; None, and a note, where it can have no more modules."""
    if not tracer.layouts:
        return None
    try:
        return build_layouts(store, built.recipe, built.kernel, folder / tracer.layouts)
    except RunError as error:
        note(f"offsets have no names: {error}")
        return None


def _check(record: TrialRecord, left: Path) -> None:
    """RunError when the program was not traced, with its own last words."""
    if record.status != "ok":
        raise RunError(f"the program was not traced: {record.reason}", hint=hint_of(left))
    if lost := not_loaded(left):
        raise RunError(f"module {lost} was not loaded", hint=hint_of(left))


def _only(arm: Arm, command: str, timeout_s: float) -> Experiment:
    """An experiment with this arm and nothing else."""
    paper = Paper(authors=[NAME], year=2026, title=NAME)
    workload = Workload(command=command, timeout_s=timeout_s)
    return Experiment(name=NAME, paper=paper, arms={NAME: arm}, workloads={NAME: workload})


def _trial(
    store: Store, it: Subject, scratch: Path, experiment: Experiment, built: KernelBuild, trial: PlannedTrial
) -> TrialSpec:
    """The trial, in a machine that boots with the program's files in a second initramfs."""
    things, memory = it.things, it.request.memory
    arm = experiment.arms[NAME]
    needs_tcg = needs_tcg_here(arm, built.recipe)
    accelerator = "tcg" if needs_tcg else choose_accelerator(store, "auto", built.kernel).used
    machine = machine_for(NAME, arm, built.recipe, accelerator)
    size = things.mebibytes
    need = LEAST_MIB + TIMES_FILES * size
    if memory is not None and memory < need:
        raise UsageError(f"--memory {memory}: the program's files are {size} MiB, and {need} are needed")
    mib = memory or max(need, machine.hardware.memory_mib)
    machine = machine.model_copy(update={"hardware": machine.hardware.model_copy(update={"memory_mib": mib})})
    files, keys = boot_files(store, built, machine)
    packed = scratch / "program.cpio"
    write_cpio(it.scratch / "files", packed, {f"{ROOT.strip('/')}/{name}": time for name, time in things.times.items()})
    padding = [_padding(scratch, trial.seed)] if trial.seed != SEED else []
    files = files.model_copy(update={"initrds": (*files.initrds, packed, *padding)})
    prepared = PreparedArm(built, machine, files, keys, None, "")
    plugin = seeded(oracle_of(store, arm, prepared), trial.seed)
    return trial_spec(experiment, prepared, trial, scratch, plugin)


def _padding(scratch: Path, seed: int) -> Path:
    """A file that is of no use but to be in the way: where memory lies is another place with each seed."""
    folder = scratch / "padding"
    folder.mkdir()
    (folder / "krepro-padding").write_bytes(bytes(PAGE * Random(seed).randrange(1, MOST_PADDING)))  # noqa: S311
    packed = scratch / "padding.cpio"
    write_cpio(folder, packed)
    return packed


def hint_of(left: Path) -> str | None:
    """The program's own last words."""
    try:
        lines = read_tail(left / "stderr").strip().splitlines()
    except OSError:
        return None
    return lines[-1][:200] if lines else None


LOOK_S = 0.2
#: A part is some hundred lines: what is longer is none.
MOST_PART = 64 << 20
END = b"\n\n"


@contextmanager
def watching(tracer: TracerFile, console: Console, path: Path) -> Iterator[None]:
    """Print the tracer's lines about each part of the growing file, until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(tracer, console, path, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(tracer: TracerFile, console: Console, path: Path, ended: threading.Event) -> None:
    done, rest, before = 0, b"", None
    last = False
    while not last:
        last = ended.wait(LOOK_S)
        try:
            with path.open("rb") as stream:
                stream.seek(done)
                new = stream.read()
        except FileNotFoundError:
            continue
        done += len(new)
        *parts, rest = (rest + new).split(END)
        if len(rest) > MOST_PART:
            rest = b""
        for part in parts:
            text = part.decode(errors="replace") + "\n"
            try:
                lines = tracer.watched(text, before)
            except KreproError as error:
                warn(str(error))
                return
            print_lines(console, *lines)
            before = text
