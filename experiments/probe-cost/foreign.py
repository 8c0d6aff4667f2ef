# SPDX-License-Identifier: MIT
"""A script in another tool's language: each of its probes into the model, or named as one without a price.

It is what that tool compiled (bpftrace, clang), or what it would have the kernel record (perf, tracefs).
Nothing is taken for granted silently: what is not known is asked for, bounded, or named.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from harness.errors import UsageError
from harness.yamlfile import Strict, about

from .copies import copies_at
from .model import compiled
from .model.compiled import Executed
from .model.cost import TRACE_POINTS, Call, Consumer, CostModel, Counts, Probe, Program, Script
from .model.firing import KEPT
from .model.prediction import predict
from .recorded import LIKELY_FRAMES, MOST_FRAMES, Event, Filled, Unpriced

#: What a firing of an empty program takes, which is in the stage `program`.
BARE = 3
#: Of a string whose length nobody tells: as many as bpftrace 0.17 has room for. 0.23 has room for 1,024.
LIKELY_CHARACTERS = 64.0
#: Providers that a kind of probe of bpftrace's may be, the likely one first; of several the place decides.
KINDS: Mapping[str, tuple[str, ...]] = {
    "kprobe": ("kprobe-ftrace",),
    "kprobe+": ("kprobe-int3", "kprobe-optimised"),
    "kretprobe": ("kretprobe",),
    "tracepoint": ("tracepoint",),
    "rawtracepoint": ("raw-tracepoint",),
    "uprobe": ("uprobe", "uprobe-step"),
    "uretprobe": ("uretprobe",),
    "usdt": ("usdt",),
    "kfunc": ("fprobe",),
}
#: Trace points where all system calls pass.
_RAW = "raw_syscalls:sys_"
ONCE = ("BEGIN", "END")
#: What an event takes more that wakes up who waits for it; what that one takes at least.
WAKES = {"perf": ("wake", "woken"), "ring": ("ring-wake", "ring-woken")}
WAKE_UPS = tuple(wake for wake, _ in WAKES.values())
_PERIODS = {"hz": 1e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


class Compiled(Strict):
    """One program of the tool's."""

    probe: Annotated[str, about("as the script names it; several are separated by commas")]
    code: Annotated[str, about("its instructions, in hexadecimal digits")]


class Table(Strict):
    """A map of the programs; its number is its place."""

    name: Annotated[str, about("in the script")]
    kind: Annotated[str, about("`percpu`, `hash`, `stack` or `perf`")]
    key: Annotated[float, about("of a key", "bytes")] = Field(ge=0)


class Foreign(Strict):
    """What a tool makes of a script, and how often its probes fire."""

    tool: Annotated[str, about("that compiled it, or would record")]
    programs: Annotated[list[Compiled], about("in the script's order")] = []
    events: Annotated[list[Event], about("that are recorded without a program")] = []
    unpriced: Annotated[list[Unpriced], about("known to have no price")] = []
    notes: Annotated[list[str], about("on the whole script")] = []
    maps: Annotated[list[Table], about("by number")] = []
    seconds: Annotated[float, about("that the firings were counted for", "s")] = Field(default=1.0, gt=0)
    cpus: Annotated[int, about("of the machine", "CPUs")] = Field(default=1, ge=1)
    firings: Annotated[dict[str, float], about("by probe, in that time", "firings")] = {}
    passes: Annotated[dict[str, float], about("share of firings that no filter ends, by probe", "ratio")] = {}
    frames: Annotated[dict[str, float], about("of the stacks that a probe takes, on average, by probe", "frames")] = {}
    syscalls: Annotated[float | None, about("of all kinds, in that time; null: not counted", "calls")] = None
    base: Annotated[float | None, about("that a program takes in that time, untraced; null: no program", "instr")] = (
        None
    )
    counted_on: Annotated[str | None, about("kernel of the guest that they were counted in; null: this host's")] = None
    budget: Annotated[float | None, about("of a CPU's time, to stay below; null: none", "ratio")] = None
    absent: Annotated[dict[str, str], about("why a probe's firings could not be counted, by probe")] = {}

    @model_validator(mode="after")
    def _something(self) -> Foreign:
        if not (self.programs or self.events or self.unpriced):
            raise ValueError("a script without a probe")
        return self


@dataclass
class Priced:
    """One probe of the script as the model has it: as it likely is, at least, and at most.

    `firings` is None where nobody has counted them.
    """

    probe: str
    provider: str
    likely: Probe
    least: Probe
    most: Probe
    firings: float | None
    accepted: Executed
    notes: list[str] = field(default_factory=list)

    def calls(self) -> list[Call]:
        """The helpers that it is likely to call."""
        return [call for consumer in self.likely.consumers if consumer.program for call in consumer.program.calls]


