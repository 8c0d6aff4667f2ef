"""Yang & Lu (2004): kernel hot spots by tick sampling, and interrupt handlers as its blind spot.

Pure functions of a result set's raw folders: `tables` decodes, `metrics` gives one figure per trial and
name, `summary` and `figures` show them (figures.py draws), `profiles` is for `./inv export`. Numbers in brackets,
"fault 3", are those of this folder's README.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure

from harness.errors import KreproError
from harness.measure.interrupts import InterruptTable, delta, read_interrupts
from harness.measure.statistics import median_estimate
from harness.measure.symbols import SymbolMap, read_system_map
from harness.oracle.reader import Oracle, OracleAbsent
from harness.oracle.truth import agreement, convergence, distance, kernel_truth, nmi_cost, shares

from .figures import draw
from .profile.buffer import (
    ProfileTable,
    decode,
    decode_as_printed,
    decode_as_readprofile,
    read_profile,
)


class Trial(Protocol):
    """What this analysis reads of a trial; `path` is its raw folder, with one folder per workload."""

    arm: str
    repetition: int
    path: Path
    workloads: tuple[str, ...]
    params: dict[str, Any]
    cmdline: dict[str, Any]
    kernel: str
    system_map: Path
    clock: str
    fidelity: str
    seed: int


@dataclass(frozen=True)
class Handler:
    """One kind of interrupt: its name here, its names in /proc/interrupts, its functions in the kernel."""

    label: str
    actions: tuple[str, ...]  # an action is one of these, or begins with one and a digit or "-" follows
    entries: tuple[str, ...]  # what action->handler may point to
    body: tuple[str, ...] = ()  # functions that only this handler calls


HANDLERS = (
    Handler("timer", ("timer",), ("timer_interrupt",)),
    Handler("edu", ("krepro-edu",), ("krepro_edu_irq",), ("krepro_edu_work",)),
    Handler("disk", ("ata_piix", "libata"), ("ata_bmdma_interrupt", "ata_sff_interrupt")),
    Handler("net", ("eth",), ("cp_interrupt", "e1000_intr", "rtl8139_interrupt")),
    Handler("virtio", ("virtio",), ("vp_interrupt",)),
    Handler("rtc", ("rtc",), ("rtc_interrupt", "cmos_interrupt")),
    Handler("keyboard", ("i8042",), ("i8042_interrupt",)),
    Handler("serial", ("ttyS", "serial"), ("serial8250_interrupt",)),
    Handler("acpi", ("acpi",), ("acpi_irq",)),
)
IDLE = (
    "default_idle",
    "native_safe_halt",
    "pv_native_safe_halt",
    "mwait_idle",
    "acpi_safe_halt",
    "acpi_idle_do_entry",
)
RAISE, TASK_WORK = "krepro_edu_raise", "krepro_edu_task_work"
SWEEP = tuple(f"n{n}" for n in range(2, 8))
SWEEP_WORKLOAD = "syscalls"
_KEYS = ["arm", "trial", "workload"]
#: The values of irq_sampling that count handler entries, and the one whose samples no tick takes.
ENTRIES_SAMPLED = ("entry", "handler")
BY_NMI = "nmi"
_TOP = 12


# -- tables: raw folders into typed rows ------------------------------------------------------------------


def tables(trials: Sequence[Trial]) -> dict[str, pd.DataFrame]:
    """Decode every workload of every trial.

    runs      one row per arm, trial, workload: what the buffer, the bracket and the workload say
    profile   function by function, and the out-of-text row; ticks as `.profile.buffer`
    handlers  one row per handler that ran: interrupts, entries counted, ticks inside it
    sweep     the n2 buffers folded to coarser steps: the share of ticks in counters of several functions
    truth     function by function of trials with an oracle: exact instructions, and each profiler's counts
    error     of growing numbers of samples

    A workload that left no usable data has `problem` set in `runs` and no row elsewhere.
    """
    runs: list[dict[str, Any]] = []
    profiles: list[pd.DataFrame] = []
    handlers: list[dict[str, Any]] = []
    sweep: list[dict[str, Any]] = []
    truth: list[pd.DataFrame] = []
    distances: list[pd.DataFrame] = []
    for trial in trials:
        for workload in trial.workloads:
            key: dict[str, Any] = {"arm": trial.arm, "trial": trial.repetition, "workload": workload}
            about = {
                "kernel": trial.kernel,
                "clock": trial.clock,
                "fidelity": trial.fidelity,
                "seed": trial.seed,
                "sampling": _sampling(trial.params),
            }
            try:
                data = _read(trial, trial.path / workload)
            except KreproError as error:
                # Without the host's folders: what a table says must not depend on where it was made.
                problem = str(error).replace(f"{trial.path.parent.parent}/", "")
                runs.append(key | about | {"problem": problem})
                continue
            found = _handlers(data)
            runs.append(key | about | {"problem": None} | _run(data, found))
            profiles.append(_profile(data, found).assign(**key))
            handlers += [key | row for row in found]
            exact = _truth(trial, workload, data)
            runs[-1] |= _nmi_truth(trial, workload, data)
            if isinstance(exact, str):
                runs[-1]["no_truth"] = exact
            elif exact is not None:
                truth.append(exact.assign(**key))
                distances += [frame.assign(**key) for frame in _convergence(exact, trial.seed)]
            if trial.arm == SWEEP[0] and workload == SWEEP_WORKLOAD:
                sweep += [key | row for row in _regroup(data.profile)]
    return {
        "runs": _frame(runs, _RUN_COLUMNS),
        "profile": _frame(profiles, _PROFILE_COLUMNS),
        "handlers": _frame(handlers, _HANDLER_COLUMNS),
        "sweep": _frame(sweep, _SWEEP_COLUMNS),
        "truth": _frame(truth, _TRUTH_COLUMNS),
        "error": _frame(distances, _ERROR_COLUMNS),
    }


_RUN_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("arm", "trial", "workload", "kernel", "clock", "fidelity", "seed", "sampling"), "object"),
    "problem": "object",  # why there is no data, else None
    "no_truth": "object",  # why an oracle that was there reports nothing, else None
    "step": "float64",  # bytes per counter
    "total": "float64",  # all counts in the buffer, ticks and entries together
    "out_of_text": "float64",  # of them in the last counter
    "shared": "float64",  # of the rest in counters that hold several functions
    "exact": "object",  # bracket: every figure compares exactly with the interrupts
    "tick_slack": "float64",  # timer interrupts that may or may not be in the buffer
    "retries": "float64",  # attempts of the collector beyond the first
    "timer_interrupts": "float64",
    "window_s": "float64",  # between the brackets, in guest time
    "counted_entries": "float64",  # the kernel's own tally of what it counted at interrupts
    "counted_interrupted": "float64",
    "counted_clamped": "float64",
    "nmis_sent": "float64",  # by the oracle, in all workloads of the trial
    "nmi_cost": "float64",  # instructions in NMIs, of all that the kernel executed
    "nmis": "float64",  # that the NMI sampler took for samples, those in user mode included
    "idle_function": "object",
    "idle_ticks": "float64",
    "idle_rank": "float64",
    "raise_ticks": "float64",  # ticks in krepro_edu_raise, which the interrupts from kernel mode interrupt
    "task_work_ticks": "float64",
    "top_function": "object",  # most ticks, decoded
    "top_ticks": "float64",
    "top_printed": "float64",  # what the paper's pseudo-code gives that function
    "printed_top_function": "object",  # most ticks by the paper's pseudo-code
    "printed_top_ticks": "float64",
    "printed_top_real": "float64",  # what that function really has
    "printed_total": "float64",
    "printed_error": "float64",  # sum of |printed - decoded| over the sum of decoded
    "readprofile_error": "float64",  # the same for util-linux's attribution
    "raised": "float64",  # known answers of the workload
    "raised_kernel": "float64",
    "handled": "float64",
    "handler_loops": "float64",
    "handler_ns": "float64",  # one handler run, measured in the guest
    "loop_ns": "float64",  # one loop of the same work in task context
    "elapsed_ns": "float64",
    "reads": "float64",
    "bytes": "float64",
}
_PROFILE_COLUMNS: dict[str, str] = {
    "arm": "object",
    "trial": "object",
    "workload": "object",
    "function": "object",
    "role": "object",
    "address": "uint64",
    "size": "uint64",
    "ticks": "float64",
    "low": "float64",
    "high": "float64",
    "shared": "float64",
    "ticks_per_byte": "float64",
    "printed": "float64",
}
_HANDLER_COLUMNS: dict[str, str] = {
    "arm": "object",
    "trial": "object",
    "workload": "object",
    "handler": "object",
    "function": "object",  # those of its functions that the map has; None: none that we know
    "lines": "object",
    "interrupts": "float64",  # certainly sampled: the difference of /proc/interrupts
    "slack": "float64",  # that many more may have been
    "shared": "object",  # another handler is called on one of its lines too
    "entries": "float64",  # the counter of the handler's first byte; NaN when entries are not sampled
    "exclusive": "object",  # that counter holds nothing but the handler
    "ticks": "float64",  # in the handler's functions, less `entries`
    "ticks_high": "float64",  # the same, if every shared counter were all its own
}
_SWEEP_COLUMNS: dict[str, str] = {
    "arm": "object",
    "trial": "object",
    "workload": "object",
    "n": "float64",
    "step": "float64",
    "neighbour_share": "float64",
}
_TRUTH_COLUMNS: dict[str, str] = {
    "arm": "object",
    "trial": "object",
    "workload": "object",
    "function": "object",
    "role": "object",
    "instructions": "float64",  # executed, exact
    "entries": "float64",  # exact
    "interrupt": "float64",  # of the instructions those in hard interrupts
    "samples": "float64",  # the ideal profiler's; NaN: it did not run
    "ticks": "float64",  # /proc/profile's, ticks and counted entries
}
_ERROR_COLUMNS: dict[str, str] = {
    "arm": "object",
    "trial": "object",
    "workload": "object",
    "source": "object",  # ideal sampler or /proc/profile
    "n": "float64",
    "error": "float64",  # root of the summed squares of the differences of shares
    "expected": "float64",  # the same of n unbiased samples
}


@dataclass(frozen=True)
class _Data:
    """One workload, decoded."""

    profile: ProfileTable
    printed: npt.NDArray[np.int64]
    readprofile: npt.NDArray[np.float64]
    interrupts: InterruptTable
    bracket: dict[str, str]
    answer: dict[str, Any]
    sampling: str


@lru_cache(maxsize=8)
def _symbols(path: Path) -> SymbolMap:
    return read_system_map(path)


def _read(trial: Trial, folder: Path) -> _Data:
    status = _text(folder / "exit").strip()
    if status != "0":
        raise KreproError(f"the workload ended with status {status}", where=str(folder))
    symbols = _symbols(trial.system_map)
    raw = read_profile(folder / "profile")
    where = str(folder / "profile")
    like = decode_as_readprofile(raw, symbols, where=where)
    at = symbols.at(like.address)
    lines = _text(folder / "bracket").splitlines()
    try:
        answer = json.loads(_text(folder / "stdout"))
    except ValueError as error:
        raise KreproError("the workload's output is not JSON", where=str(folder / "stdout")) from error
    return _Data(
        profile=decode(raw, symbols, where=where),
        printed=decode_as_printed(raw, symbols, where=where),
        readprofile=np.bincount(at, like.ticks.astype(np.float64), len(symbols)).astype(np.float64),
        interrupts=delta(read_interrupts(folder / "interrupts.before"), read_interrupts(folder / "interrupts.after")),
        bracket=dict(line.split("=", 1) for line in lines if "=" in line),
        answer=answer,
        sampling=_sampling(trial.params),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise KreproError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _sampling(params: dict[str, Any]) -> str:
    """YAML reads a bare off as false."""
    value = params.get("irq_sampling", "off")
    return "off" if value is False else str(value)


def _numbers(bracket: dict[str, str], key: str) -> dict[str, int]:
    """A bracket's "irq:count irq:count" list."""
    return {irq: int(count) for irq, count in (item.split(":") for item in bracket.get(key, "").split())}


