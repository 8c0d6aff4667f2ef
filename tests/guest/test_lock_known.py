# SPDX-License-Identifier: MIT
"""lockknown's counts against what each scenario must come to, on one CPU and on two."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from harness.paths import EXPERIMENTS
from tests.trials import run_one

KINDS = ("spin", "spin-irq", "rwlock", "mutex", "rwsem")
SLEEPING = ("mutex", "rwsem")
#: Words of lockload; "two" needs two CPUs.
SCENARIOS = {
    **{f"load-{kind}": f"load --kind {kind} --ops 500 --reads 250" for kind in KINDS},
    **{f"meet-{kind}": f"load --kind {kind} --ops 400 --conflicts 100" for kind in ("spin", *SLEEPING)},
    **{f"trylock-{kind}": f"trylock --kind {kind} --ops 20" for kind in KINDS},
    **{f"chain-{kind}": f"chain --kind {kind} --ops 10 --threads 4" for kind in SLEEPING},
    **{f"abandon-{kind}": f"abandon --kind {kind} --ops 10" for kind in SLEEPING},
    **{f"recursion-{kind}": f"recursion --kind {kind} --ops 30" for kind in ("rwlock", "rwsem")},
    "nested": "nested --kind mutex --ops 100",
    "irq": "irq --ops 40",
    "nonowner": "nonowner --kind rwsem --ops 10",
    "double": "double --threads 1 --ops 10",
    "reuse": "reuse --threads 1 --ops 16",
    "reuse-held": "reuse --threads 1 --ops 16 --free-held",
    "compete": "load --kind spin --compete --timer-us 50 --ops 20000",
    "all": "load --kind mutex --ops 200 --conflicts 1000",
}
TWO = {
    "meet-rwlock": "load --kind rwlock --ops 400 --conflicts 100 --reads 500",
    "migrate": "migrate --kind mutex --ops 10",
}
#: Each must be refused, with this status.
REFUSED = {
    "load --kind spin --threads 2 --conflicts 5 --compete": 125,
    "load --kind mutex --threads 3 --conflicts 5": 125,
    "load --kind mutex --timer-us 100": 125,
    "chain --kind spin": 125,
    "nonowner --kind mutex": 125,
    "recursion --kind spin": 125,
    "double --threads 2": 125,
    "hold --kind spin --threads 2": 125,
    "release": 125,
}
IN_FOLDER = "cd /run/krepro/out/$KREPRO_WORKLOAD; "


def workloads(cpus: int) -> dict[str, dict[str, object]]:
    known = SCENARIOS | (TWO if cpus > 1 else {})
    commands = {name: f"lockload {words} -o ." for name, words in known.items()}
    refused = "; ".join(f"lockload {words}; echo $?" for words in REFUSED)
    held = "lockload hold --kind mutex --threads 3 -o . && mv known.tsv held.tsv"
    commands["refused"] = refused + ("; lockload migrate --kind mutex; echo $?" if cpus == 1 else "")
    commands["held"] = f"{held} && {{ lockload load; echo $?; }} && lockload release --ops 5 -o ."
    commands["pair"] = "lockload pair --n 1000 -o ."
    return {name: {"command": IN_FOLDER + words, "timeout_s": 60} for name, words in commands.items()}


@pytest.fixture(scope="module", params=["virtual", "wall"])
def trial(request: pytest.FixtureRequest, version: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, Path]:
    """Whether there are two CPUs, and the folder of a trial of all scenarios."""
    two = request.param == "wall"
    target: Path = tmp_path_factory.mktemp("known")
    machine = {"clock": request.param, "session": "mailbox", "cpus": 1 + two}
    arm = {"kernel": f"modern-{version}", **machine}
    return two, run_one(workloads(machine["cpus"]), arm, EXPERIMENTS / "lock-trace", target)


@pytest.fixture
def known(trial) -> Callable[[str], pd.DataFrame]:
    """What a workload's file says, a row per lock and way to take it."""

    def read(workload: str, file: str = "known.tsv") -> pd.DataFrame:
        table = pd.read_csv(io.StringIO((trial[1] / workload / file).read_text()), sep="\t")
        return table.set_index(["name", "type"]).sort_index()

    return read