@dataclass
class Reading:
    """What a script is made of: what has a price, and what has none, with the reason."""

    priced: list[Priced]
    unpriced: list[tuple[str, str]]


def read(script: Foreign, model: CostModel) -> Reading:
    """Each probe of the script by itself."""
    found = Reading([], [(one.probe, one.why) for one in script.unpriced])
    maps = {number: compiled.Map(table.kind, table.key) for number, table in enumerate(script.maps)}
    for program in script.programs:
        try:
            code = compiled.Program(bytes.fromhex(program.code), maps)
            executed = code.accepted
        except (ValueError, UsageError) as error:
            found.unpriced.append((program.probe, str(error)))
            continue
        if code.unknown:
            found.unpriced.append(
                (program.probe, f"it calls {', '.join(sorted(set(code.unknown)))}, which has no price")
            )
            continue
        for probe in _split(program.probe):
            _one(found, script, model, probe, code, executed)
    for event in script.events:
        _event(found, script, model, event)
    return found


def _split(probes: str) -> Iterator[str]:
    """The probes of a program; a comma in a path is none of ours."""
    yield from (probe.strip() for probe in probes.split(",") if probe.strip())


def _one(
    found: Reading, script: Foreign, model: CostModel, probe: str, code: compiled.Program, executed: Executed
) -> None:
    place = _place(model, probe)
    if isinstance(place, str):
        found.unpriced.append((probe, place))
        return
    names, rest, period = place
    passes = _told(script.passes, probe)
    notes = _of_place(names, rest)
    if code.filters and passes is None:
        notes.append("it has a filter; how often a firing passes is not told: least is never, most is always")
    if code.parts_ways:
        notes.append("its way hangs on data: half of the firings are taken to go each way")
    passing = 1.0 if passes is None or not code.filters else passes
    kept = code.keeps and names[0] in TRACE_POINTS and KEPT in model.calls
    always = Executed(0.0, {(KEPT, 0.0): 1.0} if kept else {})
    whole, rejected = _waking(executed, model).plus(always), code.rejected.plus(always)
    mean = Executed().plus(whole, passing).plus(rejected, 1 - passing) if passing < 1 else whole
    unsure = code.filters and passes is None
    firings = _firings(script, probe, period)
    frames = _told(script.frames, probe)
    if frames is None and any(name == "stack" for name, _ in executed.calls):
        notes.append(
            f"how deep its stacks are is not told: taken are {LIKELY_FRAMES} frames, least 1, most {MOST_FRAMES}"
        )
    if any(name in ("string", "ustring") for name, _ in executed.calls):
        notes.append(
            f"how long its strings are is not told: taken are {LIKELY_CHARACTERS:.0f} characters where there is room, "
            "least 1, most all that there is room for"
        )
    if any(name in WAKE_UPS for name, _ in whole.calls):
        notes.append("its event is taken to wake the tool up; least: never, for a tool that still prints is awake")
    if code.any_map:
        notes.append("which map it asks is not known: priced as a hash of each CPU with a key of 8 bytes")
    copied = copies_at(model, names[0], rest)
    notes += [*copied.notes, _made_of(executed)]
    depths = (frames, frames, frames) if frames is not None else (LIKELY_FRAMES, 1.0, MOST_FRAMES)
    ways = (
        (names[0], mean, _Data(depths[0], LIKELY_CHARACTERS, wakes=True)),
        (names[0], rejected if unsure else mean, _Data(depths[1], 1.0, wakes=False)),
        (names[-1], mean, _Data(depths[2], math.inf, wakes=True)),
    )
    likely, least, most = (_probe(name, rest, _filled(one, data), firings, period) for name, one, data in ways)
    least, likely, most = (
        one.model_copy(update={"fields": fields})
        for one, fields in zip((least, likely, most), copied.ends, strict=True)
    )
    found.priced.append(Priced(probe, names[0], likely, least, most, firings, executed, notes))


def _made_of(executed: Executed) -> str:
    calls = ", ".join(sorted({name for name, _ in executed.calls})) or "nothing"
    return f"an eBPF program, {executed.instructions:.0f} instructions a firing, that calls {calls}"


