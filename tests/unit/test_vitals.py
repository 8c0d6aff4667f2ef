# SPDX-License-Identifier: MIT
"""Whether a guest can still come to anything: registers as QEMU prints them, and looks in a row."""

from __future__ import annotations

import pytest

from harness.machine.vitals import (
    DEAF_S,
    HALTED,
    LOOK_CLOSELY_S,
    LOOKS_AT_HALTED,
    Cpu,
    Vitals,
    guest_seconds,
    read_cpus,
)

I386 = """
CPU#0
EAX=00000000 EBX=c1a80000 ECX=00000001 EDX=00000000
ESI=c1a7c000 EDI=00000000 EBP=c1a7df5c ESP=c1a7df54
EIP=c15d8e66 EFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1
ES =007b 00000000 ffffffff 00cff300 DPL=3 DS   [-WA]
"""
X86_64 = """
CPU#0
RAX=0000000000000000 RBX=ffffffff82214940 RCX=0000000000000001 RDX=0000000000000000
RIP=ffffffff81a1b4bf RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=0

CPU#1
RAX=0000000000000000 RBX=ffffffff82214940 RCX=0000000000000001 RDX=0000000000000000
RIP=ffffffff81a1b4bf RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1
"""
IDLE, POWERED_OFF = Cpu(halted=True, interrupts=True), Cpu(halted=True, interrupts=False)
BUSY, DEAF = Cpu(halted=False, interrupts=True), Cpu(halted=False, interrupts=False)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (I386, [IDLE]),
        (X86_64, [DEAF, IDLE]),
        ("", []),
        ("CPU#0\nEAX=0", []),
        ("unknown command: 'info registers'", []),
        (I386[:120], []),
    ],
)
def test_registers_are_read(text, cpus):
    assert read_cpus(text) == cpus


def looked(
    *cpus: Cpu, period: float = 1.0, seconds: float = 3600.0, virtual: bool = True, share: float = 1.0
) -> tuple[float, str]:
    """When something was said of a guest that always looks like that, and what; `share` of a CPU is QEMU's."""
    vitals, now = Vitals(virtual=virtual), 0.0
    while now < seconds:
        if said := vitals.look(cpus, now, share * now):
            return now, said
        now = max(vitals.next, now + period)
    return now, ""


def test_a_guest_that_works_or_waits_is_fine():
    for cpus in ((IDLE,), (BUSY,), (DEAF, IDLE), (POWERED_OFF, BUSY), ()):
        assert looked(*cpus, seconds=10 * DEAF_S)[1] == ""


def test_a_powered_off_one_is_found_at_the_third_look():
    assert looked(POWERED_OFF) == (LOOKS_AT_HALTED - 1, HALTED)
    assert looked(POWERED_OFF, POWERED_OFF, virtual=False)[0] == 5.0 * (LOOKS_AT_HALTED - 1)
    assert Vitals.silent([POWERED_OFF])
    assert not any(map(Vitals.silent, ([], [POWERED_OFF, IDLE], [DEAF])))


def test_one_that_hears_nothing_is_found_after_two_minutes():
    when, said = looked(DEAF, POWERED_OFF, period=0)
    assert 2 * DEAF_S < when <= 2 * DEAF_S + 2
    assert said == "hung: its interrupts were off for 120 s"


def test_one_that_hardly_runs_is_given_its_time():
    assert looked(DEAF, share=0.1, seconds=15 * DEAF_S)[1] == ""
    assert looked(DEAF, share=0.1)[0] >= 20 * DEAF_S


def test_one_look_with_interrupts_on_begins_it_anew():
    vitals, now = Vitals(virtual=True), 0.0
    for turn in range(4000):
        assert vitals.look([BUSY if turn % 400 == 399 else DEAF], now, now) == ""
        now = vitals.next
    assert vitals.next - now < 1.1
    vitals.look([DEAF], now, now)
    vitals.look([DEAF], now + DEAF_S + 1, now + DEAF_S + 1)
    assert vitals.next == now + DEAF_S + 1 + LOOK_CLOSELY_S


def test_the_guests_own_time():
    date = {"tm_year": 124, "tm_mon": 0, "tm_mday": 1, "tm_hour": 0, "tm_min": 0, "tm_sec": 7, "tm_wday": 1}
    assert guest_seconds(date) == 1704067207.0
