# SPDX-License-Identifier: MIT
"""Who waited, and who was waited for, from the lock's side: by what filters are judged.

No filter has a part in it. An acquisition waited where the lock's own trylock failed. It was waited for where it held
the lock while another waited, by the times of the full log, as blame.py lays waits over holds; a load whose chain of
waiters is known has tested that. The filters decide by numbers of waits, or by a counter, and never look at a time.

Hooks are a little before or after what they tell of. For sure a wait begins when that is written down, and a hold
lasts until its release is. Perhaps the wait began with its attempt: the trylock failed in between. And perhaps the hold
lasted longer, since a release is written down before the lock is let go: until somebody got the lock whom the holder
kept out, but no longer than until the holder's own next event, which comes after that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from .acquisitions import threads_of
from .blame import blamed
from .events import ACQUIRED, CONTEXT_BITS, SHARED, WAITS, Events, Flags


@dataclass(frozen=True)
class Truth:
    """Of a table of n acquisitions of a full log; flags of shape (n,).

    waited   its trylock failed
    awaited  it held the lock while another waited, for sure
    perhaps  the same, perhaps
    open     it was held when the log ended, or nobody was seen to let go: of these nothing is known
    """

    taken: pd.DataFrame
    waited: Flags
    awaited: Flags
    perhaps: Flags
    open: Flags

    def among(self, events: Events, which: Flags) -> Flags:
        """Which of `events` are the moment at which one of these acquisitions got its lock."""
        chosen = self.taken[which & self.taken["acquired"].notna().to_numpy()]
        times = chosen["acquired"].to_numpy(np.float64).astype(np.uint64)
        got = pd.MultiIndex.from_arrays([chosen["lock"].to_numpy(np.uint64), times])
        mine = pd.MultiIndex.from_arrays([events["lock"], events["time"]])
        return np.asarray((events["kind"] == ACQUIRED) & mine.isin(got))

    @property
    def events(self) -> int:
        """Events of acquisitions that waited or were waited for: what is worth keeping."""
        of = self.taken[self.waited | self.awaited]
        attempts = of["begin"].notna() & (of["begin"] != of["acquired"])
        return int(sum(part.sum() for part in (attempts, of["contended"], of["acquired"].notna(), of["end"].notna())))


def truth_of(log: Events, taken: pd.DataFrame) -> Truth:
    """Of a full log; `taken`: its `acquisitions(with_conflicts(log))`."""
    taken = taken.reset_index(drop=True)
    got, end = taken["acquired"], taken["end"]
    # Who waits when the log ends does so for ever.
    for_ever = taken.assign(acquired=got.mask(taken["contended"] & got.isna() & end.isna(), np.inf))
    begins = for_ever["begin"].mask(taken["contended"], _begins(log, taken))
    surely = _holders(for_ever.assign(begin=begins))
    perhaps = _holders(for_ever.assign(end=end.mask(got.notna(), _until(log, taken))))
    return Truth(taken, taken["contended"].to_numpy(bool), surely, perhaps, (got.notna() & end.isna()).to_numpy())


def _holders(taken: pd.DataFrame) -> Flags:
    awaited = np.zeros(len(taken), dtype=bool)
    awaited[blamed(taken)["holder"].to_numpy()] = True
    return awaited


def _begins(log: Events, taken: pd.DataFrame) -> pd.Series[float]:
    """When each wait was written down: the first of its lock, thread and context after the attempt."""
    who = ["lock", "pid", "cpu", "context"]
    events = log[log["kind"] == WAITS]
    waits = pd.DataFrame({name: events[name] for name in who}).assign(waits=events["time"].astype(np.float64))
    waits["context"] &= CONTEXT_BITS
    met = taken.loc[taken["contended"], [*who, "begin"]].dropna()
    after = pd.merge_asof(
        met.sort_values("begin").reset_index(), waits.sort_values("waits"),
        left_on="begin", right_on="waits", by=who, direction="forward",
    ).set_index("index")  # fmt: skip
    return after["waits"].reindex(taken.index)


def _until(log: Events, taken: pd.DataFrame) -> pd.Series[float]:
    """When each hold had surely ended; its release, if nothing follows. That of a reader is its own thread's."""
    shared = taken["type"].isin(SHARED)
    gets = taken.loc[taken["acquired"].notna(), ["lock", "type", "acquired"]].rename(columns={"acquired": "next"})
    ends = taken[["lock", "end"]].assign(**_who(taken)).dropna(subset=["end"])
    events = pd.DataFrame({"next": log["time"].astype(np.float64), **_who(log)})
    readers, others = ends.loc[shared[ends.index]], ends.loc[~shared[ends.index]]
    found = [
        _next(others, gets, ["lock"]),
        _next(readers, gets.loc[~gets["type"].isin(SHARED)], ["lock"]),
        _next(readers, events, ["thread", "within"]),
    ]
    return pd.concat(found).groupby(level=0).min().reindex(taken.index).fillna(taken["end"])


def _who(table: Events | pd.DataFrame) -> dict[str, npt.NDArray[np.int64]]:
    """Thread and context of each row."""
    return {"thread": threads_of(table), "within": np.asarray(table["context"], np.int64) & CONTEXT_BITS}


def _next(ends: pd.DataFrame, events: pd.DataFrame, by: list[str]) -> pd.Series[float]:
    """When the first of `events` of the same lock or thread came behind each end, by the end's index."""
    return pd.merge_asof(
        ends.sort_values("end").reset_index(), events.sort_values("next")[["next", *by]],
        left_on="end", right_on="next", by=by, allow_exact_matches=False, direction="forward",
    ).set_index("index")["next"].dropna()  # fmt: skip