def _event(found: Reading, script: Foreign, model: CostModel, event: Event) -> None:
    """A probe that perf or tracefs listens to."""
    place = _place(model, event.probe)
    if isinstance(place, str):
        found.unpriced.append((event.probe, place))
        return
    names, rest, period = place
    told = _told(script.passes, event.probe), _told(script.frames, event.probe)
    filled = Filled(event, *told, samples=period is not None)
    firings = _firings(script, event.probe, period)
    copied = copies_at(model, names[0], rest)
    least, likely, most = (
        _at(name, rest, firings, period).model_copy(update={"consumers": consumers, "fields": fields.plus(more)})
        for name, (consumers, fields), more in (
            (names[0], filled.least(), copied.ends[0]),
            (names[0], filled.likely(), copied.ends[1]),
            (names[-1], filled.most(), copied.ends[2]),
        )
    )
    try:
        for probe in (likely, most):
            fired = None if period is not None else 1.0
            one = probe.model_copy(update={"firings": fired})
            predict(model, Script(workload=Counts(cost=1e15), probes=[one]))
    except UsageError as error:
        found.unpriced.append((event.probe, error.message))
        return
    notes = [*_of_place(names, rest), *filled.notes(), *copied.notes]
    found.priced.append(Priced(event.probe, names[0], likely, least, most, firings, Executed(), notes))


def _place(model: CostModel, probe: str) -> tuple[list[str], str, float | None] | str:
    """Who serves a probe, the likely one first; its name behind the kind; its period. Or why it has no price."""
    kind, _, rest = probe.partition(":")
    if kind in ONCE:
        return "it runs once, when the trace begins or ends"
    if kind == "interval":
        return "a timer of bpftrace's own process, as is what it prints"
    period = None
    if kind == "profile":
        unit, _, number = rest.partition(":")
        if unit not in _PERIODS or not number.isdecimal() or not int(number):
            return f"its period {rest!r} is not known"
        period = _PERIODS[unit] / int(number) if unit == "hz" else _PERIODS[unit] * int(number)
    names = ["sample"] if period else _providers(kind, rest)
    names = [name for name in names if name in model.providers]
    return (names, rest, period) if names else f"the model has no provider for {kind}"


def _of_place(names: list[str], rest: str) -> list[str]:
    notes = []
    if len(names) > 1:
        notes.append(f"its place decides between {' and '.join(names)}")
    if any(char in rest for char in "*?["):
        notes.append("a pattern: so many probes as it meets, each with this cost a firing")
    if rest.startswith(_RAW):
        notes.append("priced as a call's own trace point: both make every call take the slow way")
    return notes


def _firings(script: Foreign, probe: str, period: float | None) -> float | None:
    firings = _told(script.firings, probe)
    if period is not None and firings is None:
        return script.cpus * script.seconds * 1e9 / period
    return firings


class _Data(NamedTuple):
    """What a program's data decides: a stack's frames, a string's characters at most, whether an event wakes a tool."""

    frames: float
    characters: float
    wakes: bool


def _filled(executed: Executed, data: _Data) -> Executed:
    calls: dict[tuple[str, float], float] = {}
    for (name, size), times in executed.calls.items():
        if name in WAKE_UPS and not data.wakes:
            continue
        told = data.frames if name == "stack" else min(data.characters, size) if name in ("string", "ustring") else size
        calls[name, told] = calls.get((name, told), 0.0) + times
    return Executed(executed.instructions, calls)


def _providers(kind: str, rest: str) -> list[str]:
    if kind == "tracepoint" and rest.startswith(("syscalls:sys_enter_", f"{_RAW}enter")):
        return ["syscall"]
    if kind == "tracepoint" and rest.startswith(("syscalls:sys_exit_", f"{_RAW}exit")):
        return ["syscall-return"]
    if kind == "kprobe" and "+" in rest:
        return list(KINDS["kprobe+"])
    return list(KINDS.get(kind, ()))


def _told(told: Mapping[str, float], probe: str) -> float | None:
    """What is told of a probe, by its name or by a pattern."""
    if probe in told:
        return told[probe]
    return next((value for name, value in told.items() if fnmatch.fnmatchcase(probe, name)), None)


def _waking(executed: Executed, model: CostModel) -> Executed:
    """With what it takes to wake up the tool's own process, which waits for events; where the model has that.

    A program is not preempted: of several events of one firing the first wakes it up, and it runs behind the last.
    """
    for kind, (wake, _) in WAKES.items():
        events = max((times for (name, _), times in executed.calls.items() if name == kind), default=0.0)
        if events and wake in model.calls:
            executed = executed.plus(Executed(0.0, {(wake, 0.0): min(1.0, events)}))
    return executed


def _probe(provider: str, rest: str, executed: Executed, firings: float | None, period: float | None) -> Probe:
    calls = [Call(name=name, bytes=size, times=times) for (name, size), times in sorted(executed.calls.items())]
    program = Program(instructions=max(0.0, executed.instructions - BARE), calls=calls)
    return _at(provider, rest, firings, period).model_copy(update={"consumers": [Consumer(program=program)]})


def _at(provider: str, rest: str, firings: float | None, period: float | None) -> Probe:
    if period is not None:
        return Probe(provider=provider, point=f"{period:g}", period_ns=period)
    return Probe(provider=provider, point=rest.replace(":", "/", 1), firings=firings or 0.0)
