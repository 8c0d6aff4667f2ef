# SPDX-License-Identifier: MIT
"""Metrics of page-trace, from its tables: per program, per trial, and those that compare trials of two arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.measure.rows import Cut, MetricRows
from harness.measure.trials import LEFT_OUT

from .advised import METHOD as ADVISED
from .advised import put_advised
from .cases import KNOWN, LACKEY, NEIGHBOUR
from .declared_metrics import METRICS
from .dwells import DWELLS, TRACER
from .model import MODEL
from .programs import COMPARISON, METHODS, OUTPUT, RUN, TRACE, TRACES
from .said import put_said
from .trace.comparison import CLASSES

#: The arm whose program is the shortest of those of several lengths whose traces stream to the host, and the program.
SHORTEST = "stream-1"
LONG = "long"
#: Bounds of a neighbour's slowdown: its interval has to be on one side of each, or the trial does not tell.
UNDISTURBED = (-0.03, 0.03)

#: Methods without programs of their own output.
CASES = ("known", "lackey-known", "neighbour")

Tables = dict[str, pd.DataFrame]
Floats = npt.NDArray[np.float64]
Values = dict[str, Any]


def measure(tables: Tables) -> pd.DataFrame:
    """All metrics, in long form."""
    rows = MetricRows(METRICS, tables["problems"])
    _Programs(tables, rows).put()
    _Trials(tables, rows).put()
    put_advised(tables, rows)
    put_said(tables, rows)
    _put_of_programs(rows, "slowdown", "slowdown_median", lambda ratios, _: np.median(ratios))
    _put_of_programs(rows, "off_time", "off_time_worst", lambda ratios, _: np.max(ratios))
    # Weighted by the time that they are of, ratios are the ratio of the sums.
    _put_of_programs(rows, "off_time", "off_time_all", partial(_weighted, tables["runs"]))
    return rows.frame()


def _put_of_programs(rows: MetricRows, of: str, name: str, summary: Callable[[Floats, pd.DataFrame], float]) -> None:
    """A summary of each trial's metrics OF.PROGRAM, which it gets with their rows; absent when one of them is."""
    frame = rows.frame()
    values = frame[frame["metric"].str.startswith(f"{of}.")]
    for (arm, trial), programs in values.groupby(["arm", "trial"]):
        reasons = programs.loc[programs["value"].isna(), "reason"]
        value = None if len(reasons) else float(summary(programs["value"].to_numpy(), programs))
        rows.put(str(arm), int(str(trial)), name, value, reason=reasons.iloc[0] if len(reasons) else None)


def _weighted(runs: pd.DataFrame, ratios: Floats, programs: pd.DataFrame) -> float:
    """The mean of ratios to times of one trial's programs, weighted by these times."""
    names = programs["metric"].str.partition(".")[2]
    wanted = programs.assign(workload=names)[["arm", "trial", "workload"]]
    return float(np.average(ratios, weights=wanted.merge(runs, how="left")["seconds"]))


class _Missing:
    """Why a value of a program or trial is absent: the problem of the part that it follows from."""

    def __init__(self, problems: pd.DataFrame) -> None:
        self._rows = problems.to_dict("records")

    def of(self, arm: str, trial: int, parts: Sequence[str], workload: str | None = None) -> str | None:
        """The first reason of these parts; of any workload when none is named."""
        for row in self._rows:
            here = (
                row["arm"] == arm and row["trial"] == trial and row["workload"] in (workload or row["workload"], None)
            )
            if here and any(row["part"].startswith(part) for part in parts):
                return str(row["reason"])
        return None

    def workloads(self) -> list[tuple[str, int, str]]:
        """Programs with a problem."""
        return [(row["arm"], row["trial"], row["workload"]) for row in self._rows if row["workload"] is not None]


