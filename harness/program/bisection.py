# SPDX-License-Identifier: MIT
"""`bisect`: between two commits of a kernel or of a program, the one that changed what the program costs."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Literal

import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import EXIT_NEWS, EXIT_OK, EXIT_RUN_FAILED, RunError, UsageError
from harness.kernel.given import is_tree
from harness.kernel.localtree import forget_tree
from harness.measure.tracer import REPORT
from harness.program.guestrun import SEED
from harness.program.profile.calls import KERNEL
from harness.program.profile.difference import CODE, GONE, NEW, VARIES, by_code, call_difference, function_difference
from harness.program.profile.profile import Profile
from harness.program.profile.several import profiles
from harness.program.revisions import Commit, Revisions, top_of
from harness.program.subject import TraceRequest, subject, words_of
from harness.program.tracing import free_folder, tell
from harness.progress import note, step
from harness.report.html import render, table_view
from harness.scratch import discard, scratch_folder

FUNCTIONS, CALLS, STEPS, COMMIT = "functions.csv", "syscalls.csv", "steps.csv", "commit.txt"
MOST_ROWS, SHOWN_FUNCTIONS, SHOWN_CALLS = 2000, 6, 12
#: By what a commit is told good from bad: what its changed code costs beside the good end's, or all instructions.
Measure = Literal["code", "own", "all"]
MEASURED = {
    "code": "instructions in functions whose code is another one",
    "own": "instructions of the program's own code",
    "all": "all instructions",
}
COUNTED: dict[Measure, Callable[[Profile], int]] = {
    "own": lambda profile: profile.user,
    "all": lambda profile: profile.total,
}
#: The ends have so many times the seeds of those between, and at least so many: by them it is known how far seeds are
#: from each other. Two and two lie apart by chance once in three times, four and four once in 35.
ENDS, FEWEST = 2, 4


#: Profiles what is checked out, with so many seeds.
Profiled = Callable[[int], Sequence[Profile]]


@dataclass(frozen=True)
class Range:
    """Which commits, how a program is built in a checkout, and how many seeds each has."""

    good: str
    bad: str
    build: str | None
    seeds: int


@dataclass(frozen=True)
class Tried:
    """One commit that was tried; without profiles it could not be, and `why` says so."""

    commit: Commit
    found: Sequence[Profile]
    seconds: float
    why: str = ""

    @property
    def total(self) -> int:
        return median_low([profile.total for profile in self.found])


@dataclass(frozen=True)
class Bounds:
    """The two ends, by which the commits between are judged."""

    good: Tried
    bad: Tried
    measure: Measure

    def cost(self, tried: Tried) -> int:
        """What a commit costs more than the good end."""
        sides = same_seeds(self.good, tried)
        counted = COUNTED.get(self.measure)
        if counted is None:
            return code_cost(*sides)
        one, other = (median_low([counted(profile) for profile in side]) for side in sides)
        return other - one

    def is_bad(self, tried: Tried) -> bool:
        """Whether it is nearer to the bad end."""
        return abs(self.cost(tried) - self.cost(self.bad)) < abs(self.cost(tried))


def bisect_commits(store: Store, asked: Range, request: TraceRequest, console: Console) -> int:
    """Search, write the page, tell; EXIT_NEWS when the ends do not differ, EXIT_RUN_FAILED when one of several
    commits that could not be tried must be it.
    """
    words = words_of(request.program)
    out = free_folder(request.out, words[0], "bisect")
    begun = time.monotonic()
    with _commits(store, asked, request) as (revisions, profiled):
        good, bad = revisions.commit(asked.good), revisions.commit(asked.bad)
        count = revisions.between(good, bad)
        note(f"{count} commits after {good.short}, until {bad.short}")
        seeds = max(ENDS * asked.seeds, FEWEST)
        one = _try(revisions, good, profiled, None, seeds)
        other = _try(revisions, bad, profiled, one.found[0].status if one.found else None, seeds)
        for end in (one, other):
            if end.why:
                raise RunError(f"{end.commit.short} cannot be tried: {end.why}")
        measure = measure_of(one.found, other.found)
        if measure is None:
            lines = [f"{good.short} and {bad.short} cost the same: no changed code that is executed, no other count"]
            tell(console, request, lines, None, {"program": words, "commits": []})
            return EXIT_NEWS
        bounds = Bounds(one, other, measure)
        note(f"judged by {MEASURED[measure]}: {bounds.cost(other):+,} at {bad.short}")
        tried = _search(revisions, bounds, profiled, asked.seeds)
        found = revisions.candidates()
        known = {each.commit.name: each for each in (one, other, *tried) if each.found}
        told = revisions.files(found[0]) if len(found) == 1 else ""
        before = known.get(revisions.parent(found[0]).name, one)
        after = known.get(found[0].name, other)
        sides = same_seeds(before, after)
        functions = function_difference(*sides)
        calls = call_difference(*sides, functions)
        table = _steps([one, other, *tried], bounds)
    lines = _lines(found, measure, before, after, functions, calls)
    skipped = sum(not each.found for each in tried)
    minutes = (time.monotonic() - begun) / 60
    lines.append(
        f"{count} commits: {len(tried)} tried between the ends, {skipped} of them skipped; {minutes:.1f} minutes"
    )
    out.mkdir()
    for name, content in ((FUNCTIONS, functions), (CALLS, calls), (STEPS, table)):
        content.to_csv(out / name, index=False)
    (out / COMMIT).write_text(told + "\n")
    page = render(
        "bisect.html.j2",
        title=f"Bisect of {shlex.join(words)}",
        lines=lines,
        commit=told,
        steps=table_view(table, MOST_ROWS),
        functions=table_view(functions, MOST_ROWS),
        calls=table_view(calls, MOST_ROWS),
    )
    (out / REPORT).write_text(page)
    facts = {"program": words, "commits": [each.name for each in found], "measure": measure}
    tell(console, request, lines, out, facts)
    return EXIT_OK if len(found) == 1 else EXIT_RUN_FAILED


def same_seeds(one: Tried, other: Tried) -> tuple[Sequence[Profile], Sequence[Profile]]:
    """The profiles of both with those seeds that both have: the ends have more."""
    seeds = min(len(one.found), len(other.found))
    return one.found[:seeds], other.found[:seeds]


def code_cost(before: Sequence[Profile], after: Sequence[Profile]) -> int:
    """What functions cost more whose code is another one."""
    return int(by_code(function_difference(before, after))["change"].sum())


def measure_of(good: Sequence[Profile], bad: Sequence[Profile]) -> Measure | None:
    """What tells the two ends apart; None where nothing does.

    All instructions, or those of the program's own code, do so where no seed brings one end as near to the other as its
    seeds are from each other, of at least FEWEST. Of what tells them apart the first that carries half of the change
    is taken.
    """
    changes: dict[Measure, int] = {"code": code_cost(good, bad)}
    for name, counted in COUNTED.items():
        one, other = ([counted(profile) for profile in side] for side in (good, bad))
        gap = max(min(other) - max(one), min(one) - max(other))
        enough = min(len(one), len(other)) >= FEWEST
        if enough and gap > 0 and gap >= max(max(side) - min(side) for side in (one, other)):
            changes[name] = median_low(other) - median_low(one)
    largest = max(abs(change) for change in changes.values())
    return next((name for name, change in changes.items() if change and 2 * abs(change) >= largest), None)


@contextmanager
def _commits(store: Store, asked: Range, request: TraceRequest) -> Iterator[tuple[Revisions, Profiled]]:
    """A clone of the kernel's or the program's repository, and what profiles what is checked out in it."""
    here = Path.cwd()
    tree = Path(os.path.normpath(here / Path(request.kernel).expanduser())) if request.kernel else None
    of_kernel = tree is not None and tree.is_dir() and is_tree(tree)
    top = top_of(tree if of_kernel and tree is not None else here)
    if top is None or (of_kernel and top != tree):
        where = tree if of_kernel else here
        raise UsageError("is in no git repository", where=str(where), hint="--kernel TREE, or go into the program's")
    if of_kernel and asked.build is not None:
        raise UsageError("--with: a kernel is built as krepro builds it")
    parent = store.root / "tmp" if of_kernel else Path(tempfile.gettempdir())
    scratch = scratch_folder(parent, "bisect")
    try:
        clone = scratch / top.name
        with step(f"cloning {top.name}"):
            revisions = Revisions(top, clone)

        with ExitStack() as subjects:  # a profile reads code from its subject's files

            def profiled(seeds: int) -> Sequence[Profile]:
                its = request
                if of_kernel:
                    its = replace(its, kernel=str(clone))
                else:
                    _build(asked.build, clone, scratch / "build.log")
                    text = shlex.join(_moved(word, top, clone) for word in words_of(request.program))
                    its = replace(its, program=text, here=clone / here.relative_to(top))
                it = subjects.enter_context(subject(store, its))
                jobs = [(it, it.kernel, SEED + number) for number in range(seeds)]
                return profiles(store, jobs, f"profiling {seeds} times")

            yield revisions, profiled
    finally:
        if of_kernel:
            forget_tree(store, scratch)
        discard(scratch)


def _moved(word: str, top: Path, clone: Path) -> str:
    """A word that is a path in the user's work tree, in the clone."""
    path = Path(word)
    return str(clone / path.relative_to(top)) if path.is_absolute() and path.is_relative_to(top) else word


