# SPDX-License-Identifier: MIT
"""What locktorture says that its threads took is what the trace has, exactly, for every type of lock that it traces."""

from __future__ import annotations

import bisect
import re
from pathlib import Path

import numpy as np
import pytest
from experiments.lock_trace.locks.events import (
    ACQUIRED,
    MUTEX,
    READ,
    RELEASE,
    RWSEM_READ,
    RWSEM_WRITE,
    SPIN,
    WRITE,
    read_events,
)
from experiments.lock_trace.locks.kerneltables import read_sites

from harness.paths import ROOT
from tests.lock_accounts import accounts, traced

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SECONDS = 0.3
#: Each type of locktorture: what a trace calls its writers' locks and its readers'.
TRACED = {
    "spin_lock": (SPIN, None),
    "spin_lock_irq": (SPIN, None),
    "rw_lock": (WRITE, READ),
    "rw_lock_irq": (WRITE, READ),
    "mutex_lock": (MUTEX, None),
    "ww_mutex_lock": (MUTEX, None),
    "rwsem_lock": (RWSEM_WRITE, RWSEM_READ),
}
#: Documentation/locking/lock-trace.rst: not traced.
UNTRACED = ("rtmutex_lock", "percpu_rwsem_lock")
ARMS = ("all", "per-lock")
OWN = ROOT / "tests/guest/lock_torture"
#: Rings that hold all of it: 2^20 events of 64 bytes.
RING = "-r 20"
TOTAL = re.compile(r"(Writes|Reads) *: +Total: (\d+) .*Fail: (\d+)")
LOCKS = {
    "spin_lock": ["torture_spinlock"],
    "rw_lock": ["torture_rwlock"],
    "mutex_lock": ["torture_mutex"],
    "ww_mutex_lock": ["torture_ww_mutex_0", "torture_ww_mutex_1", "torture_ww_mutex_2"],  # a writer takes all
    "rwsem_lock": ["torture_rwsem"],
}
#: The functions that take what is not traced.
TAKING = re.compile(r"torture_(rtmutex_lock|percpu_rwsem_down_)")


@pytest.fixture(scope="module", params=[1, 2], ids=["one_cpu", "two_cpus"])
def cpus(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module", params=TRACED)
def torture(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def tortured(cpus: int, torture: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guest for each type: all events of all of them are more than one has room for."""
    loads = {torture: (RING, f"lt-totals {torture} {SECONDS}")}
    return traced(tmp_path_factory.mktemp("totals"), loads, ARMS, cpus, guest=OWN)


@pytest.fixture(scope="module")
def untraced(cpus: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    loads = {name: (RING, f"lt-totals {name} {SECONDS}") for name in UNTRACED}
    return traced(tmp_path_factory.mktemp("untraced"), loads, ["per-lock"], cpus, guest=OWN)


def told(folder: Path) -> dict[str, int]:
    """locktorture's own totals, of writers and of readers."""
    found = TOTAL.findall((folder / "totals").read_text())
    assert found, (folder / "totals").read_text()
    assert all(fail == "0" for _, _, fail in found)
    totals = {who: int(total) for who, total, _ in found}
    assert min(totals.values()) > 0
    return totals


class Symbols:
    """locktorture's functions and data, by their addresses when it was loaded."""

    def __init__(self, folder: Path) -> None:
        rows = [line.split() for line in (folder / "functions").read_text().splitlines()]
        self.data = {name: int(address, 16) for address, kind, name, _ in rows if kind in "bBdD"}
        self._sorted = sorted((int(address, 16), name) for address, kind, name, _ in rows if kind in "tT")
        self._first = [address for address, _ in self._sorted]

    def function(self, site: int) -> str:
        """The function that a call returns to; nothing where it is none of locktorture's."""
        at = bisect.bisect_right(self._first, site) - 1
        near = at >= 0 and site < self._first[-1] + 0x1000
        return self._sorted[at][1] if near else ""

    def locks(self, torture: str) -> list[int]:
        return [self.data[name] for name in LOCKS[torture.removesuffix("_irq")]]


def test_the_log_has_every_one(tortured, torture):
    folder = tortured / f"{torture}-all"
    status = accounts(folder)
    assert sum(status.lost) == 0
    totals, symbols = told(folder), Symbols(folder)
    locks = symbols.locks(torture)
    events = read_events(folder / "events.bin")
    events = events[np.isin(events["lock"], locks)]
    for who, kind in zip(("Writes", "Reads"), TRACED[torture], strict=True):
        if kind is None:
            continue
        own = events[events["type"] == kind]
        acquired, released = (own[own["kind"] == what]["site"].tolist() for what in (ACQUIRED, RELEASE))
        # A writer of ww_mutexes that has to begin anew lets go of what it has where it takes them.
        given_back = sum("_lock" in symbols.function(site) for site in released) if len(locks) > 1 else 0
        assert len(acquired) - given_back == len(locks) * totals[who]
        assert len(released) == len(acquired)


def test_the_sums_by_place_have_every_one(tortured, torture):
    folder = tortured / f"{torture}-per-lock"
    assert accounts(folder).sites_full == 0
    totals, locks = told(folder), Symbols(folder).locks(torture)
    sites = read_sites(folder / "sites.tsv")
    for who, kind in zip(("Writes", "Reads"), TRACED[torture], strict=True):
        if kind is None:
            continue
        own = sites[(sites["type"] == kind) & sites["lock"].isin(locks)]["acquisitions"].sum()
        wanted = len(locks) * totals[who]
        assert own == wanted or (own > wanted and len(locks) > 1)  # who begins anew takes more


@pytest.mark.parametrize("name", UNTRACED)
def test_what_is_not_traced_is_not_there_at_all(untraced, name):
    folder = untraced / f"{name}-per-lock"
    accounts(folder)
    assert told(folder)["Writes"] > 0
    symbols, sites = Symbols(folder), read_sites(folder / "sites.tsv")
    assert sites["acquisitions"].sum() > 0
    assert not [site for site in sites["site"].tolist() if TAKING.match(symbols.function(site))]
