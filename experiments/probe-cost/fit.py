# SPDX-License-Identifier: MIT
"""From the runs of one trial that differ in one thing to its stages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .fitlines import line
from .fittimes import calls_of, copies_of, refresh_of, samples_of, strings_of, within_of
from .model.cost import PROGRAMS_ONLY, TRACE_POINTS
from .runs import Run

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
#: The trace point whose consumer all runs of the provider tracepoint record at.
FITTED_POINT = "task/task_rename"
_OUTSIDE = "(outside)"
#: Entry and exit code of exceptions.
EXCEPTION = frozenset(
    {
        *("asm_exc_int3", "exc_int3", "asm_exc_debug", "exc_debug", "exc_debug_user", "exc_debug_kernel"),
        *("debug_enter", "error_entry", "error_return", "sync_regs", "paranoid_entry", "paranoid_exit"),
        *("native_irq_return_iret", "irqentry_nmi_enter", "irqentry_nmi_exit", "ct_nmi_enter", "ct_nmi_exit"),
        *("irqentry_enter", "irqentry_exit", "irqentry_enter_from_user_mode", "irqentry_exit_to_user_mode"),
        *("exit_to_user_mode_prepare", "restore_regs_and_return_to_kernel", "amd_clear_divider"),
        *("swapgs_restore_regs_and_return_to_usermode", "poke_int3_handler"),
    }
)
#: Code outside of the kernel's text, where trampolines, detours and displaced instructions are; and that of returns.
TRAMPOLINE = frozenset({"arch_rethook_trampoline", _OUTSIDE})
#: What the CPU does to get from the probed instruction into the kernel's handler and back.
TRAP = EXCEPTION | TRAMPOLINE
#: An event's interrupts are not its firings' own.
_NOT_OURS = frozenset({"interrupt", "softirq", "nmi"})


class Runs:
    """The good runs of one trial's fit, by name. `least`: of each the quickest batch counts, for others of the host's
    programs can only make one slower; else the median.
    """

    def __init__(self, runs: Mapping[str, Run], laps: pd.DataFrame | None, *, least: bool = False) -> None:
        self.runs = {name: run for name, run in runs.items() if not run.problem}
        self.laps = laps
        self._least = least

    def cost(self, name: str) -> float:
        """Units per round, NaN when there is no such run."""
        if name not in self.runs:
            return math.nan
        run = self.runs[name]
        return min(run.took) / run.rounds if self._least else run.per_round

    def bare(self, name: str) -> float:
        """The same workload without a probe."""
        return self.cost(f"bare.{self.work(name)}")

    def work(self, name: str) -> str:
        return self.runs[name].work if name in self.runs else ""

    def trap(self, name: str, *, among: frozenset[str] = TRAP) -> float:
        """Instructions per round in `among` beyond those of the bare workload; NaN without an oracle."""
        bare = f"bare.{self.work(name)}"
        if self.laps is None or name not in self.runs or bare not in self.runs:
            return math.nan
        return self._trapped(name, among) - self._trapped(bare, among)

    def stage(self, provider: str, stage: str) -> float:
        """A stage that is the difference of two runs."""
        more, less, times = DIFFERENCES[stage]
        return (self.cost(f"{provider}.{more}") - self.cost(f"{provider}.{less}")) / times

    def _trapped(self, name: str, among: frozenset[str]) -> float:
        run, laps = self.runs[name], self.laps
        assert laps is not None
        rows = laps[(laps["run"] == name) & laps["function"].isin(among) & ~laps["context"].isin(_NOT_OURS)]
        return float(rows["instructions"].sum()) / run.firing_rounds


def stages_of(runs: Runs) -> list[dict[str, Any]]:
    """Rows of the table `stages`, without arm and trial: provider, stage, point, value. None where a run is missing.

    `general` is the provider of what all of them share. `delivery` is all of a firing but its consumers; where an
    oracle ran, `trap` and `dispatch` are its parts.
    """
    rows = [
        _row(provider, stage, value) for provider in PROVIDERS for stage, value in _provider(runs, provider).items()
    ]
    rows += [_row("general", stage, value) for stage, value in _general(runs).items()]
    instruction = runs.stage("tracepoint", "instruction")
    rows += [_row("call", stage, value) for stage, value in calls_of(runs, instruction).items()]
    rows.append(_row("tracepoint", "consumer", _consumer(runs), FITTED_POINT))
    for name in runs.runs:
        if name.startswith("tracepoint@") and name.endswith(".one"):
            point = name.removeprefix("tracepoint@").removesuffix(".one")
            spread = runs.cost("tracepoint.two") - runs.cost("tracepoint.one")
            value = runs.cost(f"tracepoint@{point}.two") - runs.cost(name) - (spread - _consumer(runs))
            rows.append(_row("tracepoint", "consumer", value, point))
    return [row for row in rows if not math.isnan(row["value"])]


def _row(provider: str, stage: str, value: float, point: str = "") -> dict[str, Any]:
    return {"provider": provider, "stage": stage, "point": point, "value": value}


def _consumer(runs: Runs) -> float:
    """A consumer of the trace point that has all runs."""
    return (runs.cost("tracepoint.four") - runs.cost("tracepoint.two")) / 2


def traps_of(runs: Runs) -> list[dict[str, Any]]:
    """Rows of the table `traps`, without arm and trial: the two parts of the stage `trap`, where an oracle ran."""
    rows = []
    for provider in PROVIDERS:
        run = f"{provider}.{'program' if provider in PROGRAMS_ONLY else 'one'}"
        exception, trap = runs.trap(run, among=EXCEPTION), _trap(runs, provider)
        if provider != "sample" and not math.isnan(trap):
            rows.append({"provider": provider, "exception": exception, "trampoline": trap - exception})
    return rows


def _trap(runs: Runs, provider: str) -> float:
    """Instructions of a firing in TRAP; NaN without an oracle, or the run."""
    if provider not in PROGRAMS_ONLY:
        return runs.trap(f"{provider}.one")
    # A program is outside of the kernel's text too; a trace point has nothing else there.
    trap = runs.trap(f"{provider}.program", among=TRAP - {_OUTSIDE})
    if provider == "fprobe":
        own = runs.trap("raw-tracepoint.program", among=frozenset({_OUTSIDE}))
        trap += runs.trap(f"{provider}.program", among=frozenset({_OUTSIDE})) - own
    return trap


def _provider(runs: Runs, provider: str) -> dict[str, float]:
    def cost(run: str) -> float:
        return runs.cost(f"{provider}.{run}")

    stages = {stage: (cost(more) - cost(less)) / times for stage, (more, less, times) in DIFFERENCES.items()}
    if provider == "sample":
        return samples_of(runs)
    if provider in PROGRAMS_ONLY:
        delivery = cost("program") - runs.bare(f"{provider}.program")
        # From the second on they are called from a list: what that takes once, and how much less each further one.
        each = (cost("program4") - cost("program2")) / 2
        stages["iteration"] = cost("program2") - cost("program") - each
        stages["same-place"] = each - delivery
        stages["listed"] = (cost("listed") - cost("program2")) / 4
        stages["mixed"] = runs.bare(f"{provider}.program") - cost("program") + cost("mixed")
        stages["mixed"] -= runs.cost("kprobe-ftrace.one")
    else:
        delivery = cost("one") - runs.bare(f"{provider}.one") - stages["consumer"]
        stages["programs"] = cost("program") - runs.bare(f"{provider}.program") - delivery - stages["program"]
    if provider in TRACE_POINTS:
        stages["iteration"] = cost("two") - cost("one") - stages["consumer"]
        stages["passage"] = cost("tax") - runs.bare(f"{provider}.tax")
        stages["program-passage"] = cost("tax-program") - runs.bare(f"{provider}.tax-program")
    if provider == "syscall":
        stages |= copies_of(runs, stages["consumer"])
    trap = _trap(runs, provider)
    stages |= {"delivery": delivery, "trap": trap, "dispatch": delivery - trap}
    if provider not in PROGRAMS_ONLY:
        stages["same-place"] = cost("double") - cost("one") - (cost("one") - runs.bare(f"{provider}.one"))
        stages |= _stack(runs, provider)
    stages |= within_of(runs, provider, samples_of(runs))
    nested = {"kprobe-ftrace": "nested.int3-ftrace", "kprobe-int3": "nested.int3-int3"}.get(provider, "")
    stages["miss"] = runs.cost(nested) - runs.cost("nested.none")
    if provider == "kretprobe":
        # Without a free instance the handler of the kprobe at the entry gives up (pre_handler_kretprobe): what is left
        # is that kprobe, by ftrace, without a consumer.
        stages["miss"] = runs.cost("kprobe-ftrace.one") - runs.bare("kprobe-ftrace.one")
        stages["miss"] -= runs.stage("kprobe-ftrace", "consumer")
    return stages


def _stack(runs: Runs, provider: str) -> dict[str, float]:
    """A stack without its frames. It begins in the handler, so the provider's own way there is in it."""
    name = f"{provider}.stack"
    if name not in runs.runs or not runs.runs[name].stack_frames:
        return {}
    frame = _general(runs).get("frame", math.nan)
    return {"stack": runs.cost(name) - runs.cost(f"{provider}.one") - frame * runs.runs[name].stack_frames}


def _general(runs: Runs) -> dict[str, float]:
    stages = {
        "second-key": runs.cost("general.keys2") - runs.cost("general.keys1"),
        "key": runs.cost("general.keys3") - runs.cost("general.keys2"),
        "value": runs.cost("general.value") - runs.cost("general.keys1"),
        "switch": (runs.cost("general.switch") - runs.cost("general.switch-nameless")) / 2,
        "shared-passage": runs.cost("general.tax-both")
        - runs.cost("syscall.tax")
        - runs.cost("syscall-return.tax")
        + runs.cost("bare.getuid"),
    }
    # A stack costs something, and each of its frames: a line through those of one provider, of three depths.
    deep = [
        (run.stack_frames, runs.cost(name) - runs.cost(name.removesuffix("stack") + "one"))
        for name, run in runs.runs.items()
        if name.startswith("frames@") and name.endswith(".stack") and run.stack_frames
    ]
    if len({frames for frames, _ in deep}) > 1:
        stages |= dict(zip(("stack", "frame"), line(deep), strict=True))
    if {"general.idle", "general.wake", "general.wake2", "general.drained", "general.undrained"} <= set(runs.runs):
        stages |= refresh_of(runs)
    return stages | strings_of(runs)