def _counted(bracket: dict[str, str], tallies: str, index: int) -> float:
    """Growth of one of the kernel's own tallies between the brackets; NaN on a kernel without them."""
    before, after = bracket.get(f"begin_{tallies}", "").split(), bracket.get(f"end_{tallies}", "").split()
    return float(int(after[index]) - int(before[index])) if index < min(len(before), len(after)) else float("nan")


def _kind(action: str) -> Handler | None:
    for handler in HANDLERS:
        for name in handler.actions:
            rest = action.removeprefix(name)
            if rest != action and (not rest or rest[0] in "0123456789-"):
                return handler
    return None


def _handlers(data: _Data) -> list[dict[str, Any]]:
    """Every handler whose line had an interrupt, with the entries that the profile buffer has for it.

    A line that is shared calls all its handlers, and a driver may own several lines, so the expected entries
    of a handler are summed over lines and its actions on them.
    """
    table, interrupts = data.profile, data.interrupts
    slack: dict[str, int] = {}
    for key in ("begin_entry_slack", "end_entry_slack"):
        for irq, count in _numbers(data.bracket, key).items():
            slack[irq] = slack.get(irq, 0) + count
    expected: dict[str, dict[str, Any]] = {}
    for irq, actions, count in zip(interrupts.irq, interrupts.actions, interrupts.total.tolist(), strict=True):
        for action in actions:
            if not count + slack.get(irq, 0):
                continue
            handler = _kind(action)
            label = handler.label if handler else action
            fresh: dict[str, Any] = {
                "handler": label,
                "kind": handler,
                "lines": [],
                "interrupts": 0,
                "slack": 0,
                "shared": False,
            }
            row = expected.setdefault(label, fresh)
            row["shared"] |= any(_kind(other) is not handler for other in actions)
            row["lines"].append(irq)
            row["interrupts"] += count
            row["slack"] += slack.get(irq, 0)
    return [_handler_row(table, row, data.sampling) for row in expected.values()]


