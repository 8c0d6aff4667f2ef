# SPDX-License-Identifier: MIT
"""The repaired fix in a guest: each handler's time, from entry to exit, and its switch."""

from __future__ import annotations

import pytest

from tests.guest.test_profile_jitter import said

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]  # of a kernel that nothing else needs by default
SWITCH, FILE = "/proc/sys/kernel/irq_handler_time", "/proc/irq_handler_time"
EDU = "cd /sys/bus/pci/drivers/krepro-edu/*:*"
#: Calls and nanoseconds of the edu handler.
LINE = f"awk '$4 == \"krepro_edu_irq\" {{ print $2, $3 }}' {FILE}"


def test_calls_and_time_of_a_handler_are_those_that_are_known(tmp_path):
    raises, loops = 50, 10_000
    text = said(
        tmp_path,
        f"{EDU}; echo {loops} >handler_loops; wc -c <{FILE}; echo {raises} >raise; wc -c <{FILE}; "
        f"echo 1 >{SWITCH}; echo {raises} >raise; {LINE}; echo 0 >handler_loops; echo {raises} >raise; {LINE}; "
        f"echo 0 >{SWITCH}; echo {raises} >raise; {LINE}",
        {},
    )
    before, off, first, second, third = text.splitlines()
    assert before == off == "0", "nothing is measured while it is off"
    (calls, busy), (more, light), (last, same) = (
        (int(word) for word in line.split()) for line in (first, second, third)
    )
    assert (calls, more, last) == (raises, 2 * raises, 2 * raises)
    known = raises * 2 * loops * 8  # an instruction takes 8 ns
    assert known < busy < 1.02 * known
    assert light - busy < 0.02 * known, "a handler that does next to nothing takes next to no time"
    assert same == light, "nothing is measured after it was switched off"


def test_a_value_that_is_none_is_refused(tmp_path):
    assert "Invalid argument" in said(tmp_path, f"(echo 2 >{SWITCH} || cat {SWITCH}) 2>&1", {})
