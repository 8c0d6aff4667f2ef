# SPDX-License-Identifier: MIT
"""The trace that asks those alone who wait: what it has of waits that are counted on paper, beside other traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.lock_trace.locks.acquisitions import threads_of
from experiments.lock_trace.locks.contended import releases_of, waited_for, waits_of
from experiments.lock_trace.locks.events import MUTEX, RWSEM_READ, WAITS, Events, read_events
from experiments.lock_trace.locks.kerneltables import read_sites

from tests.lock_accounts import accounts, traced

ROUNDS = 20
LOADS = {
    "chain": ("", f"lockload chain --kind mutex --threads 5 --ops {ROUNDS} -o ."),
    "abandon": ("", f"lockload abandon --kind rwsem --ops {ROUNDS} -o ."),
}
#: One after another in one guest: each finds the hooks as the one before left them.
ARMS = ("contended", "per-lock", "all")


@pytest.fixture(scope="module", params=[1, 2], ids=["one_cpu", "two_cpus"])
def trial(request: pytest.FixtureRequest, version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("contended")
    return traced(target, LOADS, ARMS, request.param, kernel=f"modern-{version}-bare")


def of_module(folder: Path, kind: int) -> Events:
    """Events of the lock that all of the module's threads share: the one of this kind with the most waits."""
    events = read_events(folder / "events.bin")
    waits = events[(events["kind"] == WAITS) & (events["type"] == kind)]
    locks, counts = np.unique(waits["lock"], return_counts=True)
    return np.asarray(events[events["lock"] == locks[np.argmax(counts)]])


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("load", LOADS)
def test_every_event_is_accounted_for(trial, load, arm):
    status = accounts(trial / f"{load}-{arm}")
    assert sum(status.lost) == 0


def test_each_of_a_chain_has_waited_for_those_before_it(trial):
    events = of_module(trial / "chain-contended", MUTEX)
    waits, releases = waits_of(events), releases_of(events)
    pairs = waited_for(waits, releases)
    assert (len(waits), len(releases), len(pairs)) == (4 * ROUNDS, 4 * ROUNDS, (4 + 3 + 2 + 1) * ROUNDS)
    who, whom = threads_of(waits.take(pairs["wait"])), threads_of(releases.take(pairs["release"]))
    assert not (who == whom).any()


def test_who_gives_up_has_waited_for_the_holder(trial):
    events = of_module(trial / "abandon-contended", RWSEM_READ)
    waits, releases = waits_of(events), releases_of(events)
    pairs = waited_for(waits, releases)
    assert waits["abandoned"].tolist() == [True] * ROUNDS
    assert pairs["wait"].tolist() == list(range(ROUNDS))
    assert pairs["release"].is_unique
    assert releases["pid"].nunique() == 1
    assert not releases["pid"].isin(waits["pid"]).any()


def test_who_waits_for_nobody_is_nowhere(trial):
    sites = read_sites(trial / "chain-contended" / "sites.tsv")
    every = read_sites(trial / "chain-per-lock" / "sites.tsv")
    assert (sites["acquisitions"] == sites["contended"]).all()
    assert every["acquisitions"].sum() > 10 * every["contended"].sum()