def _handler_row(table: ProfileTable, row: dict[str, Any], sampling: str) -> dict[str, Any]:
    kind: Handler | None = row.pop("kind")
    row["lines"] = " ".join(dict.fromkeys(row["lines"]))
    names = [name for name in (kind.entries if kind else ()) if table.symbols.find(name).size]
    if kind is None or not names:
        return row | {"function": None}
    # The map may have several drivers of one kind, and does not say which one is at work: their sum is.
    entry = np.unique(np.concatenate([table.symbols.find(name) for name in names]))
    functions = np.unique(np.concatenate([entry, *(table.symbols.find(name) for name in kind.body)]))
    buckets = sorted({table.bucket_of(int(address)) for address in table.symbols.address[entry]})
    entries = float(table.buckets[buckets].sum()) if sampling in ENTRIES_SAMPLED else float("nan")
    # With entries sampled, the entry counters are theirs; what is left in the handler would be ticks.
    own = float(np.nan_to_num(entries))
    return row | {
        "function": " ".join(names),
        "entries": entries,
        "exclusive": all(table.is_exclusive(bucket) for bucket in buckets),
        "ticks": max(0.0, float(table.ticks[functions].sum()) - own),
        "ticks_high": max(0.0, float(table.high[functions].sum()) - own),
    }


def _run(data: _Data, handlers: list[dict[str, Any]]) -> dict[str, Any]:
    table, bracket, answer = data.profile, data.bracket, data.answer
    names = table.symbols.name
    top, printed_top = int(np.argmax(table.ticks)), int(np.argmax(data.printed))
    in_text = float(table.ticks.sum())
    idle = [int(i) for name in IDLE for i in table.symbols.find(name)]
    best = max(idle, key=lambda i: float(table.ticks[i]), default=None)
    exact = bracket.get("begin_exact") == "1" and bracket.get("end_exact") == "1"
    timers = [
        irq for irq, actions in zip(data.interrupts.irq, data.interrupts.actions, strict=True) if "timer" in actions
    ]
    return {
        "step": table.step,
        "total": table.total,
        "out_of_text": table.out_of_text,
        "shared": _shared(table.buckets[:-1], table.step, table.symbols),
        "exact": exact,
        "tick_slack": sum(int(bracket.get(key, "0")) for key in ("begin_tick_slack", "end_tick_slack")),
        "retries": sum(int(bracket.get(key, "0")) for key in ("begin_retries", "end_retries")),
        "timer_interrupts": sum(data.interrupts.count_of(irq) for irq in [*timers, "LOC"]),
        "window_s": (int(bracket.get("end_ns", "0")) - int(bracket.get("begin_ns", "0"))) / 1e9,
        "counted_entries": _counted(bracket, "stats", 0),
        "counted_interrupted": _counted(bracket, "stats", 1),
        "counted_clamped": _counted(bracket, "stats", 2),
        "nmis": sum(_counted(bracket, "nmi_stats", index) for index in (0, 2, 3)),
        "idle_function": None if best is None else str(names[best]),
        "idle_ticks": np.nan if best is None else float(table.ticks[best]),
        "idle_rank": np.nan if best is None else float(1 + (table.ticks > table.ticks[best]).sum()),
        "raise_ticks": _ticks_in(table, RAISE),
        "task_work_ticks": _ticks_in(table, TASK_WORK),
        "top_function": str(names[top]),
        "top_ticks": float(table.ticks[top]),
        "top_printed": float(data.printed[top]),
        "printed_top_function": str(names[printed_top]) if data.printed.any() else "(all read 0)",
        "printed_top_ticks": float(data.printed[printed_top]),
        "printed_top_real": float(table.ticks[printed_top]),
        "printed_total": float(data.printed.sum()),
        "printed_error": _ratio(float(np.abs(data.printed - table.ticks).sum()), in_text),
        "readprofile_error": _ratio(float(np.abs(data.readprofile - table.ticks).sum()), in_text),
        "raised": answer["raised_user"] + answer["raised_kernel"] if "raised_user" in answer else np.nan,
        **{
            name: answer.get(name, np.nan)
            for name in (
                *("raised_kernel", "handled", "handler_loops", "handler_ns"),
                *("loop_ns", "elapsed_ns", "reads", "bytes"),
            )
        },
    }