class _Programs:
    """Metrics of one program of one trial: NAME.WORKLOAD."""

    def __init__(self, tables: Tables, rows: MetricRows) -> None:
        self._rows = rows
        self._missing = _Missing(tables["problems"])
        self._runs = _by_program(tables["runs"])
        self._traces = _by_program(tables["traces"])
        self._comparisons = _by_program(tables["comparisons"])
        kinds, advice = tables["kinds"], tables["advice"]
        self._irregular = _by_program(kinds[kinds["kind"] == "irregular"])
        self._advice = _by_program(advice[advice["ahead"] == 1])
        trials = tables["trials"]
        records = trials.to_dict("records")
        self._clock = {(row["arm"], row["trial"]): str(row["clock"]) for row in records}
        self._disturbed = {(row["arm"], row["trial"]): row["disturbed"] for row in records}
        self._method = {
            arm: dict(pair.split("=", 1) for pair in params.split()).get("method", "")
            for arm, params in trials[["arm", "params"]].itertuples(index=False)
        }

    def put(self) -> None:
        """In the order of the tables; programs that only have problems come last."""
        programs = [*self._runs, *self._traces, *self._comparisons, *self._advice]
        for arm, trial, workload in dict.fromkeys([*programs, *self._missing.workloads()]):
            if self._method[arm] in METHODS:
                self._program(arm, trial, workload)

    def _program(self, arm: str, trial: int, workload: str) -> None:
        key, method = (arm, trial, workload), self._method[arm]

        def tell(table: dict[Any, Values], part: str, values: dict[str, Callable[[Values], float]], none: str) -> None:
            """Metrics of one row, or absent ones with the part's reason."""
            row, reason = table.get(key), self._missing.of(arm, trial, [part], workload)
            if row is None and reason is None:
                return
            for name, value in values.items():
                told = value(row) if row is not None else None
                self._rows.put(arm, trial, f"{name}.{workload}", told, reason=reason or none)

        tell(
            self._runs, RUN, {"exit_status": lambda row: row["exit_status"]}, "the program was not started by the trace"
        )
        if method == "stock":
            self._beside(key, "off_time", "plain", lambda run, bare: bare["seconds"] / run["seconds"], timed=True)
        elif method != "plain":
            tell(self._runs, RUN, {"bytes": lambda row: row["bytes"]}, "the method says nothing of its data")
        alone = method == "stream" and not self._untraced(workload)
        if method not in ("plain", "stock", "lackey-data") and not alone:
            self._beside(key, "slowdown", "plain", lambda run, bare: run["seconds"] / bare["seconds"], timed=True)
            self._beside(key, "same_output", "plain", lambda run, bare: float(run["output"] == bare["output"]))
        if method == "trace":
            self._beside_others(key)
        if method == "packed":
            for form in ("binary", "packed"):
                ratio = partial(_ratio, "bytes", f"{form}_bytes")
                self._beside(key, f"bytes_of_lackey_{form}", "lackey-data", ratio)
        if method in ("faults", "soft-dirty"):
            self._beside(key, "told_share", "packed", partial(_ratio, "records", "records"))
        if method in TRACES:
            self._traced(key, method, tell)

    def _untraced(self, workload: str) -> bool:
        """Whether some arm runs the program untraced: of the long ones that stream, none does."""
        return any(name == workload and self._method[arm] == "plain" for arm, _, name in self._runs)

    def _beside_others(self, key: tuple[str, int, str]) -> None:
        self._beside(key, "data_rate", "plain", lambda run, bare: run["bytes"] / bare["seconds"], timed=True)
        self._beside(key, "time_of_lackey", "lackey", lambda run, other: run["seconds"] / other["seconds"], timed=True)
        self._beside(key, "bytes_of_lackey", "lackey", lambda run, other: run["bytes"] / other["bytes"])
        self._beside(key, "bytes_of_lackey_data", "lackey-data", lambda run, other: run["bytes"] / other["bytes"])

    def _traced(self, key: tuple[str, int, str], method: str, tell: Callable[..., None]) -> None:
        counted: dict[str, Callable[[Values], float]] = {
            "visits": lambda row: row["visits"] + row["cut"],
            "lost": lambda row: row["lost"],
            "unrecorded": lambda row: abs(row["records"] - row["file_records"] - row["cut"]),
            "unaccounted": lambda row: abs(row["unaccounted"]),
        }
        tell(self._traces, TRACE, counted, "")
        if method == "stream":
            behind = {"left_behind": lambda row: abs(row["records"] - row["file_records"]) + row["lost"]}
            tell(self._traces, TRACE, behind, "")
            # For the oracle, it is started in another way.
            if key not in self._comparisons:
                self._long(key)
        compared: dict[str, Callable[[Values], float]] = {
            "missing": lambda row: row["missing"],
            "extra": lambda row: row["extra"],
            "unexplained": lambda row: row["unexplained"],
            "explained": lambda row: row["explained"],
            "missing_share": lambda row: _share(row["missing"], row["oracle"]),
        }
        tell(self._comparisons, COMPARISON, compared, "the oracle saw no visit")
        if method != "trace":
            return
        tell(self._irregular, MODEL, {"irregular": lambda row: row["share"]}, "the program made no visit")
        tell(self._advice, MODEL, {"advice_coverage": lambda row: row["coverage"]}, "the program made no visit")
        tell(self._advice, MODEL, {"advice_accuracy": lambda row: row["accuracy"]}, "no advice was given")

    def _long(self, key: tuple[str, int, str]) -> None:
        """What a visit costs in a long run, and beside the shortest one of its kind."""
        run, trace = self._runs.get(key), self._traces.get(key)
        reason = self._missing.of(key[0], key[1], [RUN, TRACE], key[2])

        def visit_s(own: Values, counts: Values) -> float:
            visits = counts["visits"] + counts["cut"]
            return float(own["seconds"] / visits) if visits else float("nan")

        if run is None or trace is None:
            told: tuple[float | None, float | None] = (None, None)
            size = None
        else:
            if not trace["visits"] + trace["cut"]:
                reason = reason or "its file has no visit of the program"
            kept, size = trace["records"] - trace["cut"], float(trace["file_bytes"])
            told = visit_s(run, trace) * 1e9, size / kept if kept else None
        self._rows.put(*key[:2], "file_bytes", size, reason=reason)
        self._rows.put(*key[:2], "visit_time", told[0], reason=reason)
        self._rows.put(*key[:2], "bytes_per_visit", told[1], reason=reason or "its file has room for no visit")
        if key[2] != LONG:
            return
        short = (SHORTEST, *key[1:])
        beside, counts = self._runs.get(short), self._traces.get(short)
        if beside is None or counts is None:
            reason = reason or self._missing.of(SHORTEST, key[1], [RUN, TRACE], key[2])
            reason = reason or f"arm {SHORTEST} did not run in this repetition"
            self._rows.put(*key[:2], "visit_time_ratio", None, reason=reason)
        else:
            ratio = None if told[0] is None else told[0] / (1e9 * visit_s(beside, counts))
            self._rows.put(*key[:2], "visit_time_ratio", ratio, reason=reason)

    def _beside(
        self,
        key: tuple[str, int, str],
        name: str,
        method: str,
        value: Callable[[Values, Values], float],
        *,
        timed: bool = False,
    ) -> None:
        """A metric of a run and of that of the same program, seed and clock by another method."""
        arm, trial, workload = key
        parts = [RUN] if name != "same_output" else [RUN, OUTPUT]
        own, reason = self._runs.get(key), self._missing.of(arm, trial, parts, workload)
        if own is None and reason is None:
            return
        clock = self._clock[arm, trial]
        others = [arm for arm, how in self._method.items() if how == method and self._clock.get((arm, trial)) == clock]
        pairs = [(other, self._runs[place]) for other in others if (place := (other, trial, workload)) in self._runs]
        told = None
        if reason is None and not pairs:
            why = next((text for other in others if (text := self._missing.of(other, trial, [RUN], workload))), None)
            reason = why or f"{workload} did not run by the method {method} in this repetition on the {clock} clock"
        elif reason is None and own is not None:
            other, run = pairs[0]
            disturbed = self._disturbed[other, trial]
            if timed and disturbed:
                reason = f"{LEFT_OUT}{other}: {disturbed}"
            elif name == "same_output" and run["output"] is None:
                reason = self._missing.of(other, trial, [OUTPUT], workload)
            else:
                told = value(own, run)
                reason = f"arm {other} has nothing of it" if pd.isna(told) else None
        self._rows.put(arm, trial, f"{name}.{workload}", told, reason=reason)


