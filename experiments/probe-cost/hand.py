# SPDX-License-Identifier: MIT
"""What a person counts on paper, beside what probecost tells and what other parts of the kernel have counted.

Firings and passes of filters are perf's counts of a run in which nothing is traced; records, bytes and pages are those
of the traced run. The second opinion is of that run too, and of another part of the kernel: the profile of kprobes and
uprobes, and the totals of a `hist:` trigger. The oracle has how often the place was executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from .runs import Run

#: How runs that are there for nothing else are called (guest/hand.sh); and that of a program that is not ours: dd of
#: Debian's busybox-static.
RUNS, OUTSIDE = "hand.", "hand.dd"
_Told = Callable[[Run], float]


@dataclass(frozen=True)
class Hand:
    """One count: of which run, how it comes about, where probecost tells it; `less`: the run whose value is taken off.

    `second`: what another part of the kernel counts of it; `function`: the kernel's that is executed as often.
    """

    run: str
    what: str
    by_hand: int
    how: str
    told: _Told
    second: _Told | None = None
    function: str | None = None
    less: str | None = None


def _firings(probe: int = 0) -> _Told:
    return lambda run: run.probes[probe].firings


def _passes(probe: int = 0, consumer: int = 0) -> _Told:
    return lambda run: run.probes[probe].passes[consumer]


def _profile(probe: int = 0) -> _Told:
    return lambda run: run.probes[probe].hits


def _keyed(run: Run) -> float:
    return run.keyed


def _records(run: Run) -> float:
    return run.buffers[0].entries


def _bytes(run: Run) -> float:
    return run.buffers[0].bytes


def _overwritten(run: Run) -> float:
    return run.buffers[0].overrun


def _per_round(run: Run) -> float:
    return run.per_round


#: A record is a word, 8 bytes that all events have, and its own: of a call its number, four bytes that the compiler
#: leaves, and its arguments; of a probe its address and what it fetches. A page has 4,080 bytes for them.
COUNTS = (
    # Runs of the arm `hand`: guest/hand.sh.
    Hand("hand.calls", "firings", 300, "3 × 100 calls of getppid", _firings(), _keyed, "__x64_sys_getppid"),
    Hand("hand.calls", "records", 300, "one each", _records, _keyed),
    Hand("hand.calls", "bytes", 300 * 20, "4 + 8 + 4 + 4 each; 204 fill a page", _bytes),
    Hand("hand.pages", "wake-ups", 1, "the reader sleeps until all is done", lambda run: run.wakes),
    Hand("hand.pages", "pages", 5, "900 = 4 × 204 + 84 records", lambda run: run.pages),
    Hand("hand.pages", "whole pages", 4, "the same", lambda run: run.whole),
    Hand("hand.filter", "firings", 500, "2 × 250 calls", _firings(), _profile()),
    Hand("hand.filter", "passes of a<30", 180, "30 of each hundred, and of 50: 2 × 90", _passes(), _keyed),
    Hand("hand.filter", "records", 180, "one each", _records, _keyed),
    Hand("hand.filter", "bytes", 180 * 28 + 20, "4 + 8 + 8 + 8 each; 20 are left of a page with 145", _bytes),
    Hand("hand.program250", "instructions", 250, "250 additions more in a program", _per_round, less="hand.program"),
    Hand("hand.turns1000", "instructions", 2000, "1000 turns more of dec and jnz", _per_round, less="hand.turn"),
    Hand(OUTSIDE, "passes of count==16", 1500, "3 × 5 times 100 writes of 16 bytes", _passes(), _keyed),
    Hand(OUTSIDE, "firings of write_null", 1500, "as often", _firings(1), _profile(1), "write_null"),
    Hand(OUTSIDE, "records", 3000, "two each: the call, and the function", _records),
    Hand(OUTSIDE, "bytes", 1500 * (44 + 28) + 13 * 20, "44 and 28 in turn; 20 are left of each second page", _bytes),
    # Scripts and effects that are there for another reason.
    Hand("v04-faults-aggregated", "firings", 6720, "7 × 60 times 16 new pages", _firings()),
    Hand("v09-hot-two-consumers", "firings of u_nop", 2100, "7 × 300 calls", _firings(3), _profile(3)),
    Hand("v09-hot-two-consumers", "passes of a<50", 1050, "50 of each hundred", _passes(3)),
    Hand("v09-hot-two-consumers", "passes of a>=90", 210, "10 of each hundred", _passes(3, 1)),
    Hand("v11-mark-aggregated", "firings", 2100, "7 × 300 calls", _firings(), _profile()),
    Hand("v11-mark-aggregated", "passes of a<10&&a>2", 147, "3 to 9, of each of 21 hundreds", _passes(0, 1)),
    Hand("v18-step-and-return", "firings of u_step", 2100, "7 × 300 calls", _firings(), _profile()),
    Hand("v18-step-and-return", "passes of a<25", 525, "25 of each hundred", _passes()),
    Hand("overrun.some", "overwritten", 64 * 204, "7 × 2000 = 68 × 204 + 128; 16 KiB are 5 pages", _overwritten),
    Hand("full.hist", "dropped", 2672, "7 × 400 moments, and a table of 128", lambda run: run.drops),
    Hand("fprobe.program100", "instructions", 100, "100 additions more", _per_round, less="fprobe.program"),
)  # fmt: skip


def hand_rows(runs: Mapping[str, Run], laps: pd.DataFrame | None, clock: str) -> Iterator[dict[str, Any]]:
    """Rows of the table `by_hand`, without arm and trial; nothing for runs that are not there.

    What a run costs is instructions under the virtual clock alone.
    """
    for count in COUNTS:
        run, less = runs.get(count.run), runs.get(count.less or count.run)
        if run is None or less is None or run.problem or less.problem or (count.less and clock != "virtual"):
            continue
        told = count.told(run) - (count.told(less) if count.less else 0)
        yield {
            "run": count.run,
            "what": count.what,
            "by_hand": count.by_hand,
            "told": told,
            "second": count.second(run) if count.second else math.nan,
            "exact": _executed(laps, count) if count.function else math.nan,
            "how": count.how,
        }


def _executed(laps: pd.DataFrame | None, count: Hand) -> float:
    """How often its function was, as the oracle counted it; NaN without one."""
    if laps is None:
        return math.nan
    return float(laps.loc[(laps["run"] == count.run) & (laps["function"] == count.function), "entries"].sum())
