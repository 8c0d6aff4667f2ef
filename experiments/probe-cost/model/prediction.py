# SPDX-License-Identifier: MIT
"""What a script of probes will cost a workload, by a fitted cost model, split by probe and stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError

from .cost import BY_FTRACE, PROGRAMS_ONLY, SYSCALLS, USER, CostModel, Counts, Probe, Script, Stage, Unit
from .firing import Part, handling_of, probe_parts, samples, staged
from .readers import FED, Looks, buffers_of, looks_of, rings_of, together

READERS = "(readers)"
#: Turns until a sum tells the time that it was made for, how alike the two are, and how much longer is without an end.
TURNS, SAME, MOST = 200, 1e-9, 1e4


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
    likely = _settled(model, script, counts, firings, _likely)
    low, high = _ends(model, script, counts, firings, likely)
    fired = math.fsum(_with_echo(script, firings, likely.looks).values())
    fired += math.fsum(part.count for part in likely.parts if part.stage == "sample")
    return _sum_up(model, counts, likely, (low, high), fired)


@dataclass(frozen=True)
class _Settled:
    """A sum that tells the time that it was made for; not yet, if it has not `ended` in so many turns."""

    ended: bool
    added: float
    parts: list[Part]
    looks: Looks
    notes: list[str]


def _settled(
    model: CostModel,
    script: Script,
    counts: Counts,
    firings: Mapping[int, float],
    sum_of: Callable[[Sequence[Part]], float],
) -> _Settled:
    lasts, looks, added, ended = counts.cost, Looks(), 0.0, False
    for _ in range(TURNS):
        looks = _looks(model, script, counts, firings, lasts, looks)
        notes: list[str] = []
        parts = _parts(model, script, counts, firings, looks, notes)
        handling = {index: handling_of(_of(parts, script.probes[index], index)) for index in firings}
        parts += samples(model, script, counts.cost, handling, sum_of(parts), notes)
        added = sum_of(parts)
        before, lasts = lasts, counts.cost + added
        ended = abs(lasts - before) <= SAME * lasts
        if ended:
            break
        if not lasts <= MOST * counts.cost:
            raise UsageError("saturated: what readers take makes more for them to take, without an end")
    return _Settled(ended, added, [part for part in parts if part.count], looks, notes)


def _likely(parts: Sequence[Part]) -> float:
    return math.fsum(part.added for part in parts)


def _ends(
    model: CostModel, script: Script, counts: Counts, firings: Mapping[int, float], likely: _Settled
) -> tuple[float, float]:
    """What is added by the lower and by the upper ends of costs, in the time that it takes itself.

    Readers that feed themselves make a small error of a cost a large one of the sum; near saturation there is no end.
    """
    most = 0.0
    if model.accuracy is not None:  # what the stages do not know of each other is known from scripts that were held out
        most = model.accuracy.added_worst if model.accuracy.added_most is None else model.accuracy.added_most

    def lower(parts: Sequence[Part]) -> float:
        return max(0.0, math.fsum(part.count * part.cost.low for part in parts) - most * _likely(parts))

    def upper(parts: Sequence[Part]) -> float:
        return math.fsum(part.count * part.cost.high for part in parts) + most * _likely(parts)

    low = _settled(model, script, counts, firings, lower).added
    try:
        high = _settled(model, script, counts, firings, upper)
        if high.ended:
            return low, high.added
    except UsageError:
        pass
    likely.notes.append("near saturation: by the upper ends of its costs what readers take has no end")
    return low, MOST * counts.cost


def _with_echo(script: Script, firings: Mapping[int, float], looks: Looks) -> dict[int, float]:
    """Firings of the workload and of the readers, by the probe's place in the script."""
    return {
        index: count + looks.wakes * probe.by_wake + looks.ring_wakes * _by_ring(probe) + looks.reads * probe.by_read
        for index, count in firings.items()
        for probe in [script.probes[index]]
    }


def _by_ring(probe: Probe) -> float:
    return probe.by_wake if probe.by_ring is None else probe.by_ring


