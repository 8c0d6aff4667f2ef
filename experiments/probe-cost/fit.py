"""From runs that differ in one thing to stages, and from stages to the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from harness.measure.statistics import median_estimate

from .model.cost import PROGRAMS_ONLY, TRACE_POINTS, Accuracy, Cost, CostModel, Provider

#: Providers in the order of the paper's table: its own in the README.
PROVIDERS = (
    *("syscall", "syscall-return", "tracepoint", "raw-tracepoint", "fprobe"),
    *("kprobe-ftrace", "kprobe-optimised", "kprobe-int3", "kretprobe"),
    *("usdt", "uprobe", "uprobe-step", "uretprobe", "sample"),
)
#: stage: (run with it, run without it, how often the one has it more).
DIFFERENCES = {
    "consumer": ("four", "two", 2),
    "predicate": ("true", "one", 1),
    "term": ("true3", "true", 2),
    "predicate-false": ("false", "one", 1),
    "register": ("register5", "register", 4),
    "memory": ("memory3", "memory", 2),
    "comm": ("comm3", "comm", 2),
    "histogram": ("hist", "one", 1),
    "unrecorded": ("hist-only", "hist", 1),
    "trigger-predicate": ("hist-true", "hist-only", 1),
    "histogram-false": ("hist-false", "hist-only", 1),
    "program": ("program2", "program", 1),
    "instruction": ("program100", "program", 100),
    "aggregation": ("map", "program", 1),
    "second-passage": ("tax2", "tax", 1),
}
_OUTSIDE = "(outside)"
#: What the CPU does to get from the probed instruction into the kernel's handler and back: entry and exit code of
#: exceptions, and code outside of the kernel's text, where trampolines, detours and displaced instructions are.
TRAP = frozenset(
    {
        *(
            "asm_exc_int3",
            "exc_int3",
            "asm_exc_debug",
            "exc_debug",
            "exc_debug_user",
            "exc_debug_kernel",
            "debug_enter",
        ),
        *("error_entry", "error_return", "sync_regs", "paranoid_entry", "paranoid_exit", "native_irq_return_iret"),
        *("irqentry_nmi_enter", "irqentry_nmi_exit", "ct_nmi_enter", "ct_nmi_exit", "irqentry_enter", "irqentry_exit"),
        *("irqentry_enter_from_user_mode", "irqentry_exit_to_user_mode", "exit_to_user_mode_prepare"),
        *("restore_regs_and_return_to_kernel", "swapgs_restore_regs_and_return_to_usermode", "amd_clear_divider"),
        *("poke_int3_handler", "arch_rethook_trampoline", _OUTSIDE),
    }
)
#: An event's interrupts are not its firings' own.
_NOT_OURS = frozenset({"interrupt", "softirq", "nmi"})


def per_round(run: Mapping[str, Any]) -> float:
    """Median over batches: units per round."""
    return float(np.median(run["took"])) / float(run["rounds"])


def total(run: Mapping[str, Any]) -> float:
    """All batches, in units."""
    return float(sum(run["took"]))


class Runs:
    """The good runs of one trial's fit, by name."""

    def __init__(self, runs: Mapping[str, Mapping[str, Any]], laps: pd.DataFrame | None) -> None:
        self.runs = {name: run for name, run in runs.items() if not run["problem"]}
        self.laps = laps

    def cost(self, name: str) -> float:
        """Units per round, NaN when there is no such run."""
        return per_round(self.runs[name]) if name in self.runs else math.nan

    def bare(self, name: str) -> float:
        """The same workload without a probe."""
        return self.cost(f"bare.{self.work(name)}")

    def work(self, name: str) -> str:
        if name not in self.runs:
            return ""
        first = str(self.runs[name]["script"]).split("\n")[0]
        return next(word.split("=", 1)[1] for word in first.split() if word.startswith("work="))

    def trap(self, name: str, *, among: frozenset[str] = TRAP) -> float:
        """Instructions per round in `among` beyond those of the bare workload; NaN without an oracle."""
        bare = f"bare.{self.work(name)}"
        if self.laps is None or name not in self.runs or bare not in self.runs:
            return math.nan
        return self._trapped(name, among) - self._trapped(bare, among)

    def _trapped(self, name: str, among: frozenset[str]) -> float:
        run, laps = self.runs[name], self.laps
        assert laps is not None
        mine = laps[(laps["lap"] == run["lap"]) & laps["function"].isin(among) & ~laps["context"].isin(_NOT_OURS)]
        return float(mine["instructions"].sum()) / (float(run["rounds"]) * len(run["took"]))


