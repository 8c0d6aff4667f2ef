"""Hits that are lost, against known answers; and where costs stop being what the model says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .fit import per_round

#: Nested firings: (run, what the outer probe's handler calls and the inner probe is on).
NESTED = ("int3-ftrace", "ftrace-ftrace", "optimised-ftrace", "int3-int3")
_INNER = "copy_from_kernel_nofault"


def effect_rows(trial: Any, runs: Mapping[str, Any], laps: pd.DataFrame | None) -> list[dict[str, Any]]:
    """arm, trial, effect, what, value: of one trial; nothing for runs that it has not."""
    rows: list[dict[str, Any]] = []
    good = {name: run for name, run in runs.items() if not run["problem"]}

    def note(effect: str, what: str, value: float) -> None:
        rows.append(
            {"arm": trial.arm, "trial": trial.repetition, "effect": effect, "what": what, "value": float(value)}
        )

    for name in NESTED:
        run = good.get(f"nested.{name}")
        if run is None:
            continue
        inner = run["probes"][1]
        note(name, "missed", inner["misses"])
        note(name, "hit", inner["hits"])
        if laps is not None:
            mine = laps[(laps["lap"] == run["lap"]) & (laps["function"] == _INNER)]
            note(name, "executed", mine["entries"].sum())
    for name in ("enough", "short"):
        if run := good.get(f"maxactive.{name}"):
            probe = run["probes"][0]
            note(f"maxactive-{name}", "missed", probe["misses"])
            note(f"maxactive-{name}", "executed", _calls(run, 8 * 4))
            note(f"maxactive-{name}", "hit", probe["hits"])
    for depth in (64, 100):
        if run := good.get(f"depth.{depth}"):
            buffer = run["buffers"][0]
            note(f"depth-{depth}", "executed", _calls(run, depth))
            note(f"depth-{depth}", "recorded", buffer["entries"] + buffer["overrun"])
            note(f"depth-{depth}", "reported", run["probes"][0]["hits"])
    for name in ("none", "some"):
        if run := good.get(f"overrun.{name}"):
            buffer = run["buffers"][0]
            note(f"overrun-{name}", "executed", _calls(run, 1))
            note(f"overrun-{name}", "recorded", buffer["entries"])
            note(f"overrun-{name}", "lost", buffer["overrun"])
    if run := good.get("full.hist"):
        note("full-table", "executed", _calls(run, 1))
        note("full-table", "lost", run["drops"])
    if run := good.get("feedback.refresh"):
        note("feedback", "pages_per_wake", run["pages"] / run["wakes"])
    rows += [
        {"arm": trial.arm, "trial": trial.repetition, "effect": effect, "what": what, "value": value}
        for effect, what, value in _rates(good)
    ]
    return rows


def _calls(run: Mapping[str, Any], per_round: int) -> int:
    return per_round * int(run["rounds"]) * len(run["took"])


def _rates(runs: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """rate-PROVIDER: for each amount of work between two firings, its slowdown and the cost of one firing."""
    for name, run in runs.items():
        kind, _, rest = name.partition(".")
        provider, _, spin = rest.rpartition(".")
        if kind == "rate" and not provider.startswith("bare"):
            bare = runs.get(f"rate.{'bare-user' if provider == 'uprobe' else 'bare'}.{spin}")
            if bare is not None:
                base = per_round(bare)
                yield f"rate-{provider}", f"base {base:.0f}", base
                yield f"rate-{provider}", f"slowdown {base:.0f}", per_round(run) / base
        if kind == "period" and rest != "bare" and "period.bare" in runs:
            base = per_round(runs["period.bare"])
            yield "period", rest, per_round(run) / base


def effect_metrics(effects: pd.DataFrame) -> Iterator[tuple[str, float, str, str]]:
    """name, value, unit, reason-when-absent of one trial."""
    values = effects.set_index(["effect", "what"])["value"].to_dict()

    def of(effect: str, what: str) -> float:
        return float(values.get((effect, what), math.nan))

    def share(part: tuple[str, str], whole: tuple[str, str], value: float | None = None) -> float:
        everything = of(*whole)
        return (of(*part) if value is None else value) / everything if everything else math.nan

    why = "the run did not succeed, or no oracle ran beside it"
    for name in NESTED:
        yield f"nested_missed.{name}", share((name, "missed"), (name, "executed")), "missed/executed", why
    for name in ("enough", "short"):
        effect = f"maxactive-{name}"
        yield (
            f"{effect.replace('-', '_')}_missed",
            share((effect, "missed"), (effect, "executed")),
            "missed/executed",
            why,
        )
    for depth in (64, 100):
        effect = f"depth-{depth}"
        yield f"depth_{depth}_recorded", share((effect, "recorded"), (effect, "executed")), "recorded/executed", why
        yield f"depth_{depth}_reported", share((effect, "reported"), (effect, "executed")), "reported/executed", why
    known = of("overrun-some", "recorded") + of("overrun-some", "lost")
    yield (
        "overrun_accounted",
        share(("overrun-some", "recorded"), ("overrun-some", "executed"), known),
        "recorded and lost/executed",
        why,
    )
    yield "overrun_lost", share(("overrun-some", "lost"), ("overrun-some", "executed")), "lost/executed", why
    yield "table_lost", share(("full-table", "lost"), ("full-table", "executed")), "lost/executed", why
    yield "feedback_pages", of("feedback", "pages_per_wake"), "pages per refresh", why
    yield "rate_spread", _spread(values), "ratio", why
    periods = {float(what): value for (effect, what), value in values.items() if effect == "period"}
    if periods:
        floor = min(periods)
        saturated = [period for period, value in periods.items() if abs(value / periods[floor] - 1) < 1e-3]
        yield "sampling_floor_ns", max(saturated), "ns", why
        yield "sampling_slowdown_worst", max(periods.values()), "ratio", why


def _spread(values: Mapping[tuple[str, str], float]) -> float:
    """The largest relative difference between the costs of one firing at different rates, over providers."""
    worst = []
    for provider in {effect for effect, _ in values if effect.startswith("rate-")}:
        costs = [
            (values[provider, f"slowdown {what.split()[1]}"] - 1) * base
            for (effect, what), base in values.items()
            if effect == provider and what.startswith("base ")
        ]
        worst.append(float(np.max(costs) / np.min(costs) - 1))
    return max(worst, default=math.nan)
