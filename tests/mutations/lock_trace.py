# SPDX-License-Identifier: MIT
"""What turns the claims of lock-trace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from experiments.lock_trace.families import METRICS
from experiments.lock_trace.locks.events import EVENT, ORPHAN, RELEASE, STREAM_PAPER, STREAM_PER_LOCK

from tests.golden import Golden
from tests.mutation import turns

Tables = dict[str, pd.DataFrame]
KINDS = ("spin", "spin_irqsave", "read", "write", "mutex", "rwsem_read", "rwsem_write")
TRACES = ("all", "paper", "per-lock", "tracepoint", "validate")
FILTERS, DIFFERENCES = ("per-lock", "paper"), ("missing", "extra")
#: A file of events with fewer than the kernel wrote turns the balance; what the host says decides what is left out.
MAY_CHANGE = {
    "events.bin": {"unbalanced"},
    "host-sched.json": {metric.name for metric in METRICS if metric.timing},
}
LAP = 2
CALLS = np.dtype(
    [("region", "<u4"), ("kind", "<u4"), ("target", "<u8"), ("site", "<u8"), ("count", "<u8"), ("lock", "<u8")]
)


def scale(tables: Tables, table: str, column: str, factor: float, *arms: str, **fields: str) -> None:
    """Multiply a column in rows of these arms."""
    frame = tables[table]
    rows = frame["arm"].isin(arms)
    for name, value in fields.items():
        rows &= frame[name] == value
    assert rows.any(), (table, arms, fields)
    frame[column] = frame[column].where(~rows, frame[column] * factor)


def two_cpus(tables: Tables) -> None:
    """Beside each arm of one CPU one of two, on a host that is quiet, with the same data."""
    for name, frame in tables.items():
        rest = frame[~frame["arm"].str.endswith("-smp")]
        copy = rest.assign(arm=rest["arm"] + "-smp")
        tables[name] = pd.concat([rest, copy.assign(clock="wall") if name == "trials" else copy], ignore_index=True)


def papers_costs(tables: Tables) -> None:
    """Two CPUs, of which a pair costs three times as much traced as bare."""
    two_cpus(tables)
    pair = tables["pair"]
    for column in ("mean_first", "net"):
        traced = pair[pair["arm"] == "all-smp"].set_index("kind")[column]
        rows = pair["arm"] == "off-smp"
        pair.loc[rows, column] = (pair.loc[rows, "kind"].map(traced) / 3).to_numpy()


def another_run(tables: Tables, arm: str, workload: str, like: tuple[str, str]) -> None:
    """A traced workload of `arm` with the rows of another one, but for its pairs; `like`: arm and workload."""
    for name, frame in tables.items():
        if "workload" in frame and name not in ("pair", "quantiles"):
            rows = frame[(frame["arm"] == like[0]) & (frame["workload"] == like[1])]
            tables[name] = pd.concat([frame, rows.assign(arm=arm, workload=workload)], ignore_index=True)


def where(tables: Tables, table: str, arm: str, workload: str) -> pd.Series[Any]:
    """The rows of a run."""
    return (tables[table]["arm"] == arm) & (tables[table]["workload"] == workload)


def useful_programs(tables: Tables) -> None:
    """Two CPUs, and a program of whose events 5 % are kept."""
    two_cpus(tables)
    another_run(tables, "paper-smp", "pipes", ("paper-smp", "pair"))
    tables["traces"].loc[where(tables, "traces", "paper-smp", "pipes"), ["events", "kept"]] = (1000, 50)


def buffers(tables: Tables) -> None:
    """Rings that nobody reads with filters, too: a twentieth of the events kept, the first lost 13 times as late."""
    for arm in ("paper", "per-lock"):
        another_run(tables, arm, "buffer", ("all", "buffer"))
        tables["runs"].loc[where(tables, "runs", arm, "buffer"), "trace"] = arm
    tables["traces"]["kept"] = tables["traces"]["kept"].astype("float64")
    scale(tables, "traces", "kept", 0.05, "paper", "per-lock", workload="buffer")
    scale(tables, "traces", "first_loss_s", 13, "paper", "per-lock", workload="buffer")


def acquired_twice(tables: Tables) -> None:
    """A workload in which readers recurse, of which the paper's filter keeps all."""
    another_run(tables, "validate", "recursion", ("validate", "double"))
    rows = where(tables, "gaps", "validate", "recursion")
    tables["gaps"].loc[rows, "kept"] = tables["gaps"].loc[rows, "events"]


