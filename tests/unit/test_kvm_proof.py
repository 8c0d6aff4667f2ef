# SPDX-License-Identifier: MIT
"""When a boot under KVM is given up, and how long the verdict is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.machine.accelerator import (
    FORGET_S,
    MOST_S,
    SILENCE_S,
    START_S,
    KvmVerdict,
    Patience,
    Seen,
    recall,
    waited_s,
)

NOW = 1_800_000_000.0


def given_up(growth: Iterable[tuple[float, int]], until: float) -> tuple[float, str] | None:
    """When and why a console that had `growth` (second, bytes from then on) is given up before `until`."""
    patience, steps, size, now = Patience(100.0), sorted(growth), -1, 0.0
    while now < until:
        while steps and steps[0][0] <= now:
            size = steps.pop(0)[1]
        why = patience.over(100.0 + now, size)
        if why is not None:
            return now, why
        now += 0.05
    return None


MOVING = [(k, k * 30) for k in range(1000)]
PAUSING = [(0.0, 0), (6.0, 100), (12.0, 200)]


@pytest.mark.parametrize(
    ("growth", "until", "seconds", "why"),
    [
        ([(0.2, 0)], 60, SILENCE_S + 0.2, "printed nothing for 8 s"),
        ([], 100, START_S, "made no console in 60 s"),
        ([(0.1, 0), (1, 200), (2, 400)], 60, 2 + SILENCE_S, "then nothing for 8 s"),
        (PAUSING, 60, 36, "then nothing for 24 s"),
        (MOVING, 1000, MOST_S, f"was not through after {MOST_S:.0f} s"),
    ],
)
def test_a_boot_that_comes_to_nothing_is_given_up(growth, until, seconds, why):
    then, said = given_up(growth, until) or (0.0, "")
    assert said == why
    assert then == pytest.approx(seconds, abs=0.3)


@pytest.mark.parametrize(
    ("growth", "until"),
    [
        (MOVING, 100),
        ([*PAUSING, (32.0, 300)], 50),  # a host that pauses may pause for longer
        ([(5.0, 0), (20.0, 100)], 30),  # a QEMU that starts slowly is on a slow host
        ([(SILENCE_S + 5, 0), (SILENCE_S + 20, 100)], 30),  # one that reads its libraries is no silent guest
    ],
)
def test_a_slow_boot_is_waited_for(growth, until):
    assert given_up(growth, until) is None


def test_waiting_for_a_cpu_of_the_host_is_no_silence():
    patience = Patience(0.0)
    assert patience.over(0.1, 0) is None
    assert patience.over(60.0, 0, waited=55.0) is None, "it ran for 5 s"
    assert patience.over(70.0, 0, waited=61.0) == "printed nothing for 8 s"


def test_a_start_that_waited_long_tells_of_a_slow_host():
    patience = Patience(0.0)
    assert patience.over(5.0, 0, waited=4.5) is None
    assert patience.over(24.0, 0, waited=4.5) is None
    assert patience.over(26.0, 0, waited=4.5) == "printed nothing for 20 s"


def test_waits_of_all_threads_count(tmp_path):
    assert waited_s(7, tmp_path) == 0
    for thread, text in ((7, "100 2000000000 3"), (8, "100 5000000000 3"), (9, "spoilt")):
        folder = tmp_path / f"7/task/{thread}"
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    assert waited_s(7, tmp_path) == 7.0


def kept(path: Path, age: float, **verdict: object) -> Path:
    seen = Seen(qemu="QEMU 7", at=NOW - age, verdict=KvmVerdict.model_validate({"reason": "why", **verdict}))
    path.write_text(seen.model_dump_json())
    return path


def test_a_proof_is_kept_until_qemu_changes(tmp_path):
    memory = kept(tmp_path / "seen", 1e7, works=True, seconds=3.0)
    assert recall(memory, "QEMU 7", NOW) == KvmVerdict(works=True, reason="why", seconds=3.0)
    assert recall(memory, "QEMU 8", NOW) is None


@pytest.mark.parametrize(("age", "known"), [(0, True), (FORGET_S - 1, True), (FORGET_S + 1, False), (-5, False)])
def test_a_failure_is_kept_for_minutes_and_says_so(tmp_path, age, known):
    verdict = recall(kept(tmp_path / "seen", age, works=False), "QEMU 7", NOW)
    assert (verdict is not None) == known
    if verdict is not None:
        assert verdict.reason == f"why ({age / 60:.0f} min ago; tried again after 10)"


@pytest.mark.parametrize("text", ["", "{", json.dumps({"qemu": "QEMU 7", "verdict": {"works": True, "reason": "old"}})])
def test_what_cannot_be_read_or_is_older_is_asked_again(tmp_path, text):
    (tmp_path / "seen").write_text(text)
    assert recall(tmp_path / "seen", "QEMU 7", NOW) is None
    assert recall(tmp_path / "none", "QEMU 7", NOW) is None
