# SPDX-License-Identifier: MIT
"""What a script of probes will cost a workload, by a fitted cost model, split by probe and stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

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
    Counts,
    Predicate,
    Probe,
    Program,
    Script,
    Stage,
    Unit,
)
from .readers import FED, Looks, buffers_of, looks_of, rings_of, together

READERS = "(readers)"
SYSCALL_STACK = "syscall-stack"
#: Turns until a sum tells the time that it was made for, how alike the two are, and how much longer is without an end.
TURNS, SAME, MOST = 200, 1e-9, 1e4


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


@dataclass(frozen=True)
class Prediction:
    """What a script will cost. Costs in the model's unit; `low` and `high` bound `added`."""

    base: float
    added: float
    low: float
    high: float
    unit: Unit
    parts: list[Part]
    firings: float
    looks: Looks
    notes: list[str] = field(default_factory=list)

    @property
    def slowdown(self) -> float:
        return 1 + self.added / self.base

    @property
    def interval(self) -> tuple[float, float]:
        """Of the slowdown."""
        return 1 + self.low / self.base, 1 + self.high / self.base


def predict(model: CostModel, script: Script) -> Prediction:
    """Add up what `script` costs by `model`.

    Readers and samplers wake up as time goes by, and what they take is time too: the sum is repeated until it tells
    the time that it was made for. UsageError for a workload that the model has not counted, a probe without a firing
    count, a provider or a stage that the model lacks, and where there is no such time.
    """
    counts = _counts(model, script)
    for probe in script.probes:
        if probe.provider not in model.providers:
            known = ", ".join(model.providers)
            raise UsageError(f"the model has no provider {probe.provider!r}", hint=f"it has {known}")
    firings = {
        index: _firings(probe, counts, script.workload)
        for index, probe in enumerate(script.probes)
        if probe.provider != "sample"
    }
    lasts, looks = counts.cost, Looks()
    for _ in range(TURNS):
        looks = _looks(model, script, counts, firings, lasts, looks)
        notes: list[str] = []
        parts = _parts(model, script, counts, firings, looks, notes)
        parts += _samples(model, script, counts.cost + math.fsum(part.added for part in parts), notes)
        before, lasts = lasts, counts.cost + math.fsum(part.added for part in parts)
        if abs(lasts - before) <= SAME * lasts:
            break
        if not lasts <= MOST * counts.cost:
            raise UsageError("saturated: what readers take makes more for them to take, without an end")
    parts = [part for part in parts if part.count]
    fired = math.fsum(_with_echo(script, firings, looks).values())
    return _sum_up(model, counts, parts, looks, fired + sum(p.count for p in parts if p.stage == "sample"), notes)


def _with_echo(script: Script, firings: Mapping[int, float], looks: Looks) -> dict[int, float]:
    """Firings of the workload and of the readers, by the probe's place in the script."""
    return {
        index: count + looks.all_wakes * script.probes[index].by_wake + looks.reads * script.probes[index].by_read
        for index, count in firings.items()
    }


def _looks(
    model: CostModel, script: Script, counts: Counts, firings: Mapping[int, float], lasts: float, looks: Looks
) -> Looks:
    """What the readers do in a run that lasts so long; `looks` is what they did in the one of the turn before."""
    refresh = script.refresh
    if refresh is None:
        return looks
    buffers = buffers_of(script, counts, _with_echo(script, firings, looks))
    if refresh.period_ns is None:
        return Looks(refresh.wakes or 0.0, (refresh.wakes or 0.0) * (refresh.buffers - 1), refresh.pages)
    if refresh.reads is None and any(buffer.fed > FED for buffer in buffers):
        raise UsageError("saturated: each read of a buffer writes into it, and its reader never finds it empty")
    by_reader = [[buffer] for buffer in buffers] if refresh.each else [buffers] if buffers else []
    readers = []
    for index, own in enumerate(by_reader):
        before = looks.readers[index] if index < len(looks.readers) else Looks()
        work = _work(model, script, before) / before.wakes if before.wakes else 0.0
        readers.append(looks_of(refresh, own, lasts / (refresh.period_ns + work)))
    rings = Looks(ring_wakes=looks.ring_wakes)
    work = _work(model, script, rings) / rings.ring_wakes if rings.ring_wakes else 0.0
    return together(readers, len(rings_of(script)) * lasts / (refresh.period_ns + work))


def _work(model: CostModel, script: Script, looks: Looks) -> float:
    """What one reader takes from its waking up to its sleep: its looks, and the probes that these fire."""
    work = math.fsum(part.added for part in _reading(model, looks))
    for probe in script.probes:
        if probe.period_ns is None and (times := looks.reads * probe.by_read):
            work += math.fsum(part.added for part in _probe_parts(model, probe, "", times, []))
    return work


def _reading(model: CostModel, looks: Looks) -> list[Part]:
    """What readers themselves take."""
    parts: list[Part] = []
    for stage, count in (
        ("refresh", looks.wakes),
        ("buffer", looks.buffers),
        ("page", looks.pages),
        ("partial", looks.partials),
        ("copied", looks.copied),
        ("byte", looks.bytes),
        ("ring-wake", looks.ring_wakes),
    ):
        parts += _times(READERS, stage, count, model.general)  # type: ignore[arg-type]
    return parts


