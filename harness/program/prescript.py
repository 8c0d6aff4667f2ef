# SPDX-License-Identifier: MIT
"""A script to predict, as a command line names it, into the file that an experiment's hook `predict` reads.

A script of bpftrace's is compiled by bpftrace and written as JSON, with how often its probes fire; any other file is
the experiment's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.program import bpftrace, live
from harness.program.firings import count_in_guest
from harness.program.subject import TraceRequest
from harness.yamlfile import Strict, about, load_model

#: Where all system calls pass: a probe on one of them costs the others too.
ALL_CALLS = "tracepoint:raw_syscalls:sys_enter"
#: What a bpftrace script has and no name of a file.
_TEXT = "{"


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
    return _TEXT in text or Path(text).suffix in (".bt", ".yaml", ".yml")


@contextmanager
def readable(script: str, wanted: Wanted, console: Console) -> Iterator[Path]:
    """The file for the hook. UsageError for a script that is not there, or is refused by its own tool."""
    path = Path(script)
    if _TEXT not in script and path.suffix != ".bt":
        if wanted != NOTHING:
            raise UsageError("--live, --set, --below and -- PROGRAM are for scripts of bpftrace's", where=str(path))
        yield path
        return
    text = script if _TEXT in script else _read(path)
    made = bpftrace.compiled(text, str(path) if _TEXT not in script else "the script")
    with TemporaryDirectory(prefix="krepro-predict-") as scratch:
        file = Path(scratch) / "script.json"
        file.write_text(json.dumps(made.as_data() | _counted(made, wanted, console)))
        yield file


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"cannot be read: {why}", where=str(path), hint="name a script of bpftrace's") from error


def _counted(made: bpftrace.Compiled, wanted: Wanted, console: Console) -> dict[str, Any]:
    found: dict[str, Any] = {"cpus": os.cpu_count() or 1}
    if wanted.rates is not None:
        found = load_model(wanted.rates, Rates).model_dump()
    probes = [one for probe, _ in made.programs for one in bpftrace.split(probe)]
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
