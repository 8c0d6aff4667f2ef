# SPDX-License-Identifier: MIT
"""Progress for anything longer than a second: rich bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from rich import console as rich_console
from rich.console import ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

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
    made = Console(highlight=False, **options)
    made.push_render_hook(_Harmless())
    return made


#: Progress and warnings go to standard error, so that results can be piped.
console = harmless_console(stderr=True)

PLAIN_INTERVAL_S = 15.0


def note(text: str) -> None:
    """One plain line to standard error."""
    console.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """One warning line to standard error."""
    console.print(f"krepro: warning: {text}", style="yellow", markup=False, soft_wrap=True)


class Step:
    """One running job of known or unknown length; `advance` is cheap enough to call per output line."""

    def __init__(self, label: str, total: float | None, bar: Progress | None) -> None:
        self.label = label
        self.total = total
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
        now = time.monotonic()
        if now - self._last >= PLAIN_INTERVAL_S:
            self._last = now
            note(f"{self.label}: {self._plain(now)} {detail}".rstrip())

    def _plain(self, now: float) -> str:
        elapsed = now - self.started
        if not self.total or not self.done:
            return f"{self.done:.0f} done, {elapsed:.0f} s"
        left = elapsed / self.done * max(self.total - self.done, 0.0)
        return f"{self.done:.0f} of {self.total:.0f}, {elapsed:.0f} s, about {left:.0f} s left"


@contextmanager
def step(label: str, total: float | None = None) -> Iterator[Step]:
    """Show `label` while the block runs; on a terminal as a bar with an estimate."""
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