def counted_loads(tables: Tables) -> None:
    """Loads that the module counts, in every arm and on two CPUs."""
    known = tables["known"]
    rows = known[where(tables, "known", "validate", "double")]
    copies = [rows.assign(arm=arm, workload="pair") for arm in ("all", "paper", "per-lock")]
    tables["known"] = pd.concat([known[known["reason"].isna()], *copies], ignore_index=True)
    two_cpus(tables)


def lock_stat(tables: Tables) -> None:
    """An arm with LOCK_STAT, which has the contentions of the trace; of a mutex none."""
    trials = tables["trials"]
    row = trials[trials["arm"] == "per-lock"].assign(arm="lock-stat", clock="wall")
    tables["trials"] = pd.concat([trials, row], ignore_index=True)
    for workload in ("share-50", "share-500", "spin-irq", "rwlock", "mutex"):
        another_run(tables, "lock-stat", workload, ("per-lock", "pair"))
        key = {"arm": "lock-stat", "trial": 0, "workload": workload}
        traced = key | {"class": "known_shared+0x80 [lockknown]", "contended": 100}
        counted = key | {"class": "&known_shared", "contentions": 0 if workload == "mutex" else 100}
        for name, added in (("contention", traced), ("lock_stat", counted)):
            tables[name] = pd.concat([tables[name], pd.DataFrame([added])], ignore_index=True)


# -- the paper's claims ------------------------------------------------------------------------------------------


@turns("filter-costs-more", "filter-costs-more-as-timed")
def a_filter_that_costs_twice_as_much(tables: Tables) -> None:
    """Pairs cost twice as much with the paper's filter."""
    for column in ("net", "mean_first"):
        scale(tables, "pair", column, 2, "paper")


@turns("trace-costs", "trace-costs-as-timed")
def a_trace_that_costs_what_the_paper_says(tables: Tables) -> None:
    """Pairs without a trace cost ten times as much."""
    for column in ("net", "mean_first"):
        scale(tables, "pair", column, 10, "off")


@turns("filter-costs-more-as-timed-smp", "trace-costs-as-timed-smp", before=papers_costs)
def other_costs_on_two_cpus(tables: Tables) -> None:
    """On two CPUs, pairs cost twice as much traced, and four times with the paper's filter."""
    scale(tables, "pair", "mean_first", 2, "all-smp")
    scale(tables, "pair", "mean_first", 4, "paper-smp")


def probed(tables: Tables) -> None:
    """An arm of kprobes, of which a pair costs six times what it costs with hooks."""
    for name in ("trials", "runs", "pair", "quantiles"):
        rows = tables[name][tables[name]["arm"] == "all"].assign(arm="kprobes")
        if name == "runs":
            rows = rows.assign(trace="kprobes")
        if name == "pair":
            rows = rows.assign(net=6 * rows["net"], mean_first=6 * rows["mean_first"])
        tables[name] = pd.concat([tables[name], rows], ignore_index=True)
    hit = {"arm": "kprobes", "trial": 0, "probe": "attempt_raw_spin_lock", "hits": 10, "missed": 0}
    workloads = tables["runs"].loc[tables["runs"]["arm"] == "kprobes", "workload"]
    tables["probes"] = pd.DataFrame([hit | {"workload": workload} for workload in workloads])


@turns("trace-costs-probed", "probes-cost-more", before=probed)
def probes_that_cost_what_the_paper_says(tables: Tables) -> None:
    """With kprobes, a pair costs three times what it costs bare."""
    pair = tables["pair"]
    bare = pair[pair["arm"] == "off"].set_index("kind")["net"]
    rows = pair["arm"] == "kprobes"
    pair.loc[rows, "net"] = (3 * pair.loc[rows, "kind"].map(bare)).to_numpy()


@turns("buffer-lasts-paper", "buffer-lasts", before=buffers)
def a_load_that_fills_rings_ten_times_as_fast(tables: Tables) -> None:
    """With a filter, the load takes a tenth of its time."""
    scale(tables, "runs", "seconds", 0.1, "paper", "per-lock", workload="buffer")


@turns("buffer-lasts-paper-first-loss", "buffer-lasts-first-loss", before=buffers)
def a_first_loss_that_comes_early(tables: Tables) -> None:
    """With a filter, the first event is lost after half the time."""
    scale(tables, "traces", "first_loss_s", 0.5, "paper", "per-lock", workload="buffer")


@turns("useful-events", before=useful_programs)
def programs_without_useful_events(tables: Tables) -> None:
    """Of the events of programs a tenth of those before are kept."""
    scale(tables, "traces", "kept", 0.1, "paper-smp", workload="pipes")


