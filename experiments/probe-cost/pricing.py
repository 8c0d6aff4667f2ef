# SPDX-License-Identifier: MIT
"""What a script in another tool's language costs: each firing of each probe, and all whose number is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from harness.errors import UsageError

from .advice import Variant, cheapest, variants
from .foreign import ONCE, WAKES, Foreign, Priced, Reading, read
from .model.cost import CostModel, Counts, Probe, Script
from .model.prediction import Prediction, predict, ratio

#: Long enough that a sample's own time does not matter.
_LONG = 1e15
NANOSECONDS = 1e9


def price(model: CostModel, script: Foreign) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Tables and lines, for the hook `predict`. UsageError where nothing of the script has a price."""
    found = read(script, model)
    if not found.priced:
        first = next((one for one in found.unpriced if one[0] not in ONCE), found.unpriced[0])
        raise UsageError(f"nothing of the script has a price: {first[0]}: {first[1]}")
    unit = _unit(model)
    of_all = ("firings", f"in all, {unit}") if script.base else ("firings/s", f"{unit}/s")
    columns = ["probe", "as", of_all[0], f"each, {unit}", "least", "most", of_all[1]]
    tables = {"Each firing": pd.DataFrame([_row(model, script, one) for one in found.priced], columns=columns)}
    if found.unpriced:
        tables["Without a price"] = pd.DataFrame(found.unpriced, columns=["probe", "why"])
    lines = list(_lines(model, script, found))
    if script.budget is not None:
        table, told = _advice(model, script, found, script.budget)
        tables["Cheaper, one at a time"] = table
        lines = [*told, *lines]
    return tables, lines


def _unit(model: CostModel) -> str:
    return "instr" if model.unit == "instructions" else model.unit


def each(model: CostModel, probe: Probe) -> tuple[float, float, float]:
    """What one firing, or sample, of a probe costs: value, low, high."""
    firings = None if probe.period_ns is not None else 1.0
    one = probe.model_copy(update={"firings": firings})
    made = predict(model, Script(workload=Counts(cost=_LONG), probes=[one]))
    count = made.firings or 1.0
    return made.added / count, made.low / count, made.high / count


def whole(model: CostModel, script: Foreign, probes: Sequence[Probe]) -> Prediction:
    """All of them together, in the time that was counted, of each CPU; or in what the program takes."""
    time = _time(script) * script.cpus
    return predict(model, Script(workload=Counts(cost=time, syscalls=script.syscalls or 0.0), probes=list(probes)))


def _time(script: Foreign) -> float:
    """Of a CPU, in nanoseconds, each an instruction where a program's were counted."""
    return script.base or script.seconds * NANOSECONDS


def _row(model: CostModel, script: Foreign, one: Priced) -> tuple[str, ...]:
    value, low, high = each(model, one.likely)[0], each(model, one.least)[1], each(model, one.most)[2]
    told = one.firings is not None
    rate = (one.firings or 0.0) / (1.0 if script.base else script.seconds)
    return (
        one.probe,
        one.provider,
        f"{rate:,.0f}" if told else "",
        f"{value:,.0f}",
        f"{low:,.0f}",
        f"{high:,.0f}",
        f"{rate * value:,.0f}" if told else "",
    )


def _lines(model: CostModel, script: Foreign, found: Reading) -> Iterator[str]:
    counted = [one for one in found.priced if one.firings is not None]
    if counted:
        likely = whole(model, script, [one.likely for one in counted])
        least = whole(model, script, [one.least for one in counted]).low
        most = whole(model, script, [one.most for one in counted]).high
        yield from _sum(model, script, likely, least, most)
    for one in found.priced:
        if one.firings is None:
            why = script.absent.get(one.probe, "nobody has counted: --live, -- PROGRAM, or --set with a file of rates")
            yield f"not in the sum: {one.probe}: how often it fires is not known: {why}"
    for probe, why in found.unpriced:
        yield f"not in the sum: {probe}: {why}"
    for one in found.priced:
        yield from (f"note: {one.probe}: {note}" for note in one.notes)
    yield from (f"note: {note}" for note in script.notes)
    if any(one.provider.startswith("syscall") for one in found.priced) and script.syscalls is None:
        yield "note: a probe on a system call makes all others dearer; how many there are is not told"
    if any(call.name in WAKES for one in found.priced for call in one.calls()):
        also = _woken(model, counted)
        yield f"note: what the tool's own process takes to read and print events is not in the sum{also}"
    elif any(consumer.record and not consumer.program for one in found.priced for consumer in one.likely.consumers):
        yield "note: what reads the buffers is not in the sum"
    how = "compiled by" if script.programs else "recorded as by"
    yield f"{how} {script.tool}; by {model.experiment}/{model.arm} on {model.kernel}, fidelity {model.fidelity}"


