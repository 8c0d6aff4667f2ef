# SPDX-License-Identifier: MIT
"""Tracing a user's own program: its files into a guest, an experiment's tracer there, and the tracer's report."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.cli.declaration import unquoted
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, RunError, UsageError
from harness.experiment.model import Arm, Experiment, Paper, Workload, find_experiment, load_experiment
from harness.experiment.scalar import Scalar
from harness.host.examine import check_memory
from harness.image.cpio import write_cpio
from harness.image.layouts import build_layouts
from harness.kernel.lines import debug_file, debug_package
from harness.kernel.load import from_tree, kernel_word, load_kernel
from harness.machine.accelerator import choose_accelerator
from harness.machine.tail import read_tail
from harness.measure.tracer import NOT_WHOLE, REPORT, Traced, Tracer, TracerFile, Traces, tracing_experiments
from harness.oracle.paths import PAGE
from harness.paths import EXPERIMENTS
from harness.program.files import GuestFiles
from harness.program.firstrun import files_found
from harness.program.insideguest import ENDED, GUEST_PATH, ROOT, STATUS, STDIN, TIMES, command
from harness.program.ownmodules import load_words, module_folders, not_loaded
from harness.program.watching import watching
from harness.progress import note, step
from harness.run.prepared import oracle_of, seeded
from harness.scratch import discard, scratch_folder
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

NAME = "program"
_ENDS: Mapping[Traces, str] = {"pages": "trace", "locks": "locks", "functions": "profile", "counters": "counters"}
#: The tracer of what is no paper's.
PROFILE = Path(__file__).parent / "profile"
SEED = 1
#: Of the guest, in any case: the files are there packed and unpacked.
LEAST_MIB, TIMES_FILES = 448, 3
#: Pages of the padding that other seeds than the first have.
MOST_PADDING = 512
#: Of a trace, unless the setting output_mib says another.
MOST_MIB = 1024
#: How many bytes QEMU may write beyond the trace.
MORE_BYTES = 1 << 30
#: A shell's status of a program that a signal ended is this and the signal's number.
SIGNALLED = 128
#: The guest's seconds beyond the program's: it is asked to end, then killed, and its tracer writes what it has.
MORE_S = 600


@dataclass(frozen=True)
class TraceRequest:
    """What a command was asked for; fields as its options."""

    traces: Traces
    program: str | None
    experiment: str | None = None
    kernel: str | None = None
    cpus: int | None = None
    params: Mapping[str, Scalar | None] = field(default_factory=dict)  # of the tracer; None: not given
    chosen: Mapping[str, Sequence[str]] = field(default_factory=dict)  # for its report
    modules: Sequence[str] = ()  # folders
    needs: Sequence[str] = ()  # --in
    out: Path | None = None
    memory: int | None = None
    most_mib: int = MOST_MIB
    timeout: int = 600
    lines: bool = False
    to: str | None = None
    exit_code: bool = False
    beside: Mapping[str, Scalar | None] | None = None  # params of another run, for the report to compare with
    here: Path | None = None  # where relative paths begin; None: this folder


@dataclass(frozen=True)
class Subject:
    """A program with its files, ready for a guest: on any kernel of its architecture, with any seed."""

    request: TraceRequest
    experiment: Path  # whose tracer it is; PROFILE where that is no experiment's
    tracer: TracerFile
    kernel: str
    words: tuple[str, ...]
    things: GuestFiles
    folder: str
    scratch: Path


def trace_program(store: Store, request: TraceRequest, console: Console) -> int:
    """Trace, report, and print what the report says first and where it is.

    0, or the program's own exit status; EXIT_RUN_FAILED when a part of it was not traced.
    """
    out = free_folder(request.out, words_of(request.program)[0], _ENDS[request.traces])
    with subject(store, request) as it:
        program = traced(store, it, it.kernel, console)
        if request.beside is not None:
            other = replace(it, request=replace(request, params={**request.params, **request.beside}))
            program = replace(program, beside=traced(store, other, it.kernel, console))
        lines = _report(it.tracer, program, it.scratch / "report", out)
        status = exit_status(program)
        lines += _ended(status, program.left)
    facts = {"traced": request.traces, "program": it.words, "kernel": it.kernel, "exit_status": status}
    tell(console, request, lines, out, facts)
    if (out / NOT_WHOLE).exists():
        return EXIT_RUN_FAILED
    return status if request.exit_code else EXIT_OK


@contextmanager
def subject(store: Store, request: TraceRequest) -> Iterator[Subject]:
    """The program of a request, its files in a scratch folder; UsageError for what no guest could be like."""
    words = words_of(request.program)
    folder = _experiment(request.experiment, request.traces)
    tracer = TracerFile(folder)
    kernel = kernel_of(request.kernel, tracer.tracer, folder)
    module_folders(request.modules)
    if request.lines:
        debug_package(load_kernel(kernel, folder))  # told before anything is fetched
    check_memory(request.memory)
    _arm_on(kernel, request, tracer, folder)
    scratch = scratch_folder(Path(tempfile.gettempdir()), "trace")
    try:
        here = request.here or Path.cwd()
        things = GuestFiles(scratch / "files" / ROOT.strip("/"), load_kernel(kernel, folder).spec.arch)
        things.take(store, request.needs, here)
        words = [things.program(words[0], here), *words[1:]]
        _standard_input(things.root / STDIN.strip("/"))
        if not request.needs:
            _first_run(things, words, here)
        things.arguments(words[1:], here)
        things.finish(here)
        (things.root / TIMES.strip("/")).write_text(things.setting_times())
        for text in things.notes:
            note(text)
        yield Subject(request, folder, tracer, kernel, tuple(words), things, str(here), scratch)
    finally:
        discard(scratch)


def traced(store: Store, it: Subject, kernel: str, console: Console | None, *, seed: int = SEED) -> Traced:
    """Trace it on a kernel; what is left of it lies in a folder of the subject's. RunError when it was not traced.

    Without a console it is one of several at a time, and says nothing.
    """
    request, tracer = it.request, it.tracer.tracer
    arm = _arm_on(kernel, request, it.tracer, it.experiment)
    packages = () if it.experiment == PROFILE else load_experiment(it.experiment).packages
    built = build_for(store, kernel, it.experiment, packages, without_modules=tracer.modules != "needed")
    loaded = load_words(store, built, module_folders(request.modules), it.things.root)
    layouts = _layouts(store, built, it.experiment, tracer)
    debug = debug_file(store, built.recipe) if request.lines else None
    forgets = "CONFIG_INITRAMFS_PRESERVE_MTIME=y" not in built.kernel.file("config").read_text()
    text = command(tracer.command, it.folder, [*loaded, *it.words], request.timeout, set_times=forgets)
    only = _only(arm, text, request.timeout + MORE_S)
    scratch = scratch_folder(it.scratch, "guest")
    spec = _trial(store, it, scratch, only, built, seed)
    spec = spec.model_copy(update={"file_bytes": (request.most_mib << 20) + MORE_BYTES})
    watched = it.tracer if request.params.get("watch") else None
    record = _run(spec, f"tracing {shlex.join(it.words)}", watched, console)
    left = spec.folder / NAME
    _check(record, left)
    ended = request.timeout if (left / ENDED).exists() else None
    system_map = built.kernel.file("System.map")
    return Traced(
        spec.folder, left, it.things.root, it.words, it.folder, system_map, request.chosen, layouts, debug, ended
    )


def _first_run(things: GuestFiles, words: Sequence[str], here: Path) -> None:
    """Bring what the program uses when it is run here once, if this host can run it and it was found here."""
    if things.foreign:
        return
    found = files_found(words, here, {"PATH": GUEST_PATH}, things.root / STDIN.strip("/"))
    if found is not None:
        things.found(found)


def exit_status(program: Traced) -> int:
    """As a shell has it."""
    file = program.left / STATUS
    try:
        return int(file.read_text())
    except (OSError, ValueError) as error:
        raise RunError("the tracer told no exit status of the program", where=str(file)) from error


def _ended(status: int, left: Path) -> list[str]:
    """What a user would want to know of a program that did not end well."""
    if not status:
        return []
    how = f"exit status {status}"
    if status > SIGNALLED:
        name = next((signal.name for signal in signal.Signals if signal == status - SIGNALLED), "a signal")
        how += f": {name}"
    hint = _hint(left)
    return [f"The program ended with {how}." + (f" Its last words: {hint}" if hint else "")]


def tell(
    console: Console, request: TraceRequest, lines: Sequence[str], out: Path | None, facts: Mapping[str, object]
) -> None:
    """Print lines and where the page is, if there is one; or with `--to json` the facts, the lines, and the tables
    beside the page.
    """
    page = str(out / REPORT) if out else None
    told = [*lines, *([page] if page else [])]
    if request.to == "json":
        tables = {path.stem: pd.read_csv(path).to_dict("records") for path in sorted(out.glob("*.csv"))} if out else {}
        told = [json.dumps({**facts, "said": list(lines), "report": page, **tables}, indent=1)]
    print_lines(console, told)


def print_lines(console: Console, lines: Sequence[str]) -> None:
    """As they are: names may look like markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _report(tracer: TracerFile, program: Traced, made: Path, out: Path) -> list[str]:
    """Write the report into `made` and move it to `out`; its lines. Without one, `out` is what left the guest."""
    made.mkdir()
    try:
        with step("writing the report"):
            lines = tracer.traced(program, made)
    except BaseException:
        shutil.move(program.raw, out)
        note(f"there is no report; what came out of the guest is in {out}")
        raise
    for name in ("stdout", "stderr"):
        shutil.copyfile(program.left / name, made / name)
    shutil.move(made, out)
    return lines