def _build(command: str | None, clone: Path, log: Path) -> None:
    """Run what builds the program; RunError with its last line when it fails."""
    if command is None:
        command = "make" if any((clone / name).is_file() for name in ("Makefile", "makefile", "GNUmakefile")) else ""
    if not command:
        return
    with step(f"running {command}"), log.open("wb") as sink:
        shell = ["sh", "-c", command]
        done = subprocess.run(shell, cwd=clone, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False)
    if done.returncode:
        last = log.read_text(errors="replace").strip().splitlines()
        raise RunError(f"{command}: exit status {done.returncode}", hint=last[-1][:200] if last else None)


def _try(revisions: Revisions, commit: Commit, profiled: Profiled, ended: int | None, seeds: int) -> Tried:
    """Check out, build and profile one commit. What cannot be built or run is told, and no error."""
    begun = time.monotonic()
    revisions.check_out(commit)
    found: Sequence[Profile] = ()
    why = ""
    try:
        found = profiled(seeds)
        status = found[0].status
        if ended not in (None, status):
            found, why = (), f"the program ended with exit status {status}, and at the good end with {ended}"
    except (RunError, UsageError) as error:
        why = str(error)
    return Tried(commit, found, time.monotonic() - begun, why)


def _search(revisions: Revisions, bounds: Bounds, profiled: Profiled, seeds: int) -> list[Tried]:
    """Try what git bisect asks for until it asks for no more."""
    revisions.start(bounds.good.commit, bounds.bad.commit)
    tried = []
    while not revisions.candidates():
        commit = revisions.here()
        one = _try(revisions, commit, profiled, bounds.good.found[0].status, seeds)
        tried.append(one)
        revisions.mark("skip" if not one.found else "bad" if bounds.is_bad(one) else "good", commit)
        told = f"skipped: {one.why}" if not one.found else _verdict(one, bounds)
        note(f"{commit.short} {commit.subject[:50]}: {told}, {one.seconds:.0f} s")
    return tried


