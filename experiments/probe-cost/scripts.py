# SPDX-License-Identifier: MIT
"""What the guest ran, as text, into the same objects that ./inv predict reads from YAML."""

from __future__ import annotations

from collections.abc import Sequence

from .model.cost import Consumer, Counts, Fields, Histogram, Predicate, Probe, Program, Refresh, Script
from .runs import Counted, Run, words

#: With this call probecost ends the counting of firings: it is counted, and is none of the workload's.
_OWN_CALL = "sys_prctl"


def script(run: Run) -> Script:
    """The script of a held-out run: its probes and consumers, with the firings that were counted without them.

    Counts are per batch: a run's costs are medians over batches.
    """
    blocks = blocks_of(run)
    frames = run.frames or None
    probes = [_probe(line, uses, counted, run.batches, frames) for line, uses, counted in blocks]
    buffers = max([len(uses) for _, uses, _ in blocks], default=1)
    refresh = None
    if run.drained:
        refresh = Refresh(wakes=run.wakes / run.batches, pages=run.pages / run.batches, buffers=buffers)
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
    plain = sorted(run.plain)
    return Counts(
        cost=(plain[run.batches // 2] + plain[(run.batches - 1) // 2]) / 2,
        syscalls=run.syscalls / run.batches,
        switches=run.switches / run.batches,
        firings=firings,
    )


def _probe(line: str, uses: Sequence[str], counted: Counted, batches: int, frames: int | None) -> Probe:
    _, provider, target, *arguments = line.split()
    if provider == "sample":
        consumers = [Consumer(stack_frames=frames if "stack=1" in use else None) for use in uses]
        return Probe(provider=provider, point=target, period_ns=float(target), consumers=consumers)
    kinds = [argument.split("=", 1)[1] for argument in arguments if not argument.startswith("maxactive=")]
    comm = sum(kind == "$comm" for kind in kinds)
    memory = sum(kind.startswith("+") for kind in kinds)
    fields = Fields(registers=len(kinds) - comm - memory, memory=memory, comm=comm)
    firings = counted.firings
    consumers = [
        _consumer(use, passed / firings if firings else 1.0, frames)
        for use, passed in zip(uses, counted.passes, strict=True)
    ]
    return Probe(provider=provider, point=target, firings=firings / batches, fields=fields, consumers=consumers)


def _consumer(use: str, passes: float, frames: int | None) -> Consumer:
    options = words(use.removeprefix("use"))
    if "bpf" in options:
        program = Program(instructions=int(options["bpf"]), aggregations=int(options.get("map", "0")))
        return Consumer(program=program)
    histogram = None
    if "hist" in options:
        parts = options["hist"].split(":")
        keys = len(parts[0].split("=")[1].split(","))
        values = sum(len(part.split("=")[1].split(",")) for part in parts if part.startswith("vals="))
        histogram = Histogram(keys=keys, values=values - ("vals=hitcount" in parts))
    return Consumer(
        record=options.get("record", "1") == "1",
        predicate=_predicate(use.split("filter=", 1)[1].split(maxsplit=1)[0], min(passes, 1.0))
        if "filter=" in use
        else None,
        stack_frames=frames if "stack" in options else None,
        histogram=histogram,
    )


def _predicate(text: str, passes: float) -> Predicate:
    """Evaluation ends with the first term that decides: a false one of an and, a true one of an or."""
    ors, ands = text.count("||"), text.count("&&")
    terms = 1 + ors + ands
    if ors:
        return Predicate(terms=terms, passes=passes, terms_if_true=1, terms_if_false=terms)
    return Predicate(terms=terms, passes=passes)
