# SPDX-License-Identifier: MIT
"""Cheaper ways to ask what a script asks, and what the model says of each.

What a variant tells may differ from what the script tells, and its text says how: a map has no order of events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .copies import copies_at
from .foreign import WAKE_UPS, WAKES, Foreign, Priced
from .model.cost import Call, CostModel, Histogram, Probe

#: Functions of the kernel that serve one system call, and that call.
_SERVES = re.compile(r"(?:__x64_sys_|ksys_|__do_sys_)(\w+)|do_sys_(openat)2")
#: Samples a second that a sampler may take instead, the most first: odd, so that they do not keep step with ticks.
RATES = (499, 199, 99, 49, 19, 9)
#: What a filter takes that comes first: the task's number, and its comparison.
_FIRST = 8


@dataclass(frozen=True)
class Variant:
    """Another probe in a probe's place; `share` of a CPU that the script then takes."""

    what: str
    probe: Probe
    share: float = 0.0

    def costing(self, share: float) -> Variant:
        return replace(self, share=share)


@dataclass(frozen=True)
class Chosen:
    """Changes by the probe's place, and what the script takes with them."""

    changes: list[tuple[int, Variant]]
    share: float


def variants(model: CostModel, one: Priced, script: Foreign) -> Iterator[Variant]:
    """Of one probe, each by itself; only such as the model has a price for."""
    yield from _other_providers(model, one)
    if one.likely.period_ns is not None:
        for rate in RATES:
            period = 1e9 / rate
            if period > one.likely.period_ns:
                yield Variant(f"{rate} samples a second", one.likely.model_copy(update={"period_ns": period}))
    program = one.likely.consumers[0].program
    if program is None:
        if one.likely.period_ns is None:
            yield from _counted(one)
        return
    printed = [call for call in program.calls if call.name in WAKES]
    if printed:
        size = printed[0].bytes
        rest = [call for call in program.calls if call.name not in (*WAKES, *WAKE_UPS)]
        calls = [*rest, *(Call(name=name, bytes=size, times=printed[0].times) for name in ("look", "put"))]
        yield Variant("count in a map what it prints: no order, no times", _with(one, calls=calls))
    passes = script.passes.get(one.probe)
    if passes is not None and passes < 1:
        whole = one.accepted
        calls = [Call(name="pid")]
        calls += [Call(name=name, bytes=size, times=passes * times) for (name, size), times in whole.calls.items()]
        instructions = _FIRST + passes * whole.instructions
        yield Variant("filter first, by the task's number", _with(one, calls=calls, instructions=instructions))


def _counted(one: Priced) -> Iterator[Variant]:
    """Events that are counted where they are recorded."""
    if any(consumer.record for consumer in one.likely.consumers):
        update = {"record": False, "histogram": Histogram(), "stack_frames": None}
        consumers = [consumer.model_copy(update=update if consumer.record else {}) for consumer in one.likely.consumers]
        counted = one.likely.model_copy(update={"consumers": consumers})
        yield Variant("count by one key, in a hist: trigger, what it records: no order, no times, no stacks", counted)


def _other_providers(model: CostModel, one: Priced) -> Iterator[Variant]:
    point = one.likely.point
    served = None if any(char in point for char in "*?[") else _SERVES.match(point)
    returns = one.provider == "kretprobe"
    if one.provider.startswith(("kprobe", "kretprobe")) and served:
        name = served.group(1) or served.group(2)
        provider, begin = ("syscall-return", "sys_exit_") if returns else ("syscall", "sys_enter_")
        if provider in model.providers:
            point = f"syscalls:{begin}{name}"
            copied = copies_at(model, provider, point).ends[1]
            yield Variant(f"tracepoint:{point}", _at(one, provider).model_copy(update={"fields": copied}))
    programs = all(consumer.program is not None for consumer in one.likely.consumers)
    kprobe = one.provider.startswith("kprobe") and one.provider != "kprobe-optimised"
    if kprobe and programs and "fprobe" in model.providers:
        yield Variant("kfunc (as dear as an fprobe, at most)", _at(one, "fprobe"))
    if one.provider == "kprobe-int3" and "kprobe-ftrace" in model.providers:
        yield Variant("the function's first instruction", _at(one, "kprobe-ftrace"))


def _at(one: Priced, provider: str) -> Probe:
    return one.likely.model_copy(update={"provider": provider})


def _with(one: Priced, **update: object) -> Probe:
    consumer = one.likely.consumers[0]
    assert consumer.program is not None
    program = consumer.program.model_copy(update=update)
    return one.likely.model_copy(update={"consumers": [consumer.model_copy(update={"program": program})]})


def cheapest(
    probes: Sequence[Probe],
    offers: Sequence[Sequence[Variant]],
    share: Callable[[Sequence[Probe]], float],
    budget: float,
) -> Chosen:
    """As few changes as stay below the budget: each time the one that saves most; all that save, if none of it fits.

    A sampler's rate goes down no further than it must.
    """
    now, taken = list(probes), share(probes)
    changes: list[tuple[int, Variant]] = []
    while taken > budget:
        tried = [
            (share([*now[:place], variant.probe, *now[place + 1 :]]), place, number)
            for place, mine in enumerate(offers)
            if place not in {changed for changed, _ in changes}
            for number, variant in enumerate(mine)
        ]
        better = [one for one in tried if one[0] < taken]
        if not better:
            break
        fitting = [one for one in better if one[0] <= budget]
        taken, place, number = max(fitting) if fitting else min(better)
        now[place] = offers[place][number].probe
        changes.append((place, offers[place][number]))
    return Chosen(changes, taken)