@turns("gap-begin-inside", "gap-acquired-twice", before=acquired_twice)
def one_event_does_not_pass(tables: Tables) -> None:
    """The paper's filter keeps one event of the module's locks less."""
    gaps = tables["gaps"]
    gaps.loc[(gaps["arm"] == "validate") & (gaps["filter"] == "paper"), "kept"] -= 1


@turns("gap-released-twice", also=("paper-extra-validate", "paper-missing-validate"), kind="raw")
def an_event_is_lost(golden: Golden) -> None:
    """The last event that the paper's filter kept of a lock that was released twice gets another time."""
    path = golden.raw("validate") / "double/events.bin"
    events = np.fromfile(path, dtype=EVENT)
    twice = np.unique(events["lock"][(events["kind"] == RELEASE) & (events["flags"] & ORPHAN != 0)])
    kept = np.isin(events["lock"], twice) & (events["stream"] == STREAM_PAPER)
    events["time"][np.flatnonzero(kept)[-1]] += 1
    path.write_bytes(events.tobytes())


@turns("gap-released-twice-kept")
def no_event_is_dropped(tables: Tables) -> None:
    """The paper's filter keeps all events of the module's locks."""
    tables["gaps"]["kept"] = tables["gaps"]["events"]


# -- what is kept is what was waited for -----------------------------------------------------------------------------


def exact_filters(tables: Tables) -> None:
    """Both filters keep what was waited for, and nothing else."""
    for column in ("dropped_waits", "idle"):
        tables["filters"][column] = tables["filters"][column].where(tables["filters"]["reason"].notna(), 0.0)


@turns(
    *("paper-keeps-waits", "paper-counter-two-waits"),
    *(f"per-lock-{what}{smp}" for what in ("keeps-waits", "kept-waited") for smp in ("", "-smp")),
    before=exact_filters,
)
def one_of_each_is_wrong(tables: Tables) -> None:
    """A filter drops one acquisition that waited, and keeps one that nobody waited for."""
    for column in ("dropped_waits", "idle"):
        tables["filters"][column] += 1


def programs(tables: Tables) -> None:
    """Programs on one CPU and on two that take as long traced as untraced."""
    for workload in ("files-one", "pipes", "forks"):
        for arm in ("off", "per-lock"):
            another_run(tables, arm, workload, (arm, "pair"))
    two_cpus(tables)
    tables["runs"]["seconds"] = 1.0


@turns(*(f"slowdown-{what}{smp}" for what in ("files", "pipes", "forks") for smp in ("", "-smp")), before=programs)
def slow_programs(tables: Tables) -> None:
    """Programs take twice as long with the per-lock filter."""
    scale(tables, "runs", "seconds", 2, "per-lock", "per-lock-smp")


# -- what the per-lock filter costs ------------------------------------------------------------------------------


@turns(*(f"per-lock-pair-{kind.replace('_', '-')}" for kind in KINDS))
def dear_pairs(tables: Tables) -> None:
    """Pairs cost twice as much with the per-lock filter."""
    scale(tables, "pair", "net", 2, "per-lock")


@turns(*(f"per-lock-pair-{kind.replace('_', '-')}-smp" for kind in KINDS), before=two_cpus)
def dear_pairs_on_two_cpus(tables: Tables) -> None:
    """On two CPUs, pairs cost twice as much with the per-lock filter."""
    scale(tables, "pair", "net", 2, "per-lock-smp")


# -- sums that must hold -----------------------------------------------------------------------------------------


@turns(
    *(f"balance-{trace}" for trace in TRACES),
    "balance-validate-smp",
    also=(
        *("gap-begin-inside", "oracle-all", "oracle-validate"),
        *("paper-keeps-waits", "paper-counter-two-waits"),
        *(f"per-lock-{what}{smp}" for what in ("keeps-waits", "kept-waited") for smp in ("", "-smp")),
        *(
            f"{name}-validate{smp}"
            for name in ("known", "sums", *(f"{one}-{two}" for one in FILTERS for two in DIFFERENCES))
            for smp in ("", "-smp")
        ),
    ),
    kind="raw",
)
def removed_events(golden: Golden) -> None:
    """The last 100 events of a file are removed, or all where there are fewer."""
    for arm in (*TRACES, "validate-smp"):
        path = max(golden.raw(arm).glob("*/events.bin"), key=lambda path: path.stat().st_size)
        path.write_bytes(path.read_bytes()[: -100 * EVENT.itemsize])


@turns(*(f"balance-{trace}-smp" for trace in TRACES if trace != "validate"), before=two_cpus)
def events_that_nobody_counted(tables: Tables) -> None:
    """On two CPUs, 100 events that were written are not in the file; arm validate-smp is left alone."""
    sums = tables["sums"]
    rows = sums["check"].str.endswith("written = in the file")
    rows &= sums["arm"].str.endswith("-smp") & (sums["arm"] != "validate-smp")
    sums.loc[rows, "right"] -= 100
    sums["difference"] = sums["left"] - sums["right"]