class _Trials:
    """Metrics over all programs or cases of one trial; absent when a part of one of them is."""

    def __init__(self, tables: Tables, rows: MetricRows) -> None:
        self._tables, self._by_trial = tables, Cut(tables, "arm", "trial")
        self._rows = rows
        self._missing = _Missing(tables["problems"])
        self._trials = list(tables["trials"][["arm", "trial", "params"]].itertuples(index=False, name=None))

    def put(self) -> None:
        for arm, trial, params in self._trials:
            method = dict(pair.split("=", 1) for pair in params.split()).get("method", "")
            if method in TRACES:
                self._counts(arm, trial, self._of("traces", arm, trial), TRACE)
                self._compared(arm, trial)
            if method == "trace":
                self._dwells(arm, trial)
            if method not in ("plain", "exact", "stream", "lackey-data", *CASES, ADVISED):
                self._output(arm, trial)
            if method == "known":
                self._known(arm, trial, self._of("known", arm, trial))
            if method == "lackey-known":
                self._by_lackey(arm, trial, self._of("second", arm, trial))
            if method == "neighbour":
                self._neighbour(arm, trial, self._of("neighbour", arm, trial))

    def _known(self, arm: str, trial: int, cases: pd.DataFrame) -> None:
        self._counts(arm, trial, cases, KNOWN)
        self._sum(arm, trial, "known_cases", KNOWN, lambda: len(cases))
        self._sum(arm, trial, "known_wrong", KNOWN, lambda: int((~cases["exact"]).sum()))
        self._sum(arm, trial, "hand_right", KNOWN, lambda: int((cases["seen"] == cases["by_hand"]).sum()))
        self._sum(arm, trial, "said_exact", KNOWN, lambda: int(cases["said_exact"].sum()))

    def _by_lackey(self, arm: str, trial: int, cases: pd.DataFrame) -> None:
        self._sum(arm, trial, "second_wrong", LACKEY, lambda: int((~cases["exact"]).sum()))
        self._sum(arm, trial, "hand_right", LACKEY, lambda: int((cases["visits"] == cases["by_hand"]).sum()))

    def _neighbour(self, arm: str, trial: int, speeds: pd.DataFrame) -> None:
        low, high = (float(speeds[name].min()) for name in ("slowdown_low", "slowdown_high"))
        reason = self._missing.of(arm, trial, [NEIGHBOUR])
        within = next((bound for bound in UNDISTURBED if low < bound < high), None)
        if reason is None and within is not None:
            reason = f"its 95 % interval over the pairs, {low:.3f} to {high:.3f}, has the bound {within:g} in it"
        self._rows.put(arm, trial, "neighbour_slowdown", None if reason else speeds["slowdown"].iloc[0], reason=reason)
        self._sum(arm, trial, "neighbour_slowdown_fastest", NEIGHBOUR, lambda: speeds["slowdown_fastest"].iloc[0])

    def _of(self, name: str, arm: str, trial: int) -> pd.DataFrame:
        return self._by_trial.of(name, arm, trial)

    def _sum(self, arm: str, trial: int, name: str, part: str, value: Callable[[], float]) -> None:
        reason = self._missing.of(arm, trial, [part])
        self._rows.put(arm, trial, name, None if reason else value(), reason=reason)

    def _counts(self, arm: str, trial: int, counts: pd.DataFrame, part: str) -> None:
        self._sum(arm, trial, "unaccounted", part, lambda: float(counts["unaccounted"].abs().sum()))
        self._sum(arm, trial, "lost", part, lambda: float(counts["lost"].sum()))
        unrecorded = (counts["records"] - counts["file_records"] - counts["cut"]).abs()
        self._sum(arm, trial, "unrecorded", part, lambda: float(unrecorded.sum()))
        if part == TRACE:
            self._sum(arm, trial, "steps", part, lambda: float(counts["several"].sum()))
            self._sum(arm, trial, "unfit", part, lambda: float(counts["unfit"].sum()))

    def _compared(self, arm: str, trial: int) -> None:
        compared, differences = self._of("comparisons", arm, trial), self._of("differences", arm, trial)
        if compared.empty and self._missing.of(arm, trial, [COMPARISON]) is None:
            return  # the arm has no oracle

        def put(name: str, value: Callable[[], float]) -> None:
            self._sum(arm, trial, name, COMPARISON, value)

        put("unexplained", lambda: float(compared["unexplained"].sum()))
        put("extra", lambda: float(compared["extra"].sum()))
        put("missing_share", lambda: _share(compared["missing"].sum(), compared["oracle"].sum()))
        put("missing_share_worst", lambda: float((compared["missing"] / compared["oracle"]).max()))
        put("code_unmapped", lambda: float(compared["code_unmapped"].sum()))
        put("left_out_share", lambda: float((compared["left_out"] / compared["runs"]).max()))
        visits = compared.set_index("workload")["oracle"]
        for name in CLASSES:
            rows = differences[differences["class"] == name].set_index("workload")
            share = (rows["missing"] + rows["extra"]) / visits
            self._share_of_class(arm, trial, name, share)

    def _dwells(self, arm: str, trial: int) -> None:
        told, tracer = self._of("dwells", arm, trial), self._of("tracer", arm, trial)
        if tracer.empty and self._missing.of(arm, trial, [TRACER]) is None:
            return  # nothing told what the tracer takes
        self._sum(arm, trial, "visit_ns", TRACER, lambda: float(tracer["plain_ns"].iloc[0]))
        reason = self._missing.of(arm, trial, [TRACER, DWELLS])
        shares = told["compared"] / told["visits"]
        for workload, share in zip(told["workload"], shares, strict=True):
            self._rows.put(arm, trial, f"lined_up_share.{workload}", float(share))
        self._rows.put(arm, trial, "lined_up_share_least", None if reason else float(shares.min()), reason=reason)
        for name in ("dwell_error", "traced_error", "count_error", "count_error_own", "time_error"):
            for row in told.to_dict("records"):
                value: float | None = row[name]
                none = None if pd.notna(value) else f"only {row['long']} of its visits have 100 accesses and more"
                self._rows.put(arm, trial, f"{name}.{row['workload']}", None if none else value, reason=none)
            if name != "traced_error":
                worst = float(told[name].max())
                none = reason or (None if pd.notna(worst) else "no program has ten visits of 100 accesses and more")
                self._rows.put(arm, trial, f"{name}_worst", None if none else worst, reason=none)

    def _share_of_class(self, arm: str, trial: int, name: str, share: pd.Series[float]) -> None:
        self._sum(arm, trial, f"difference_share.{name}", COMPARISON, lambda: float(share.max()))

    def _output(self, arm: str, trial: int) -> None:
        """The least of its programs' own metrics of this name."""
        metrics = self._rows.frame()
        own = metrics[(metrics["arm"] == arm) & (metrics["trial"] == trial)]
        own = own[own["metric"].str.startswith("same_output.")]
        if own.empty:
            return
        absent = own.loc[own["value"].isna(), "reason"]
        reason = str(absent.iloc[0]) if len(absent) else None
        self._rows.put(arm, trial, "same_output", None if reason else float(own["value"].min()), reason=reason)


def _by_program(table: pd.DataFrame) -> dict[Any, Values]:
    records: list[Any] = table.to_dict("records")
    return {(row["arm"], row["trial"], row["workload"]): row for row in records}


def _ratio(name: str, of: str, run: Values, other: Values) -> float:
    return _share(run[name], other[of])


def _share(part: float, of: float) -> float:
    return part / of if of else float("nan")
