# SPDX-License-Identifier: MIT
"""A run whose kernels are not all built goes kernel by kernel: guests of the first run, and verdicts are told, before
the next is compiled for minutes. Trials of the wall clock wait for the last: their order is the plan's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.analysis.analyse import Hooks
from harness.artefacts.store import Store
from harness.errors import KreproError, UsageError
from harness.experiment.claim import Claim
from harness.experiment.model import Experiment
from harness.kernel.build import kernel_is_built
from harness.kernel.spec import KernelRecipe
from harness.measure.analysis import contained
from harness.measure.claims import ClaimResult, judge
from harness.measure.known import news_lines
from harness.measure.trials import TRIALS
from harness.measure.verdict import VERDICTS
from harness.run.prepared import Prepared
from harness.sets.resultset import Writer, read_metrics, read_tables
from harness.trial.model import TrialRecord, TrialSpec
from harness.trial.plan import PlannedTrial


def stages(
    store: Store, experiment: Experiment, plan: Sequence[PlannedTrial], recipes: Mapping[str, KernelRecipe]
) -> list[list[PlannedTrial]]:
    """The parts of a plan that are built and run one after another: one, unless a later kernel has to be built.

    `recipes`: by kernel, in the order of the experiment's arms.
    """
    later = list(recipes.values())[1:]
    if all(kernel_is_built(store, recipe) for recipe in later):
        return [list(plan)]
    return [[trial for trial in plan if experiment.arms[trial.arm].kernel == kernel] for kernel in recipes]


def in_turn(experiment: Experiment, part: Sequence[PlannedTrial]) -> list[list[PlannedTrial]]:
    """A part of a plan, and after it what is predicted by its trials; UsageError where those are not in it."""
    there = {(trial.arm, trial.repetition) for trial in part}
    later = [trial for trial in part if experiment.arms[trial.arm].predicted_by is not None]
    for trial in later:
        by = experiment.arms[trial.arm].predicted_by
        if (by, trial.repetition) not in there:
            what = f"trial {trial.arm} {trial.repetition} is predicted by that of {by}, which is not in this run"
            raise UsageError(what, hint=f"--arms {by},{trial.arm}, and no shard")
    return [half for half in ([trial for trial in part if trial not in later], later) if half]


@dataclass
class Together:
    """What the stages of a run have prepared by now."""

    plan: Sequence[PlannedTrial]
    parts: list[Prepared] = field(default_factory=list)

    @property
    def whole(self) -> Prepared:
        """As if it had been prepared at once; the trials that there are, in the order of the plan."""
        specs = {(spec.arm, spec.repetition): spec for part in self.parts for spec in part.trials}
        keys = [(trial.arm, trial.repetition) for trial in self.plan]
        return Prepared(
            trials=[specs[key] for key in keys if key in specs],
            builds={name: build for part in self.parts for name, build in part.builds.items()},
            states={name: state for part in self.parts for name, state in part.states.items()},
            why_tcg={name: why for part in self.parts for name, why in part.why_tcg.items()},
        )


def due(trials: Sequence[TrialSpec], sealed: Collection[tuple[str, int]], *, last: bool) -> list[TrialSpec]:
    """The trials that run now: those not sealed, those of the wall clock in the last stage only."""
    left = [spec for spec in trials if (spec.arm, spec.repetition) not in sealed]
    return [spec for spec in left if last or spec.machine.clock == "virtual"]


def settled(claims: Sequence[Claim], arms: Collection[str]) -> set[str]:
    """IDs of the claims that trials of other than these arms cannot turn."""

    def seen(claim: Claim) -> bool:
        return claim.across is None and (claim.arm is None or claim.arm in arms)

    def turns(other: Claim, claim: Claim) -> bool:
        return other.refutes == claim.id or claim.id in other.controls

    return {claim.id for claim in claims if seen(claim) and all(seen(one) for one in claims if turns(one, claim))}


def verdicts_so_far(
    hooks: Hooks, claims: Sequence[Claim], ended: Sequence[TrialRecord], arms: Collection[str]
) -> list[ClaimResult]:
    """The claims that are settled by these trials, which are all of these arms, with a verdict.

    None where the analysis fails: it says so when all trials are there.
    """
    good = [record for record in ended if record.status == "ok"]
    if not good:
        return []
    with tempfile.TemporaryDirectory() as folder:
        try:
            hooks.measure(good, claims, Writer(Path(folder), Path(folder)))
            with contained(hooks.path, "metrics()"):
                metrics, tables = read_metrics(Path(folder)), read_tables(Path(folder))
                results = judge(claims, metrics, tables[TRIALS.name], ended)
        except KreproError:
            return []
    certain = settled(claims, arms)
    return [result for result in results if result.id in certain and result.verdict != "not-measurable"]


def told(results: Sequence[ClaimResult], arms: int, of: int) -> list[str]:
    """Lines that tell of verdicts before all arms have run: how many, and what is news; none where there are none."""
    if not results:
        return []
    verdicts = [result.verdict for result in results]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts)
    lines = news_lines(results) or ["all as known"]
    return [f"{arms} of {of} arms: {counts}; the next kernel is built now", *(f"  {line}" for line in lines)]