def _echoing(script: Script, firings: Mapping[int, float], looks: Looks) -> Script:
    """With filters that pass as often as they do of all firings: of a reader's reads other ones do."""
    probes = list(script.probes)
    for index, count in _with_echo(script, firings, looks).items():
        probe = probes[index]
        if looks.reads * probe.by_read and count:
            probes[index] = _passing(probe, looks.reads * probe.by_read / count)
    return script.model_copy(update={"probes": probes})


def _passing(probe: Probe, share: float) -> Probe:
    """A probe of whose firings this share is of reads."""
    consumers = []
    for consumer in probe.consumers:
        predicate = consumer.predicate
        if predicate is not None and predicate.read_passes is not None:
            passes = (1 - share) * predicate.passes + share * predicate.read_passes
            consumers.append(consumer.model_copy(update={"predicate": predicate.model_copy(update={"passes": passes})}))
        else:
            consumers.append(consumer)
    return probe.model_copy(update={"consumers": consumers})


def _looks(
    model: CostModel, script: Script, counts: Counts, firings: Mapping[int, float], lasts: float, looks: Looks
) -> Looks:
    """What the readers do in a run that lasts so long; `looks` is what they did in the one of the turn before."""
    refresh = script.refresh
    if refresh is None:
        return looks
    buffers = buffers_of(_echoing(script, firings, looks), counts, _with_echo(script, firings, looks))
    if refresh.period_ns is None:
        return Looks(refresh.wakes or 0.0, (refresh.wakes or 0.0) * (refresh.buffers - 1), refresh.pages)
    if refresh.reads is None and any(buffer.fed > FED for buffer in buffers):
        raise UsageError("saturated: each read of a buffer writes into it, and its reader never finds it empty")
    by_reader = [[buffer] for buffer in buffers] if refresh.each else [buffers] if buffers else []
    # A reader that works keeps those waiting that are to wake up meanwhile, and from then on they come when it has
    # done: all have the period of the one that works longest.
    rings = len(rings_of(script))
    waking = Looks(ring_wakes=looks.ring_wakes)
    working = [one for one in (*looks.readers, waking) if one.all_wakes]
    longest = max((_work(model, script, one) / one.all_wakes for one in working), default=0.0)
    wakes = lasts / (refresh.period_ns + longest)
    return together([looks_of(refresh, own, wakes) for own in by_reader], [wakes] * rings)


def _work(model: CostModel, script: Script, looks: Looks) -> float:
    """What one reader takes from its waking up to its sleep: its looks, and the probes that these fire."""
    work = math.fsum(part.added for part in _reading(model, looks))
    for probe in script.probes:
        if probe.period_ns is None and (times := looks.reads * probe.by_read):
            work += math.fsum(part.added for part in probe_parts(model, _passing(probe, 1.0), "", times, []))
    return work


def _reading(model: CostModel, looks: Looks) -> list[Part]:
    """What readers themselves take."""
    parts: list[Part] = []
    for stage, count in (
        ("refresh", looks.wakes),
        ("beside", looks.beside if "beside" in model.general else 0.0),
        ("buffer", looks.buffers),
        ("page", looks.pages),
        ("partial", looks.partials),
        ("copied", looks.copied),
        ("byte", looks.bytes),
        ("ring-wake", looks.ring_wakes),
    ):
        parts += staged(READERS, stage, count, model.general)  # type: ignore[arg-type]
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
    script = _echoing(script, plain, looks)
    parts: list[Part] = []
    for index, count in firings.items():
        probe = script.probes[index]
        parts += probe_parts(model, probe, _label(probe, index), count, notes)
    parts += _shared_places(model, script, firings)
    parts += _listed(model, script, firings)
    syscalls = counts.syscalls + looks.all_wakes * counts.syscalls_by_wake + looks.reads
    parts += _passages(model, script, firings, syscalls)
    recorded = math.fsum(count * _recorded(script.probes[index]) for index, count in firings.items())
    # What leaves the CPU has its name saved if something was recorded since the switch before.
    parts += staged("(all)", "switch", min(counts.switches + looks.all_wakes, recorded), model.general)
    parts += _reading(model, looks)
    if looks.ring_wakes:
        for probe, kind in rings_of(script):
            count = firings[script.probes.index(probe)]
            parts += staged(READERS, "taken" if kind == "ring" else "perf-taken", count, model.general)
    return parts


