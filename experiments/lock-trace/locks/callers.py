# SPDX-License-Identifier: MIT
"""Who called those who waited for a lock, and those who held it: stacks, which a kernel with the patches `lock-stacks`
records. An event WAITS has its stack's number in `order`; a RELEASE of what was waited for has its own in `depth`.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.symbols import SymbolMap

from .classes import call_sites
from .events import CONTEXT_BITS, RELEASE, WAITS, Events

#: Functions, from the caller on outwards.
Calls = tuple[str, ...]

_PLACE = re.compile(r"\+0x[0-9a-f]+")


class Stacks:
    """A trace's table of stacks (`kerneltables.read_stacks`), with the functions' names."""

    def __init__(self, table: pd.DataFrame, symbols: SymbolMap, *, where: str) -> None:
        """RunError, with `where`, for a call that is no number."""
        self._symbols = symbols
        self._calls: dict[int, list[int]] = {}
        try:
            for number, calls in zip(table["stack"].tolist(), table["calls"].tolist(), strict=True):
                if number:
                    self._calls[number] = [int(word, 16) for word in calls.split(",")]
            distinct = sorted({call for calls in self._calls.values() for call in calls})
            named = call_sites(np.array(distinct, dtype=np.uint64), symbols)
        except (ValueError, OverflowError) as error:
            raise RunError(f"column calls: {error}", where=where) from error
        self._functions = dict(zip(distinct, (function_of(name) for name in named.tolist()), strict=True))
        #: Events whose stack found no room in the kernel's table.
        self.without = int(table.loc[table["stack"] == 0, "events"].sum())

    def __len__(self) -> int:
        return len(self._calls)

    def callers(self, number: int, site: int) -> Calls:
        """Who called the function that a lock's function was called in, at `site`; nobody for a stack that is none.

        The stack begins inside the lock's function, or where that is inlined inside the trace's own.
        """
        calls = self._calls.get(number, [])
        functions = [self._functions[call] for call in calls]
        inner = calls.index(site) if site in calls else None
        if inner is None:
            own = function_of(str(call_sites([site], self._symbols)[0]))
            inner = functions.index(own) if own in functions else -1
        return tuple(functions[inner + 1 :])


def function_of(place: str) -> str:
    """`function+0x12 [module]` as `function [module]`."""
    return _PLACE.sub("", place, count=1)


def with_callers(taken: pd.DataFrame, events: Events, stacks: Stacks) -> pd.DataFrame:
    """The acquisitions, with index 0 … n - 1, and two columns of `Calls` more: `wait_callers`, of those who waited, and
    `hold_callers`, of those who let go of what was waited for; empty where the trace has none.
    """
    waiting, holding = _wait_stacks(taken, events), _hold_stacks(taken, events)
    known: dict[tuple[int, int], Calls] = {}

    def column(numbers: npt.NDArray[np.uint64], sites: npt.NDArray[np.uint64]) -> pd.Series:
        pairs = list(zip(numbers.tolist(), sites.tolist(), strict=True))
        for pair in set(pairs) - known.keys():
            known[pair] = stacks.callers(*pair)
        return pd.Series([known[pair] for pair in pairs], index=taken.index, dtype=object)

    return taken.assign(wait_callers=column(*waiting), hold_callers=column(*holding))


def _who(pid: npt.NDArray[np.integer], cpu: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """A number per thread; idle tasks all have pid 0, and stay on their CPU."""
    return np.where(pid == 0, -1 - cpu.astype(np.int64), pid.astype(np.int64))


def _wait_stacks(taken: pd.DataFrame, events: Events) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Stack and site of each acquisition that waited: those of its thread's next WAITS; 0 elsewhere."""
    waits = events[events["kind"] == WAITS]
    key = ["lock", "who", "context"]
    said = pd.DataFrame(
        {
            "time": waits["time"].astype(np.float64), "lock": waits["lock"],
            "who": _who(waits["pid"], waits["cpu"]), "context": waits["context"] & CONTEXT_BITS,
            "wait": np.arange(len(waits)),
        }
    ).sort_values("time", kind="stable")  # fmt: skip
    asked = taken[taken["contended"] & taken["begin"].notna()]
    asked = asked.assign(who=_who(asked["pid"].to_numpy(), asked["cpu"].to_numpy()))[["begin", *key]]
    asked = asked.reset_index(names="row").sort_values("begin", kind="stable")
    found = pd.merge_asof(asked, said, left_on="begin", right_on="time", by=key, direction="forward")
    found = found[found["wait"].notna()]
    stack, site = np.zeros((2, len(taken)), dtype=np.uint64)
    of = found["wait"].to_numpy(np.int64)
    stack[found["row"]], site[found["row"]] = waits["order"][of], waits["site"][of]
    return stack, site


def _hold_stacks(taken: pd.DataFrame, events: Events) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Stack and site of each acquisition's release, which says by its time which one it ends; 0 where there is none."""
    ends = events[(events["kind"] == RELEASE) & (events["order"] != 0)]
    columns = (ends[name].tolist() for name in ("lock", "order", "depth", "site"))
    said = {(lock, got): (stack, site) for lock, got, stack, site in zip(*columns, strict=True)}
    got = taken["acquired"].fillna(0).astype(np.uint64).tolist()
    pairs = [said.get(key, (0, 0)) for key in zip(taken["lock"].tolist(), got, strict=True)]
    both = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
