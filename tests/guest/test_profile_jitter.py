# SPDX-License-Identifier: MIT
"""The jittered tick in a guest: its switch, and one sample in each period in place of the tick's."""

from __future__ import annotations

import pytest

from harness.experiment.prepare import build_for
from harness.paths import EXPERIMENTS

pytestmark = pytest.mark.timeout(1800)
SWITCH = "/proc/sys/kernel/profile_jitter"
#: The sum of all counters, at profile=12 so that a shell can add them up; and the seconds since boot.
TOTAL = (
    "hexdump -v -s 4 -e '1/4 \"%u\\n\"' /proc/profile | awk '{ n += $1 } END { print n }'; cut -d' ' -f1 /proc/uptime"
)


@pytest.fixture(scope="module")
def peers(store):
    return build_for(store, "classic-peers", EXPERIMENTS / "irq-hotspot")


def test_one_sample_in_each_period_on_and_off(peers, ssh_guest):
    _, session = ssh_guest(peers, "profile=12")
    rates = []
    for value in (1, 0):
        status, out, err = session.command(f"echo {value} >{SWITCH}; cat {SWITCH}; {TOTAL}; sleep 3; {TOTAL}")
        assert (status, err) == (0, "")
        state, before, begin, after, end = out.split()
        assert state == str(value)
        rates.append((int(after) - int(before)) / (float(end) - float(begin)))
    # An idle machine is hardly ever in user mode, where neither takes a sample.
    assert rates == pytest.approx([100, 100], rel=0.1)


@pytest.mark.parametrize(
    ("words", "value", "says"),
    [
        (("profile=12",), 2, "Invalid argument"),
        ((), 1, "No such device"),
        (("profile=schedule",), 1, "busy"),
        (("profile=12", "highres=off"), 1, "not supported"),
    ],
)
def test_a_value_that_cannot_be_is_refused(peers, ssh_guest, words, value, says):
    _, session = ssh_guest(peers, *words)
    status, out, err = session.command(f"echo {value} >{SWITCH} || echo refused; cat {SWITCH}")
    assert (status, out.split()) == (0, ["refused", "0"])
    assert says in err