def counts(table: pd.DataFrame, name: str, kind: str) -> dict[str, int]:
    """The counts that are not 0."""
    row = table.loc[(name, kind)].drop("address")
    return {str(field): int(value) for field, value in row.items() if value}


def pairs(number: int) -> dict[str, int]:
    return {"attempts": number, "acquired": number, "released": number}


def test_nothing_is_wrong_with_the_kernel_afterwards(trial):
    log = (trial[1] / "dmesg").read_text()
    assert "lockknown" in log
    assert not re.search(r"WARNING|BUG|RIP:|stall|hung", log)


def test_every_acquisition_has_its_release(known, trial):
    for workload in SCENARIOS | (TWO if trial[0] else {}):
        table = known(workload)
        held = 4 if workload == "reuse-held" else 0
        assert (table["attempts"] + table["tried"] - table["abandoned"] == table["acquired"]).all(), workload
        assert table["released"].sum() == table["acquired"].sum() + table["orphans"].sum() - held, workload
        assert (table["conflicts"] <= table["conflicts_most"]).all(), workload


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_without_conflicts_is_each_thread_at_its_own_lock(known, kind):
    table = known(f"load-{kind}")
    for thread in (0, 1):
        mine = table.loc[f"own.{thread}"]
        assert mine["attempts"].sum() == 500
        assert mine["conflicts_most"].sum() == 0
        assert ("rwsem_read" if kind == "rwsem" else "read") in mine.index or not kind.startswith("rw")


@pytest.mark.parametrize("kind", SLEEPING)
def test_partners_that_meet_conflict_once_each_time(known, kind):
    table = known(f"meet-{kind}")
    way = "mutex" if kind == "mutex" else "rwsem_write"
    assert counts(table, "own.0", way) == pairs(360)
    assert counts(table, "shared.0", way) == pairs(80) | {"conflicts": 40, "conflicts_most": 40, "depth": 1}


def test_spin_locks_meet_interrupts_on_one_cpu_and_threads_on_two(known, trial):
    table = known("meet-spin")
    if trial[0]:
        assert counts(table, "shared.0", "spin").items() >= (pairs(80) | {"conflicts_most": 40}).items()
    else:
        met = pairs(40) | {"failed": 40, "conflicts": 40, "conflicts_most": 40}
        assert counts(table, "shared.0", "spin") == counts(table, "shared.1", "spin") == met


def test_every_operation_can_be_a_conflict(known):
    table = known("all")
    met = pairs(400) | {"conflicts": 200, "conflicts_most": 200, "depth": 1}
    assert counts(table, "shared.0", "mutex") == met
    assert len(table) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_trylocks_fail_where_they_must(known, kind):
    table = known(f"trylock-{kind}")
    exclusive = {"rwlock": "write", "rwsem": "rwsem_write"}.get(kind, kind.removesuffix("-irq"))
    failed = 40 if kind.startswith("rw") else 20
    tried = pairs(40) | {"attempts": 20, "tried": 20, "failed": failed}
    assert counts(table, "own.1", exclusive) == tried | {"conflicts": failed, "conflicts_most": failed}
    assert len(table) == (4 if kind.startswith("rw") else 2)
    if kind.startswith("rw"):
        read = counts(table, "own.1", exclusive.replace("write", "read"))
        assert read == pairs(40) | {"attempts": 20, "tried": 20, "failed": 20, "conflicts": 20, "conflicts_most": 20}


@pytest.mark.parametrize("kind", SLEEPING)
def test_a_chain_is_as_long_as_it_has_waiters(known, kind):
    way = "mutex" if kind == "mutex" else "rwsem_write"
    chain = pairs(40) | {"conflicts": 30, "conflicts_most": 30, "depth": 3}
    assert counts(known(f"chain-{kind}"), "shared.0", way) == chain