def _truth(trial: Trial, workload: str, data: _Data) -> pd.DataFrame | str | None:
    """Exact counts beside the profile buffer's, by function; None without an oracle, or why it reports nothing."""
    try:
        oracle = Oracle(trial.path)
    except OracleAbsent:
        return None
    try:
        table = kernel_truth(oracle, data.profile.symbols, trial.workloads.index(workload))
    except OracleAbsent as absent:
        return absent.message
    counted = pd.Series(data.profile.ticks, index=data.profile.symbols.name).groupby(level=0).sum()
    counted = counted[counted > 0]
    sampled = bool(table["samples"].notna().all())
    table = table.reindex(table.index.union(counted.index)).fillna(0.0)
    if not sampled:
        table["samples"] = np.nan
    table["ticks"] = counted.reindex(table.index).fillna(0.0)
    roles = _roles()
    return table.rename_axis("function").reset_index().assign(role=lambda t: t["function"].map(roles).fillna("other"))


def _nmi_truth(trial: Trial, workload: str, data: _Data) -> dict[str, float]:
    """NMIs that the oracle sent in the whole trial, and what they cost in this workload; nothing where it sent none."""
    try:
        oracle = Oracle(trial.path)
        if oracle.report.nmi is None or oracle.report.absent("nmi") is not None:
            return {}
        cost = nmi_cost(oracle, data.profile.symbols, trial.workloads.index(workload))
    except OracleAbsent:
        return {}
    return {"nmis_sent": float(oracle.report.nmi.sent), "nmi_cost": cost}


