# SPDX-License-Identifier: MIT
"""`history`: what a program costs on each of several kernels, and where between two of them the code made a step."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import EXIT_OK, KreproError, UsageError
from harness.kernel.packaged import PREFIX, find_packaged, several_packaged
from harness.measure.tracer import REPORT
from harness.program.guestrun import SEED
from harness.program.profile.difference import by_code, call_difference, function_difference
from harness.program.profile.profile import Profile
from harness.program.profile.several import profiles
from harness.program.subject import TraceRequest, kernel_of, subject, words_of
from harness.program.tracing import free_folder, tell
from harness.progress import note
from harness.report.figures import figure_style, write_figures
from harness.report.html import render, table_view
from harness.report.page import data_url

KERNELS, CALLS, STEPS, CHANGES, PLOT = "kernels.csv", "syscalls.csv", "steps.csv", "changes.txt", "cost"
MOST_ROWS, SHOWN_FUNCTIONS, SHOWN_CALLS, SHOWN_CHANGES = 2000, 4, 12, 4
#: Words of functions' names that say nothing of what they are about.
COMMON = {"from", "with", "work", "entry", "exit", "user", "kernel", "call", "sys", "common", "prepare", "file", "free"}


@dataclass(frozen=True)
class Step:
    """From one kernel to the next: what changed of the program's cost, and by which functions' code."""

    before: str
    after: str
    change: int
    by_code: int
    functions: pd.DataFrame
    calls: pd.DataFrame


def history(store: Store, kernels: Sequence[str], request: TraceRequest, console: Console) -> int:
    """Profile on every kernel, write the tables, the plot and the page, and tell of the steps."""
    words = words_of(request.program)
    out = free_folder(request.out, words[0], "history")
    names = kernels_of(kernels)
    with subject(store, replace(request, kernel=names[0])) as it:
        known = [kernel_of(name, it.tracer.tracer, it.experiment) for name in names]
        found = profiles(store, [(it, name, SEED) for name in known], f"profiling on {len(known)} kernels")
        steps = [_step(*pair) for pair in _pairs(known, found)]
    table = pd.DataFrame(
        [(name, profile.total, profile.user) for name, profile in zip(known, found, strict=True)],
        columns=["kernel", "instructions", "in user code"],
    )
    table.insert(2, "change", table["instructions"].diff().fillna(0).astype(int))
    table["by code"] = [0, *(step.by_code for step in steps)]
    changes = [(step, _changes(store, step)) for step in steps if step.by_code]
    out.mkdir()
    table.to_csv(out / KERNELS, index=False)
    _calls(known, found).to_csv(out / CALLS, index=False)
    _steps(steps).to_csv(out / STEPS, index=False)
    (out / CHANGES).write_text("".join(_changes_text(step, told) for step, told in changes))
    lines = _lines(table, [(step, related(told, step.functions)) for step, told in changes])
    page = render(
        "history.html.j2",
        title=f"History of {shlex.join(words)}",
        plot=_plot(table, out),
        lines=lines,
        kernels=table_view(table, MOST_ROWS),
        steps=table_view(_steps(steps), MOST_ROWS),
        calls=table_view(_calls(known, found), MOST_ROWS),
    )
    (out / REPORT).write_text(page)
    tell(console, request, lines, out, {"program": words})
    return EXIT_OK


def kernels_of(words: Sequence[str]) -> list[str]:
    """Names of all kernels that words mean, in order; UsageError for fewer than two."""
    names = [name for word in words for name in several_packaged(word) or [word]]
    if len(names) < 2:
        raise UsageError(f"{', '.join(words)}: is one kernel", hint="several, or as debian:6.1.*")
    return names


def _pairs(names: Sequence[str], found: Sequence[Profile]) -> list[tuple[str, Profile, str, Profile]]:
    both = list(zip(names, found, strict=True))
    return [(*one, *other) for one, other in pairwise(both)]


def _step(before: str, one: Profile, after: str, other: Profile) -> Step:
    functions = function_difference([one], [other])
    own, calls = by_code(functions), call_difference([one], [other], functions)
    return Step(before, after, other.total - one.total, int(own["change"].sum()), own, calls)


def _calls(names: Sequence[str], found: Sequence[Profile]) -> pd.DataFrame:
    """A row for each kernel, a column for each system call: instructions for each."""
    every = sorted({call for profile in found for call in profile.system_calls})
    rows = [
        [
            name,
            *(
                round(profile.system_calls[call].each, 1) if call in profile.system_calls else float("nan")
                for call in every
            ),
        ]
        for name, profile in zip(names, found, strict=True)
    ]
    return pd.DataFrame(rows, columns=["kernel", *every])


def _steps(steps: Sequence[Step]) -> pd.DataFrame:
    rows = [
        (step.before, step.after, row["function"], row["file"], row["why"], row["before"], row["after"], row["change"])
        for step in steps
        for row in step.functions.to_dict("records")
    ]
    names = ["from", "to", "function", "file", "why", "instructions before", "instructions after", "change"]
    return pd.DataFrame(rows, columns=names)


def _changes(store: Store, step: Step) -> list[str]:
    """What Debian's changelog says of it; none where both are not Debian's."""
    if not (step.before.startswith(PREFIX) and step.after.startswith(PREFIX)):
        return []
    old, new = (find_packaged(name.removeprefix(PREFIX)) for name in (step.before, step.after))
    try:
        return new.changes(store, old.version)
    except KreproError as error:
        note(f"no changelog of {step.after}: {error}")
        return []


def related(changes: Sequence[str], functions: pd.DataFrame) -> list[str]:
    """Entries about a function whose code changed, or about its subsystem: where to look first, and no more."""
    names = [str(name) for name in functions["function"]]
    words = {word for name in names for word in re.split(r"[^a-z]+", name.lower()) if len(word) > 3} - COMMON
    about = [(line, set(re.split(r"[^a-z]+", line.lower().rpartition(": ")[0]))) for line in changes]
    return [line for line, prefix in about if words & prefix or any(name in line for name in names)]


def _changes_text(step: Step, changes: Sequence[str]) -> str:
    return f"{step.before} to {step.after}\n" + "".join(f"  {line}\n" for line in changes) + "\n"


def _plot(table: pd.DataFrame, out: Path) -> str:
    """Draw it into `out`; the picture as a page has it."""
    with figure_style():
        figure, axes = plt.subplots(figsize=(9, 3.5))
        short = [str(name).removeprefix(PREFIX).replace("-cloud-amd64", "") for name in table["kernel"]]
        by_code = table["instructions"].iloc[0] + table["by code"].cumsum()
        axes.plot(short, table["instructions"], marker="o", label="executed")
        axes.plot(short, by_code, marker=".", label="by changes of code alone")
        axes.set_ylabel("instructions")
        axes.tick_params(axis="x", rotation=60)
        axes.legend()
        (path,) = write_figures({PLOT: figure}, out)
    return data_url(path)


def _lines(table: pd.DataFrame, steps: Sequence[tuple[Step, list[str]]]) -> list[str]:
    width = max(len(name) for name in table["kernel"])
    lines = [f"{'kernel':<{width}}  instructions     change    by code"]
    lines += [
        f"{row['kernel']:<{width}}  {row['instructions']:>12,}  {row['change']:>+9,}  {row['by code']:>+9,}"
        for row in table.to_dict("records")
    ]
    for step, changes in steps:
        shown = step.functions.head(SHOWN_FUNCTIONS).to_dict("records")
        carried = ", ".join(f"{row['function']} {row['change']:+,} ({row['why']})" for row in shown)
        lines.append(f"to {step.after}: {step.by_code:+,} by code: {carried}")
        for change, rows in step.calls[step.calls["by code"] != 0].groupby("by code"):
            lines.append(f"  {change:+g} for each {', '.join(rows['system call'].head(SHOWN_CALLS))}")
        lines += [f"  changelog: {line[:110]}" for line in changes[:SHOWN_CHANGES]]
    return lines
