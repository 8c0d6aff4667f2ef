# SPDX-License-Identifier: MIT
"""Runs tests/guest/page_trace/pt-suite.sh in a guest and judges what it left: for the tests of page traces.

The programs there are for tests only; they are compiled together with the experiment's, in a folder made for that.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from experiments.page_trace.trace.records import EXEC, LOST, TASK, VISIT, Trace
from experiments.page_trace.trace.stats import TraceStats
from experiments.page_trace.trace.totals import totals

from harness.measure.raw import read_answer
from harness.paths import ROOT
from tests.experiments.page_trace.known import CASES, GUEST, known_of, visits
from tests.trials import run_one

PROGRAMS = ROOT / "tests" / "guest" / "page_trace"
#: What a kernel that finds itself at fault says; "WARNING: " begins lockdep's reports too.
SPLAT = re.compile(
    r"\bBUG:|\bWARNING:|possible circular|inconsistent lock|INFO: task|INFO: possible|INFO: suspicious|\bOops\b|"
    r"general protection|scheduling while atomic|suspected memory leak|Bad page|bad_page|Bad rss|pgtables_bytes|"
    r"rcu:.*stall|soft lockup|stack corruption|poison overwritten|Kernel panic",
    re.IGNORECASE,
)
#: Warnings are in the guest's log, not on its console. One from within an interrupt takes the console's spinlock, which
#: PROVE_RAW_LOCK_NESTING calls an invalid wait context: "hrtimer: interrupt took …", where the host is busy.
QUIET: dict[str, object] = {"loglevel": 4}
STORMS = ("calm", "clones", "forks", "vforks", "leader", "changes", "huge", "futex", "signals")
CAUGHT = ("calm", "clones", "forks", "changes", "futex", "signals")


def run_in_guest(
    target: Path, command: str, kernel: str, cpus: int = 2, *, pti: bool = False, timeout_s: float = 300,
    clock: str = "wall", beside: Path | None = None, programs: Path = PROGRAMS,
    cmdline: Mapping[str, object] | None = None,
) -> Path:  # fmt: skip
    """The folder of what `command` left in a guest that has the experiment's programs and those of a test.

    beside: a folder with kernels or kernel patches of its own.
    """
    folder = target / "experiment"
    folder.mkdir(parents=True)
    shutil.copytree(GUEST, folder / "guest")
    shutil.copytree(programs, folder / "guest", dirs_exist_ok=True)
    for name in ("kernels", "kernel-patches"):
        if beside is not None and (beside / name).is_dir():
            shutil.copytree(beside / name, folder / name)
    words = {**({"pti": "on"} if pti else {}), **QUIET, **(cmdline or {})}
    arm = {"kernel": kernel, "clock": clock, "cpus": cpus, "cmdline": words}
    return run_one({"suite": {"command": command, "timeout_s": timeout_s}}, arm, folder, target) / "suite"


def complaints(folder: Path) -> Iterator[str]:
    """Everything that is not as it should be in a suite's folder; each line begins with what it is about."""
    yield from _known(folder, "known")
    yield from _known(folder, "beside")
    yield from _threads(folder)
    yield from _storms(folder)
    yield from _others(folder)
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".stats", ".trace"} or path.name == "stats":
            yield from _counts(folder, path)
    yield from splats(folder)


def splats(folder: Path) -> Iterator[str]:
    """Lines of the guest's log in which the kernel says that something is wrong; what follows them is printed."""
    lines = (folder / "dmesg.end").read_text(errors="replace").splitlines()
    for at, line in enumerate(lines):
        if SPLAT.search(line):
            print(*lines[at : at + 80], sep="\n")
            yield f"dmesg: {line}"


def _counts(folder: Path, path: Path) -> Iterator[str]:
    if path.suffix == ".trace":
        return
    try:
        stats = read_answer(path, TraceStats)
    except Exception as error:
        yield f"{path.relative_to(folder)}: {error}"
        return
    name = path.relative_to(folder)
    if stats.unaccounted:
        yield f"{name}: {stats.unaccounted} faults are not accounted for"
    if stats.live or stats.unfit:
        yield f"{name}: {stats.live} tasks live, {stats.unfit} unfit"
    trace = path.with_suffix(".trace") if path.suffix else path.with_name("trace")
    if trace.is_file():
        yield from _file(name, stats, trace)


def _file(name: Path, stats: TraceStats, path: Path) -> Iterator[str]:
    trace = Trace(path)
    sums = totals(trace.chunks())
    made = sums.visits + len(trace.replaced)
    if made != stats.records:
        yield f"{name}: {made} visits in the file, {stats.records} counted"
    if sums.lost > stats.lost:
        yield f"{name}: the file says {sums.lost} lost, the counts {stats.lost}"
    if sums.tasks != sums.exits or sums.tasks != stats.tasks:
        yield f"{name}: {sums.tasks} tasks began, {sums.exits} ended, {stats.tasks} counted"
    last = -1
    for records in trace.chunks():
        if len(records) and (records.time_ns[0] < last or (np.diff(records.time_ns) < 0).any()):
            yield f"{name}: records are not in order of time"
        last = int(records.time_ns[-1]) if len(records) else last


