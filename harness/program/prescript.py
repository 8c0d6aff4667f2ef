# SPDX-License-Identifier: MIT
"""A script to predict, as a command line names it, into the file that an experiment's hook `predict` reads.

What another tool would trace is written as JSON, with how often its probes fire; any other file is the experiment's
own. Which tool is meant, a command line's first word tells, a file's suffix, or what a folder has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Protocol

from pydantic import Field
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.program import bpftrace, live
from harness.program.firings import count_in_guest
from harness.program.scripts import bpfobject, dtrace, perf, tracecmd, tracefs
from harness.program.scripts.asked import Asked, brief, commands
from harness.program.subject import TraceRequest
from harness.yamlfile import Strict, about, load_model

#: Where all system calls pass: a probe on one of them costs the others too.
ALL_CALLS = "tracepoint:raw_syscalls:sys_enter"
#: What a bpftrace script has and no name of a file.
_TEXT = "{"
#: Tools whose command lines are read.
_TOOLS = ("perf", "trace-cmd", "dtrace")
_OWN = (".yaml", ".yml")


class Traced(Protocol):
    """What a tool would trace."""

    def probes(self) -> list[str]:
        """By bpftrace's names, as they are counted."""

    def as_data(self) -> dict[str, Any]:
        """In JSON, for an experiment's hook `predict`."""


@dataclass(frozen=True)
class Wanted:
    """What a command was asked for beside a script; fields as its options."""

    live: int | None = None
    rates: Path | None = None
    below: str | None = None
    program: TraceRequest | None = None


NOTHING = Wanted()


class Rates(Strict):
    """How often probes fire: the file of --set."""

    seconds: Annotated[float, about("that the firings are of", "s")] = Field(default=1.0, gt=0)
    cpus: Annotated[int, about("of the machine", "CPUs")] = Field(default=1, ge=1)
    firings: Annotated[dict[str, float], about("by probe, or by a pattern of probes", "firings")] = {}
    passes: Annotated[dict[str, float], about("share of firings that no filter ends, by probe", "ratio")] = {}
    frames: Annotated[dict[str, float], about("of the stacks that a probe takes, on average, by probe", "frames")] = {}
    syscalls: Annotated[float | None, about("of all kinds; null: not counted", "calls")] = None


def is_script(text: str) -> bool:
    """Whether a word names a script and no document or result set."""
    path = Path(text)
    return _tool(text) is not None or _TEXT in text or path.suffix in (*_FILES, *_OWN) or tracefs.is_tracefs(path)


def _tool(text: str) -> str | None:
    """The tool whose command line this is."""
    words = text.split()[:3]
    first = words[1:] if words[:1] == ["sudo"] else words
    return first[0] if len(first) > 1 and first[0] in _TOOLS else None


@contextmanager
def readable(script: str, wanted: Wanted, console: Console) -> Iterator[Path]:
    """The file for the hook. UsageError for a script that is not there, or is refused by its own tool."""
    made = _traced(script)
    if made is None:
        if wanted != NOTHING:
            raise UsageError("--live, --set, --below and -- PROGRAM are for other tools' scripts", where=brief(script))
        yield Path(script)
        return
    data = made.as_data()
    with TemporaryDirectory(prefix="krepro-predict-") as scratch:
        file = Path(scratch) / "script.json"
        file.write_text(json.dumps(data | _counted(made, wanted, console)))
        yield file


def _traced(script: str) -> Traced | None:
    """What the script's tool would trace; None for a file that is the experiment's own."""
    tool = _tool(script)
    if tool is not None:
        return _of_line(tool, commands(script))
    if _TEXT in script:
        return _of_d(script, []) if dtrace.is_d(script) else bpftrace.compiled(script)
    path = Path(script)
    if tracefs.is_tracefs(path):
        return tracefs.read(path)
    of_file = _FILES.get(path.suffix)
    return of_file(path) if of_file is not None else None


def _of_line(tool: str, lines: list[list[str]]) -> Traced:
    """What a command line asks for."""
    if tool == "dtrace":
        return _of_d(*dtrace.of_command(lines))
    return perf.read(lines) if tool == "perf" else tracecmd.read(lines)


def _of_d(text: str, notes: list[str]) -> Asked:
    """D as bpftrace compiles what is nearest to it."""
    near = dtrace.read(text)
    made = bpftrace.compiled(near.text, "what is nearest to this D in its language")
    programs = [(",".join(bpftrace.split(probe)), code) for probe, code in made.programs]
    unpriced, notes = [*near.unpriced, *made.unpriced], [*notes, *near.notes, *made.notes]
    return Asked(made.version, programs=programs, maps=list(made.maps), unpriced=unpriced, notes=notes)


_FILES: dict[str, Callable[[Path], Traced]] = {
    ".bt": lambda path: bpftrace.compiled(_read(path), str(path)),
    ".d": lambda path: _of_d(_read(path), []),
    ".o": bpfobject.read,
}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"cannot be read: {why}", where=str(path), hint="name a script") from error


def _counted(made: Traced, wanted: Wanted, console: Console) -> dict[str, Any]:
    found: dict[str, Any] = {"cpus": os.cpu_count() or 1}
    if wanted.rates is not None:
        found = load_model(wanted.rates, Rates).model_dump()
    probes = made.probes()
    counted = None
    if wanted.live is not None:
        counted = live.count([*probes, ALL_CALLS], wanted.live)
    elif wanted.program is not None:
        counted = count_in_guest(Store.default(), wanted.program, [*probes, ALL_CALLS], console)
    if counted is not None:
        # What the file tells of other probes is brought to the time that is counted here.
        times = counted.seconds / found.get("seconds", 1.0)
        told = {name: count * times for name, count in found.get("firings", {}).items()}
        found |= {
            "seconds": counted.seconds,
            "cpus": counted.cpus,
            "syscalls": counted.firings.get(ALL_CALLS),
            "firings": {**told, **counted.firings},
            "absent": counted.absent,
        }
        if counted.base is not None:
            found |= {"base": counted.base, "counted_on": counted.kernel}
    if wanted.below is not None:
        found["budget"] = _per_cent(wanted.below)
    return found


def _per_cent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise UsageError(f"--below {text}: must be a number of per cent, above 0 and below 100")
    return value / 100
