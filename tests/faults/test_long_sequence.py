# SPDX-License-Identifier: MIT
"""A hundred million accesses of one process: every one is there, in bounded memory."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from harness.artefacts.store import Store
from harness.oracle.reader import Oracle
from harness.run.prepared import prepare_trials
from harness.trial.execution import run_trial
from harness.trial.plan import PlannedTrial
from tests.trials import made_experiment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ACCESSES = 100_000_000
SEED = 7
PLACE, PAGES = 0x20000000 >> 12, 64
#: QEMU with a guest of 256 MiB takes about 0.5 GiB without a plugin; the sequence itself is some 0.8 GB of disk.
MOST_KIB = 1 << 20


def step(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """One step of krepro-known's xorshift (Marsaglia 2003)."""
    x = x ^ x << np.uint32(13)
    x = x ^ x >> np.uint32(17)
    return x ^ x << np.uint32(5)


def states(seed: int, n: int) -> npt.NDArray[np.uint32]:
    """The generator's first n states, by doubling: k steps are linear over GF(2), so they are a table per byte."""
    out = np.empty(n, dtype=np.uint32)
    out[0] = seed
    done, unit = (
        1,
        step(np.uint32(1) << np.arange(32, dtype=np.uint32)),
    )  # images of the unit vectors after `done` steps
    while done < n:
        tables = np.zeros((4, 256), dtype=np.uint32)
        for bit in range(32):
            byte, inside = divmod(bit, 8)
            tables[byte] ^= np.where(np.arange(256) >> inside & 1, unit[bit], 0).astype(np.uint32)

        def jump(x: npt.NDArray[np.uint32], tables: npt.NDArray[np.uint32] = tables) -> npt.NDArray[np.uint32]:
            parts = (tables[byte][x >> np.uint32(8 * byte) & np.uint32(255)] for byte in range(4))
            return np.bitwise_xor.reduce(list(parts))

        more = min(done, n - done)
        out[done : done + more] = jump(out[:more])
        unit, done = jump(unit), done + more
    return out


def test_the_generator_is_the_guests():
    x, slow = np.array([SEED], dtype=np.uint32), []
    for _ in range(1000):
        slow.append(int(x[0]))
        x = step(x)
    assert states(SEED, 1000).tolist() == slow


def test_a_hundred_million_accesses(tmp_path: Path):
    walk = {"command": f"krepro-known pages {SEED} {ACCESSES} alone", "timeout_s": 600}
    arm = {"kernel": "classic", "clock": "virtual", "oracle": ["pages"]}
    experiment = made_experiment({"walk": walk}, {"a": arm})
    store = Store.default()
    prepared = prepare_trials(store, experiment, tmp_path, [PlannedTrial("a", 0, 1)], tmp_path / "out", "tcg")
    (trial,) = prepared.trials
    record = run_trial(trial)
    assert record.status == "ok", record.reason
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    expected, seen = states(SEED, ACCESSES), 0
    for frame in Oracle(tmp_path / "out" / record.path).pages().chunks():
        mine = frame[(frame["page"] >= PLACE) & (frame["page"] < PLACE + PAGES)]
        count = mine["count"].to_numpy()
        x = expected[seen : seen + int(count.sum())]
        assert np.array_equal(np.repeat((mine["page"].to_numpy() - PLACE).astype(np.uint8), count), x >> 8 & PAGES - 1)
        assert np.array_equal(np.repeat(mine["write"].to_numpy(), count), (x >> 20 & 1).astype(bool))
        seen += x.size
    size = (trial.folder / "oracle/pages.bin").stat().st_size
    print(f"{seen} accesses, {size / 1e6:.0f} MB, QEMU at most {peak / 1024:.0f} MiB, {record.seconds['trial']:.1f} s")
    assert seen == ACCESSES
    assert peak < MOST_KIB
