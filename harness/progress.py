# SPDX-License-Identifier: MIT
"""Progress for anything longer than a second: rich bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich import console as rich_console
from rich.console import ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from harness import stagetimes
from harness.harmless import harmless


def silence(stream: TextIO) -> None:
    """Let what is written to `stream` go nowhere from now on: the reader of its pipe has gone (head, less)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Console(rich_console.Console):
    """A console that falls silent when its reader has gone: a command goes on, and its exit code stays its own."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(sys.stderr if self.stderr else sys.stdout)


class _Shown:
    """A renderable, whose text is harmless."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: rich_console.Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


class _Harmless(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(renderable) for renderable in renderables]


def harmless_console(**options: Any) -> Console:
    """A console that sends no text to the terminal's controls, whoever wrote it; `options` are rich's."""
    made = Console(highlight=False, emoji=False, **options)  # `:lock:` is a name
    made.push_render_hook(_Harmless())
    return made


#: Progress and warnings go to standard error, so that results can be piped.
console = harmless_console(stderr=True)

PLAIN_INTERVAL_S = 15.0


_noted: set[str] = set()


def note(text: str, *, once: bool = False) -> None:
    """One plain line to standard error; `once`: unless it was said before."""
    if once and text in _noted:
        return
    _noted.add(text)
    console.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """One warning line to standard error."""
    console.print(f"krepro: warning: {text}", style="yellow", markup=False, soft_wrap=True)


class Step:
    """One running job of known or unknown length; `advance` is cheap enough to call per output line."""

    def __init__(self, label: str, total: float | None, bar: Progress | None, *, leads: bool = False) -> None:
        self.label = label
        self.total = total
        self.leads = leads
        self.done = 0.0
        self.started = time.monotonic()
        self._bar = bar
        self._task = bar.add_task(harmless(label), total=total) if bar else None
        self._last = self.started

    def advance(self, amount: float = 1.0, detail: str = "") -> None:
        self.done += amount
        if self._bar is not None and self._task is not None:
            total = None if self.total is None else max(self.total, self.done)
            description = harmless(f"{self.label} {detail}")  # a bar is drawn past the hooks of its console
            self._bar.update(self._task, completed=self.done, total=total, description=description)
            return
        if _wholes:
            _wholes[-1].told()
            return
        now = time.monotonic()
        if now - self._last >= PLAIN_INTERVAL_S:
            self._last = now
            note(f"{self.label}: {self._plain(now)} {detail}".rstrip())

    @property
    def left(self) -> float | None:
        """Seconds, by its pace; None while that cannot be told."""
        elapsed = time.monotonic() - self.started
        if not self.total or self.done < PACE * self.total or elapsed < 1.0:
            return None
        return elapsed / self.done * max(self.total - self.done, 0.0)

    def _plain(self, now: float) -> str:
        elapsed = now - self.started
        if not self.total or not self.done:
            return f"{self.done:.0f} done, {elapsed:.0f} s"
        left = elapsed / self.done * max(self.total - self.done, 0.0)
        return f"{self.done:.0f} of {self.total:.0f}, {elapsed:.0f} s, about {left:.0f} s left"


class Whole:
    """All stages of a command as one line: what it does, the share that is done, the time that is left."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._expected: list[float] = []
        self._begun = self._since = self._last = time.monotonic()
        self._share = 0.0

    def expect(self, seconds: Sequence[float]) -> None:
        """What this stage and each of those to come will take, s; the last one to say so is right."""
        self._expected = list(seconds)

    def next_stage(self) -> None:
        """A stage has ended, and the next one begins."""
        self._expected[:1] = []
        self._since = time.monotonic()

    @property
    def left(self) -> float | None:
        """Seconds, by the pace of the step that leads its stage, else by what was expected; None where nothing was."""
        if not self._expected:
            return None
        stage, *later = self._expected
        paces = [pace for one in self.steps if one.leads and (pace := one.left) is not None]
        own = paces[-1] if paces else max(stage - (time.monotonic() - self._since), 0.0)
        return own + sum(later)

    @property
    def share(self) -> float:
        """Of the time, the part that is over; it does not shrink where more is left than was thought."""
        elapsed, left = time.monotonic() - self._begun, self.left
        if left is not None and elapsed + left > 0:
            self._share = max(self._share, min(elapsed / (elapsed + left), 0.99))
        return self._share

    @property
    def label(self) -> str:
        """What is done now, and how much of it where that is counted."""
        if not self.steps:
            return "preparing" if len(self._expected) != 1 else "analysing"
        step_ = self.steps[-1]
        counted = f" {step_.done:.0f}/{step_.total:.0f}" if step_.leads and step_.total else ""
        return harmless(f"{step_.label}{counted}")

    def told(self) -> None:
        """Where no terminal shows the line, say it from time to time."""
        now = time.monotonic()
        if not console.is_terminal and now - self._last >= PLAIN_INTERVAL_S:
            self._last = now
            left = self.left
            time_left = "" if left is None else f", about {left:.0f} s left"
            note(f"{self.label}: {self.share:.0%} of all{time_left}")

    def __rich__(self) -> RenderableType:
        left = self.left
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True, overflow="ellipsis", max_width=max(console.width - LINE_REST, 12))
        for _ in range(3):
            line.add_column(no_wrap=True)
        time_left = "" if left is None else f"{int(left) // 60}:{int(left) % 60:02d} left"
        bar = ProgressBar(total=1.0, completed=self.share, width=20)
        line.add_row(Text(self.label), bar, Text(f"{self.share:4.0%}"), Text(time_left))
        return line


#: Width of the line's other parts than what is done now.
LINE_REST = 40
#: Of a step that much must be done before its pace tells what is left.
PACE = 0.05
_wholes: list[Whole] = []


@contextmanager
def whole() -> Iterator[Whole]:
    """One line for all steps of the block, in place of a bar for each."""
    made = Whole()
    _wholes.append(made)
    try:
        if console.is_terminal:
            with Live(made, console=console, transient=True, refresh_per_second=4):
                yield made
        else:
            yield made
    finally:
        _wholes.remove(made)


@contextmanager
def step(label: str, total: float | None = None, *, leads: bool = False) -> Iterator[Step]:
    """Show `label` while the block runs; on a terminal as a bar with an estimate.

    In a `whole` it is named in that one's line. Where it `leads`, its pace tells how long the stage will take.
    """
    if _wholes:
        steps = _wholes[-1].steps
        current = Step(label, total, None, leads=leads)
        steps.append(current)
        try:
            yield current
        finally:
            steps.remove(current)
        stagetimes.ended(label, current.started)
        return
    if console.is_terminal:
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()]
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
            current = Step(label, total, bar)
            yield current
    else:
        current = Step(label, total, None)
        yield current
    stagetimes.ended(label, current.started)
    elapsed = time.monotonic() - current.started
    if elapsed >= 1.0:
        note(f"{label}: {elapsed:.1f} s")
    sys.stderr.flush()
