# SPDX-License-Identifier: MIT
"""Tables for the terminal and the report: few columns, short names, medians over trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from harness.measure.claims import ClaimResult

from .fit import PROVIDERS
from .fitted import undisturbed, unit_of

#: The paper's providers, what stands for them in Linux, and how that traps.
EQUIVALENTS = (
    ("syscall", "syscall", "no trap: a slow way in for all calls"),
    ("syscall, return", "syscall-return", "no trap: a slow way out for all calls"),
    ("SDT", "tracepoint", "no trap: a jump that is patched in"),
    ("SDT", "raw-tracepoint", "the same; eBPF only"),
    ("FBT, entry", "fprobe", "call into a trampoline; eBPF only"),
    ("FBT, entry", "kprobe-ftrace", "call into a trampoline"),
    ("FBT, any place", "kprobe-optimised", "jump into a detour buffer"),
    ("FBT, any place", "kprobe-int3", "int3; the instruction from a copy"),
    ("FBT, return", "kretprobe", "call; return into a trampoline"),
    ("pid, simple", "uprobe", "int3; instruction emulated"),
    ("pid, other", "uprobe-step", "int3; single step out of line"),
    ("pid, return", "uretprobe", "int3 at entry and at return"),
    ("USDT", "usdt", "int3 on a nop"),
    ("profile", "sample", "timer interrupt"),
)
#: Example of the stages: an int3 kprobe has all of them.
_EXAMPLE = "kprobe-int3"
_NOT_TOLD = "no value in our copy"
#: Titles of scripts that took no part in the fit.
SOURCES = {"held-out": "Held-out scripts", "blind": "Drawn scripts", "advice": "Before and after advice"}


def paper_tables(
    tables: Mapping[str, pd.DataFrame], metrics: pd.DataFrame, claims: Sequence[ClaimResult]
) -> dict[str, pd.DataFrame]:
    """The paper's own stages, providers, terms and claim of accuracy, each beside what is there here.

    Figures are those of the virtual clock where it took part, else of the first arm.
    """
    arms = list(tables["costs"]["arm"].unique())
    if not arms:
        return {}
    arm = "virtual" if "virtual" in arms else arms[0]
    clock = tables["trials"].drop_duplicates("arm").set_index("arm")["clock"][arm]
    costs = tables["costs"][(tables["costs"]["arm"] == arm) & (tables["costs"]["point"] == "")]
    cost = {(str(row["provider"]), str(row["stage"])): float(row["value"]) for row in costs.to_dict("records")}
    unit = unit_of(str(clock))
    own = metrics[metrics["arm"] == arm]
    median = {str(name): float(value) for name, value in own.groupby("metric")["value"].median().items()}
    return {
        f"The paper's stages of a firing; here {_EXAMPLE}, {unit}": _frame(_stages(cost)),
        f"The paper's providers; here trap and whole recorded firing, {unit}": _providers(cost, median),
        f"The terms of the paper's sum; here {unit}": _frame(_terms(cost)),
        "How well predictions agree with measurement": _frame(_agreement(median, claims)),
    }


def _frame(rows: Iterator[tuple[str, str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["what", "the paper", "here", "note"])


def _of(cost: Mapping[tuple[str, str], float], stage: str, provider: str = _EXAMPLE) -> str:
    value = cost.get((provider, stage))
    return "not measured" if value is None else f"{value:,.0f}"


def _stages(cost: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, str, str, str]]:
    whole = "A-B and E-F together" if (_EXAMPLE, "trap") in cost else "no oracle here to tell it from B-C"
    yield "A-B trap, save", _NOT_TOLD, _of(cost, "trap"), whole
    looked = "dispatch" if (_EXAMPLE, "dispatch") in cost else "delivery"
    yield "B-C provider looks up", _NOT_TOLD, _of(cost, looked), "B-C and D-E together"
    yield "C-D control blocks", _NOT_TOLD, _of(cost, "consumer"), "one that records, without fields"
    yield "D-E provider returns", _NOT_TOLD, "in B-C", "a kprobe does not come back by another way"
    yield "E-F emulate, restore", _NOT_TOLD, "in A-B", "the same code enters and leaves"
    yield "syscall: A-B, E-F", "none", _of(cost, "trap", "syscall"), "claim syscall-no-trap"


def _providers(cost: Mapping[tuple[str, str], float], median: Mapping[str, float]) -> pd.DataFrame:
    rows = []
    for dtrace, linux, how in EQUIVALENTS:
        firing = median.get(f"firing.{linux}")
        if firing is None:
            known = [cost[linux, stage] for stage in ("delivery", "sample") if (linux, stage) in cost]
            firing = sum(known) if known else None
        trap = cost.get((linux, "trap"))
        rows.append((dtrace, linux, trap, firing, how))
    frame = pd.DataFrame(rows, columns=["the paper", "here", "trap", "firing", "note"])
    return frame.astype({"trap": "float64", "firing": "float64"}).round(0)


def _terms(cost: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, str, str, str]]:
    """The sum of section 2.4: a control block's predicate, then what its actions are made of."""
    yield "control block", "set up each", _of(cost, "consumer"), "a tracefs instance, with its record"
    yield (
        "predicate",
        "a DIFO of its own",
        _of(cost, "predicate"),
        "one term that holds; false: " + _of(cost, "predicate-false"),
    )
    yield "DIFO instruction", "each by its kind", _of(cost, "instruction"), "one coefficient: an eBPF addition"
    yield "built-in variable", "each by its kind", "not measured", "tracefs has none"
    yield "subroutine", "each by its kind", "not measured", "no eBPF helper but the map's"
    yield (
        "recorded field",
        "an instruction",
        _of(cost, "register"),
        "register; behind a pointer: " + _of(cost, "memory"),
    )
    yield "aggregation", "each", _of(cost, "histogram"), "hist: trigger; eBPF map: " + _of(cost, "aggregation")
    yield "action stack()", "each", _of(cost, "stack", "general"), "and each frame: " + _of(cost, "frame", "general")
    yield (
        "refresh",
        "a term of its own",
        _of(cost, "refresh", "general"),
        "and each page: " + _of(cost, "page", "general"),
    )
    yield "call not probed", "no term", _of(cost, "passage", "syscall"), "claim unprobed-calls-free"


