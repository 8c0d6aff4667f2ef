# SPDX-License-Identifier: MIT
"""Sets of one plan as one: whether they are, which trials they have between them, and what is wanting or conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.artefacts.store import hash_of
from harness.errors import RunError, UsageError
from harness.experiment.model import Experiment
from harness.sets.digest import HOST_TIMED, first_difference
from harness.sets.manifest import Manifest, Planned
from harness.sets.provenance import MEASURING, Host, source_hash
from harness.sets.reference import deterministic_inputs, first_input_difference
from harness.sets.resultset import ResultSet
from harness.trial.model import TrialRecord
from harness.trial.part import Part, plan_id
from harness.trial.plan import PlannedTrial, ordered

Key = tuple[str, int]


def planned(experiment: Experiment, plan: Sequence[PlannedTrial], part: Part) -> Planned:
    """What a manifest says of the whole plan."""
    counts: dict[str, int] = {}
    for trial in plan:
        counts[trial.arm] = counts.get(trial.arm, 0) + 1
    return Planned(
        id=plan_id(experiment, plan),
        repetitions={arm: counts[arm] for arm in experiment.arms if arm in counts},
        trials=len(plan),
        part=part.text,
        measuring=source_hash(MEASURING),
    )


@dataclass(frozen=True)
class Chosen:
    """One trial of the union: its record, and the place of its set among those that were given."""

    record: TrialRecord
    source: int


@dataclass(frozen=True)
class Union:
    """All trials that sets of one plan have between them, in the order of the plan, and those that none has."""

    trials: tuple[Chosen, ...]
    missing: tuple[PlannedTrial, ...]


def unite(sets: Sequence[ResultSet]) -> Union:
    """The union of these sets (at least one).

    UsageError when they are not of one plan, naming what differs, or when a trial was measured twice on the wall clock.
    RunError when a trial under the virtual clock has other bits in two of them. A failed trial yields to a good one.
    """
    first = sets[0].manifest
    for other in sets:
        if (difference := plan_difference(first, other.manifest)) is not None:
            raise UsageError(f"is of another plan than {first.id}: {difference}", where=str(other.path))
    chosen: dict[Key, Chosen] = {}
    files = _Files(sets)
    for source, one in enumerate(sets):
        for record in one.manifest.trials:
            key = (record.arm, record.repetition)
            there = chosen.get(key)
            if there is None or (there.record.status != "ok" and record.status == "ok"):
                chosen[key] = Chosen(record, source)
            elif record.status == "ok":
                _check_equal(files, there, Chosen(record, source))
    trials = whole_plan(sets[0])
    return Union(
        tuple(chosen[key] for trial in trials if (key := (trial.arm, trial.repetition)) in chosen),
        tuple(trial for trial in trials if (trial.arm, trial.repetition) not in chosen),
    )


def whole_plan(result: ResultSet) -> list[PlannedTrial]:
    """All trials of the plan that a set is a part of; UsageError when it does not say them, or they are others."""
    manifest = result.manifest
    plan = manifest.plan
    if not plan.id:
        raise UsageError("does not tell its plan: it is older than that", where=str(result.path))
    trials = ordered(manifest.experiment, plan.repetitions, manifest.seed)
    strange = {(record.arm, record.repetition, record.seed) for record in manifest.trials} - {
        (trial.arm, trial.repetition, trial.seed) for trial in trials
    }
    if strange or plan_id(manifest.experiment, trials) != plan.id:
        raise UsageError(
            "its plan comes out as another one here", where=str(result.path), hint="merge with the krepro that ran it"
        )
    return trials


def plan_difference(one: Manifest, other: Manifest) -> str | None:
    """What makes these sets' trials no trials of one run, by name and both values; None when they can be."""
    if not one.plan.id or not other.plan.id:
        return f"{(other if one.plan.id else one).id} does not tell its plan: it is older than that"
    for name, left, right in (
        ("experiment", one.experiment.name, other.experiment.name),
        ("seed", one.seed, other.seed),
    ):
        if left != right:
            return f"{name}: {left} there, {right} here"
    difference = first_input_difference(_definition(one), _definition(other))
    if difference is not None:
        return difference
    if one.plan.id != other.plan.id:
        return "its order or its arms"
    for left_part, right_part in zip(_shared(one, other), _shared(other, one), strict=True):
        if (difference := first_input_difference(left_part, right_part)) is not None:
            return difference
    return None


