# SPDX-License-Identifier: MIT
"""One line for a whole command: what it does, the share that is done, the time that is left."""

from __future__ import annotations

import io

import pytest

from harness import progress
from harness.progress import PLAIN_INTERVAL_S, Whole, harmless_console, note, step, whole


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("harness.progress.time", made)
    return made


def line(made: Whole) -> str:
    console = harmless_console(file=io.StringIO(), width=80)
    console.print(made)
    return console.file.getvalue().rstrip("\n")


def test_the_time_left_is_that_of_all_stages(clock):
    with whole() as made:
        assert (made.left, made.share) == (None, 0.0)
        made.expect([10.0, 20.0, 70.0])
        assert (made.left, made.share) == (100.0, 0.0)
        clock.now += 4
        assert (made.left, made.share) == (96.0, 0.04)
        clock.now += 16
        assert made.left == 90.0, "a stage that is late takes no time of those to come"
        made.next_stage()
        clock.now += 5
        assert made.left == 85.0


def test_the_pace_of_the_step_that_leads_is_better_than_what_was_expected(clock):
    with whole() as made:
        made.expect([10.0, 70.0])
        with step("fetching", 1000) as other, step("trials", 100, leads=True) as trials:
            clock.now += 5
            other.advance(999)
            trials.advance(4)
            assert made.left == 5.0 + 70.0, "too little is done to tell"
            trials.advance(6)
            assert made.left == 45.0 + 70.0
        assert made.left == 5.0 + 70.0


def test_the_share_does_not_shrink(clock):
    with whole() as made:
        made.expect([10.0])
        clock.now += 5
        assert made.share == 0.5
        made.expect([100.0])
        assert made.share == 0.5


def test_it_is_one_line_that_steers_no_terminal(clock):
    with whole() as made:
        made.expect([100.0, 500.0])
        with step("building the kernel \x1b[2J of a very long name, whatever that is for", 7, leads=True) as bar:
            clock.now += 60
            bar.advance(3)
            told = line(made)
            assert "\n" not in told
            assert len(told) <= 80
            assert told.startswith("building the kernel \\x1b[2J of a")
            assert told.endswith(" 9% 9:40 left")
        assert line(made).startswith("preparing")


def test_without_a_terminal_it_is_said_from_time_to_time(clock, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr("harness.progress.console", harmless_console(file=file))
    with whole() as made:
        made.expect([60.0])
        with step("running 4 trials", 4, leads=True) as bar:
            for _ in range(3):
                clock.now += PLAIN_INTERVAL_S * 0.6
                bar.advance()
    assert file.getvalue() == "running 4 trials 2/4: 50% of all, about 18 s left\n"


def test_what_is_noted_once_is_said_the_first_time_alone(monkeypatch):
    monkeypatch.setattr("harness.progress.console", harmless_console(file=io.StringIO(), width=80))
    for text in ("of each build", "of each build"):
        note(text, once=True)
    note("of each build")
    assert progress.console.file.getvalue() == "of each build\n" * 2