def stages_of(runs: Runs) -> list[tuple[str, str, float]]:
    """(provider, stage, value) of one trial; `general` for what all providers share, NaN where a run is missing."""
    rows: list[tuple[str, str, float]] = []
    for provider in PROVIDERS:
        rows += [(provider, stage, value) for stage, value in _provider(runs, provider).items()]
    rows += [("general", stage, value) for stage, value in _general(runs).items()]
    for name in runs.runs:
        if name.startswith("tracepoint@") and name.endswith(".one"):
            point = name.removeprefix("tracepoint@").removesuffix(".one")
            spread = runs.cost("tracepoint.two") - runs.cost("tracepoint.one")
            iteration = spread - (runs.cost("tracepoint.four") - runs.cost("tracepoint.two")) / 2
            value = runs.cost(f"tracepoint@{point}.two") - runs.cost(name) - iteration
            rows.append(("tracepoint", f"consumer@{point}", value))
    return [row for row in rows if not math.isnan(row[2])]


def _provider(runs: Runs, provider: str) -> dict[str, float]:
    def cost(run: str) -> float:
        return runs.cost(f"{provider}.{run}")

    found = {stage: (cost(more) - cost(less)) / times for stage, (more, less, times) in DIFFERENCES.items()}
    if provider == "sample":
        return _samples(runs)
    if provider in PROGRAMS_ONLY:
        delivery = cost("program") - runs.bare(f"{provider}.program")
        # A program is outside of the kernel's text too; a trace point has nothing else there.
        trap = runs.trap(f"{provider}.program", among=TRAP - {_OUTSIDE})
        if provider == "fprobe":
            own = runs.trap("raw-tracepoint.program", among=frozenset({_OUTSIDE}))
            trap += runs.trap(f"{provider}.program", among=frozenset({_OUTSIDE})) - own
    else:
        delivery = cost("one") - runs.bare(f"{provider}.one") - found["consumer"]
        trap = runs.trap(f"{provider}.one")
        found["programs"] = cost("program") - runs.bare(f"{provider}.program") - delivery - found["program"]
    if provider in TRACE_POINTS:
        found["iteration"] = cost("two") - cost("one") - found["consumer"]
        found["passage"] = cost("tax") - runs.bare(f"{provider}.tax")
    if not math.isnan(trap):
        found["trap"] = trap
        found["dispatch"] = delivery - trap
    else:
        found["dispatch"] = delivery
    if provider == "tracepoint":
        found["consumer@task/task_rename"] = found["consumer"]
    found["same-place"] = cost("double") - cost("one") - (cost("one") - runs.bare(f"{provider}.one"))
    nested = {"kprobe-ftrace": "nested.int3-ftrace", "kprobe-int3": "nested.int3-int3"}.get(provider, "")
    found["miss"] = runs.cost(nested) - runs.cost("nested.none")
    return found


def _samples(runs: Runs) -> dict[str, float]:
    """Units per sample: what it lasts longer, by the samples in that time."""
    found = {}
    for stage, name, period in (("sample", "sample.one", 100_000), ("stack", "sample.stack", 100_000)):
        lasted = runs.cost(name)
        found[stage] = (lasted - runs.cost("bare.spin")) / (lasted / period) if lasted else math.nan
    return found