def _definition(manifest: Manifest) -> dict[str, Any]:
    """What both sets of one plan have alike, whatever part of it they are."""
    experiment, plan = manifest.experiment.model_dump(mode="json"), manifest.plan
    return {
        "repetitions": plan.repetitions,
        "arm": {name: arm for name, arm in experiment["arms"].items() if name in plan.repetitions},
        "workload": experiment["workloads"],
        "collect": experiment["collect"],
        "krepro": plan.measuring,
        "--accel": manifest.accelerator_asked,
        "experiment's file": manifest.experiment_files,
        "claims": hash_of(experiment["claims"]),
    }


def _shared(manifest: Manifest, other: Manifest) -> tuple[dict[str, Any], dict[str, str]]:
    """Inputs of the trials, of those kernels and arms that both have."""
    names = [name for name in manifest.kernels if name in other.kernels]
    inputs = deterministic_inputs(
        manifest.qemu,
        {name: manifest.kernels[name] for name in names},
        {name: manifest.images[name] for name in names},
    )
    fidelity = {f"fidelity of {arm}": kind for arm, kind in manifest.fidelity.items() if arm in other.fidelity}
    return inputs, fidelity


class _Files:
    """Hashes of the raw files of each trial, found in one pass over a set's files, when they are first asked for."""

    def __init__(self, sets: Sequence[ResultSet]) -> None:
        self.sets = sets
        self._found: dict[int, dict[str, dict[str, str]]] = {}

    def of(self, trial: Chosen) -> Mapping[str, str]:
        """sha256 by path; of a trial under the virtual clock, of those files that are bits of it."""
        by_folder = self._found.get(trial.source)
        if by_folder is None:
            by_folder = self._found[trial.source] = {}
            for name, value in self.sets[trial.source].manifest.files.items():
                by_folder.setdefault("/".join(name.split("/")[:3]), {})[name] = value
        files = by_folder.get(trial.record.path.as_posix(), {})
        told = HOST_TIMED if trial.record.clock == "virtual" else ()
        return {name: value for name, value in files.items() if name.rpartition("/")[2] not in told}


def _check_equal(files: _Files, left: Chosen, right: Chosen) -> None:
    difference = first_difference(files.of(left), files.of(right))
    if difference is None:
        return
    name = f"trial {left.record.arm} {left.record.repetition}"
    one, other = (files.sets[trial.source].path.name for trial in (left, right))
    if left.record.clock == "wall":
        raise UsageError(
            f"{name} was measured by the wall clock in {one} and in {other}: these are two measurements",
            hint="leave out one of the sets, or run another part",
        )
    raise RunError(f"{name} has other bits in {one} than in {other}: {difference}")


def hosts_of(sets: Sequence[ResultSet], union: Union) -> tuple[list[Host], list[TrialRecord]]:
    """The machines that ran the union's trials, and its records, each with the place of its own.

    One machine is told by its hardware and settings, not by its load: two sets of one host give one.
    """
    hosts: list[Host] = []
    places: dict[str, int] = {}
    records = []
    for trial in union.trials:
        manifest = sets[trial.source].manifest
        host = manifest.host if trial.record.host is None else manifest.hosts[trial.record.host]
        place = places.setdefault(
            hash_of(host.model_dump(mode="json", exclude={"load_before", "load_after"})), len(hosts)
        )
        if place == len(hosts):
            hosts.append(host)
        records.append(trial.record.model_copy(update={"host": place}))
    return hosts, records
