# SPDX-License-Identifier: MIT
"""Every event of a lock trace is accounted for: with readers that another task lets go of, modules and CPUs that come
and go.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from experiments.lock_trace.locks.events import MUTEX, RWSEM_READ, RWSEM_WRITE
from experiments.lock_trace.locks.kerneltables import read_sites

from tests.lock_accounts import accounts, traced
from tests.page_trace_suite import splats

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

ARMS = ("all", "paper", "per-lock", "tracepoint", "validate", "contended")
#: They tell of waits alone.
WAITS_ALONE = ("tracepoint", "contended")
ROUNDS, MODULES, CPUS, FILES = 50, 4, 10, 100_000
#: Small rings that nobody reads until the end: so many events fit in no guest, and what is lost is counted.
LATE = "-n -r 14"
MODULES_LOAD = {"modules": ("", f"lt-modules {MODULES}")}
FILES_LOAD = {"files": (LATE, f"lt-files {FILES}")}
HOTPLUG_LOAD = {"hotplug": (LATE, f"lt-hotplug {CPUS}")}


@pytest.fixture(scope="module")
def one_cpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced(tmp_path_factory.mktemp("one"), MODULES_LOAD | FILES_LOAD, ARMS, 1)


@pytest.fixture(scope="module")
def two_cpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced(tmp_path_factory.mktemp("two"), MODULES_LOAD | FILES_LOAD | HOTPLUG_LOAD, ARMS, 2)


@pytest.mark.parametrize("cpus", ["one_cpu", "two_cpus"])
@pytest.mark.parametrize("arm", ARMS)
def test_readers_whom_another_task_releases_and_modules_that_go(request, cpus, arm):
    accounts(request.getfixturevalue(cpus) / f"modules-{arm}")


def test_the_sums_of_a_module_are_those_of_its_rounds(one_cpu):
    # Names are made when the tables are read: the last module is there then, and at the place of those before.
    sites = read_sites(one_cpu / "modules-per-lock" / "sites.tsv")
    own = sites[sites["symbol"].str.contains("[ltowner]", regex=False)]
    sums = own.groupby("type")[["acquisitions", "contended", "kept"]].sum()
    every = MODULES * ROUNDS
    expected = pd.DataFrame(
        {"acquisitions": [every] * 3, "contended": [0, 0, every], "kept": [0, every, every]},
        index=pd.Index([MUTEX, RWSEM_READ, RWSEM_WRITE], name="type"),
    )
    pd.testing.assert_frame_equal(sums, expected, check_dtype=False)


@pytest.mark.parametrize("cpus", ["one_cpu", "two_cpus"])
@pytest.mark.parametrize("arm", ARMS)
def test_more_locks_than_the_table_has_entries(request, cpus, arm):
    status = accounts(request.getfixturevalue(cpus) / f"files-{arm}")
    if arm not in WAITS_ALONE:
        assert status.events > 4 * FILES  # a file's inode and its directory entry: taken and let go of
    if arm in ("per-lock", "contended"):  # a lock that nobody waits for needs no entry
        assert status.untracked == 0


@pytest.mark.parametrize("arm", ARMS)
def test_cpus_that_go_and_come_back(two_cpus, arm):
    status = accounts(two_cpus / f"hotplug-{arm}")
    assert status.cpus == 2
    assert status.events > 0 or arm == "contended"


@pytest.mark.parametrize("cpus", ["one_cpu", "two_cpus"])
def test_nothing_is_wrong_with_the_kernel_afterwards(request, cpus):
    folder = request.getfixturevalue(cpus)
    shutil.copy(folder / "dmesg", folder / "dmesg.end")
    assert list(splats(folder)) == []
