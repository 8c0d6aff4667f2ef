# SPDX-License-Identifier: MIT
"""What makes one exact profile dearer than another: by function and system call, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

import pandas as pd

from harness.program.profile.calls import INTERRUPTED
from harness.program.profile.code import Place
from harness.program.profile.machinecode import changed
from harness.program.profile.profile import Cost, Profile

#: Why a function's count is another one.
CODE, NEW, GONE, CALLS, DATA, VARIES = "code", "new", "gone", "calls", "data", "varies"
NOT_KNOWN = "not known"
_NONE = Cost()
FUNCTIONS = ["function", "file", "before", "after", "change", "calls before", "calls after", "why"]
SYSTEM_CALLS = ["system call", "calls before", "calls after", "for each before", "for each after", "change", "by code"]

_Key = tuple[str, str]


@dataclass(frozen=True)
class _Row:
    """Of one function, on both sides."""

    before: int
    after: int
    calls_before: int
    calls_after: int
    varies: bool


def function_difference(before: Sequence[Profile], after: Sequence[Profile]) -> pd.DataFrame:
    """A row for each function that executed differently, dearest first; each side has one profile for each seed.

    Counts are the lower median over seeds. `why`: its code is another one (`code`), it is in one side alone (`new`,
    `gone`), its count varies as much between seeds (`varies`), it was called more or less often (`calls`), or it did
    other work with the same code (`data`); `not known` where the code of a side is not.
    """
    keys: dict[_Key, None] = {}
    for profile in (*before, *after):
        keys |= dict.fromkeys((place.name, place.file) for place in profile.functions)
    sides = [[_by_name(profile) for profile in side] for side in (before, after)]
    found: dict[_Key, _Row] = {}
    for key in keys:
        own = [[side.get(key, (_NONE, None))[0] for side in profiles] for profiles in sides]
        counts = [[cost.instructions for cost in costs] for costs in own]
        one, other = (median_low(values) for values in counts)
        if one != other:
            times = [median_low([cost.calls for cost in costs]) for costs in own]
            varies = max(counts[0]) >= min(counts[1]) and max(counts[1]) >= min(counts[0])
            found[key] = _Row(one, other, times[0], times[1], varies)
    code = _code_changed(list(found), before[0], after[0])
    told = []
    for key, row in found.items():
        alone = row.before == 0 and not before[0].has(*key), row.after == 0 and not after[0].has(*key)
        why = VARIES if key[0] == INTERRUPTED else _why(row, alone, code.get(key))
        told.append((*key, row.before, row.after, row.after - row.before, row.calls_before, row.calls_after, why))
    table = _replaced(pd.DataFrame(told, columns=FUNCTIONS))
    table["size"] = table["change"].abs()
    table = table.sort_values(["size", "function", "file"], ascending=[False, True, True])
    return table.drop(columns="size").reset_index(drop=True)


def _replaced(table: pd.DataFrame) -> pd.DataFrame:
    """Where `__lookup` is new and `lookup` no longer called, one stands for the other: both are changes of code.

    Names are the same but for underscores before them and a compiler's suffix (`.part.0`).
    """
    names = table["function"].str.lstrip("_").str.split(".").str[0]
    moved = set(names[table["why"].isin([NEW, GONE])])
    unused = table["before"].eq(0) | table["after"].eq(0)
    table.loc[names.isin(moved) & unused & table["why"].eq(CALLS), "why"] = CODE
    return table


def by_code(functions: pd.DataFrame) -> pd.DataFrame:
    """The rows of `function_difference` whose code is another one on the other side."""
    return functions[functions["why"].isin([CODE, NEW, GONE])].reset_index(drop=True)


def call_difference(before: Sequence[Profile], after: Sequence[Profile], functions: pd.DataFrame) -> pd.DataFrame:
    """A row for each system call: instructions of the kernel for each call on both sides, a mean over the calls.

    `by code`: what of the change is in functions whose code is another one (`functions` of `function_difference`).
    """
    names = sorted({name for profile in (*before, *after) for name in profile.system_calls})
    other_code = by_code(functions)
    keys = set(zip(other_code["function"], other_code["file"], strict=True))
    rows = []
    for name in names:
        own = [[profile.system_calls.get(name, _NONE) for profile in side] for side in (before, after)]
        times = [median_low([cost.calls for cost in costs]) for costs in own]
        one, other = (median_low([cost.each for cost in costs]) for costs in own)
        carried = [median_low([_carried(profile, name, keys) for profile in side]) for side in (before, after)]
        code = carried[1] - carried[0] if all(times) else 0.0
        rows.append((name, *times, round(one, 1), round(other, 1), round(other - one, 1), round(code, 1)))
    table = pd.DataFrame(rows, columns=SYSTEM_CALLS)
    table["size"] = (table["change"] * table["calls after"]).abs()
    table = table.sort_values(["size", "system call"], ascending=[False, True])
    return table.drop(columns="size").reset_index(drop=True)


def _carried(profile: Profile, system_call: str, keys: set[_Key]) -> float:
    """Instructions of these functions below each call."""
    counts = profile.below.get(system_call, Counter())
    calls = profile.system_calls.get(system_call, _NONE).calls
    return sum(count for key, count in counts.items() if key in keys) / max(calls, 1)


def _by_name(profile: Profile) -> dict[_Key, tuple[Cost, Place | None]]:
    """Functions by name and file; several of one name, which are static, are one."""
    found: dict[_Key, tuple[Cost, Place | None]] = {}
    for place, cost in profile.functions.items():
        have, first = found.get((place.name, place.file), (_NONE, place))
        found[place.name, place.file] = (
            Cost(have.instructions + cost.instructions, have.calls + cost.calls),
            first,
        )
    return found


def _code_changed(keys: Sequence[_Key], before: Profile, after: Profile) -> Mapping[_Key, bool]:
    """Of those functions whose code both sides know, whether it is another one."""
    sides = [_by_name(before), _by_name(after)]
    known: dict[_Key, tuple[bytes, bytes]] = {}
    for key in keys:
        one, other = (side.get(key, (_NONE, None))[1] for side in sides)
        if one is None or other is None:
            continue
        code = before.code(one), after.code(other)
        if all(code):
            known[key] = code
    bits = before.symbols.bits
    if bits != after.symbols.bits or not known:
        return {}
    return dict(zip(known, changed(list(known.values()), bits), strict=True))


def _why(row: _Row, alone: tuple[bool, bool], code_changed: bool | None) -> str:
    """`alone`: whether the function is not there before, and not there after."""
    if any(alone):
        return NEW if alone[0] else GONE
    if code_changed:
        return CODE
    if row.varies:
        return VARIES
    if not row.before or not row.after:
        return CALLS
    if code_changed is None:
        return NOT_KNOWN
    return CALLS if row.calls_before != row.calls_after else DATA