def test_abandoned_waits(known):
    once = {"abandoned": 10, "conflicts": 10, "conflicts_most": 10, "depth": 1}
    assert counts(known("abandon-mutex"), "shared.0", "mutex") == pairs(10) | {"attempts": 20} | once
    assert counts(known("abandon-rwsem"), "shared.0", "rwsem_read") == {"attempts": 10} | once


def test_readers_do_not_conflict(known):
    assert counts(known("recursion-rwsem"), "shared.0", "rwsem_read") == pairs(120)
    assert counts(known("recursion-rwlock"), "shared.0", "read") == pairs(120)
    assert counts(known("nonowner"), "shared.0", "rwsem_read") == pairs(10)


def test_the_inner_lock_of_two_is_never_waited_for(known):
    assert counts(known("nested"), "inner.0", "mutex") == pairs(200)
    assert counts(known("nested"), "outer.0", "mutex") == pairs(200) | {"conflicts_most": 200}


def test_locks_that_are_misused(known):
    orphans = {"attempts": 20, "acquired": 20, "released": 30, "failed": 10, "orphans": 10}
    assert counts(known("double"), "double.0", "spin") == orphans | {"conflicts": 10, "conflicts_most": 10}
    assert counts(known("reuse"), "reused.0", "spin") == pairs(48) | {"inits": 16}
    assert counts(known("reuse-held"), "reused.0", "spin") == {
        "attempts": 52,
        "acquired": 52,
        "released": 48,
        "inits": 16,
    }


def test_interrupts_find_what_the_task_left_them(known, trial):
    table = known("irq").groupby("name")[["attempts", "tried", "failed"]].sum()
    if trial[0]:
        assert table.loc["shared.0"].tolist() == [30, 10, 20]
        assert table.loc["irq.0"].tolist() == [20, 0, 0]
    else:
        assert table.loc["shared.0"].tolist() == [20, 20, 20]


def test_a_timer_competes(known, trial):
    row = known("compete").loc[("shared.0", "spin")]
    assert row["attempts"] == 40000
    assert row["tried"] + row["failed"] > 0 or trial[0], "on the host's clock it may come between two tries"
    assert row["conflicts_most"] >= row["tried"] + row["failed"]


def test_two_cpus_only(known, trial):
    if not trial[0]:
        pytest.skip("one CPU")
    assert counts(known("migrate"), "shared.0", "mutex")["conflicts"] == 10
    table = known("meet-rwlock").loc["shared.0"]
    assert table["attempts"].sum() == 80
    assert table["conflicts"].sum() == 40
    assert table.loc["read", "attempts"] > 10


def test_a_lock_is_held_from_one_program_to_the_next(known, trial):
    held = {"attempts": 3, "acquired": 1, "conflicts": 2, "conflicts_most": 2, "depth": 2}
    assert counts(known("held", "held.tsv"), "shared.0", "mutex") == held
    assert counts(known("held"), "shared.0", "mutex") == {"attempts": 1000, "acquired": 1002, "released": 1003}
    assert (trial[1] / "held/stdout").read_text().splitlines()[1] == "125"
    assert "a lock is held" in (trial[1] / "held/stderr").read_text()


def test_what_makes_no_sense_is_refused(trial):
    statuses = [int(line) for line in (trial[1] / "refused/stdout").read_text().splitlines()]
    assert statuses == [*REFUSED.values(), *([] if trial[0] else [4])]
    assert len((trial[1] / "refused/stderr").read_text().splitlines()) == len(statuses)


def test_pairs_of_all_kinds_are_timed(trial):
    table = pd.read_csv(trial[1] / "pair/pairs.tsv", sep="\t")
    assert table.shape == (1000, 8)
    if not trial[0]:
        medians = table.median()
        assert (medians.drop("none") > medians["none"]).all()
        assert (table.nunique() == 1).all(), "the virtual clock counts instructions"
