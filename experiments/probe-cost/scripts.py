# SPDX-License-Identifier: MIT
"""What the guest ran, as text, into the same objects that ./inv predict reads from YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model.compiled import SAVED
from .model.cost import Call, Consumer, Counts, Fields, Histogram, Predicate, Probe, Program, Refresh, Script
from .model.firing import KEPT
from .runs import Counted, Run, words

#: With this call probecost ends the counting of firings: it is counted, and is none of the workload's.
_OWN_CALL = "sys_prctl"
#: READS of guest/probecost/readers.c: of one buffer in one look, at most.
READS = 256
#: An event of a system call is a struct that ends where one of its arguments would begin (struct syscall_trace_enter):
#: without arguments, its format file has four bytes less. Other events are not: a kprobe's ends with its last field.
ARGUMENT_BYTES = 8
#: Instructions that a program executes which does nothing, and of one of its counters (guest/probecost/bpf.c).
BARE, COUNTER = 3, 8


def script(run: Run) -> Script:
    """The script of a held-out run: its probes and consumers, with the firings that were counted without them.

    Counts are per batch. Nothing is from the traced batches.
    """
    probes = [_probe(line, uses, counted, run) for line, uses, counted in blocks_of(run)]
    refresh = None
    if run.drained:
        each = int(words(run.lines[0]).get("readers", "1")) > 1
        refresh = Refresh(period_ns=run.period_ns, each=each, reads=READS)
    return Script(workload=counts(run), probes=probes, refresh=refresh)


def blocks_of(run: Run) -> list[tuple[str, list[str], Counted]]:
    """The line of each probe of a run, the lines of its consumers, and what was counted of it."""
    blocks: list[tuple[str, list[str]]] = []
    for line in run.lines[1:]:
        if line.startswith("probe "):
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line)
    return [(line, uses, counted) for (line, uses), counted in zip(blocks, run.probes, strict=True)]


def events_of(run: Run) -> list[int]:
    """The events that its counted firings make in the buffer of each tracefs instance, in all batches.

    An instance has one consumer of each probe. A kernel stack is an event of its own.
    """
    events = [0] * len(run.buffers)
    for line, uses, counted in blocks_of(run):
        _, provider, target = line.split()[:3]
        if provider == "sample":  # records nothing in tracefs
            continue
        firings = counted.firings - (_OWN_CALL in target)
        for instance, (use, passed) in enumerate(zip(uses, counted.passes, strict=True)):
            options = words(use.removeprefix("use"))
            if "bpf" in options or options.get("record") == "0":
                continue
            events[instance] += (passed if "filter=" in use else firings) * (2 if "stack" in options else 1)
    return events


def counts(run: Run) -> Counts:
    """The workload of a held-out run, per batch."""
    firings = {}
    lines = [line for line in run.lines if line.startswith("probe ")]
    for line, counted in zip(lines, run.probes, strict=True):
        provider, point = line.split()[1:3]
        if provider != "sample":
            firings[f"{provider} {point}"] = counted.firings / run.batches
    return Counts(
        cost=run.untraced,
        syscalls=run.syscalls / run.batches,
        switches=run.switches / run.batches,
        firings=firings,
        syscalls_by_wake=run.syscalls_by_wake,
        switches_by_wake=run.switches_by_wake,
    )


def _probe(line: str, uses: Sequence[str], counted: Counted, run: Run) -> Probe:
    if run.frames:  # of an older guest's program, which told of one probe's stacks alone
        counted = counted.model_copy(update={"frames": float(run.frames)})
    _, provider, target, *arguments = line.split()
    if provider == "sample":
        consumers = [_sampler(use, counted, number) for number, use in enumerate(uses)]
        return Probe(provider=provider, point=target, period_ns=float(target), consumers=consumers)
    kinds = [argument.split("=", 1)[1] for argument in arguments if not argument.startswith("maxactive=")]
    comm = sum(kind == "$comm" for kind in kinds)
    strings = sum(kind.endswith(":ustring") for kind in kinds)
    memory = sum(kind.startswith("+") for kind in kinds) - strings
    paths = paths_of(run) if strings or counted.texts else []
    copied = strings + counted.texts
    fields = Fields(
        registers=len(kinds) - comm - memory - strings,
        memory=memory,
        comm=comm,
        strings=copied,
        characters=copied * sum(len(path) + 1 for path in paths) / max(1, len(paths)),
        data=counted.arrays,
        bytes=counted.arrays * written_of(run),
    )
    firings = counted.firings
    consumers = [
        _consumer(use, passed / firings if firings else 1.0, counted, number, paths)
        for number, (use, passed) in enumerate(zip(uses, counted.passes, strict=True))
    ]
    return Probe(
        provider=provider,
        point=target,
        firings=firings / run.batches,
        fields=fields,
        consumers=consumers,
        event_bytes=_event_bytes(provider, counted),
        place_frames=counted.place,
        by_wake=counted.by_wake,
        by_ring=None if counted.by_ring < 0 else counted.by_ring,
        by_read=max(0.0, counted.by_read),  # a difference of two counts, into which other tasks may fall
    )


def _event_bytes(provider: str, counted: Counted) -> int:
    """Without what is copied. The place of that follows the arguments at once, and its bytes follow that."""
    if provider != "syscall" or counted.texts or counted.arrays:
        return counted.size
    return -(-counted.size // ARGUMENT_BYTES) * ARGUMENT_BYTES


def _sampler(use: str, counted: Counted, number: int) -> Consumer:
    if "bpf=" in use:
        return _consumer(use, 1.0, counted, number, ())
    if "stack=1" in use:
        share = counted.in_kernel or None
        return Consumer(stack_frames=counted.frames, user_frames=counted.user_frames, in_kernel=share)
    return Consumer()


def paths_of(run: Run) -> list[str]:
    """The paths that a round of the run's workload opens, as guest/probecost/work.c has them."""
    if run.work == "path":
        whole = "/run/".ljust(int(words(run.lines[0]).get("path", "20")) - 1, "p")
        return [f"{whole}{last}" for last in range(10)]
    return ["/run/probecost.data"]


