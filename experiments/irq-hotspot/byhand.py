# SPDX-License-Identifier: MIT
"""What a person counts on paper, beside what the instruments tell: handler runs, their time, ticks in a known work."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from .handlers import ENTRIES_SAMPLED
from .peers import WORKLOAD as PEERS
from .stepped import SAMPLERS
from .stepped import WORKLOAD as STEP
from .trialrows import TrialRows

#: By workload: the handler, and its runs. peerload raises so many interrupts (RAISES); the disk, an IDE one, raises one
#: for each read past the cache, by irqload and by dd of Debian's busybox-static.
RUNS = {PEERS: ("edu", 1000), "disk": ("disk", 1000), "dd": ("disk", 1000)}
#: ns: a run of peerload's handler executes 20,000 loops of two instructions, and one more; each takes 8 ns.
RUN_NS = 40_001 * 8
#: Of 20 phases of each duty (10, 50, 95 %), the tick falls into the work at so many, in each of 20 cycles.
TICKS_IN_WORK = (2 + 10 + 19) * 20


def by_hand_metrics(trial: TrialRows, *parts: str) -> None:
    """Entries by workload; of peers and the bias map what else can be counted. `parts`: of the rows of `handlers`."""
    for workload in trial.workloads:
        if workload in RUNS and trial.sampling in ENTRIES_SAMPLED:
            rows = trial.rows("handlers", workload)
            entries = rows.loc[rows["handler"] == RUNS[workload][0], "entries"]
            none = "the handler did not run" if entries.isna().all() else None
            trial.put(f"entries.{workload}", float(entries.sum()), trial.problem(*parts, workload=workload), none)
    if PEERS in trial.workloads:
        problem = trial.problem("peers", workload=PEERS)
        for metric, column, of in (("peer_runs", "runs", 1), ("peer_by_hand", "told_ns", RUNS[PEERS][1] * RUN_NS)):
            value = trial.value("peers", column, PEERS) / of
            trial.put(metric, value, problem, "the profiler does not tell it" if pd.isna(value) else None)
    if STEP in trial.workloads:
        cells = trial.rows("cells", STEP)
        own = cells.loc[cells["sampler"] != SAMPLERS[3], "inside"]
        trial.put("map_inside", float(own.sum()), trial.problem("cells", workload=STEP))


def by_hand_table(tables: Mapping[str, pd.DataFrame], metrics: pd.DataFrame) -> pd.DataFrame:
    """What was counted by hand, and what each instrument tells: medians over trials."""
    medians = metrics.groupby(["metric", "arm"])["value"].median()
    peers = tables["peers"]

    def of(metric: str, arm: str) -> float:
        return float(medians.get((metric, arm), float("nan")))

    wanted = [
        ("runs of the handler, peers", RUNS[PEERS][1], "the fix", of(f"entries.{PEERS}", "peer-entry")),
        ("", RUNS[PEERS][1], "ftrace", of("peer_runs", "peer-trace")),
        ("", RUNS[PEERS][1], "the fix repaired", of("peer_runs", "peer-times")),
        ("", RUNS[PEERS][1], "/proc/interrupts", of("handler_interrupts.edu", "peer-entry")),
        ("ms in the handler, peers", RUNS[PEERS][1] * RUN_NS / 1e6, "the fix repaired", _ms(peers, "peer-times")),
        ("", RUNS[PEERS][1] * RUN_NS / 1e6, "ftrace", _ms(peers, "peer-trace")),
        ("reads of the disk", RUNS["disk"][1], "the fix", of("entries.disk", "irq-entry-wall")),
        ("reads of the disk, Debian's dd", RUNS["dd"][1], "the fix", of("entries.dd", "irq-entry-wall")),
        ("ticks in the work, step", TICKS_IN_WORK, "the tick", of("map_inside", "map-tick")),
    ]
    table = pd.DataFrame(wanted, columns=["what", "by hand", "instrument", "it tells"])
    return table[table["it tells"].notna()].round(3)


def _ms(peers: pd.DataFrame, arm: str) -> float:
    return float(peers.loc[peers["arm"] == arm, "told_ns"].median()) / 1e6