def _layouts(store: Store, built: KernelBuild, folder: Path, tracer: Tracer) -> Path | None:
    """The module of the tracer's layouts for this kernel; None, and a note, where it can have no more modules."""
    if not tracer.layouts:
        return None
    try:
        return build_layouts(store, built.recipe, built.kernel, folder / tracer.layouts)
    except RunError as error:
        note(f"offsets have no names: {error}")
        return None


def _run(spec: TrialSpec, label: str, watched: TracerFile | None, console: Console | None) -> TrialRecord:
    if console is None:
        return run_trial(spec)
    if watched is not None:  # its lines say that it goes on
        note(label)
        return run_trial(spec, partial(watching, watched, console))
    with step(label):
        return run_trial(spec)


def _check(record: TrialRecord, left: Path) -> None:
    """RunError when the program was not traced, with its own last words."""
    if record.status != "ok":
        raise RunError(f"the program was not traced: {record.reason}", hint=_hint(left))
    if lost := not_loaded(left):
        raise RunError(f"module {lost} was not loaded", hint=_hint(left))


def words_of(text: str | None) -> list[str]:
    words = unquoted("--exec", text or "")
    if not words:
        raise UsageError("no program to trace", hint="give it after --, as in -- PROGRAM ARGUMENTS")
    return words