def written_of(run: Run) -> int:
    """Bytes that one write() of the run's workload writes, as guest/probecost/work.c has it."""
    if run.work == "written":
        return int(words(run.lines[0]).get("path", "20"))
    return 16 if run.work == "dd" else 1


def program(options: Mapping[str, str], executed: int | None) -> Program:
    """A program of the guest's, of the words of its line; `executed` is what it executes, with what its calls need.

    Its counters have their instructions in their own stage; None: it does nothing but add.
    """
    aggregations = int(options.get("map", "0"))
    calls = []
    for text in filter(None, options.get("calls", "").split(",")):
        name, times = text.split(":")
        name, _, size = name.partition("/")
        calls.append(Call(name=name, times=float(times), bytes=float(size or 8)))
    if any(call.name in ("read", "string") for call in calls):
        calls.append(Call(name="array"))  # where the kernel's text is
    calls += [Call(name=kind, bytes=float(options[kind])) for kind in ("ring", "perf") if kind in options]
    if options.get("keeps") == "1":
        calls.append(Call(name=KEPT))
    if executed is None or not calls:
        return Program(instructions=int(options["bpf"]), aggregations=aggregations, calls=calls)
    instructions = executed - BARE - COUNTER * aggregations + SAVED
    return Program(instructions=instructions, aggregations=aggregations, calls=calls)


def _consumer(use: str, passes: float, counted: Counted, number: int, paths: Sequence[str]) -> Consumer:
    options = words(use.removeprefix("use"))
    if "bpf" in options:
        made = program(options, counted.executed[number] if counted.executed else None)
        deep = [
            call.model_copy(update={"bytes": counted.frames}) if call.name == "stack" else call for call in made.calls
        ]
        return Consumer(program=made.model_copy(update={"calls": deep}))
    histogram = None
    if "hist" in options:
        parts = options["hist"].split(":")
        keys = len(parts[0].split("=")[1].split(","))
        values = sum(len(part.split("=")[1].split(",")) for part in parts if part.startswith("vals="))
        histogram = Histogram(keys=keys, values=values - ("vals=hitcount" in parts))
    return Consumer(
        record=options.get("record", "1") == "1",
        predicate=_predicate(use.split("filter=", 1)[1].split(maxsplit=1)[0], min(passes, 1.0), paths).model_copy(
            update={"read_passes": _share(counted, number)}
        )
        if "filter=" in use
        else None,
        stack_frames=counted.frames if "stack" in options else None,
        histogram=histogram,
    )


def _share(counted: Counted, number: int) -> float | None:
    """Of what a reader's reads fire, the share that passes a consumer's filter."""
    if not counted.read_passes or counted.by_read <= 0:
        return None
    return min(1.0, max(0.0, counted.read_passes[number] / counted.by_read))


def compared(pattern: str, text: str) -> int:
    """How many characters a filter compares: until they differ, or the pattern ends (regex_match_front, _full)."""
    begin = pattern.removesuffix("*")
    same = next((at for at, (one, other) in enumerate(zip(begin, text, strict=False)) if one != other), None)
    if same is not None:
        return same + 1
    return len(begin) if begin != pattern else min(len(begin), len(text)) + 1


def _predicate(text: str, passes: float, paths: Sequence[str]) -> Predicate:
    """Evaluation ends with the first term that decides: a false one of an and, a true one of an or."""
    ors, ands = text.count("||"), text.count("&&")
    terms = 1 + ors + ands
    if "'" in text:
        pattern = text.split("'")[1]
        characters = sum(compared(pattern, path) for path in paths) / len(paths)
        return Predicate(terms=terms, passes=passes, characters=characters)
    if ors:
        return Predicate(terms=terms, passes=passes, terms_if_true=1, terms_if_false=terms)
    return Predicate(terms=terms, passes=passes)
