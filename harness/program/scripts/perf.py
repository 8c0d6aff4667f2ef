# SPDX-License-Identifier: MIT
"""Command lines of perf: `record`, `trace` and `stat`, after what `perf probe` defines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from getopt import GetoptError, getopt

from harness.errors import UsageError
from harness.program.scripts import perfprobe
from harness.program.scripts.asked import RAW, Asked, Consumer, Event, is_number, trace_points
from harness.program.scripts.fetched import Place
from harness.program.scripts.filters import filter_of

#: What perf takes where neither -F nor -c is given.
DEFAULT_HZ = 4000
CLOCKS = ("cpu-clock", "task-clock")
CYCLES = ("cycles", "cpu-cycles")
_SOFTWARE = """
    page-faults faults minor-faults major-faults context-switches cs cpu-migrations migrations alignment-faults
    emulation-faults dummy bpf-output cgroup-switches
"""
SOFTWARE = frozenset(_SOFTWARE.split())
#: Behind a colon a counter of the CPU's has letters that say whose events it counts.
_TRACE_POINT = re.compile(r"(?P<system>[\w*?\[\]-]+):(?![ukhGHpPSDWIe]+$)(?P<name>[\w*?\[\]-]+)(?::(?P<whose>\w+))?")
_WORD = re.compile(r"(?P<name>[\w-]+)(?::(?P<whose>\w+))?")
#: Options by kind of command: those that say what is traced, short and long; others that change no price, and that do.
_EVENTS = ("e:", ("event=", "filter="))
_IGNORED = {
    "record": ("aqvnRTdsWBi:o:m:C:S", ("all-cpus", "output=", "quiet", "verbose", "mmap-pages=", "cpu=", "clockid=",
                                       "no-buildid", "no-buildid-cache", "buildid-all", "timestamp", "period",
                                       "no-inherit", "overwrite", "switch-output=", "max-size=", "namespaces",
                                       "sample-cpu", "strict-freq", "no-samples")),
    "stat": ("aABvr:x:o:I:C:D:d", ("all-cpus", "output=", "repeat=", "interval-print=", "interval-count=", "timeout=",
                                   "per-core", "per-socket", "per-thread", "no-aggr", "cpu=", "delay=", "null",
                                   "field-separator=", "append", "metric-only", "big-num", "no-big-num", "detailed",
                                   "json", "verbose")),
    "trace": ("asSTvo:m:C:D:", ("all-cpus", "output=", "summary", "with-summary", "time", "verbose", "comm",
                                "mmap-pages=", "cpu=", "duration=", "delay=", "max-events=", "errno-summary",
                                "failure", "no-inherit", "print-sample", "sort-events", "show-on-off-events")),
}  # fmt: skip
_OF_SOME = ("p:t:u:G:", ("pid=", "tid=", "uid=", "cgroup="))
_SAMPLING = ("F:c:g", ("freq=", "count=", "call-graph=", "user-callchains", "kernel-callchains"))
_OF_TRACE = ("F:", ("call-graph=", "max-stack=", "syscalls", "no-syscalls", "pf=", "sched", "expr=",
                    "kernel-syscall-graph"))  # fmt: skip


@dataclass
class _Options:
    """Of one command."""

    kind: str
    stack: bool = False
    hz: str | None = None
    count: str | None = None
    syscalls: bool | None = None

    @property
    def consumer(self) -> Consumer:
        return Consumer(counts=self.kind == "stat", stack=self.stack and self.kind != "stat")


def read(lines: Sequence[Sequence[str]]) -> Asked:
    """All commands of a script, in their order. UsageError for what perf would not take."""
    asked = Asked("perf")
    places: dict[tuple[str, str], Place] = {}
    for line in lines:
        if line[:1] != ["perf"]:
            raise UsageError("after one command of perf's come others of it", where=" ".join(line))
        kind = line[1] if len(line) > 1 else ""
        if kind == "probe":
            places |= perfprobe.read(line[2:])
        elif kind in _IGNORED:
            _command(asked, kind, line[2:], places)
        else:
            raise UsageError(f"perf {kind}: traces nothing that has a price", hint="record, trace, stat or probe")
    if places and not asked.events and not asked.unpriced:
        raise UsageError("perf probe defines and traces nothing", hint="after it, with ;: perf record -e probe:NAME")
    return asked


def _command(asked: Asked, kind: str, words: Sequence[str], places: dict[tuple[str, str], Place]) -> None:
    parts = [_EVENTS, _IGNORED[kind], _OF_SOME]
    parts += [_SAMPLING] if kind == "record" else [_OF_TRACE] if kind == "trace" else []
    short, long = "".join(part[0] for part in parts), [name for part in parts for name in part[1]]
    try:
        # A word that is no option begins the program that perf starts, as it does in perf.
        found, program = getopt(list(words), short, long)
    except GetoptError as error:
        raise UsageError(f"perf {kind}: {error}", hint="an option that is not known here changes the price") from error
    options = _Options(kind)
    # What is said of all events may stand behind them.
    for option, value in found:
        _general(asked, options, option, value)
    if program:
        asked.note(f"perf would start {program[0]} and trace it alone: firings are to be its own")
    given = len(asked.events) + len(asked.unpriced)
    begun = len(asked.events)
    for option, value in found:
        if option in ("-e", "--event", "--expr"):
            begun = len(asked.events)
            _events(asked, options, value, places)
        elif option == "--filter":
            _filter(asked, begun, value)
    if options.syscalls or (kind == "trace" and options.syscalls is None and _nothing(asked, given)):
        _calls(asked, options, [])
    elif kind == "record" and _nothing(asked, given):
        _clock(asked, options, "cycles", "")
    elif kind == "stat" and _nothing(asked, given):
        asked.unpriced.append(("perf stat", "without -e it reads the CPU's and perf's own counters, at no probe"))


def _nothing(asked: Asked, given: int) -> bool:
    return len(asked.events) + len(asked.unpriced) == given


def _general(asked: Asked, options: _Options, option: str, value: str) -> None:
    kind = options.kind
    if option in ("-p", "--pid", "-t", "--tid", "-u", "--uid", "-G", "--cgroup"):
        asked.note(f"{option} {value}: of these tasks alone; firings are to be theirs, others are not left out here")
    elif option in ("-g", "--call-graph", "--max-stack", "--user-callchains", "--kernel-callchains"):
        options.stack = True
        if option == "--call-graph" and not value.startswith("fp"):
            asked.note(f"--call-graph {value}: a stack by frame pointers is priced, and no copy of the user's stack")
    elif option in ("-c", "--count"):
        options.count = _whole(kind, option, value)
    elif option in ("-F", "--freq") and kind == "record":
        options.hz = value if value == "max" else _whole(kind, option, value)
    elif option in ("-F", "--pf"):
        asked.unpriced.append(("page faults", "a software event of perf's: the model has no provider for it"))
    elif option in ("--syscalls", "--no-syscalls"):
        options.syscalls = option == "--syscalls"
    elif option == "--sched":
        asked.events.append(Event("tracepoint:sched:sched_stat_runtime", (options.consumer,)))
    elif option == "--kernel-syscall-graph":
        options.stack = True


def _whole(kind: str, option: str, value: str) -> str:
    if not is_number(value) or not int(value):
        raise UsageError(f"perf {kind}: {option} {value}: must be a number above 0")
    return value


def _split(value: str) -> list[str]:
    """The events of an option, as perf parts them: by commas, but not within slashes."""
    plain = re.sub(r"\}(?::\w+)?|\{", "", value)
    return [part.strip() for part in re.findall(r"(?:[^,/]|/[^/]*/?)+", plain) if part.strip()]


def _events(asked: Asked, options: _Options, value: str, places: dict[tuple[str, str], Place]) -> None:
    calls = []
    for name in _split(value):
        match = _TRACE_POINT.fullmatch(name)
        word = _WORD.fullmatch(name)
        if match and not (word and word.group("name") in (*CLOCKS, *CYCLES, *SOFTWARE)):
            _trace_point(asked, options, match.group("system"), match.group("name"), places)
            if match.group("whose"):
                asked.note(f"{name}: of some firings alone, and priced as if each were recorded")
        elif options.kind == "trace" and re.fullmatch(r"!?[\w*?]+", name):
            calls.append(name)
        elif word and word.group("name") in (*CLOCKS, *CYCLES):
            _clock(asked, options, word.group("name"), word.group("whose") or "")
        elif word and word.group("name") in SOFTWARE:
            asked.unpriced.append((name, "a software event of perf's: the model has no provider for it"))
        else:
            asked.unpriced.append((name, "no trace point and no clock: the CPU's own counters have no price"))
    if calls:
        _calls(asked, options, calls)


def _trace_point(asked: Asked, options: _Options, system: str, name: str, places: dict[tuple[str, str], Place]) -> None:
    mine = {own: place for (group, own), place in places.items() if group == system}
    defined = [place for own, place in mine.items() if fnmatchcase(own, name)]
    defined = defined or [mine[older] for older in (f"{name}{perfprobe.RETURNS}",) if older in mine]
    for place in defined:
        if place.why is not None:
            asked.unpriced.append((place.probe, place.why))
        else:
            event = Event(place.probe, (options.consumer,), place.fields.numbers, tuple(place.fields.notes))
            asked.events.append(_priced_as(options, event))
    if defined:
        return
    probes = trace_points(system, name)
    if isinstance(probes, str):
        why = f"give its `perf probe …` before, with ;: {probes}" if system.startswith("probe") else probes
        asked.unpriced.append((f"{system}:{name}", why))
        return
    asked.events += [_priced_as(options, Event(probe, (options.consumer,))) for probe in probes]


def _priced_as(options: _Options, event: Event) -> Event:
    """With what its price stands for."""
    if options.kind == "stat":
        notes = ["priced as a program of eBPF that does nothing: perf counts, and records nothing"]
    else:
        notes = ["priced as an event of tracefs's: perf's own buffer was measured at samples alone"]
    if options.stack:
        notes.append("a stack is the kernel's: the user's part of a call graph is not in the price")
    rate = ("-c", options.count) if options.count else ("-F", options.hz) if options.hz else None
    if rate and rate != ("-c", "1"):
        notes.append(f"{rate[0]} {rate[1]} leaves firings out of the record: priced as if each were recorded")
    return replace(event, notes=(*event.notes, *notes))


def _clock(asked: Asked, options: _Options, name: str, whose: str) -> None:
    """A sampler by a timer; one by cycles is priced as that where its rate is one in time."""
    if options.kind != "record":
        asked.unpriced.append((name, "it is counted and not sampled: nothing fires"))
    elif name in CYCLES and options.count:
        asked.unpriced.append((name, f"-c {options.count}: so many cycles are no time that is known; give -F"))
    elif options.hz == "max":
        asked.unpriced.append((name, "-F max: the kernel's own limit is not known; give a number"))
    else:
        probe = f"profile:ns:{options.count}" if options.count else f"profile:hz:{options.hz or DEFAULT_HZ}"
        notes = []
        if name in CYCLES:
            notes.append(f"{name}: priced as a timer's samples; a counter of the CPU's has another interrupt")
        if "u" in whose and "k" not in whose:
            notes.append("of the user's alone: samples elsewhere are taken too, and priced as recorded")
        if not options.count and not options.hz:
            notes.append(f"perf's own rate: {DEFAULT_HZ} a second")
        asked.events.append(Event(probe, (options.consumer,), notes=tuple(notes)))


def _calls(asked: Asked, options: _Options, names: Sequence[str]) -> None:
    """System calls as `perf trace` sees them: where all pass, with a filter by their numbers."""
    patterns = [name for name in names if any(char in name for char in "*?")]
    notes: list[str] = []
    consumer = options.consumer
    if names:
        consumer = replace(consumer, filter=filter_of(" || ".join(f"id == {place}" for place, _ in enumerate(names))))
        notes.append(f"priced with a filter of {len(names)} terms, by the number of a call")
    if patterns:
        notes.append(f"{', '.join(patterns)}: a pattern has as many terms as it meets calls, and is priced as one")
    asked.note("perf trace copies what calls point to, and leaves its own calls out by a filter: neither is in the sum")
    for way in ("enter", "exit"):
        asked.events.append(_priced_as(options, Event(f"{RAW}{way}", (consumer,), notes=tuple(notes))))


def _filter(asked: Asked, begun: int, text: str) -> None:
    """It is of the events of the option before."""
    mine = asked.events[begun:]
    if not mine and not asked.unpriced:
        raise UsageError("--filter: comes behind the -e that it is of", where=text)
    made = filter_of(text)
    for place, event in enumerate(mine, begun):
        if event.probe.startswith("profile:"):
            raise UsageError("--filter: samples of a clock have none", where=text)
        consumers = tuple(one if one.counts else replace(one, filter=made) for one in event.consumers)
        notes = made.notes
        if any(one.counts for one in consumers):
            notes = ("the filter of what is counted alone is not in the price",)
        asked.events[place] = replace(event, consumers=consumers, notes=(*event.notes, *notes))