def _experiment(text: str | None, traces: Traces) -> Path:
    if text is not None:
        return find_experiment(text)
    if traces == "functions":
        return PROFILE
    names = tracing_experiments(EXPERIMENTS, traces)
    if len(names) != 1:
        raise UsageError(f"--experiment is needed: {', '.join(names) or 'none'} can trace {traces} of programs")
    return EXPERIMENTS / names[0]


def _arm(kernel: str, tracer: Tracer, asked: int | None, params: Mapping[str, Scalar]) -> Arm:
    """One CPU has the virtual clock, so that each trace of a program is the same; several have the host's."""
    cpus = asked or tracer.cpus
    devices = list(tracer.devices)
    usual, own = tracer.kernel, dict(params)
    if cpus == 1:
        arm = Arm(kernel=usual, clock="virtual", params=own, devices=devices, oracle=list(tracer.oracle))
    else:
        several = dict(tracer.several)
        arm = Arm(
            kernel=usual,
            clock="wall",
            session="mailbox",
            cpus=cpus,
            cmdline=several,
            params=own,
            devices=devices,
            oracle=list(tracer.oracle),
        )
    return arm.on(kernel)


def _arm_on(kernel: str, request: TraceRequest, tracer: TracerFile, folder: Path) -> Arm:
    """The arm; UsageError where no machine can be as it wants it, before anything is built for one."""
    arm = _arm(kernel, tracer.tracer, request.cpus, tracer.chosen(request.params))
    machine_for(NAME, arm, load_kernel(arm.kernel, folder), "tcg")
    return arm


