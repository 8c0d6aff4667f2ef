# SPDX-License-Identifier: MIT
"""What the firings of one probe cost, and the samples of a timer: parts of a sum, each a stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError

from .cost import (
    LEAST_PERIOD_NS,
    MOST_DEPTH,
    PROGRAMS_ONLY,
    SYSCALLS,
    TRACE_POINTS,
    USER,
    Consumer,
    Cost,
    CostModel,
    Predicate,
    Probe,
    Program,
    Script,
    Stage,
)

SYSCALL_STACK = "syscall-stack"
#: What perf goes on with behind a program at a trace point that returns 1, as all of bpftrace's there do.
KEPT = "kept"


@dataclass(frozen=True)
class Part:
    """One stage of one probe: `count` times `cost.value` is what it adds."""

    probe: str
    stage: str
    count: float
    cost: Cost

    @property
    def added(self) -> float:
        return self.count * self.cost.value


def staged(label: str, stage: Stage, count: float, costs: Mapping[Stage, Cost]) -> Iterable[Part]:
    """The part that `count` times a stage makes; none when it is never needed."""
    if not count:
        return []
    if stage not in costs:
        raise UsageError(f"the model has no stage {stage!r} for {label}", hint="fit it again with all of its runs")
    return [Part(label, stage, count, costs[stage])]


def probe_parts(model: CostModel, probe: Probe, label: str, count: float, notes: list[str]) -> list[Part]:
    provider = model.providers[probe.provider]
    costs: dict[Stage, Cost] = {**model.general, **provider.stages}
    if probe.point in provider.points:
        costs["consumer"] = provider.points[probe.point]
    elif provider.points:
        notes.append(f"{label}: recording at this point was not measured; the median of the measured ones is taken")
    parts: list[Part] = []

    def add(stage: Stage, times: float) -> None:
        parts.extend(staged(label, stage, times, costs))

    if probe.misses:
        add("miss", probe.misses)
        notes.append(f"{label}: {probe.misses:g} of {count:g} firings are lost; the trace will not show them")
        count = max(0.0, count - probe.misses)
    if probe.provider == "uretprobe" and probe.depth > MOST_DEPTH:
        lost = 1 - MOST_DEPTH / probe.depth
        notes.append(f"{label}: deeper than {MOST_DEPTH} calls, {lost:.0%} of the returns are lost and nothing says so")
    programs = [consumer.program for consumer in probe.consumers if consumer.program is not None]
    instances = [consumer for consumer in probe.consumers if consumer.program is None]
    if probe.provider in PROGRAMS_ONLY and instances:
        raise UsageError(f"{label}: only a program can be a consumer of {probe.provider}")
    if probe.provider in USER and instances and programs:
        raise UsageError(f"{label}: refused by the kernel: a user probe is traced or has programs, not both")
    # Each program of these is a consumer of the function or the trace point itself, and no part of an event.
    deliveries = count * len(programs) if probe.provider in PROGRAMS_ONLY else count
    add("trap", deliveries if "trap" in costs else 0)
    add("dispatch", deliveries)
    if probe.provider in PROGRAMS_ONLY and len(programs) > 1:
        add("iteration", count)
        add("same-place", count * (len(programs) - 1))
    deeper = 0
    if probe.provider in TRACE_POINTS and len(instances) + bool(programs) > 1:
        add("iteration", count)
        deeper = 1  # the function with the loop is a frame of stacks
    fetches = count if probe.provider in USER else count * len(instances)
    for stage, number in probe.fields.numbers().items():
        add(stage, fetches * number)
    for consumer in instances:
        _consumer(add, consumer, count, deeper)
    if programs and probe.provider not in PROGRAMS_ONLY:
        add("programs", count)
        add("program", count * len(programs))
        _copied(add, probe, programs, costs, count)
    for program in programs:
        add("instruction", count * program.instructions)
        add("aggregation", count * program.aggregations)
        parts += _calls(model, label, program, count, probe.provider)
    return parts


def _copied(
    add: Callable[[Stage, float], None],
    probe: Probe,
    programs: Sequence[Program],
    costs: Mapping[Stage, Cost],
    count: float,
) -> None:
    """What perf copies of the user's for the sample that it goes on to behind programs, on a kernel that does."""
    if not any(call.name == KEPT for program in programs for call in program.calls):
        return
    copies: dict[Stage, Stage] = {
        "string": "kept-string",
        "character": "kept-character",
        "data": "kept-data",
        "data-byte": "kept-data-byte",
    }
    for stage, number in probe.fields.copied().items():
        if copies[stage] in costs:
            add(copies[stage], count * number)