def _recorded(probe: Probe) -> float:
    """The share of a probe's firings that tracefs records: a consumer whose filter is false records none."""
    consumers = [one for one in probe.consumers if one.record and one.program is None and probe.period_ns is None]
    return max((one.predicate.passes if one.predicate else 1.0 for one in consumers), default=0.0)


def _sum_up(
    model: CostModel, counts: Counts, likely: _Settled, ends: tuple[float, float], firings: float
) -> Prediction:
    notes, looks = likely.notes, likely.looks
    if model.accuracy is None:
        notes.append("no script was held out: the interval is that of the stages alone")
    # One run is not the next one, and of readers one look more or less falls into it.
    reading = _likely([part for part in likely.parts if part.probe == READERS])
    loose = counts.drift + (reading / looks.all_wakes / 2 if looks.all_wakes else 0.0)
    low, high = max(ends[0] - loose, 0.0), ends[1] + loose
    if not firings and not likely.added:
        notes.append("no probe fires: the workload takes exactly what it takes untraced")
    elif not firings:
        notes.append("no probe fires; what is added is what enabled probes cost where they do not fire")
    return Prediction(counts.cost, likely.added, low, high, model.unit, likely.parts, firings, looks, notes)


def _of(parts: Sequence[Part], probe: Probe, index: int) -> list[Part]:
    return [part for part in parts if part.probe == _label(probe, index)]


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
        parts += staged(f"(all) {point}", "same-place", sum(firings[:-1]), {"same-place": least})
    return parts


def _listed(model: CostModel, script: Script, fired: Mapping[int, float]) -> list[Part]:
    """What listens to a function alone is called at once; of several, ftrace asks all that listen to any function.

    Each program of fprobe's is a listener, and all kprobes by ftrace are one.
    """
    costs = model.providers["fprobe"].stages if "fprobe" in model.providers else {}
    kprobes = {probe.point for probe in script.probes if probe.provider in BY_FTRACE}
    programs: dict[str, int] = {}
    firings: dict[str, float] = {}
    for index, count in fired.items():
        probe = script.probes[index]
        if probe.provider == "fprobe":
            programs[probe.point] = programs.get(probe.point, 0) + len(probe.consumers)
            firings[probe.point] = max(count, firings.get(probe.point, 0.0))
    listeners = sum(programs.values()) + bool(kprobes)
    parts: list[Part] = []
    for point, own in programs.items():
        mixed = point in kprobes
        if own + mixed > 1 and "listed" in costs:
            parts += staged(f"(all) {point}", "listed", firings[point] * (listeners - own - mixed), costs)
        if mixed and "mixed" in costs:
            parts += staged(f"(all) {point}", "mixed", firings[point], costs)
            if own > 1:  # the list of listeners, which is in the stage, is there already
                parts += staged(f"(all) {point}", "iteration", -firings[point], costs)
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
            parts += staged(f"(all) {provider}", stage, passing, costs)
            if consumer > 1:  # the loop over consumers, which is in the stage, began with the second
                parts += staged(f"(all) {provider}", "iteration", -passing, costs)
    if all(any(probe.provider == provider for probe in script.probes) for provider in SYSCALLS):
        parts += staged("(all) syscalls", "shared-passage", syscalls, model.general)
    return parts


def _width(probe: Probe) -> int:
    """How many consumers a trace point of system calls has of a probe."""
    programs = [consumer for consumer in probe.consumers if consumer.program is not None]
    return len(probe.consumers) - len(programs) + bool(programs)


def ratio(value: float) -> str:
    """1.0x, and as many digits as the difference from 1 needs to show two of them."""
    if value == 1:
        return "1.0x"
    return f"{value:.{max(2, 1 - math.floor(math.log10(abs(value - 1))))}f}x"