def _general(runs: Runs) -> dict[str, float]:
    found = {
        "second-key": runs.cost("general.keys2") - runs.cost("general.keys1"),
        "key": runs.cost("general.keys3") - runs.cost("general.keys2"),
        "value": runs.cost("general.value") - runs.cost("general.keys1"),
        "switch": (runs.cost("general.switch") - runs.cost("general.switch-nameless")) / 2,
        "shared-passage": runs.cost("general.tax-both")
        - runs.cost("syscall.tax")
        - runs.cost("syscall-return.tax")
        + runs.cost("bare.getuid"),
    }
    # A stack costs something, and each of its frames: a line through all that were taken.
    deep = [
        (run["frames"], runs.cost(name) - runs.cost(name.removesuffix("stack") + "one"))
        for name, run in runs.runs.items()
        if name.endswith(".stack") and run["frames"] and not name.startswith("sample")
    ]
    if len({frames for frames, _ in deep}) > 1:
        slope, intercept = np.polyfit(*np.array(deep).T, 1)
        found |= {"stack": float(intercept), "frame": float(slope)}
    if {"general.idle", "general.wake", "general.wake2", "general.drained", "general.undrained"} <= set(runs.runs):
        found |= _refresh(runs)
    return found


def _refresh(runs: Runs) -> dict[str, float]:
    def beyond(name: str, other: str) -> float:
        return total(runs.runs[name]) - total(runs.runs[other])

    wake = beyond("general.wake", "general.idle") / runs.runs["general.wake"]["wakes"]
    wake2 = beyond("general.wake2", "general.idle") / runs.runs["general.wake2"]["wakes"]
    drained = runs.runs["general.drained"]
    page = (beyond("general.drained", "general.undrained") - wake * drained["wakes"]) / drained["pages"]
    return {"refresh": wake, "buffer": wake2 - wake, "page": page}


def fit_model(stage_rows: pd.DataFrame, about: Mapping[str, Any]) -> CostModel:
    """The model of one arm: medians over its trials. `about` has its other fields."""
    costs = {
        (str(provider), str(stage)): _cost(values["value"].to_numpy())
        for (provider, stage), values in stage_rows.groupby(["provider", "stage"], sort=False)
    }
    providers: dict[str, Provider] = {}
    for name in PROVIDERS:
        mine = {stage: cost for (provider, stage), cost in costs.items() if provider == name}
        points = {stage.removeprefix("consumer@"): cost for stage, cost in mine.items() if "@" in stage}
        plain = {stage: cost for stage, cost in mine.items() if "@" not in stage}
        if points:  # of a point that was not measured we know what recording costs at others
            values = sorted(cost.value for cost in points.values())
            middle = float(np.median(values))
            plain["consumer"] = Cost(value=middle, low=values[0], high=values[-1])
        if "dispatch" in plain or name == "sample":
            providers[name] = Provider.model_validate({"stages": plain, "points": points})
    general = {stage: cost for (provider, stage), cost in costs.items() if provider == "general"}
    return CostModel.model_validate({**about, "providers": providers, "general": general})


def _cost(values: np.ndarray[Any, Any]) -> Cost:
    estimate = median_estimate(values)
    low, high = (estimate.low, estimate.high) if estimate.interval_known else (values.min(), values.max())
    return Cost(value=float(estimate.value), low=float(low), high=float(high))


def accuracy(validation: pd.DataFrame) -> Accuracy | None:
    """The errors of one arm's held-out scripts: medians over trials first."""
    validation = validation[validation["problem"].isna()]
    if validation.empty:
        return None
    errors = validation.groupby("script")[["error_added", "error_slowdown"]].median().abs()
    return Accuracy(
        scripts=len(errors),
        added_median=float(errors["error_added"].median()),
        added_worst=float(errors["error_added"].max()),
        slowdown_median=float(errors["error_slowdown"].median()),
        slowdown_worst=float(errors["error_slowdown"].max()),
    )
