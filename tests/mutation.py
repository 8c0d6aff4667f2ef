# SPDX-License-Identifier: MIT
"""Mutations of raw files, each of which turns the verdicts of the claims that it names.

tests/mutations/NAME.py, one per experiment, has functions with `@turns("claim", …)`; the docstring says in a sentence
what is done, for docs/claims.md. A function takes the unpacked golden trials (`tests.golden.Golden`) and changes files
below `golden.raw(arm)`: decoder, metric and bound are under test with the claim.
`also=` names the claims that change their verdict with them, to whatever it is: a test compares that with what changes.
What differs in values alone is made by one function, and stands in a list.
`before=` names a function that is applied first and makes a trial, where the golden trials alone do not tell a claim;
`why=` says why no trial of the arm is among them.

Only the trials that a function changes are decoded again. An analysis decodes each trial by itself, but
for those of the arms in SHARED of tests/mutations/NAME.py, whose files tell rows of other trials too.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from harness.measure.claims import ClaimResult
from harness.trial.model import TrialRecord
from tests.golden import Golden, records, unpack

#: A trial's arm and repetition.
Key = tuple[str, int]
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Mutation:
    """One change that turns claims."""

    name: str
    claims: tuple[str, ...]
    also: tuple[str, ...]
    change: Change
    before: Change | None
    why: str
    sentence: str


def turns(
    *claims: str, also: tuple[str, ...] = (), before: Change | None = None, why: str = ""
) -> Callable[[Change], Change]:
    """Register a function as a mutation that turns these claims; `also`: what else changes with them."""
    assert (before is None) == (not why), f"{claims[0]}: a trial that is made has a reason"

    def register(change: Change) -> Change:
        sentence = " ".join((change.__doc__ or "").split())
        assert sentence, f"{change.__name__}: say in a sentence what is done"
        mutation = Mutation(change.__name__, claims, also, change, before, why, sentence)
        change.mutation = mutation  # type: ignore[attr-defined]
        return change

    return register


def mutations(experiment: str) -> list[Mutation]:
    """All of an experiment, in the order of their file."""
    listed = [one if isinstance(one, list) else [one] for one in vars(_module(experiment)).values()]
    return [one.mutation for ones in listed for one in ones if hasattr(one, "mutation")]


def _module(experiment: str) -> ModuleType:
    return importlib.import_module(f"tests.mutations.{experiment.replace('-', '_')}")


class Decoded:
    """The golden trials of an experiment, decoded once; verdicts on them, and on changed copies of them."""

    def __init__(self, experiment: str, folder: Path) -> None:
        self.golden = unpack(experiment, folder)
        self.shared = frozenset(getattr(_module(experiment), "SHARED", ()))
        self.tables = self.golden.tables()
        self._states = _states(self.golden)
        self._before: dict[Change | None, dict[str, ClaimResult]] = {}

    @cached_property
    def rows(self) -> dict[Key, dict[str, pd.DataFrame]]:
        """`tables`, by trial."""
        return by_trial(self.tables)

    def before(self, mutation: Mutation, folder: Path) -> dict[str, ClaimResult]:
        """Every claim's result before a mutation; files are changed in `folder`."""
        key = mutation.before
        if key not in self._before:
            self._before[key] = self._verdicts([mutation.before], folder)
        return self._before[key]

    def after(self, mutation: Mutation, folder: Path) -> dict[str, ClaimResult]:
        """Every claim's result after a mutation; files are changed in `folder`."""
        return self._verdicts([mutation.before, mutation.change], folder)

    def decode(self, trials: Sequence[TrialRecord], chosen: Container[Key]) -> dict[str, pd.DataFrame]:
        """All tables of `trials`: rows of the chosen ones from their files, those of the others as they are known."""
        again = [trial for trial in trials if _key(trial) in chosen or trial.arm in self.shared]
        made = self.golden.analysis.tables(again)
        rows = self.rows | {key: tables for key, tables in by_trial(made).items() if key in chosen}
        found = [rows.get(_key(trial), {}) for trial in trials]
        parts = {name: [tables[name] for tables in found if name in tables] for name in made}
        return {name: pd.concat(some, ignore_index=True) if some else made[name] for name, some in parts.items()}

    def _verdicts(self, changes: Sequence[Change | None], folder: Path) -> dict[str, ClaimResult]:
        if not any(changes):
            return self.golden.claims(self.tables)
        shutil.copytree(self.golden.root, folder)  # with their times: what is written after it has another
        trials = [trial.relocated(folder) for trial in records(self.golden.name)]
        golden = replace(self.golden, root=folder, trials=trials)
        _apply(changes, golden)
        states = _states(golden)
        changed = {key for key, state in states.items() if state != self._states.get(key)}
        touched = {arm for arm, _ in changed | (self._states.keys() - states.keys())}
        whole = bool(touched & self.shared)
        return golden.claims(golden.tables() if whole else self.decode(golden.trials, changed))


def by_trial(tables: Mapping[str, pd.DataFrame]) -> dict[Key, dict[str, pd.DataFrame]]:
    """Each trial's rows, of the tables that have any."""
    rows: dict[Key, dict[str, pd.DataFrame]] = {}
    for name, frame in tables.items():
        for key, part in frame.groupby(["arm", "trial"], sort=False):
            rows.setdefault(key, {})[name] = part
    return rows


def _apply(changes: Sequence[Change | None], what: Any) -> None:
    for change in changes:
        if change is not None:
            change(what)


def _key(trial: TrialRecord) -> Key:
    return trial.arm, trial.repetition


def _states(golden: Golden) -> dict[Key, object]:
    """What tells whether a trial is decoded to what it was: its record, and size and time of its files."""
    states: dict[Key, object] = {}
    for trial in golden.trials:
        files = [path for path in (*trial.path.rglob("*"), trial.system_map) if path.is_file()]
        told = {path.relative_to(golden.root): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
        states[_key(trial)] = trial.model_dump(exclude={"path", "system_map"}), told
    return states


@cache
def decoded(experiment: str) -> Decoded:
    """Of one experiment, once in a process."""
    scratch = tempfile.mkdtemp(prefix="krepro-golden-")
    atexit.register(shutil.rmtree, scratch)
    return Decoded(experiment, Path(scratch))


__all__ = ["Decoded", "Golden", "Mutation", "by_trial", "decoded", "mutations", "turns"]