def _known(folder: Path, name: str) -> Iterator[str]:
    if said := (folder / name / "complaints").read_text():
        yield f"{name}: {said}"
    for case in CASES:
        try:
            known = known_of(json.loads((folder / name / f"{case}.json").read_text()))
        except ValueError:
            yield f"{name}/{case}: no answer"
            continue
        pages, writes = _visits(folder / name / f"{case}.trace")
        if known.failed:
            yield f"{name}/{case}: {(folder / name / f'{case}.json').read_text()[-200:]}"
        if wrong := known.wrong(pages, writes):
            yield f"{name}/{case}: {wrong}"
        # A gather's is not, where the CPU has it: tests/guest/test_page_trace.py.
        if case != "gather" and not read_answer(folder / name / f"{case}.stats", TraceStats).exact:
            yield f"{name}/{case}: not exact"


def _visits(path: Path, tid: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    pages, writes = [np.empty(0, np.int64)], [np.empty(0, bool)]
    for records in Trace(path).chunks():
        mine = records.type == VISIT
        if tid is not None:
            mine &= records.tid == tid
        pages.append(records.page[mine].astype(np.int64))
        writes.append(records.write[mine])
    return np.concatenate(pages), np.concatenate(writes)


def _threads(folder: Path) -> Iterator[str]:
    for name in ("own", "same"):
        said = json.loads((folder / f"{name}.json").read_text())
        first = int(said["arena"], 16) >> 12
        for walk in said["threads"]:
            pages, writes = _visits(folder / f"{name}.trace", walk["tid"])
            seen, begins = visits(pages - first, writes, said["pages"])
            if seen != walk["expected"] or begins != [bool(write) for write in walk["writes"]]:
                yield f"{name}: thread {walk['tid']} made {walk['expected'][:20]}…, recorded {seen[:20]}…"
    written = json.loads((folder / "writes.json").read_text())
    for kind in ("shared", "freed"):
        if written[kind]["lost"] or written[kind]["evicted"] <= written["pages"] / 2:
            yield f"writes: {written}"


def _storms(folder: Path) -> Iterator[str]:
    names = [*STORMS, *(f"{kind}-f" for kind in STORMS), *(f"{kind}-p" for kind in CAUGHT)]
    for name in names:
        status = (folder / "storm" / f"{name}.exit").read_text().strip()
        said = (folder / "storm" / f"{name}.err").read_text()
        if status != "0" or "ptstorm" in said:
            yield f"storm/{name}: exit {status} {said[-300:]}"
    for kind in CAUGHT:
        cycle = json.loads((folder / "storm" / f"{kind}-cycle.json").read_text())
        if not cycle["started"] or cycle["unbalanced"] or cycle["live"] or cycle["other"]:
            yield f"storm/{kind}-cycle: {cycle}"
    if read_answer(folder / "storm" / "forks.stats", TraceStats).tasks != 1:
        yield "storm/forks: children are traced without -f"
    if read_answer(folder / "storm" / "forks-f.stats", TraceStats).tasks < 3:
        yield "storm/forks-f: children are not traced with -f"
    if read_answer(folder / "storm" / "clones.stats", TraceStats).tasks < 10:
        yield "storm/clones: threads are not traced"
    chain = [records.type for records in Trace(folder / "chain" / "trace").chunks()]
    execs = sum(int((types == EXEC).sum()) for types in chain)
    if execs != 101 or sum(int((types == TASK).sum()) for types in chain) != 1:
        yield f"chain: {execs} execs"
    if any((types == LOST).any() for types in chain):
        yield "chain: visits were lost"


def _others(folder: Path) -> Iterator[str]:
    for line in (folder / "api").read_text().splitlines():
        name, got, wanted = line.split()
        if got != wanted:
            yield f"api: {name} gives {got}, not {wanted}"
    if (folder / "api").read_text().count("\n") < 48:
        yield "api: too few answers"
    # What the trace cannot see is counted; an LDT hides something only with page table isolation.
    for kind, unfit in (("rwx", 1), ("ldt", int("pti=on" in (folder / "shape").read_text()))):
        stats = read_answer(folder / "blind" / kind, TraceStats)
        if stats.unfit != unfit or stats.exact == bool(unfit):
            yield f"blind/{kind}: {stats.unfit} tasks unfit, exact {stats.exact}"
    if (said := (folder / "setid").read_text()) != "untraced 0\ntraced 1000\n":
        yield f"setid: {said}"
    # The page of code that is used, and no other of those whose accessed bits were cleared.
    if (said := (folder / "age").read_text()) != "untraced 4 kB\ntraced 4 kB\n":
        yield f"age: {said}"
    if (folder / "killed.launchers").read_text().split() != ["137"] * 5:
        yield f"killed: launchers ended with {(folder / 'killed.launchers').read_text().split()}"
    if (folder / "killed.exit").read_text().strip() != "0":
        yield f"killed: the traced process ended with {(folder / 'killed.exit').read_text().strip()}"
    for kind in ("lost", "abuse"):
        said = (folder / f"ring-{kind}.json").read_text()
        if '"wrong": 0}' not in said:
            yield f"ring-{kind}: {said}"
    fates = sorted(path.name for path in (folder / "untraced").iterdir())
    if len(fates) < 38:
        yield f"fates: only {fates}"
    for name in fates:
        alone, traced = ((folder / side / name).read_text() for side in ("untraced", "traced"))
        if alone != traced:
            yield f"fates: {name}: {alone!r} untraced, {traced!r} traced"