def _parts(
    model: CostModel,
    script: Script,
    counts: Counts,
    plain: Mapping[int, float],
    looks: Looks,
    notes: list[str],
) -> list[Part]:
    """All but the samples."""
    firings = _with_echo(script, plain, looks)
    parts: list[Part] = []
    for index, count in firings.items():
        probe = script.probes[index]
        parts += _probe_parts(model, probe, _label(probe, index), count, notes)
    parts += _shared_places(model, script, firings)
    syscalls = counts.syscalls + looks.all_wakes * counts.syscalls_by_wake + looks.reads
    parts += _passages(model, script, firings, syscalls)
    recorded = math.fsum(count * _recorded(script.probes[index]) for index, count in firings.items())
    # What leaves the CPU has its name saved if something was recorded since the switch before.
    parts += _times("(all)", "switch", min(counts.switches + looks.all_wakes, recorded), model.general)
    parts += _reading(model, looks)
    if looks.ring_wakes:
        for probe, kind in rings_of(script):
            count = firings[script.probes.index(probe)]
            parts += _times(READERS, "taken" if kind == "ring" else "perf-taken", count, model.general)
    return parts


def _recorded(probe: Probe) -> float:
    """The share of a probe's firings that tracefs records: a consumer whose filter is false records none."""
    consumers = [one for one in probe.consumers if one.record and one.program is None and probe.period_ns is None]
    return max((one.predicate.passes if one.predicate else 1.0 for one in consumers), default=0.0)


def _sum_up(
    model: CostModel, counts: Counts, parts: list[Part], looks: Looks, firings: float, notes: list[str]
) -> Prediction:
    added = math.fsum(part.added for part in parts)
    low = math.fsum(part.count * part.cost.low for part in parts)
    high = math.fsum(part.count * part.cost.high for part in parts)
    if model.accuracy is None:
        notes.append("no script was held out: the interval is that of the stages alone")
    else:  # what the stages do not know of each other is known from scripts that were held out
        most = model.accuracy.added_worst if model.accuracy.added_most is None else model.accuracy.added_most
        low, high = low - added * most, high + added * most
    if not firings and not added:
        notes.append("no probe fires: the workload takes exactly what it takes untraced")
    elif not firings:
        notes.append("no probe fires; what is added is what enabled probes cost where they do not fire")
    return Prediction(counts.cost, added, max(low, 0.0), high, model.unit, parts, firings, looks, notes)


def _label(probe: Probe, index: int) -> str:
    return f"{index + 1} {probe.provider} {probe.point}".strip()


def _counts(model: CostModel, script: Script) -> Counts:
    if isinstance(script.workload, Counts):
        return script.workload
    if script.workload not in model.workloads:
        known = ", ".join(model.workloads) or "none"
        raise UsageError(
            f"the model has not counted a workload {script.workload!r}",
            hint=f"it has counted {known}; or give cost and firings yourself",
        )
    return model.workloads[script.workload]


def _firings(probe: Probe, counts: Counts, workload: object) -> float:
    name = f"{probe.provider} {probe.point}"
    if probe.firings is None and name not in counts.firings:
        known = ", ".join(counts.firings) or "none"
        of = f" of workload {workload}" if isinstance(workload, str) else ""
        raise UsageError(f"unknown probe {name!r}: its firings{of} were not counted", hint=f"counted: {known}")
    count = counts.firings[name] if probe.firings is None else probe.firings
    if probe.misses > count:
        raise UsageError(f"{name!r} misses {probe.misses:g} of {count:g} firings")
    return count


def _times(label: str, stage: Stage, count: float, costs: Mapping[Stage, Cost]) -> Iterable[Part]:
    """The part that `count` times a stage makes; none when it is never needed."""
    if not count:
        return []
    if stage not in costs:
        raise UsageError(f"the model has no stage {stage!r} for {label}", hint="fit it again with all of its runs")
    return [Part(label, stage, count, costs[stage])]


def _probe_parts(model: CostModel, probe: Probe, label: str, count: float, notes: list[str]) -> list[Part]:
    provider = model.providers[probe.provider]
    costs: dict[Stage, Cost] = {**model.general, **provider.stages}
    if probe.point in provider.points:
        costs["consumer"] = provider.points[probe.point]
    elif provider.points:
        notes.append(f"{label}: recording at this point was not measured; the median of the measured ones is taken")
    parts: list[Part] = []

    def add(stage: Stage, times: float) -> None:
        parts.extend(_times(label, stage, times, costs))

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
    for program in programs:
        add("instruction", count * program.instructions)
        add("aggregation", count * program.aggregations)
        parts += _calls(model, label, program, count, probe.provider)
    return parts


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


