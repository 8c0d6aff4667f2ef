# SPDX-License-Identifier: MIT
"""Tracing a user's own program: its run in a guest under an experiment's tracer, and the tracer's report."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, UsageError
from harness.measure.traceevents import TIME_LINE
from harness.measure.tracer import NOT_WHOLE, REPORT, Traced, TracerFile, Traces
from harness.program.guestrun import exit_status, hint_of, traced
from harness.program.subject import TraceRequest, subject, words_of
from harness.progress import note, step

_ENDS: Mapping[Traces, str] = {
    "pages": "trace",
    "locks": "locks",
    "functions": "profile",
    "counters": "counters",
}
#: A shell's status of a program that a signal ended is this and the signal's number.
SIGNALLED = 128


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


def _ended(status: int, left: Path) -> list[str]:
    """What a user would want to know of a program that did not end well."""
    if not status:
        return []
    how = f"exit status {status}"
    if status > SIGNALLED:
        name = next((signal.name for signal in signal.Signals if signal == status - SIGNALLED), "a signal")
        how += f": {name}"
    hint = hint_of(left)
    return [f"The program ended with {how}." + (f" Its last words: {hint}" if hint else "")]


def tell(
    console: Console, request: TraceRequest, lines: Sequence[str], out: Path | None, facts: Mapping[str, object]
) -> None:
    """Print lines and where the page is, if there is one, with `--to perfetto` the time line before it; or with
    `--to json` the facts, the lines, and the tables beside the page.
    """
    page = str(out / REPORT) if out else None
    time_line = str(out / TIME_LINE) if out and request.to == "perfetto" else None
    if time_line and not Path(time_line).exists():
        raise UsageError("--to perfetto: this tracer has written none", where=time_line, hint=f"its page is {page}")
    told = [*lines, *(path for path in (time_line, page) if path)]
    if request.to == "json":
        tables = {path.stem: pd.read_csv(path).to_dict("records") for path in sorted(out.glob("*.csv"))} if out else {}
        told = [json.dumps({**facts, "said": list(lines), "report": page, **tables}, indent=1)]
    print_lines(console, *told)


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