def _verdict(tried: Tried, bounds: Bounds) -> str:
    return f"{bounds.cost(tried):+,}, {'bad' if bounds.is_bad(tried) else 'good'}"


def _steps(tried: Sequence[Tried], bounds: Bounds) -> pd.DataFrame:
    rows = [
        (
            one.commit.short,
            one.commit.subject,
            one.total if one.found else None,
            bounds.cost(one) if one.found else None,
            ("bad" if bounds.is_bad(one) else "good") if one.found else "skipped",
            one.why,
            round(one.seconds, 1),
        )
        for one in tried
    ]
    names = ["commit", "subject", "instructions", "cost", "verdict", "why", "seconds"]
    return pd.DataFrame(rows, columns=names).astype({"instructions": "Int64", "cost": "Int64"})


def _lines(
    found: Sequence[Commit],
    measure: Measure,
    before: Tried,
    after: Tried,
    functions: pd.DataFrame,
    calls: pd.DataFrame,
) -> list[str]:
    if len(found) == 1:
        (one,) = found
        lines = [f"{one.short} {one.subject}", f"by {one.author}, {one.date}"]
    else:
        lines = ["one of these, which could not all be tried:", *(f"  {one.short} {one.subject}" for one in found)]
    own = by_code(functions)
    lines.append(
        f"{after.total - before.total:+,} of {before.total:,} instructions from {before.commit.short} "
        f"to {after.commit.short}: {int(own['change'].sum()):+,} by changed code"
    )
    rest = functions[~functions["why"].isin([CODE, NEW, GONE, VARIES])]
    if measure == "own":
        rest = rest[rest["file"] != KERNEL]
    for row in pd.concat([own, rest]).head(SHOWN_FUNCTIONS).to_dict("records"):
        lines.append(f"  {row['change']:+,} {row['function']} ({row['why']})")
    for change, rows in calls[calls["by code"] != 0].groupby("by code"):
        lines.append(f"  {change:+g} for each {', '.join(rows['system call'].head(SHOWN_CALLS))}")
    if own.empty:
        lines.append("No function that it executes has other code: data, a default, or where things lie.")
    return lines
