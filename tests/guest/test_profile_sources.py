# SPDX-License-Identifier: MIT
"""Who counts in /proc/profile: one source at a time beside the tick; and NMIs that nobody sent for a sample."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.guest.ssh import SshSession
from harness.machine.machine import Machine
from tests.processes import PATIENCE_S, eventually

pytestmark = pytest.mark.timeout(1800)
HOTSPOT, NMI, STATS = (f"/proc/sys/kernel/{name}" for name in ("irq_hotspot", "nmi_profile", "nmi_profile_stats"))
UNKNOWN = "NMI received for unknown reason"
SAMPLES = "NMIs of unknown reason are samples now, and not reported"
CPUS = 2
#: Every CPU takes an NMI that comes from outside, not the first alone.
BOOT = ("profile=12", "apic_extnmi=all")


def say(session: SshSession, text: str) -> str:
    """What shell text prints in a guest, which must succeed."""
    status, out, err = session.command(text)
    assert status == 0, err
    return out


def until(holds: Callable[[], bool]) -> None:
    """An NMI is taken when QEMU gets to it."""
    assert eventually(holds), "no NMI was taken"


def reports(session: SshSession) -> int:
    return int(say(session, f"dmesg | grep -c '{UNKNOWN}' || true"))


def taken(session: SshSession) -> int:
    """NMIs that the kernel took for samples: in the kernel, in user mode, on CPUs that are not profiled."""
    kernel, _, user, masked = map(int, say(session, f"cat {STATS}").split())
    return kernel + user + masked


def send(machine: Machine) -> None:
    """What `nmi` of QEMU's monitor does."""
    machine.qmp.command("inject-nmi")


def test_a_boot_with_both_sources_has_the_first_and_its_log_says_why(modern, ssh_guest):
    both = "sysctl.kernel.irq_hotspot=2", "sysctl.kernel.nmi_profile=1"
    _, session = ssh_guest(modern, "profile=12", *both, cpus=CPUS)
    assert say(session, f"cat {HOTSPOT} {NMI}").split() == ["2", "0"]
    log = say(session, "dmesg")
    assert "profile: nmi_profile stays off: irq_hotspot is on, and both would count in one buffer" in log
    assert "Error -EBUSY writing to proc file to set sysctl parameter 'kernel.nmi_profile=1'" in log
    # The setting of the one that has the buffer may change, and the buffer goes to the other when it is off.
    tries = f"echo 1 >{HOTSPOT} && ! echo 1 >{NMI} && echo 0 >{HOTSPOT} && echo 1 >{NMI} && ! echo 1 >{HOTSPOT}"
    assert say(session, f"({tries}) 2>/dev/null && cat {HOTSPOT} {NMI}").split() == ["0", "1"]
    assert "profile: irq_hotspot stays off: nmi_profile is on" in say(session, "dmesg")
    assert say(session, f"echo 0 >{NMI}; echo 2 >{HOTSPOT}; cat {HOTSPOT} {NMI}").split() == ["2", "0"]


@pytest.mark.deep
def test_an_nmi_that_nobody_sent_for_a_sample_is_reported_or_counted_and_said(modern, ssh_guest):
    machine, session = ssh_guest(modern, *BOOT, cpus=CPUS)
    send(machine)
    until(lambda: reports(session) == CPUS)
    assert (taken(session), SAMPLES in say(session, "dmesg")) == (0, False)

    say(session, f"echo 1 >{NMI}")
    assert SAMPLES in say(session, "dmesg")
    send(machine)
    until(lambda: taken(session) == CPUS)
    assert reports(session) == CPUS

    say(session, f"echo 0 >{NMI}")
    send(machine)
    until(lambda: reports(session) == 2 * CPUS)
    assert taken(session) == CPUS


@pytest.mark.deep
def test_an_nmi_that_is_to_be_fatal_is_so_while_nmis_are_samples(modern, ssh_guest):
    machine, session = ssh_guest(modern, *BOOT, cpus=CPUS)
    say(session, f"echo 1 >{NMI} && echo 1 >/proc/sys/kernel/panic_on_unrecovered_nmi")
    send(machine)
    outcome = machine.wait(None, PATIENCE_S, "panic")
    # It says so before its console can: what an NMI prints comes later.
    assert "panicked" in machine.ending(outcome)


@pytest.mark.deep
def test_nobody_can_take_a_cpu_out_of_the_profile(modern, ssh_guest):
    _, session = ssh_guest(modern, "profile=12", cpus=CPUS)
    assert "smp_affinity" in say(session, "ls /proc/irq /proc/irq/*")
    assert "prof_cpu_mask" not in say(session, "ls /proc/irq")