# -- against what is known without the trace ---------------------------------------------------------------------


@turns(
    *(f"{which}-{what}-validate{smp}" for which in FILTERS for what in DIFFERENCES for smp in ("", "-smp")),
    kind="raw",
)
def events_of_another_time(golden: Golden) -> None:
    """The first event that each filter kept gets another time."""
    for arm in ("validate", "validate-smp"):
        path = max(golden.raw(arm).glob("*/events.bin"), key=lambda path: path.stat().st_size)
        events = np.fromfile(path, dtype=EVENT)
        for stream in (STREAM_PER_LOCK, STREAM_PAPER):
            events["time"][np.flatnonzero(events["stream"] == stream)[0]] += 1
        path.write_bytes(events.tobytes())


def add_one(path: Path, column: str) -> None:
    """One more in the first row of a table."""
    lines = path.read_text().splitlines()
    place = lines[0].split("\t").index(column)
    fields = lines[1].split("\t")
    fields[place] = str(int(fields[place]) + 1)
    path.write_text("\n".join([lines[0], "\t".join(fields), *lines[2:]]) + "\n")


@turns("sums-validate", "sums-validate-smp", kind="raw")
def another_sum(golden: Golden) -> None:
    """The kernel's table has one acquisition more of one lock at one place."""
    for arm in ("validate", "validate-smp"):
        add_one(next(golden.raw(arm).glob("*/sites.tsv")), "acquisitions")


@turns("known-validate", "known-validate-smp", kind="raw")
def a_module_that_counts_one_more(golden: Golden) -> None:
    """The module says that it got a lock once more."""
    for arm in ("validate", "validate-smp"):
        for path in golden.raw(arm).glob("*/known.tsv"):
            add_one(path, "acquired")


@turns(*(f"known-{arm}{smp}" for arm in ("all", "paper", "per-lock") for smp in ("", "-smp")), before=counted_loads)
def a_trace_that_counts_one_more(tables: Tables) -> None:
    """The trace has each count of the module's once more; arm validate is left alone."""
    known = tables["known"]
    rows = ~known["arm"].str.startswith("validate")
    known.loc[rows, "traced"] += 1
    known.loc[rows, "difference"] = (known["traced"] - known["high"]).clip(lower=0)[rows]


def _told(golden: Golden, change: Callable[[int], int]) -> None:
    """Each count of Debian's contention_begin, and the sum below them, as `change` says."""
    for workload in ("mutex", "rwsem"):
        path = golden.raw("debian-contention") / workload / "contention_begin"
        text = re.sub(r"(?<=hitcount:)\s*\d+", lambda count: str(change(int(count[0]))), path.read_text())
        total = sum(map(int, re.findall(r"hitcount:(\d+)", text)))
        path.write_text(re.sub(r"Hits: \d+", f"Hits: {total}", text))


@turns("debian-tells-every-wait", kind="raw")
def a_wait_is_not_told(golden: Golden) -> None:
    """Debian's kernel tells of one wait less of each lock."""
    _told(golden, lambda count: count - 1)


@turns("debian-waits", also=("debian-tells-every-wait",), kind="raw")
def few_waits_are_told(golden: Golden) -> None:
    """Debian's kernel tells of three waits of each lock."""
    _told(golden, lambda count: 3)


@turns("oracle-all", "oracle-validate", kind="raw")
def a_call_that_the_trace_has_not(golden: Golden) -> None:
    """The oracle saw one call more, of the function and the lock that it saw most of in the first lap."""
    for arm in ("all", "validate"):
        folder = golden.raw(arm) / "oracle"
        calls = np.fromfile(folder / "locks.bin", dtype=CALLS)
        first = (calls["kind"] == LAP) & (calls["region"] == 0)
        calls["count"][np.argmax(np.where(first, calls["count"], 0))] += 1
        (folder / "locks.bin").write_bytes(calls.tobytes())
        report = json.loads((folder / "oracle.json").read_text())
        report["locks"]["told"] += 1
        (folder / "oracle.json").write_text(json.dumps(report))


@turns(
    *(f"lock-stat-{workload}" for workload in ("share-50", "share-500", "spin-irq", "rwlock", "mutex")),
    before=lock_stat,
)
def contentions_that_the_trace_has_not(tables: Tables) -> None:
    """LOCK_STAT has 101 contentions more."""
    tables["lock_stat"]["contentions"] += 101