def kernel_of(wanted: str | None, tracer: Tracer, folder: Path) -> str:
    """The kernel to boot; what most tracers run on is of one architecture."""
    usual = tracer.kernel
    if wanted is None:
        return usual
    wanted = kernel_word(wanted, Path.cwd())
    if tracer.any_arch:
        load_kernel(wanted, folder)
        return wanted
    wanted = from_tree(usual, wanted)
    recipe, needed = load_kernel(wanted, folder), load_kernel(usual, folder)
    if recipe.spec.source.built and needed.patches:
        hint = f"such as {usual}, or the path of a source tree"
        raise UsageError(f"--kernel {wanted}: has none of the patches that the tracer needs", hint=hint)
    if (arch := recipe.spec.arch) != needed.spec.arch:
        raise UsageError(
            f"--kernel {wanted}: is for {arch}, and the tracer for {needed.spec.arch}", hint=f"such as {usual}"
        )
    return wanted


def free_folder(out: Path | None, program: str, end: str) -> Path:
    """A folder that is not there yet; it is made last, so that a trace that fails leaves none."""
    if out is not None:
        if out.exists():
            raise UsageError("--out: is there already", where=str(out))
        if not out.parent.is_dir():
            raise UsageError("--out: its folder is not there", where=str(out))
        return out
    base = Path.cwd() / f"{Path(program).name}.{end}"
    tried = (base.with_name(f"{base.name}.{n}") if n > 1 else base for n in range(1, 10_000))
    free = next((path for path in tried if not path.exists()), None)
    if free is None:
        raise UsageError("too many traces are here", where=str(base.parent), hint="--out FOLDER")
    return free


def _standard_input(target: Path) -> None:
    """What this command's standard input has, if that is a file or a pipe; else nothing."""
    with target.open("wb") as sink:
        if sys.stdin is None:
            return
        mode = os.fstat(sys.stdin.fileno()).st_mode
        if stat.S_ISFIFO(mode):
            note("reading standard input, for the program")
        if stat.S_ISFIFO(mode) or stat.S_ISREG(mode):
            shutil.copyfileobj(sys.stdin.buffer, sink)


def _only(arm: Arm, command: str, timeout_s: float) -> Experiment:
    """An experiment with this arm and nothing else."""
    paper = Paper(authors=[NAME], year=2026, title=NAME)
    workload = Workload(command=command, timeout_s=timeout_s)
    return Experiment(name=NAME, paper=paper, arms={NAME: arm}, workloads={NAME: workload})


def _trial(
    store: Store, it: Subject, scratch: Path, experiment: Experiment, built: KernelBuild, seed: int
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
    padding = [_padding(scratch, seed)] if seed != SEED else []
    files = files.model_copy(update={"initrds": (*files.initrds, packed, *padding)})
    prepared = PreparedArm(built, machine, files, keys, None, "")
    plugin = seeded(oracle_of(store, arm, prepared), seed)
    return trial_spec(experiment, prepared, PlannedTrial(NAME, 0, seed), scratch, plugin)


def _padding(scratch: Path, seed: int) -> Path:
    """A file that is of no use but to be in the way: where memory lies is another place with each seed."""
    folder = scratch / "padding"
    folder.mkdir()
    (folder / "krepro-padding").write_bytes(bytes(PAGE * Random(seed).randrange(1, MOST_PADDING)))  # noqa: S311
    packed = scratch / "padding.cpio"
    write_cpio(folder, packed)
    return packed


def _hint(left: Path) -> str | None:
    """The program's own last words."""
    try:
        lines = read_tail(left / "stderr").strip().splitlines()
    except OSError:
        return None
    return lines[-1][:200] if lines else None
