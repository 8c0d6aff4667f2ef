# SPDX-License-Identifier: MIT
"""Mutations: of raw files or of tables, each of which turns the verdicts of the claims that it names.

tests/mutations/NAME.py, one per experiment, has functions with `@turns("claim", …)`; the docstring says in a sentence
what is done, for docs/claims.md. A function of raw files takes the unpacked golden trials (`tests.golden.Golden`) and
changes files below `golden.raw(arm)`. One of tables takes the decoded tables and changes them in place.
`also=` names the claims that change their verdict with them, to whatever it is: a test compares that with what changes.
`before=` names a function, of the same kind, that is applied first: where the golden trials alone do not tell a claim.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from harness.measure.claims import ClaimResult
from tests.golden import Golden, unpack

Kind = Literal["raw", "tables"]
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Mutation:
    """One change that turns claims."""

    name: str
    claims: tuple[str, ...]
    also: tuple[str, ...]
    kind: Kind
    change: Change
    before: Change | None
    sentence: str


def turns(
    *claims: str, also: tuple[str, ...] = (), kind: Kind = "tables", before: Change | None = None
) -> Callable[[Change], Change]:
    """Register a function as a mutation that turns these claims; `also`: what else changes with them."""

    def register(change: Change) -> Change:
        sentence = " ".join((change.__doc__ or "").split())
        assert sentence, f"{change.__name__}: say in a sentence what is done"
        mutation = Mutation(change.__name__, claims, also, kind, change, before, sentence)
        change.mutation = mutation  # type: ignore[attr-defined]
        return change

    return register


def mutations(experiment: str) -> list[Mutation]:
    """All of an experiment, in the order of their file."""
    module = importlib.import_module(f"tests.mutations.{experiment.replace('-', '_')}")
    return [one.mutation for one in vars(module).values() if hasattr(one, "mutation")]


@lru_cache(maxsize=1)
def _whole(experiment: str) -> tuple[Golden, dict[str, pd.DataFrame]]:
    """The golden trials as they are, decoded once: mutations of tables get copies."""
    scratch = tempfile.mkdtemp(prefix="krepro-golden-")
    try:
        golden = unpack(experiment, Path(scratch))
        return golden, golden.tables()
    finally:
        shutil.rmtree(scratch)


def verdicts(experiment: str, folder: Path, mutation: Mutation, *, mutated: bool) -> dict[str, ClaimResult]:
    """Every claim's result on the golden trials: before the mutation, or after it. Raw ones go to `folder`."""
    changes = [change for change in (mutation.before, mutation.change if mutated else None) if change is not None]
    golden, whole = _whole(experiment)
    if mutation.kind == "tables" or not changes:
        tables = {name: frame.copy() for name, frame in whole.items()}
        for change in changes:
            change(tables)
        return golden.claims(tables)
    golden = unpack(experiment, folder)
    for change in changes:
        change(golden)
    return golden.claims(golden.tables())


__all__ = ["Golden", "Mutation", "mutations", "turns", "verdicts"]
