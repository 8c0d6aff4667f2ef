# SPDX-License-Identifier: MIT
"""A guest under KVM is restored from its saved boot, sooner than it boots, and its clock goes on as if nothing was."""

from __future__ import annotations

import pytest

from harness.trial.execution import run_trial
from tests.mailbox_guests import mailbox_trial

pytestmark = pytest.mark.timeout(1800)

#: Its clock's source, 30 looks at the clock from each CPU in turn, and what the kernel says of its clocks.
LOOK = """
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
cut -d' ' -f1 /proc/uptime
for look in $(seq 30); do
    for cpu in $(seq 0 $(($(nproc) - 1))); do taskset -c $cpu cut -d' ' -f1 /proc/uptime; done
done
dmesg | grep -iE 'clock.*(backwards|skew)|soft lockup|rcu.*stall' >&2
true
"""

#: Of `classic` as under TCG; the other has none that is a device, where each look would be an exit.
CLOCKS = {"classic": "pit", "modern-6.1": "kvm-clock"}


@pytest.mark.parametrize(
    ("kernel", "session", "cpus"), [("classic", "mailbox", 1), ("modern-6.1", "mailbox", 2), ("modern-6.1", "ssh", 2)]
)
def test_it_is_restored_and_its_clock_goes_on(tmp_path, kernel, session, cpus):
    trial = mailbox_trial(tmp_path, LOOK, "kvm", restored=True, kernel=kernel, session=session, cpus=cpus)
    assert trial.state is not None
    booted = run_trial(trial.model_copy(update={"state": None, "folder": tmp_path / "booted"}))
    began = []
    for name in ("first", "second"):
        again = trial.model_copy(update={"folder": tmp_path / name})
        record = run_trial(again)
        assert (record.status, record.reason, record.fidelity) == ("ok", None, "kvm")
        assert record.seconds["ready"] < booted.seconds["ready"]
        clock, *times = (again.folder / "look/stdout").read_text().split()
        assert clock == CLOCKS[kernel]
        looks = [float(word) for word in times]
        assert len(looks) == 1 + 30 * cpus
        assert looks == sorted(looks), "no CPU's clock is behind another's"
        if kernel != "classic":  # whose watchdog holds the TSC against ticks, of which a slow host loses some
            assert (again.folder / "look/stderr").read_text() == "", "the kernel has nothing to say of it"
        began.append(looks[0])
    login = 30.0 if session == "ssh" else 5.0  # how long one may take longer than the other, on an emulated host
    assert abs(began[0] - began[1]) < login, "both go on from one moment, however much later they were restored"