def _agreement(median: Mapping[str, float], claims: Sequence[ClaimResult]) -> Iterator[tuple[str, str, str, str]]:
    verdicts = {claim.id: claim.verdict for claim in claims}

    def errors(name: str) -> str:
        middle, worst = median.get(f"error_{name}_median"), median.get(f"error_{name}_worst")
        if middle is None or worst is None or pd.isna(middle):
            return "not measured"
        return f"median {100 * middle:.1f} %, worst {100 * worst:.1f} %"

    told = "agrees, no figure"
    yield "added cost, drawn", told, errors("blind"), f"by a seed; {verdicts.get('predicts-blind-worst', 'no')}"
    yield "added cost, seen", told, errors("added"), "22 scripts on which the model was mended"
    yield "slowdown, all", told, errors("slowdown"), "small where little is added"
    inside = median.get("blind_inside")
    if inside is not None:
        yield "inside the interval", "-", f"{100 * inside:.0f} % of those drawn", "19 of 20 are claimed"


def summaries(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Title to table."""
    made = {}
    clocks = tables["trials"].drop_duplicates("arm").set_index("arm")["clock"].to_dict()
    for arm, costs in tables["costs"].groupby("arm", sort=False):
        unit = unit_of(str(clocks[arm]))
        wide = costs[costs["point"] == ""].pivot(index="provider", columns="stage", values="value")
        wide = wide.reindex([name for name in PROVIDERS if name in wide.index])
        made[f"Actions, {arm}: {unit} each time"] = _wide(
            wide, register="register", memory="memory", predicate="true", histogram="hist", aggregation="map"
        )
    for (place, source), checks in undisturbed(tables["validation"], tables["trials"]).groupby(
        ["arm", "source"], sort=False
    ):
        made[f"{SOURCES[str(source)]}, {place}"] = _validation(checks)
    losses = tables["losses"]
    if not losses.empty:
        columns = ["executed", "hits", "misses", "recorded", "lost"]
        made["Lost hits"] = losses.groupby("effect", sort=False)[columns].median().reset_index()
    made["Counted on paper, and by the kernel"] = _by_hand(tables["by_hand"])
    return {title: table for title, table in made.items() if not table.empty}


def _by_hand(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for all trials of an arm that tell the same."""
    names = {"by_hand": "on paper", "second": "2nd opinion", "exact": "oracle", "how": "counted"}
    return rows.drop(columns="trial").drop_duplicates().rename(columns=names)


def _wide(wide: pd.DataFrame, **names: str) -> pd.DataFrame:
    present = [name for name in names if name in wide]
    return wide[present].dropna(how="all").rename(columns=names).round(0).reset_index()


def _validation(checks: pd.DataFrame) -> pd.DataFrame:
    """Errors in per cent of what was added."""
    middle = checks.groupby("script")[["firings", "slowdown", "predicted_slowdown", "error_added"]].median()
    middle["error %"] = (100 * middle.pop("error_added")).round(2)
    middle = middle.rename(columns={"predicted_slowdown": "predicted"})
    return middle.round({"firings": 0, "slowdown": 4, "predicted": 4}).reset_index()
