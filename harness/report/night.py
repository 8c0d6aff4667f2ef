# SPDX-License-Identifier: MIT
"""A night: the state that a stopped `nightly` goes on from, and what is made of it in the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ValidationError

from harness.errors import UsageError
from harness.report.junit import Case, Suite
from harness.status import STATUSES, Status, exit_code_of
from harness.yamlfile import Strict, about

BUDGET = "budget: "
RUN = "run"


class Night(Strict):
    """What `nightly.json` holds."""

    schema_version: Annotated[Literal[1], about("version of this format", "1")] = 1
    begun: Annotated[str, about("UTC, ISO 8601")]
    inputs: Annotated[dict[str, Any], about("what must be unchanged for a stopped night to be resumed")]
    order: Annotated[tuple[str, ...], about("names of the experiments, in order of execution")]
    running: Annotated[str | None, about("the experiment begun last; null: none is running")] = None
    suites: Annotated[tuple[Suite, ...], about("of the experiments that are done")] = ()
    finished: Annotated[bool, about("whether every experiment had its turn")] = False

    @property
    def left(self) -> list[str]:
        """Experiments that have not had their turn."""
        done = {suite.experiment for suite in self.suites}
        return [name for name in self.order if name not in done]

    def with_suite(self, suite: Suite) -> Night:
        """The night when this experiment is done."""
        return self.model_copy(update={"suites": (*self.suites, suite), "running": None})

    @property
    def exit_code(self) -> int:
        """By the rule of every command: something did not run, a verdict is news, or neither."""
        return exit_code_of(case.status for suite in self.suites for case in suite.cases)


def next_night(before: Night | None, inputs: dict[str, Any], names: Sequence[str], begun: str) -> Night:
    """The night to go on with: the one before if it was stopped and its inputs are still these, else a new one.

    A new night begins with what the budget of the one before did not reach, so that nothing starves.
    """
    if before is not None and not before.finished and before.inputs == inputs:
        return before
    missed = [] if before is None else [suite.experiment for suite in before.suites if over_budget(suite)]
    return Night(begun=begun, inputs=inputs, order=tuple(sorted(names, key=lambda name: name not in missed)))


def over_budget(suite: Suite) -> bool:
    """Whether the budget kept this experiment from running to its end."""
    return any(case.name == RUN and case.message.startswith(BUDGET) for case in suite.cases)


def run_case(status: Status, message: str = "") -> Case:
    """The case of a run as a whole."""
    return Case(name=RUN, status=status, message=message)


def load_night(path: Path) -> Night | None:
    """The state in this file; None when there is none, UsageError when it cannot be understood."""
    try:
        return Night.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise UsageError("is no state of a night", where=str(path), hint="--fresh begins a new one") from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole, old or new, whenever this process is killed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def summary(night: Night) -> str:
    """The night as Markdown: a table, then what is not ok, then the figures that moved most."""
    lines = [f"# Night of {night.begun}", ""]
    if night.left:
        lines += [f"Not finished: {', '.join(night.left)} to come.", ""]
    lines += [
        f"| experiment | {' | '.join(STATUSES)} | minutes | result set |",
        f"|{'---|' * (len(STATUSES) + 3)}",
    ]
    for suite in night.suites:
        counts = [str(suite.count(status)) for status in STATUSES]
        cells = [suite.experiment, *counts, f"{suite.seconds / 60:.1f}", suite.result or "none"]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    headings: dict[Status, str] = {
        "news": "Verdicts that are news",
        "failed": "Did not run",
        "absent": "Not to be had here",
        "untried": "Had no turn",
    }
    for status, heading in headings.items():
        rows = [(s.experiment, case) for s in night.suites for case in s.cases if case.status == status]
        if rows:
            lines += ["", f"## {heading}", ""]
            lines += [f"- `{name}` `{case.name}`: {' '.join(case.message.split())}" for name, case in rows]
    for suite in night.suites:
        if suite.shifts:
            lines += ["", f"## Figures of {suite.experiment} that moved most", ""]
            lines += [f"- {' '.join(line.split())}" for line in suite.shifts]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
