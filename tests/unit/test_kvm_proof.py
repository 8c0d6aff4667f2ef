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


def test_a_console_that_is_silent_from_the_start_is_given_up_soon():
    seconds, why = given_up([(0.2, 0)], 60) or (0.0, "")
    assert why == "printed nothing for 8 s"
    assert seconds == pytest.approx(SILENCE_S + 0.2, abs=0.2)


def test_a_qemu_that_never_makes_its_console_is_given_up_too():
    seconds, why = given_up([], 100) or (0.0, "")
    assert why == "made no console in 60 s"
    assert seconds == pytest.approx(START_S, abs=0.2)


def test_a_slow_boot_is_waited_for_as_long_as_its_console_moves():
    assert given_up([(k, k * 30) for k in range(100)], 100) is None


def test_a_boot_that_goes_quiet_on_its_way_is_given_up():
    seconds, why = given_up([(0.1, 0), (1, 200), (2, 400)], 60) or (0.0, "")
    assert why == "then nothing for 8 s"
    assert seconds == pytest.approx(2 + SILENCE_S, abs=0.2)


def test_a_host_that_pauses_may_pause_for_longer():
    pausing = [(0.0, 0), (6.0, 100), (12.0, 200)]
    assert given_up([*pausing, (32.0, 300)], 50) is None
    seconds, why = given_up(pausing, 60) or (0.0, "")
    assert (why, round(seconds)) == ("then nothing for 24 s", 36)


def test_a_qemu_that_starts_slowly_is_on_a_slow_host():
    assert given_up([(5.0, 0), (20.0, 100)], 30) is None


def test_a_qemu_that_reads_its_libraries_is_no_silent_guest():
    assert given_up([(SILENCE_S + 5, 0), (SILENCE_S + 20, 100)], 30) is None


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


def test_a_console_that_moves_for_ever_is_given_up_in_the_end():
    seconds, why = given_up([(k, k * 30) for k in range(1000)], 1000) or (0.0, "")
    assert why == f"was not through after {MOST_S:.0f} s"
    assert seconds == pytest.approx(MOST_S, abs=0.2)


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