def _convergence(truth: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    sizes = np.unique(np.round(np.geomspace(8, 65536, 27)))
    return [
        convergence(truth["instructions"], truth[column], sizes, seed).assign(source=source)
        for column, source in (("samples", "ideal sampler"), ("ticks", "/proc/profile"))
        if truth[column].notna().all()
    ]


def _roles() -> dict[str, str]:
    roles = {str(name): "idle" for name in IDLE} | {RAISE: "raise", TASK_WORK: "task work"}
    for kind in HANDLERS:
        roles |= dict.fromkeys((*kind.entries, *kind.body), f"handler {kind.label}")
    return roles


def _profile(data: _Data, handlers: list[dict[str, Any]]) -> pd.DataFrame:
    frame = data.profile.frame()
    printed = pd.Series(data.printed, index=data.profile.symbols.address)
    roles = _roles()
    # Counts become floats: with entries and means beside ticks they are no longer whole numbers anyway.
    return frame.assign(
        role=frame["function"].map(roles).fillna("other"),
        printed=printed.reindex(frame["address"]).to_numpy(dtype=np.float64),
    )


def _ticks_in(table: ProfileTable, name: str) -> float:
    found = table.symbols.find(name)
    return float(table.ticks[found].sum()) if found.size else float("nan")


def _shared(counts: npt.NDArray[np.int64], step: int, symbols: SymbolMap) -> float:
    """Ticks in counters that hold bytes of several functions."""
    start = np.uint64(symbols.stext) + np.arange(counts.size, dtype=np.uint64) * np.uint64(step)
    return float(counts[symbols.at(start) != symbols.at(start + np.uint64(step - 1))].sum())


def _regroup(table: ProfileTable) -> list[dict[str, Any]]:
    """Fold a fine buffer to every coarser step: what profile=N would have counted of the same samples.

    Counters nest (index = offset >> N), so this is exact but for the last counter, which is left out.
    """
    rows = []
    fine = table.buckets[:-1]
    for n in range(2, 8):
        factor = (1 << n) // table.step
        if factor < 1:
            continue
        counts = np.add.reduceat(fine, np.arange(0, fine.size, factor))
        share = _ratio(_shared(counts, 1 << n, table.symbols), float(fine.sum()))
        rows.append({"n": n, "step": 1 << n, "neighbour_share": share})
    return rows


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _frame(rows: Sequence[Any], columns: dict[str, str]) -> pd.DataFrame:
    """Rows as one frame with exactly these columns and types, also when there are none."""
    if rows and isinstance(rows[0], pd.DataFrame):
        frame = pd.concat(rows, ignore_index=True)
    else:
        frame = pd.DataFrame(list(rows))
    whole: pd.DataFrame = frame.reindex(columns=list(columns))
    return whole.astype({name: kind for name, kind in columns.items() if kind != "object"})


# -- metrics: one figure per trial and name ---------------------------------------------------------------


class _Metrics:
    """Rows of the metrics table; a figure that is missing needs a reason."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, str, float, str, str | None]] = []

    def add(self, key: tuple[str, int], name: str, value: float, unit: str, reason: str | None = None) -> None:
        absent = bool(np.isnan(value))
        if absent and reason is None:
            reason = "0 divided by 0: nothing was counted"
        self.rows.append((*key, name, float(value), unit, reason if absent else None))

    def frame(self) -> pd.DataFrame:
        table = pd.DataFrame(self.rows, columns=["arm", "trial", "metric", "value", "unit", "reason"])
        # As object, None stays None: pandas' own string type would make it NaN.
        reasons = pd.Series([row[-1] for row in self.rows], dtype=object)
        return table.assign(reason=reasons).astype({"trial": "int64", "value": "float64"})


def metrics(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Long form: arm, trial, metric, value (NaN if absent), unit, reason (why absent, else None).

    A name may end in ".HANDLER" (timer, edu, disk, net, ...) or ".WORKLOAD". The README lists them.
    """
    runs, handlers = tables["runs"], tables["handlers"]
    out = _Metrics()
    spoilt: dict[tuple[str, int], str] = {}
    pairs = runs[["arm", "trial"]].drop_duplicates().sort_values(["arm", "trial"], kind="stable")
    for arm, trial in zip(pairs["arm"].tolist(), pairs["trial"].tolist(), strict=True):
        group = runs[(runs["arm"] == arm) & (runs["trial"] == trial)]
        mine = handlers[(handlers["arm"] == arm) & (handlers["trial"] == trial)]
        problems = group["problem"].dropna()
        if len(problems):
            # A figure over some of the workloads would pass for one over all of them.
            spoilt[arm, trial] = str(problems.iloc[0])
            continue
        by_workload = {str(row["workload"]): row for _, row in group.iterrows()}
        _handler_metrics(out, (arm, trial), mine)
        _buffer_metrics(out, (arm, trial), group)
        if "idle" in by_workload:
            _idle_metrics(out, (arm, trial), by_workload["idle"], mine)
        if "edu" in by_workload:
            _edu_metrics(out, (arm, trial), by_workload, mine)
        _known_answers(out, (arm, trial), by_workload, mine)
        if group["nmis_sent"].notna().any():
            _nmi_metrics(out, (arm, trial), group)
        exact = tables["truth"]
        exact = exact[(exact["arm"] == arm) & (exact["trial"] == trial) & (exact["workload"] == "edu")]
        why = by_workload["edu"]["no_truth"] if "edu" in by_workload else None
        if isinstance(why, str):
            for name, unit in _TRUTH_UNITS.items():
                out.add((arm, trial), name, np.nan, unit, why)
        elif not exact.empty:
            _truth_metrics(out, (arm, trial), exact, mine)
    _sweep_metrics(out)
    units = {"handler_ticks": "ticks"} | {name: unit for _, _, name, _, unit, _ in out.rows}
    for key, reason in spoilt.items():
        for name, unit in units.items():
            out.add(key, name, np.nan, unit, reason)
    return out.frame()


def _handler_metrics(out: _Metrics, key: tuple[str, int], handlers: pd.DataFrame) -> None:
    """The blind spot (section 3.3) and the fix's entry counts (section 4)."""
    known = handlers[handlers["function"].notna()]
    reason = "no handler that we know ran"
    nothing = np.nan if known.empty else 0.0
    out.add(key, "handler_ticks", nothing + float(known["ticks"].sum()), "ticks", reason)
    out.add(key, "handler_ticks_bound", nothing + float(known["ticks_high"].sum()), "ticks", reason)
    out.add(key, "handler_interrupts", float(handlers["interrupts"].sum()), "interrupts")
    for label, rows in handlers.groupby("handler", sort=True):
        out.add(key, f"handler_interrupts.{label}", float(rows["interrupts"].sum()), "interrupts")
        mapped = rows[rows["function"].notna()]
        if mapped.empty:
            out.add(key, f"handler_ticks.{label}", np.nan, "ticks", "its handler's function is not known")
            continue
        out.add(key, f"handler_ticks.{label}", float(mapped["ticks"].sum()), "ticks")
        value, why = _entries_ratio(mapped)
        out.add(key, f"entries_per_interrupt.{label}", value, "entries/interrupt", why)


def _entries_ratio(rows: pd.DataFrame) -> tuple[float, str | None]:
    """Entries per interrupt of one handler: of its workloads, the ratio that is farthest from 1."""
    if rows["entries"].isna().all():
        return np.nan, "entries are not sampled in this arm"
    if not rows["exclusive"].all():
        return np.nan, "the handler shares its counter with another function at this step"
    low, high = rows["interrupts"], rows["interrupts"] + rows["slack"]
    inside = (rows["entries"] >= low) & (rows["entries"] <= high)
    if inside.all() and rows["slack"].any():
        span = f"{int(low.sum())} to {int(high.sum())} interrupts, {int(rows['entries'].sum())} entries"
        return np.nan, f"the bracket was not exact: {span}, no contradiction"
    # Outside its interval, a count is compared with the end that it is nearer to.
    ratio = (rows["entries"] / rows["entries"].clip(low, high)).where(~inside, 1.0).to_numpy(dtype=np.float64)
    return float(ratio[int(np.argmax(np.abs(ratio - 1)))]), None


def _buffer_metrics(out: _Metrics, key: tuple[str, int], runs: pd.DataFrame) -> None:
    """Figures of the buffer as a whole, and how exactly it was bracketed."""
    out.add(key, "step_bytes", float(runs["step"].max()), "bytes")
    in_text = float((runs["total"] - runs["out_of_text"]).sum())
    if key[0] in SWEEP:  # arms of the sweep may have other workloads for other ends
        runs = runs[runs["workload"] == SWEEP_WORKLOAD]
        in_text = float((runs["total"] - runs["out_of_text"]).sum())
    out.add(key, "neighbour_share", _ratio(float(runs["shared"].sum()), in_text), "fraction of ticks")
    out.add(
        key,
        "out_of_text_share",
        _ratio(float(runs["out_of_text"].sum()), float(runs["total"].sum())),
        "fraction",
    )
    out.add(key, "bracket_exact", float(runs["exact"].astype(bool).mean()), "fraction of workloads")
    out.add(key, "bracket_retries", float(runs["retries"].sum()), "attempts")
    for _, run in runs.iterrows():
        out.add(key, f"printed_error.{run['workload']}", float(run["printed_error"]), "fraction of ticks")
        out.add(key, f"readprofile_error.{run['workload']}", float(run["readprofile_error"]), "fraction of ticks")


def _idle_metrics(out: _Metrics, key: tuple[str, int], run: pd.Series[Any], handlers: pd.DataFrame) -> None:
    """Idle on top (the paper's first table), and the double counting of ticks (fault 6)."""
    missing = "the map has no idle function that we know"
    out.add(key, "idle_rank", float(run["idle_rank"]), "rank", missing)
    out.add(
        key,
        "idle_share",
        _ratio(float(run["idle_ticks"]), float(run["total"])),
        "fraction of counts",
        missing,
    )
    entries = float(handlers.loc[handlers["workload"] == "idle", "entries"].fillna(0).sum())
    timer = float(run["timer_interrupts"])
    slack = float(run["tick_slack"])
    reason = f"{int(slack)} of {int(timer)} timer interrupts are uncertain" if slack > 0.02 * timer else None
    if run["sampling"] == BY_NMI:
        reason = "ticks take no samples in this arm"
    value = np.nan if reason else _ratio(float(run["total"]) - entries, timer)
    out.add(key, "samples_per_timer_interrupt", value, "samples/interrupt", reason)


def _edu_metrics(out: _Metrics, key: tuple[str, int], runs: dict[str, pd.Series[Any]], handlers: pd.DataFrame) -> None:
    """Time in the edu handler: known, as ticks see it, and where the ticks went instead."""
    run = runs["edu"]
    edu = handlers[handlers["handler"] == "edu"].set_index("workload")
    known = float(run["handled"]) * float(run["handler_ns"]) / 1e9
    period = _ratio(float(run["window_s"]), float(run["timer_interrupts"]))
    ticks = float(edu["ticks"].get("edu", np.nan))
    out.add(key, "handler_time_known", known, "s", "the workload did not report it")
    out.add(key, "handler_time_share", _ratio(known, float(run["window_s"])), "fraction of time")
    reason = "the edu handler did not run"
    if run["sampling"] == BY_NMI:  # a sample does not stand for a tick's period
        period, reason = np.nan, "ticks take no samples in this arm; estimate.ticks has the share"
    out.add(key, "handler_time_ratio", _ratio(ticks * period, known), "sampled/known", reason)
    raised = float(run["raised_kernel"]) * float(run["handler_ns"]) / 1e9
    why = "no interrupt was raised from kernel mode" if np.isfinite(period) else reason
    if run["sampling"] == "entry":
        raised, why = np.nan, "the interrupted address is also counted at every interrupt in this arm"
    out.add(key, "displaced_time_ratio", _ratio(float(run["raise_ticks"]) * period, raised), "sampled/known", why)
    if "edu-light" in runs:
        light = runs["edu-light"]
        light_known = float(light["handled"]) * float(light["handler_ns"]) / 1e9
        entries = _ratio(float(edu["entries"].get("edu-light", np.nan)), float(edu["entries"].get("edu", np.nan)))
        out.add(key, "light_entries_ratio", entries, "light/heavy", "entries are not sampled in this arm")
        out.add(key, "light_time_ratio", _ratio(light_known, known), "light/heavy")


def _known_answers(
    out: _Metrics, key: tuple[str, int], runs: dict[str, pd.Series[Any]], handlers: pd.DataFrame
) -> None:
    """What the workloads did, against what the machine reports."""

    def interrupts(label: str, workload: str) -> tuple[float, str]:
        rows = handlers[(handlers["handler"] == label) & (handlers["workload"] == workload)]
        if rows.empty:
            return np.nan, f"no {label} interrupt"
        if rows["slack"].any():
            return np.nan, "the bracket was not exact"
        if rows["shared"].any():
            return np.nan, "another device has interrupts on the same line"
        return float(rows["interrupts"].sum()), ""

    if "edu" in runs:
        raised = float(runs["edu"]["raised"])
        count, why = interrupts("edu", "edu")
        out.add(key, "handled_per_raise", _ratio(float(runs["edu"]["handled"]), raised), "handled/raised")
        out.add(key, "interrupts_per_raise", _ratio(count, raised), "interrupts/raised", why)
    if "disk" in runs:
        count, why = interrupts("disk", "disk")
        if np.isnan(count):
            count, why = interrupts("virtio", "disk")
        out.add(key, "interrupts_per_read", _ratio(count, float(runs["disk"]["reads"])), "interrupts/read", why)
    if "net" in runs:
        out.add(key, "received_bytes", float(runs["net"]["bytes"]), "bytes", "the workload did not report it")


_TRUTH_UNITS = {
    "truth.handler": "fraction of kernel instructions",
    "missed.ticks": "fraction of handler time",
    "missed.sampler": "fraction of handler time",
    "error.ticks": "fraction of kernel time",
    "error.sampler": "fraction of kernel time",
    "entries_counted": "counted/exact",
}


def _truth_metrics(out: _Metrics, key: tuple[str, int], truth: pd.DataFrame, handlers: pd.DataFrame) -> None:
    """The handler's share of kernel time, exact and as each profiler has it, and what each has in wrong functions."""
    edu = (truth["role"] == "handler edu").to_numpy()
    exact = float(shares(truth["instructions"])[edu].sum())
    out.add(key, "truth.handler", exact, "fraction of kernel instructions")
    out.add(key, "truth.interrupts", _ratio(truth["interrupt"].sum(), truth["instructions"].sum()), "fraction")
    nothing = "the ideal sampler did not run"
    for name, column in (("ticks", "ticks"), ("sampler", "samples")):
        counts = truth[column]
        estimate = float(shares(counts)[edu].sum())
        out.add(key, f"estimate.{name}", estimate, "fraction of samples", nothing)
        out.add(key, f"missed.{name}", 1 - estimate / exact, "fraction of handler time", nothing)
        out.add(key, f"error.{name}", distance(truth["instructions"], counts), "fraction of kernel time", nothing)
        out.add(key, f"agreement.{name}", agreement(truth["instructions"], counts), "p", "too few samples")
    entered = truth.set_index("function")["entries"]
    mine = handlers[(handlers["handler"] == "edu") & (handlers["workload"] == "edu")]
    counted = float(mine["entries"].sum(min_count=1)) if len(mine) else np.nan
    exactly = float(entered.get("krepro_edu_irq", np.nan))
    out.add(key, "entries_counted", _ratio(counted, exactly), "counted/exact", "entries are not sampled in this arm")
    # What a reader of the buffer takes a count for: a share of all counts, against the share of time.
    out.add(key, "entries_as_time", _ratio(_ratio(counted, truth["ticks"].sum()), exact), "share/share", "no entries")


def _nmi_metrics(out: _Metrics, key: tuple[str, int], runs: pd.DataFrame) -> None:
    """Whether every NMI became a sample, and what taking them cost."""
    received = _ratio(float(runs["nmis"].sum(min_count=1)), float(runs["nmis_sent"].max()))
    out.add(key, "nmis_received", received, "received/sent", "the kernel has no NMI sampler")
    for workload, cost in zip(runs["workload"], runs["nmi_cost"], strict=True):
        out.add(key, f"nmi_cost.{workload}", float(cost), "fraction of kernel instructions", "the oracle says nothing")


def _sweep_metrics(out: _Metrics) -> None:
    """From one N to the next, and from the finest to the coarsest, in the same repetition."""
    share = {(arm, trial): value for arm, trial, name, value, *_ in out.rows if name == "neighbour_share"}
    for (arm, trial), value in list(share.items()):
        if arm in SWEEP[1:]:
            before = share.get((SWEEP[SWEEP.index(arm) - 1], trial), np.nan)
            why = "this repetition has no trial of the next finer step"
            out.add((arm, trial), "neighbour_rise", value - before, "fraction of ticks", why)
        if arm == SWEEP[-1]:
            why = "this repetition has no trial of the finest step"
            finest = share.get((SWEEP[0], trial), np.nan)
            out.add((arm, trial), "neighbour_rise_total", value - finest, "fraction of ticks", why)


# -- summary: what the terminal prints --------------------------------------------------------------------


def summary(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables for people, title to frame: means over the trials of an arm."""
    runs = tables["runs"]
    result: dict[str, pd.DataFrame] = {}
    for workload in dict.fromkeys(runs["workload"]):
        hot = _hot_spots(tables["profile"], str(workload))
        if not hot.empty:
            result[f"Hot spots, {workload}: counts and counts per byte"] = hot
    for title, table in (
        ("Handlers against /proc/interrupts", _entries_table(tables["handlers"])),
        ("Fault 3: the pseudo-code as printed", _printed_table(runs)),
        ("Fault 5: time in the edu handler, known and sampled", _time_table(tables)),
        ("Fault 6: entries are not time, and ticks count twice", _units_table(tables)),
        ("Truth, workload edu: share of kernel time, and each profiler's error (95 % intervals)", _truth_table(tables)),
        ("N sweep: ticks in counters that several functions share", _sweep_table(tables)),
    ):
        if not table.empty:
            result[title] = table
    return result


def _hot_spots(profile: pd.DataFrame, workload: str) -> pd.DataFrame:
    """The paper's table for the arms side by side: the functions with most counts in any arm."""
    mine = profile[(profile["workload"] == workload) & ~profile["arm"].isin(SWEEP)]
    if mine.empty:
        return pd.DataFrame()
    trials = mine.groupby("arm")["trial"].nunique()
    # A function without counts in a trial has no row there, so means are sums over the number of trials.
    by_function = mine.groupby(["function", "arm"])[["ticks", "ticks_per_byte"]].sum()
    means = by_function.div(trials.reindex(by_function.index.get_level_values("arm")).to_numpy(), axis=0)
    wide = means.unstack("arm").fillna(0.0)
    most = means.groupby("function")["ticks"].max()
    order = most.sort_values(ascending=False, kind="stable").index[:_TOP]
    table = pd.DataFrame({"function": order})
    for arm in dict.fromkeys(mine["arm"]):
        table[str(arm)] = wide["ticks"][arm].reindex(order).round(1).to_numpy()
        table[f"{arm} /byte"] = wide["ticks_per_byte"][arm].reindex(order).round(4).to_numpy()
    return table


def _entries_table(handlers: pd.DataFrame) -> pd.DataFrame:
    mine = handlers[~handlers["arm"].isin(SWEEP)]
    if mine.empty:
        return pd.DataFrame()
    mean = mine.groupby(["handler", "workload", "arm"], sort=True)[["interrupts", "slack", "entries", "ticks"]].mean()
    mean["entries/interrupt"] = mean["entries"] / mean["interrupts"].where(mean["interrupts"] > 0)
    return mean.round({"interrupts": 1, "slack": 1, "entries": 1, "ticks": 2}).reset_index()


def _printed_table(runs: pd.DataFrame) -> pd.DataFrame:
    """First trial of the tick arms: the hottest function, decoded and by the printed algorithm."""
    ok = runs[runs["problem"].isna() & runs["arm"].isin(["tick", "tick-wall"])]
    first = ok.sort_values("trial", kind="stable").drop_duplicates(["arm", "workload"])
    return pd.DataFrame(
        {
            "arm": first["arm"],
            "workload": first["workload"],
            "hottest": first["top_function"],
            "ticks": first["top_ticks"],
            "its ticks as printed": first["top_printed"],
            "hottest as printed": first["printed_top_function"],
            "ticks as printed": first["printed_top_ticks"],
            "its real ticks": first["printed_top_real"],
            "wrong as printed (share of ticks)": first["printed_error"].round(3),
            "wrong by readprofile": first["readprofile_error"].round(3),
        }
    ).reset_index(drop=True)


def _time_table(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    values = metrics(tables)
    wanted = {
        "handler_time_known": "known s",
        "handler_time_share": "share of time",
        "handler_ticks.edu": "ticks inside",
        "handler_time_ratio": "sampled/known",
        "displaced_time_ratio": "charged to the interrupted/known",
    }
    mine = values[values["metric"].isin(list(wanted)) & ~values["arm"].isin(SWEEP)]
    if mine.empty:
        return pd.DataFrame()
    wide = mine.pivot_table(index="arm", columns="metric", values="value", aggfunc="mean", dropna=False)
    return wide.reindex(columns=list(wanted)).rename(columns=wanted).round(3).reset_index()


def _units_table(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Per arm and workload: counts of each unit in the one array, and the time that entries do not show."""
    runs = tables["runs"]
    ok = runs[runs["problem"].isna() & runs["workload"].isin(["idle", "edu", "edu-light"]) & ~runs["arm"].isin(SWEEP)]
    if ok.empty:
        return pd.DataFrame()
    entries = tables["handlers"].groupby(_KEYS)["entries"].sum().rename("entries").reset_index()
    both = ok.merge(entries, on=_KEYS, how="left").fillna({"entries": 0.0})
    both["samples"] = both["total"] - both["entries"]
    both["handler_s"] = both["handled"] * both["handler_ns"] / 1e9
    mean = both.groupby(["workload", "arm"])[["timer_interrupts", "samples", "entries", "handler_s"]].mean()
    mean["samples/timer interrupt"] = mean["samples"] / mean["timer_interrupts"]
    return mean.round(3).reset_index().rename(columns={"handler_s": "time in edu handler s"})


def _truth_table(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The functions with most time or most counts: exact share, and estimate less truth, in percent."""
    truth = tables["truth"]
    rows = []
    for arm, mine in truth[truth["workload"] == "edu"].groupby("arm", sort=False):
        trials = mine["trial"].nunique()
        part = mine.assign(
            **{
                name: mine.groupby("trial")[column].transform(lambda c: 100 * shares(c))
                for name, column in (("truth", "instructions"), ("profile", "ticks"), ("sampler", "samples"))
            }
        )
        most = part.groupby("function")[["truth", "profile"]].sum().max(axis=1).sort_values(ascending=False).index[:6]
        for function in most:
            own = part[part["function"] == function].set_index("trial").reindex(mine["trial"].unique()).fillna(0.0)
            row = {"arm": arm, "function": function, "truth %": round(float(own["truth"].median()), 2)}
            for name in ("profile", "sampler"):
                if own[name].isna().any():
                    continue
                estimate = median_estimate(own[name])
                bounds = f" [{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.interval_known else ""
                row[f"{name} %"] = f"{estimate.value:.2f}{bounds}"
                row[f"{name} error"] = round(float((own[name] - own["truth"]).median()), 2)
            rows.append(row | {"trials": trials})
    return pd.DataFrame(rows)


def _sweep_table(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    runs = tables["runs"]
    mine = runs[runs["problem"].isna() & runs["arm"].isin(SWEEP) & (runs["workload"] == SWEEP_WORKLOAD)]
    if mine.empty:
        return pd.DataFrame()
    mine = mine.assign(share=mine["shared"] / (mine["total"] - mine["out_of_text"]))
    mean = mine.groupby("arm")[["step", "total", "share", "readprofile_error"]].mean()
    phantom = tables["handlers"].groupby(["arm", "trial"])["ticks"].sum()
    mean["handler_ticks"] = phantom.groupby("arm").mean()
    folded = tables["sweep"].groupby("n")["neighbour_share"].mean()
    mean["folded"] = folded.rename(lambda n: f"n{int(n)}")
    names = {
        "step": "bytes per counter",
        "total": "ticks",
        "share": "shared with neighbours",
        "folded": "the n2 samples, folded",
        "handler_ticks": "ticks wrongly in handlers",
        "readprofile_error": "readprofile's error",
    }
    return mean.reindex(columns=list(names)).rename(columns=names).round(3).reset_index()


# -- figures ----------------------------------------------------------------------------------------------


def figures(tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """One Figure per name; only those for which there is data. They are drawn in figures.py."""
    return draw(tables, metrics(tables), SWEEP, SWEEP_WORKLOAD)


# -- hooks for ./inv export -------------------------------------------------------------------------------


def profiles(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Weighted stacks of every arm and workload, summed over trials: counts of the buffer, and with an oracle the
    exact instructions and the ideal sampler's samples. A stack is `ROLE;FUNCTION`, or `FUNCTION` without a role.
    """
    parts = [_stacks(tables["profile"], "ticks", "/proc/profile")]
    parts += [
        _stacks(tables["truth"], column, source)
        for column, source in (("instructions", "exact instructions"), ("samples", "ideal sampler"))
    ]
    return pd.concat(parts, ignore_index=True)


def _stacks(counts: pd.DataFrame, column: str, source: str) -> pd.DataFrame:
    mine = counts[counts[column] > 0].astype(dict.fromkeys(("arm", "workload", "function", "role"), "str"))
    stack = mine["function"].where(mine["role"] == "other", mine["role"] + ";" + mine["function"])
    profile = mine["arm"] + ", " + mine["workload"] + ": " + source
    summed = mine[column].groupby([profile.rename("profile"), stack.rename("stack")]).sum()
    return summed.rename("weight").reset_index().assign(unit="none")
