# SPDX-License-Identifier: MIT
"""A part of a plan, which one machine runs; and what makes two plans one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.artefacts.store import hash_of
from harness.errors import UsageError
from harness.experiment.model import Experiment
from harness.trial.plan import PlannedTrial

_COUNT = re.compile(r"-?\d+")
_SPAN = re.compile(r"(\d+):(\d+)(?:/(\d+))?")
_SHARD = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Part:
    """What `--repetitions` and `--shard` ask for.

    `count`: repetitions of every arm of the whole plan, None for the profile's. Of these the part has those from
    `span[0]` up to `span[1]`, that one left out, or the shard of this number (from 1) of so many.
    """

    count: int | None = None
    span: tuple[int, int] | None = None
    shard: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """The option that asks for it; empty for the whole plan."""
        if self.span is not None:
            return f"--repetitions {self.span[0]}:{self.span[1]}" + (f"/{self.count}" if self.count else "")
        return f"--shard {self.shard[0]}/{self.shard[1]}" if self.shard is not None else ""

    def of(self, plan: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        """Its trials, in the order of the plan; UsageError when there are none.

        Shards differ in size by one trial at most. One repetition of all arms stays in one shard as far as that goes:
        arms are compared on one machine then.
        """
        if self.span is not None:
            first, end = self.span
            most = 1 + max(trial.repetition for trial in plan)
            if end > most:
                hint = f"{first}:{end}/{end} is of {end} repetitions" if self.count is None else None
                raise UsageError(f"--repetitions {first}:{end}: the plan has {most} repetitions", hint=hint)
            return [trial for trial in plan if first <= trial.repetition < end]
        if self.shard is None:
            return list(plan)
        number, shards = self.shard
        if shards > len(plan):
            raise UsageError(f"--shard {number}/{shards}: the plan has {len(plan)} trials")
        by_repetition = sorted(range(len(plan)), key=lambda place: (plan[place].repetition, place))
        own = by_repetition[(number - 1) * len(plan) // shards : number * len(plan) // shards]
        return [plan[place] for place in sorted(own)]


def parse_part(repetitions: str | int | None, shard: str | None) -> Part:
    """The part that these options ask for; UsageError naming the one that is wrong."""
    part = Part()
    if repetitions is not None:
        text = str(repetitions)
        span = _SPAN.fullmatch(text)
        if span is not None:
            first, end, count = int(span[1]), int(span[2]), int(span[3]) if span[3] else None
            if first >= end or (count is not None and end > count):
                raise UsageError(f"--repetitions {text}: from the first to before the last, as in 5:9 or 5:9/30")
            part = Part(count, (first, end))
        elif _COUNT.fullmatch(text) is None:
            raise UsageError(f"--repetitions {text}: must be a whole number, or FIRST:END, or FIRST:END/NUMBER")
        elif int(text) < 1:
            raise UsageError(f"--repetitions {text}: must be 1 or more")
        else:
            part = Part(int(text))
    if shard is None:
        return part
    words = _SHARD.fullmatch(shard)
    if words is None or not 1 <= int(words[1]) <= int(words[2]):
        raise UsageError(f"--shard {shard}: must be NUMBER/SHARDS, as in 3/10")
    if part.span is not None:
        raise UsageError("--shard and --repetitions FIRST:END: give one of them")
    return Part(part.count, shard=(int(words[1]), int(words[2])))


def plan_id(experiment: Experiment, plan: Sequence[PlannedTrial]) -> str:
    """sha256 over a whole plan: its trials in their order with their seeds, and what each of its arms is."""
    arms = dict.fromkeys(trial.arm for trial in plan)
    return hash_of(
        {
            "experiment": experiment.name,
            "arms": {name: experiment.arms[name].model_dump(mode="json", exclude_defaults=True) for name in arms},
            "workloads": {
                name: workload.model_dump(mode="json", exclude_defaults=True)
                for name, workload in experiment.workloads.items()
            },
            "collect": list(experiment.collect),
            "trials": [[trial.arm, trial.repetition, trial.seed] for trial in plan],
        }
    )
