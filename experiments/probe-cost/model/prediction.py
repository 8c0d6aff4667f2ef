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
    Probe,
    Script,
    Stage,
    Unit,
)


@dataclass(frozen=True)
class Part:
    """One stage of one probe: `count` times `cost.value` is what it adds."""

    probe: str
    stage: Stage
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

    UsageError for a workload that the model has not counted, a probe without a firing count, a provider or a stage
    that the model lacks, and samples that take longer than their period.
    """
    counts = _counts(model, script)
    notes: list[str] = []
    parts: list[Part] = []
    firings = 0.0
    for index, probe in enumerate(script.probes):
        if probe.provider not in model.providers:
            known = ", ".join(model.providers)
            raise UsageError(f"the model has no provider {probe.provider!r}", hint=f"it has {known}")
        if probe.provider == "sample":
            continue
        count = _firings(probe, counts, script.workload)
        firings += count
        parts += _probe_parts(model, probe, _label(probe, index), count, notes)
    parts += _shared_places(model, script, counts)
    parts += _passages(model, script, counts)
    if any(c.record and c.program is None for probe in script.probes for c in probe.consumers if not probe.period_ns):
        parts += _times("(all)", "switch", counts.switches, model.general)
    if script.refresh is not None:
        refresh = script.refresh
        parts += _times("(all)", "refresh", refresh.wakes, model.general)
        parts += _times("(all)", "buffer", refresh.wakes * (refresh.buffers - 1), model.general)
        parts += _times("(all)", "page", refresh.pages, model.general)
    parts += _samples(model, script, counts.cost + math.fsum(part.added for part in parts), notes)
    parts = [part for part in parts if part.count]
    return _sum_up(model, counts, parts, firings + sum(p.count for p in parts if p.stage == "sample"), notes)


def _sum_up(model: CostModel, counts: Counts, parts: list[Part], firings: float, notes: list[str]) -> Prediction:
    added = math.fsum(part.added for part in parts)
    low = math.fsum(part.count * part.cost.low for part in parts)
    high = math.fsum(part.count * part.cost.high for part in parts)
    if model.accuracy is None:
        notes.append("no script was held out: the interval is that of the stages alone")
    else:  # what the stages do not know of each other is known from scripts that were held out
        low, high = low - added * model.accuracy.added_worst, high + added * model.accuracy.added_worst
    if not firings and not added:
        notes.append("no probe fires: the workload takes exactly what it takes untraced")
    elif not firings:
        notes.append("no probe fires; what is added is what enabled probes cost where they do not fire")
    return Prediction(counts.cost, added, max(low, 0.0), high, model.unit, parts, firings, notes)


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
        count -= probe.misses
    if probe.provider == "uretprobe" and probe.depth > MOST_DEPTH:
        lost = 1 - MOST_DEPTH / probe.depth
        notes.append(f"{label}: deeper than {MOST_DEPTH} calls, {lost:.0%} of the returns are lost and nothing says so")
    programs = [consumer.program for consumer in probe.consumers if consumer.program is not None]
    instances = [consumer for consumer in probe.consumers if consumer.program is None]
    if probe.provider in PROGRAMS_ONLY and instances:
        raise UsageError(f"{label}: only a program can be a consumer of {probe.provider}")
    # Each program of these is a consumer of the function or the trace point itself, and no part of an event.
    deliveries = count * len(programs) if probe.provider in PROGRAMS_ONLY else count
    add("trap", deliveries if "trap" in costs else 0)
    add("dispatch", deliveries)
    if probe.provider in TRACE_POINTS and len(instances) + bool(programs) > 1:
        add("iteration", count)
    fetches = count if probe.provider in USER else count * len(instances)
    for stage, number in probe.fields.numbers().items():
        add(stage, fetches * number)
    for consumer in instances:
        _consumer(add, consumer, count)
    if programs and probe.provider not in PROGRAMS_ONLY:
        add("programs", count)
        add("program", count * len(programs))
    for program in programs:
        add("instruction", count * program.instructions)
        add("aggregation", count * program.aggregations)
    return parts


def _consumer(add: Callable[[Stage, float], None], consumer: Consumer, count: float) -> None:
    """A tracefs instance: its record, its filter, its actions."""
    predicate = consumer.predicate
    passes = 1.0 if predicate is None else predicate.passes
    true, false = count * passes, count * (1 - passes)
    add("consumer", count)
    if not consumer.record:
        add("unrecorded", count)
    if predicate is not None:
        extra = (predicate.terms_if_true or predicate.terms) - 1
        evaluated = true * extra + false * (predicate.terms_if_false - 1)
        if consumer.record:
            add("predicate", true)
            add("predicate-false", false)
            add("term", evaluated)
        if consumer.histogram is not None:
            # Aggregated first, then thrown away by the filter: the stage is the difference to having aggregated.
            add("trigger-predicate", true)
            add("histogram-false", false)
            add("term", evaluated)
        if consumer.stack_frames is not None:
            add("trigger-predicate", count)
            add("term", evaluated)
    if consumer.histogram is not None:
        add("histogram", count)
        add("second-key", true if consumer.histogram.keys > 1 else 0)
        add("key", true * max(0, consumer.histogram.keys - 2))
        add("value", true * consumer.histogram.values)
    if consumer.stack_frames is not None:
        add("stack", true)
        add("frame", true * consumer.stack_frames)


def _shared_places(model: CostModel, script: Script, counts: Counts) -> list[Part]:
    """Probes on one place are served by one trap: each further one is cheaper by the least that any of them shares."""
    places: dict[str, list[Probe]] = {}
    for probe in script.probes:
        if probe.point and "same-place" in model.providers[probe.provider].stages:
            places.setdefault(probe.point, []).append(probe)
    parts: list[Part] = []
    for point, probes in places.items():
        firings = sorted(_firings(probe, counts, script.workload) for probe in probes)
        sharing = {probe.provider for probe in probes}
        if len(sharing) > 1 and sharing <= USER and "uprobe" in model.providers:
            sharing.add("uprobe")  # what two kinds share is the plain trap, neither's second one
        shares = [model.providers[name].stages["same-place"] for name in sorted(sharing)]
        least = max(shares, key=lambda cost: cost.value)
        parts += _times(f"(all) {point}", "same-place", sum(firings[:-1]), {"same-place": least})
    return parts


def _passages(model: CostModel, script: Script, counts: Counts) -> list[Part]:
    """Probes on system calls cost something at all others: each passes through the slow way in or out."""
    parts: list[Part] = []
    for provider in SYSCALLS:
        mine = [probe for probe in script.probes if probe.provider == provider]
        most = max((len(probe.consumers) for probe in mine), default=0)
        costs = model.providers[provider].stages if mine else {}
        for consumer in range(most):
            own = sum(_firings(p, counts, script.workload) for p in mine if len(p.consumers) > consumer)
            stage: Stage = "passage" if consumer == 0 else "second-passage"
            parts += _times(f"(all) {provider}", stage, max(0.0, counts.syscalls - own), costs)
    if all(any(probe.provider == provider for probe in script.probes) for provider in SYSCALLS):
        parts += _times("(all) syscalls", "shared-passage", counts.syscalls, model.general)
    return parts


def _samples(model: CostModel, script: Script, base: float, notes: list[str]) -> list[Part]:
    """Timer sampling: the more the samples take, the longer it lasts, and the more samples there are."""
    probes = [probe for probe in script.probes if probe.period_ns is not None]
    shares, parts = [], []
    for probe in probes:
        period = probe.period_ns or math.inf
        if period < LEAST_PERIOD_NS:
            notes.append(f"sample {period:g} ns: the kernel takes {LEAST_PERIOD_NS} ns instead")
            period = LEAST_PERIOD_NS
        if any(consumer.stack_frames is not None for consumer in probe.consumers):
            notes.append(
                f"sample {period:g} ns: stacks are taken to be as deep as the fitted ones, whatever the script says"
            )
        shares.append((probe, period, _sample_cost(model, probe)))
    load = math.fsum(cost.value / period for _, period, cost in shares)
    if load >= 1:
        raise UsageError("saturated: a sample takes longer than its period, and the workload would never end")
    for probe, period, cost in shares:
        parts.append(Part(f"sample {probe.period_ns:g} ns", "sample", base / (1 - load) / period, cost))
    return parts


def _sample_cost(model: CostModel, probe: Probe) -> Cost:
    stages = model.providers["sample"].stages
    stage: Stage = "stack" if any(c.stack_frames is not None for c in probe.consumers) else "sample"
    if stage not in stages:
        raise UsageError(f"the model has no stage {stage!r} for samples", hint=f"it has {', '.join(stages)}")
    return stages[stage]
