# SPDX-License-Identifier: MIT
"""`profile --against`: the exact difference of two kernels, or of two programs on one, and a verdict with a bound."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median_low

import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.cli.terminal import print_lines
from harness.errors import EXIT_NEWS, EXIT_OK, UsageError
from harness.kernel.packaged import PREFIX
from harness.measure.tracer import REPORT
from harness.paths import KERNELS
from harness.program.guestrun import SEED
from harness.program.profile.difference import by_code, call_difference, function_difference
from harness.program.profile.several import profiles
from harness.program.subject import TraceRequest, kernel_of, subject, words_of
from harness.program.tracing import free_folder, tell
from harness.report.html import render, table_view
from harness.report.junit import Case, Suite, junit_xml

MOST_ROWS, SHOWN = 2000, 15
FUNCTIONS, CALLS = "functions.csv", "syscalls.csv"


@dataclass(frozen=True)
class Against:
    """The other side: a kernel, or a program. `seeds`: runs of each side; `below`: per cent that it may cost more."""

    word: str
    seeds: int
    below: float | None


def compare_profiles(store: Store, request: TraceRequest, against: Against, console: Console) -> int:
    """Compare, write the page, tell; EXIT_NEWS when the other side costs more than it may."""
    begun = datetime.now(UTC)
    words = words_of(request.program)
    out = free_folder(request.out, words[0], "profile")
    with ExitStack() as stack:
        one = stack.enter_context(subject(store, request))
        if _is_kernel(against.word):
            other, kernel = one, kernel_of(against.word, one.tracer.tracer, one.experiment)
            names = one.kernel, kernel
        else:
            others = shlex.split(against.word)
            text = shlex.join(others if len(others) > 1 else [*others, *words[1:]])
            other, kernel = stack.enter_context(subject(store, replace(request, program=text))), one.kernel
            names = shlex.join(one.words), shlex.join(other.words)
        seeds = range(SEED, SEED + against.seeds)
        wanted = [(side, on, seed) for side, on in ((one, one.kernel), (other, kernel)) for seed in seeds]
        found = profiles(store, wanted, f"profiling {len(wanted)} times")
        before, after = found[: against.seeds], found[against.seeds :]
        functions = function_difference(before, after)
        calls = call_difference(before, after, functions)
    totals = [[profile.total for profile in side] for side in (before, after)]
    told = _told(names, totals, functions, against)
    verdict, status = _verdict(totals, against)
    out.mkdir()
    functions.to_csv(out / FUNCTIONS, index=False)
    calls.to_csv(out / CALLS, index=False)
    lines = [*told, *_rows(functions), *verdict]
    page = render(
        "difference.html.j2",
        title=f"{names[1]} against {names[0]}",
        lines=[*told, *verdict],
        functions=table_view(functions, MOST_ROWS),
        calls=table_view(calls, MOST_ROWS),
        file=FUNCTIONS,
    )
    (out / REPORT).write_text(page)
    if request.to == "junit":
        print_lines(console, _as_junit(names, begun, told, calls, verdict, status))
    else:
        facts = {"before": names[0], "after": names[1], "totals": totals, "ok": status == EXIT_OK}
        tell(console, request, lines, out, facts)
    return status


def _as_junit(
    names: tuple[str, str], begun: datetime, told: list[str], calls: pd.DataFrame, verdict: list[str], status: int
) -> str:
    """One case for the program, which alone can fail, and one for each system call whose code costs another number."""
    whole = Case(name="instructions", status="ok" if status == EXIT_OK else "news", message="; ".join(told + verdict))
    cases = [whole]
    for row in calls[calls["by code"] != 0].to_dict("records"):
        message = f"{row['for each before']} to {row['for each after']} for each, {row['by code']:+} by code"
        cases.append(Case(name=str(row["system call"]), status="ok", message=message))
    suite = Suite(
        experiment=f"{names[1]} against {names[0]}",
        begun=begun.isoformat(timespec="seconds"),
        seconds=(datetime.now(UTC) - begun).total_seconds(),
        result=None,
        cases=tuple(cases),
    )
    return junit_xml([suite]).decode().rstrip()


def _is_kernel(word: str) -> bool:
    """Debian's, one of the project's, or a path that a kernel has; a program's path has no kernel's name."""
    if word.startswith(PREFIX) or (KERNELS / f"{word.partition('@')[0]}.yaml").is_file():
        return True
    path = Path(word)
    return "/" in word and (path.is_dir() or path.name.startswith(("vmlinuz", "bzImage", "linux-image")))


def _told(names: tuple[str, str], totals: list[list[int]], functions: pd.DataFrame, against: Against) -> list[str]:
    one, other = (median_low(values) for values in totals)
    change = other - one
    lines = [f"{names[0]}: {one:,} instructions; {names[1]}: {other:,}, {change:+,} ({change / max(one, 1):+.2%})"]
    if against.seeds > 1:
        ranges = [f"{min(values):,} to {max(values):,}" for values in totals]
        lines.append(f"with {against.seeds} seeds {ranges[0]}, and {ranges[1]}")
    own = by_code(functions)
    carried = int(own["change"].sum())
    lines.append(f"{carried:+,} in {len(own)} functions whose code is another one, {change - carried:+,} in the others")
    return lines


def _rows(functions: pd.DataFrame) -> list[str]:
    rows = [("change", "before", "after", "why", "function")]
    rows += [
        (f"{row['change']:+,}", f"{row['before']:,}", f"{row['after']:,}", str(row["why"]), str(row["function"]))
        for row in functions.head(SHOWN).to_dict("records")
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{a:>{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d:<{widths[3]}}  {e}".rstrip()
        for a, b, c, d, e in rows
    ]
    left = len(functions) - SHOWN
    return [*lines, f"and {left} more, in {FUNCTIONS} beside the page"] if left > 0 else lines


def _verdict(totals: list[list[int]], against: Against) -> tuple[list[str], int]:
    """The least that the other side costs more, by any pair of seeds, against the bound."""
    if against.below is None:
        return [], EXIT_OK
    least = min(totals[1]) / max(*totals[0], 1) - 1
    grown = least * 100 > against.below
    told = f"it costs at least {least:+.2%}, and may cost {against.below:+g}%"
    return [f"{'too much' if grown else 'within its bound'}: {told}"], EXIT_NEWS if grown else EXIT_OK


def bound(text: str | None) -> float | None:
    """`1%` or `1`, in per cent. UsageError for another text."""
    if text is None:
        return None
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        raise UsageError(f"--below {text}: must be per cent, as 1%") from None