def _woken(model: CostModel, counted: Sequence[Priced]) -> str:
    """What that process takes at least."""
    calls = [((one.firings or 0.0) * call.times, call.name) for one in counted for call in one.calls()]
    costs = {wake: model.calls[woken].each.value for wake, woken in WAKES.values() if woken in model.calls}
    least = sum(times * costs[name] for times, name in calls if name in costs)
    return f": at least {least:,.0f} {model.unit} more, on one CPU" if least else ""


def _sum(model: CostModel, script: Foreign, likely: Prediction, least: float, most: float) -> Iterator[str]:
    if script.base:
        yield f"untraced: {script.base:,.0f} instructions on {script.counted_on}"
        yield f"added:    {likely.added:,.0f} {model.unit} [{least:,.0f}, {most:,.0f}]"
        low, high = (ratio(1 + added / likely.base) for added in (least, most))
        yield f"slowdown: {ratio(likely.slowdown)} [{low}, {high}]"
        if model.unit != "instructions":
            yield "note: the slowdown takes an instruction as a nanosecond"
        if script.counted_on != model.kernel:
            yield f"note: counted on {script.counted_on}, and what a firing costs was measured on {model.kernel}"
        return
    told = (f"{value / script.seconds:,.0f}" for value in (likely.added, least, most))
    yield "a second: {} {} [{}, {}], {:.2%} of {} CPUs{}".format(
        *(next(told), model.unit, next(told), next(told), likely.added / likely.base, script.cpus),
        " at one instruction a ns" if model.unit == "instructions" else "",
    )


def _advice(model: CostModel, script: Foreign, found: Reading, budget: float) -> tuple[pd.DataFrame, list[str]]:
    """The variants of each probe, and the cheapest script that stays below; budget is a share of a CPU's time."""
    counted = [one for one in found.priced if one.firings is not None]
    if not counted:
        raise UsageError(
            "--below needs to know how often probes fire", hint="--live, -- PROGRAM, or --set with a file of rates"
        )

    def share(probes: Sequence[Probe]) -> float:
        return whole(model, script, probes).added / _time(script)

    of = "what the program takes" if script.base else "a CPU"
    as_is = share([one.likely for one in counted])
    rows: list[tuple[str, ...]] = []
    offers: list[list[Variant]] = []
    for place, one in enumerate(counted):
        mine = []
        for variant in variants(model, one, script):
            probes = [variant.probe if at == place else other.likely for at, other in enumerate(counted)]
            mine.append(variant.costing(share(probes)))
            rows.append((one.probe, variant.what, f"{as_is:.2%}", f"{mine[-1].share:.2%}"))
        offers.append(mine)
    table = pd.DataFrame(rows, columns=["probe", "instead", "as it is", "then"])
    if as_is <= budget:
        return table, [f"as it is: {as_is:.2%} of {of}, which is below {budget:.2%}"]
    chosen = cheapest([one.likely for one in counted], offers, share, budget)
    told = [f"as it is: {as_is:.2%} of {of}; below {budget:.2%} is wanted"]
    told += [f"  instead of {counted[place].probe}: {variant.what}" for place, variant in chosen.changes]
    fits = "fits" if chosen.share <= budget else "is the least that is known here, and does not fit"
    return table, [*told, f"that takes {chosen.share:.2%}, and {fits}"]