def _calls(model: CostModel, label: str, program: Program, count: float, provider: str) -> list[Part]:
    """The helpers that a program calls. A stack at a system call is the same one always."""
    parts = []
    for call in program.calls:
        name = SYSCALL_STACK if call.name == "stack" and provider in SYSCALLS else call.name
        name = name if name in model.calls else call.name
        if name not in model.calls:
            hint = "fit it again with all of its runs"
            raise UsageError(f"the model has no call {name!r} for {label}", hint=hint)
        cost = model.calls[name]
        byte = cost.byte or Cost(value=0.0, low=0.0, high=0.0)
        whole = Cost(
            value=cost.each.value + call.bytes * byte.value,
            low=cost.each.low + call.bytes * byte.low,
            high=cost.each.high + call.bytes * byte.high,
        )
        parts.append(Part(label, f"call {name}", count * call.times, whole))
    return parts


def _consumer(add: Callable[[Stage, float], None], consumer: Consumer, count: float, deeper: int) -> None:
    """A tracefs instance: its record, its filter, its actions."""
    predicate = consumer.predicate
    passes = 1.0 if predicate is None else predicate.passes
    true = count * passes
    add("consumer", count)
    if not consumer.record:
        add("unrecorded", count)
    if predicate is not None:
        _filters(add, consumer, predicate, count)
    if consumer.histogram is not None:
        add("histogram", count)
        add("second-key", true if consumer.histogram.keys > 1 else 0)
        add("key", true * max(0, consumer.histogram.keys - 2))
        add("value", true * consumer.histogram.values)
    if consumer.stack_frames is not None:
        add("stack", true)
        add("frame", true * (consumer.stack_frames + deeper))


def _filters(add: Callable[[Stage, float], None], consumer: Consumer, predicate: Predicate, count: float) -> None:
    """Its evaluations: of the record's filter, and of each trigger's own."""
    true, false = count * predicate.passes, count * (1 - predicate.passes)
    extra = (predicate.terms_if_true or predicate.terms) - 1
    evaluated = true * extra + false * (predicate.terms_if_false - 1)
    times = 0
    if consumer.record:
        times += 1
        add("predicate", true)
        add("predicate-false", false)
    if consumer.histogram is not None:
        # Aggregated first, then thrown away by the filter: the stage is the difference to having aggregated.
        times += 1
        add("trigger-predicate", true)
        add("histogram-false", false)
    if consumer.stack_frames is not None:
        times += 1
        add("trigger-predicate", count)
    add("term", times * evaluated)
    if predicate.characters is not None:  # the comparison of strings takes the place of that of numbers
        add("string-predicate", times * count)
        add("predicate", -times * count)
        add("compared", times * count * predicate.characters)