def _shared_places(model: CostModel, script: Script, fired: Mapping[int, float]) -> list[Part]:
    """Probes on one place are served by one trap: each further one is cheaper by the least that any of them shares."""
    places: dict[str, list[int]] = {}
    for index in fired:
        probe = script.probes[index]
        shared = "same-place" in model.providers[probe.provider].stages and probe.provider not in PROGRAMS_ONLY
        if probe.point and shared:
            places.setdefault(probe.point, []).append(index)
    parts: list[Part] = []
    for point, indices in places.items():
        firings = sorted(fired[index] for index in indices)
        sharing = {script.probes[index].provider for index in indices}
        if len(sharing) > 1 and sharing <= USER and "uprobe" in model.providers:
            sharing.add("uprobe")  # what two kinds share is the plain trap, neither's second one
        shares = [model.providers[name].stages["same-place"] for name in sorted(sharing)]
        least = max(shares, key=lambda cost: cost.value)
        parts += _times(f"(all) {point}", "same-place", sum(firings[:-1]), {"same-place": least})
    return parts


def _passages(model: CostModel, script: Script, fired: Mapping[int, float], syscalls: float) -> list[Part]:
    """Probes on system calls cost something at all others: each passes through the slow way in or out."""
    parts: list[Part] = []
    for provider in SYSCALLS:
        mine = {index: script.probes[index] for index in fired if script.probes[index].provider == provider}
        # All programs of an event are one consumer of its trace point: perf's.
        widths = {index: _width(probe) for index, probe in mine.items()}
        most = max(widths.values(), default=0)
        costs = model.providers[provider].stages if mine else {}
        for consumer in range(most):
            own = sum(fired[index] for index, width in widths.items() if width > consumer)
            alone = all(one.program is not None for probe in mine.values() for one in probe.consumers)
            first: Stage = "program-passage" if alone and "program-passage" in costs else "passage"
            stage: Stage = first if consumer == 0 else "second-passage"
            passing = max(0.0, syscalls - own)
            parts += _times(f"(all) {provider}", stage, passing, costs)
            if consumer > 1:  # the loop over consumers, which is in the stage, began with the second
                parts += _times(f"(all) {provider}", "iteration", -passing, costs)
    if all(any(probe.provider == provider for probe in script.probes) for provider in SYSCALLS):
        parts += _times("(all) syscalls", "shared-passage", syscalls, model.general)
    return parts


def _width(probe: Probe) -> int:
    """How many consumers a trace point of system calls has of a probe."""
    programs = [consumer for consumer in probe.consumers if consumer.program is not None]
    return len(probe.consumers) - len(programs) + bool(programs)


def _samples(model: CostModel, script: Script, base: float, notes: list[str]) -> list[Part]:
    """Timer sampling: the more the samples take, the longer it lasts, and the more samples there are."""
    probes = [probe for probe in script.probes if probe.period_ns is not None]
    shares, parts = [], []
    for probe in probes:
        period = probe.period_ns or math.inf
        if period < LEAST_PERIOD_NS:
            notes.append(f"sample {period:g} ns: the kernel takes {LEAST_PERIOD_NS} ns instead")
            period = LEAST_PERIOD_NS
        shares.append((probe, period, _sample_cost(model, probe)))
    load = math.fsum(cost.value / period for _, period, cost in shares)
    if load >= 1:
        raise UsageError("saturated: a sample takes longer than its period, and the workload would never end")
    for probe, period, cost in shares:
        parts.append(Part(f"sample {probe.period_ns:g} ns", "sample", base / (1 - load) / period, cost))
    return parts


def _sample_cost(model: CostModel, probe: Probe) -> Cost:
    """A sample, and the stack that it takes: that costs something, and each frame of the kernel's and of the user's."""
    stages = model.providers["sample"].stages
    programs = [consumer.program for consumer in probe.consumers if consumer.program is not None]
    # A program that says no is all that is left of a sample: none is recorded.
    wanted: list[tuple[Stage, float]] = [("programs" if programs else "sample", 1.0)]
    stacked = [consumer for consumer in probe.consumers if consumer.stack_frames is not None]
    if stacked:
        wanted += [("stack", 1.0), ("frame", stacked[0].stack_frames or 0.0), ("user-frame", stacked[0].user_frames)]
    for stage, count in wanted:
        if count and stage not in stages:
            raise UsageError(f"the model has no stage {stage!r} for samples", hint=f"it has {', '.join(stages)}")
    parts = [Part("", stage, count, stages[stage]) for stage, count in wanted if count]
    for program in programs:
        parts += _times("samples", "instruction", program.instructions, model.providers["kprobe-ftrace"].stages)
        parts += _calls(model, "samples", program, 1.0, "sample")
    ends = [math.fsum(part.count * getattr(part.cost, end) for part in parts) for end in ("value", "low", "high")]
    return Cost(value=ends[0], low=ends[1], high=ends[2])


def ratio(value: float) -> str:
    """1.0x, and as many digits as the difference from 1 needs to show two of them."""
    if value == 1:
        return "1.0x"
    return f"{value:.{max(2, 1 - math.floor(math.log10(abs(value - 1))))}f}x"
