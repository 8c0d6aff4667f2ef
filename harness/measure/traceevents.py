# SPDX-License-Identifier: MIT
"""The JSON trace event format of Chrome ("Trace Event Format"), which https://ui.perfetto.dev reads.

Here all times are in ns; the file has µs, to the ns. Of one track, slices must lie in each other or not meet, those
around others first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

#: What a tracer calls its time line, beside its page.
TIME_LINE = "perfetto.json"
#: Perfetto leaves out slices that lie deeper.
MOST_DEPTH = 512

Event = dict[str, Any]
Args = Mapping[str, object]


def write_events(events: Iterable[Event], path: Path, unit: Literal["ms", "ns"] = "ns") -> None:
    """Write them as they come, a line each. `unit`: of the times that Chrome's own viewer shows."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"displayTimeUnit": "{unit}", "traceEvents": [\n')
        for number, event in enumerate(events):
            file.write((",\n" if number else "") + json.dumps(event, ensure_ascii=False))
        file.write("\n]}\n")


def process_name(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def thread_name(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def time_slice(
    name: str, pid: int, tid: int, start: float, duration: float, *, cat: str = "", args: Args | None = None
) -> Event:
    return _at("X", name, pid, tid, start, cat) | {"dur": _us(duration)} | ({"args": dict(args)} if args else {})


def instant(name: str, pid: int, tid: int, at: float, *, cat: str = "") -> Event:
    return _at("i", name, pid, tid, at, cat) | {"s": "t"}


def counter(name: str, pid: int, at: float, values: Args) -> Event:
    """Holds until the next one of that name."""
    return {"ph": "C", "name": name, "pid": pid, "ts": _us(at), "args": dict(values)}


def arrow(number: int, name: str, cat: str, pid: int, tids: tuple[int, int], at: float) -> tuple[Event, Event]:
    """Its two ends, from the slice of the first track at that moment to the one of the second; `number` is its own."""
    first, last = (_at(kind, name, pid, tid, at, cat) | {"id": number} for kind, tid in zip("sf", tids, strict=True))
    return first, last | {"bp": "e"}


def _at(kind: str, name: str, pid: int, tid: int, at: float, cat: str) -> Event:
    return {"ph": kind, "name": name, **({"cat": cat} if cat else {}), "pid": pid, "tid": tid, "ts": _us(at)}


def _us(ns: float) -> float:
    return round(ns / 1e3, 3)