def samples(
    model: CostModel, script: Script, cost: float, handling: Mapping[int, Handling], added: float, notes: list[str]
) -> list[Part]:
    """Timer sampling: the more the samples take, the longer it lasts, and the more samples there are.

    `cost`: what the workload takes, to which `added` comes, of which `handling` tells what probes have.
    """
    probes = [probe for probe in script.probes if probe.period_ns is not None]
    base = cost + added
    shares, parts = [], []
    for probe in probes:
        period = probe.period_ns or math.inf
        if period < LEAST_PERIOD_NS:
            notes.append(f"sample {period:g} ns: the kernel takes {LEAST_PERIOD_NS} ns instead")
            period = LEAST_PERIOD_NS
        shares.append((probe, period, _sample_cost(model, probe, _places(model, script, base, handling))))
    load = math.fsum(cost.value / period for _, period, cost in shares)
    if load >= 1:
        raise UsageError("saturated: a sample takes longer than its period, and the workload would never end")
    for probe, period, each in shares:
        parts.append(Part(f"sample {probe.period_ns:g} ns", "sample", base / (1 - load) / period, each))
    return parts


@dataclass(frozen=True)
class Handling:
    """What the handling of one probe takes in all: in the taking of stacks, and else."""

    stack: float
    other: float


def handling_of(parts: Iterable[Part]) -> Handling:
    """Of the parts of one probe."""
    stack: list[float] = []
    other: list[float] = []
    for part in parts:
        taken = stack if part.stage in ("stack", "frame", "call stack") else other
        taken.append(part.added)
    return Handling(math.fsum(stack), math.fsum(other))


def _places(
    model: CostModel, script: Script, base: float, handling: Mapping[int, Handling]
) -> list[tuple[float, float, Cost]]:
    """Where samples fall but into the workload: the share of time, the frames of the place, and what comes to them."""
    found = []
    for index, taken in handling.items():
        probe = script.probes[index]
        stages = model.providers[probe.provider].stages
        for stage, time in (("within", taken.other), ("within-stack", taken.stack)):
            if stage in stages and probe.place_frames is not None and time > 0:
                found.append((time / base, probe.place_frames, stages[stage]))
    return found


def _instruction(model: CostModel) -> Mapping[Stage, Cost]:
    """The stages of a provider that has the instruction of a program; a kernel may have none of some providers."""
    return next((one.stages for one in model.providers.values() if "instruction" in one.stages), {})


def _sample_cost(model: CostModel, probe: Probe, places: Sequence[tuple[float, float, Cost]]) -> Cost:
    """A sample, and the stack that it takes: that costs something, and each frame of the kernel's and of the user's.

    `places`: of samples that fall into the handling of other probes, whose stacks are other ones.
    """
    stages = model.providers["sample"].stages
    programs = [consumer.program for consumer in probe.consumers if consumer.program is not None]
    # A program that says no is all that is left of a sample: none is recorded.
    wanted: list[tuple[Stage, float]] = [("programs" if programs else "sample", 1.0)]
    stacked = [consumer for consumer in probe.consumers if consumer.stack_frames is not None]
    within: list[Part] = []
    if stacked:
        frames, share = stacked[0].stack_frames or 0.0, stacked[0].in_kernel
        own = 1 - math.fsum(share for share, _, _ in places)
        deep = own * frames + math.fsum(share * place for share, place, _ in places)
        wanted += [("stack", 1.0), ("frame", deep), ("user-frame", stacked[0].user_frames)]
        if "kernel-stack" in stages:
            wanted.append(("kernel-stack", own * (min(1.0, frames) if share is None else share)))
        within = [Part("", "within", share, cost) for share, _, cost in places]
    for stage, count in wanted:
        if count and stage not in stages:
            raise UsageError(f"the model has no stage {stage!r} for samples", hint=f"it has {', '.join(stages)}")
    parts = [*within, *(Part("", stage, count, stages[stage]) for stage, count in wanted if count)]
    for program in programs:
        parts += staged("samples", "instruction", program.instructions, _instruction(model))
        parts += _calls(model, "samples", program, 1.0, "sample")
    ends = [math.fsum(part.count * getattr(part.cost, end) for part in parts) for end in ("value", "low", "high")]
    spread = stages["spread"].value if stacked and "spread" in stages else 0.0
    return Cost(value=ends[0], low=ends[1] - spread, high=ends[2] + spread)
