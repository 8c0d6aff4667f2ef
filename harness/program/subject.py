# SPDX-License-Identifier: MIT
"""What a command about a user's own program was asked for, and that program with its files, ready for a guest."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.artefacts.store import Store
from harness.cli.declaration import unquoted
from harness.errors import UsageError
from harness.experiment.model import Arm, find_experiment
from harness.experiment.scalar import Scalar
from harness.host.examine import check_memory
from harness.kernel.lines import debug_package
from harness.kernel.load import from_tree, kernel_word, load_kernel
from harness.measure.tracer import Tracer, TracerFile, Traces, tracing_experiments
from harness.paths import EXPERIMENTS
from harness.program.files import GuestFiles
from harness.program.firstrun import files_found
from harness.program.insideguest import GUEST_PATH, ROOT, STDIN
from harness.program.ownmodules import module_folders
from harness.progress import note
from harness.scratch import scratch_space
from harness.trial.prepare import machine_for

NAME = "program"
#: The tracer of what is no paper's.
PROFILE = Path(__file__).parent / "profile"
#: Of a trace, unless the setting output_mib says another.
MOST_MIB = 1024


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
    executor: str | None = None  # of several runs: a Dask scheduler
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
    arm_on(kernel, request, tracer, folder)
    with scratch_space("trace") as scratch:
        here = request.here or Path.cwd()
        things = GuestFiles(scratch / "files" / ROOT.strip("/"), load_kernel(kernel, folder).spec.arch)
        things.take(store, request.needs, here)
        words = [things.program(words[0], here), *words[1:]]
        _standard_input(things.root / STDIN.strip("/"))
        if not request.needs:
            _first_run(things, words, here)
        things.arguments(words[1:], here)
        things.finish(here)
        for text in things.notes:
            note(text)
        yield Subject(request, folder, tracer, kernel, tuple(words), things, str(here), scratch)


def _first_run(things: GuestFiles, words: Sequence[str], here: Path) -> None:
    """Bring what the program uses when it is run here once, if this host can run it and it was found here."""
    if things.foreign:
        return
    found = files_found(words, here, {"PATH": GUEST_PATH}, things.root / STDIN.strip("/"))
    if found is not None:
        things.found(found)


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


def arm_on(kernel: str, request: TraceRequest, tracer: TracerFile, folder: Path) -> Arm:
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


def _standard_input(target: Path) -> None:
    """What this command's standard input has, if that is a file or a pipe; else nothing."""
    with target.open("wb") as sink:
        try:
            mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin else 0
        except (OSError, ValueError):  # closed, or what a notebook or a test has in its place
            return
        if stat.S_ISFIFO(mode):
            note("reading standard input, for the program")
        if stat.S_ISFIFO(mode) or stat.S_ISREG(mode):
            shutil.copyfileobj(sys.stdin.buffer, sink)
