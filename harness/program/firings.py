# SPDX-License-Identifier: MIT
"""How often probes fire while a user's own program runs in a guest, and what it takes there when nothing is traced.

Two runs, both the same to the instruction up to what counts: one with nothing in it, which tells what the program
takes; and one in which perf's counters count, which record nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EINVAL, ENOENT, EOPNOTSUPP
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import RunError
from harness.measure.binary import Binary
from harness.measure.symbols import SymbolMap, read_system_map
from harness.measure.tracer import Traced
from harness.oracle.reader import LAP, Oracle
from harness.program.guestrun import exit_status, traced
from harness.program.insideguest import GUEST_PATH
from harness.program.live import Counted
from harness.program.probenames import counts_time, split_probe
from harness.program.subject import Subject, TraceRequest, subject
from harness.progress import note

#: Kinds that a counter of another kind counts as well.
SAME_PLACE = {"kfunc": "kprobe", "fentry": "kprobe", "kretfunc": "kretprobe", "fexit": "kretprobe"}
#: Of bpftrace's own process.
SILENT = ("BEGIN", "END", "profile", "interval")
#: What the guest leaves: of each probe; and which functions can be probed, if a pattern was asked for.
COUNTED, TRACEABLE = "counted", "traceable"


def count_in_guest(store: Store, request: TraceRequest, probes: Sequence[str], console: Console) -> Counted:
    """Run the program twice. RunError when it ends otherwise the second time; what cannot be counted has a reason."""
    with subject(store, request) as it:
        plain = traced(store, it, it.kernel, console)
        symbols = read_system_map(plain.system_map)
        functions = Oracle(plain.raw).functions(symbols, kind=LAP)
        named = {probe: _in_guest(probe, it) for probe in dict.fromkeys(probes)}
        wanted = [one.name for one in named.values() if one.name]
        counting = replace(it, request=replace(request, params={"counted": " ".join(wanted)}))
        program = traced(store, counting, it.kernel, console)
        if (before := exit_status(plain)) != (after := exit_status(program)):
            raise RunError(f"the program ended with exit status {before}, and where probes were counted with {after}")
        if before:
            note(f"the program ended with exit status {before}")
        nanoseconds, found = _read(program.left / COUNTED)
        firings: dict[str, float] = {}
        absent: dict[str, str] = {}
        for probe, one in named.items():
            if one.why_not:
                absent[probe] = one.why_not
            elif one.name and _is_pattern(one.name):
                firings[probe] = _matching(functions, symbols, one.name, program)
            elif one.name and found[one.name] >= 0:
                firings[probe] = found[one.name]
            elif one.name:
                absent[probe] = why_not(-found[one.name], one.name)
        return Counted(
            firings, absent, seconds=nanoseconds / 1e9, cpus=1, base=int(functions["instructions"].sum()),
            kernel=it.kernel,
        )  # fmt: skip


@dataclass(frozen=True)
class _Named:
    """What the guest's counter calls a probe; or why it cannot be counted. Neither where there is nothing to count."""

    name: str | None = None
    why_not: str | None = None


def _in_guest(probe: str, it: Subject) -> _Named:
    kind, rest = split_probe(probe)
    kind = SAME_PLACE.get(kind, kind)
    name = None
    if kind == "tracepoint":
        if (why := counts_time(rest)) is not None:
            return _Named(why_not=why)
        name = f"{kind}:{rest}"
    elif kind == "rawtracepoint":
        name = f"tracepoint:*:{rest}"
    elif kind in ("kprobe", "kretprobe"):
        name = f"{kind}:{rest.rpartition(':')[2]}"
    elif kind in ("uprobe", "uretprobe"):
        place = place_of(rest, it.things.root)
        if place is None:
            return _Named(why_not=f"the program's files have no such function: {rest}")
        name = f"{kind}:{place}"
    elif kind not in SILENT:
        return _Named(why_not=f"nothing counts a {kind}")
    return _Named(why_not="its name has a blank") if name and " " in name else _Named(name)


def place_of(rest: str, root: Path) -> str | None:
    """FILE:OFFSET of FILE:FUNCTION or FILE:FUNCTION+OFFSET."""
    file, _, function = rest.rpartition(":")
    name, _, offset = function.partition("+")
    folders = [""] if "/" in file else [f"{folder}/" for folder in GUEST_PATH.split(":")]
    for path in (root / f"{folder}{file}".lstrip("/") for folder in folders):
        binary = Binary(path)
        for symbol in binary.functions:
            if symbol.name == name and (at := binary.offset_of(symbol.first)) is not None:
                return f"/{path.relative_to(root)}:{at + int(offset or '0', 0):#x}"
    return None


def _is_pattern(name: str) -> bool:
    kind, _, rest = name.partition(":")
    return kind in ("kprobe", "kretprobe") and any(char in rest for char in "*?[")


def _matching(functions: pd.DataFrame, symbols: SymbolMap, name: str, program: Traced) -> int:
    """How often functions were entered that a pattern means and that can be probed, as the oracle has counted."""
    pattern = name.partition(":")[2]
    lines = (program.left / TRACEABLE).read_text().splitlines()
    meant = {function for function in (line.partition(" ")[0] for line in lines) if fnmatchcase(function, pattern)}
    addresses = symbols.alias_address[np.isin(symbols.alias_name, sorted(meant))]
    return int(functions.loc[functions["address"].isin(addresses), "entries"].sum())


def _read(path: Path) -> tuple[int, Mapping[str, int]]:
    """Nanoseconds, and by name the firings, or minus an errno."""
    try:
        first, *lines = path.read_text().splitlines()
        return int(first), dict(_pairs(lines))
    except (OSError, ValueError) as error:
        raise RunError(f"the guest counted nothing: {error}", where=str(path)) from error


def _pairs(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        number, _, name = line.partition(" ")
        yield name, int(number)


def why_not(error: int, name: str) -> str:
    kind, _, rest = name.partition(":")
    if error in (ENOENT, EINVAL):
        return f"this kernel has no {kind} {rest}"
    return f"nothing counts a {kind}" if error == EOPNOTSUPP else f"perf_event_open: {os.strerror(error)}"
