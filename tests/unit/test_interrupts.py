# SPDX-License-Identifier: MIT
"""/proc/interrupts of the 8259 machine and of SMP machines, and differences of snapshots."""

from __future__ import annotations

import numpy as np
import pytest

from harness.errors import KreproError
from harness.measure.interrupts import delta, parse_interrupts, read_interrupts

XT_PIC = """\
           CPU0
  0:        123    XT-PIC      timer
  2:          0    XT-PIC      cascade
 10:      10000    XT-PIC      krepro-edu, eth0
 14:      16384    XT-PIC      ata_piix
 15:          0    XT-PIC      ata_piix
NMI:          0   Non-maskable interrupts
RTR:          0   APIC ICR read retries
ERR:          0
MIS:          0
"""

APIC = """\
            CPU0       CPU1       CPU2
   0:         40          0          0   IO-APIC   2-edge      timer
   9:          0          1          2   IO-APIC   9-fasteoi   acpi
  24:          7 4294967295          0   PCI-MSI 65536-edge      virtio0-config
  25:          0          5         11   PCI-MSI-0000:00:03.0   1-edge      virtio0-input.0, odd name
 NMI:          1          2          3   Non-maskable interrupts
 LOC:       1000       2000       3000   Local timer interrupts
 ERR:          4
 MIS:          0
"""


def test_xt_pic():
    table = parse_interrupts(XT_PIC)
    assert table.cpus == ("CPU0",)
    assert table.irq[:5] == ("0", "2", "10", "14", "15")
    assert set(table.chip[:5]) == {"XT-PIC"}
    assert table.actions[2] == ("krepro-edu", "eth0")
    assert table.rows_of("ata_piix").tolist() == [3, 4]
    assert table.rows_of("krepro").size == 0
    assert table.count_of("10") == 10000
    assert table.label[5] == "Non-maskable interrupts"


def test_apic_several_cpus():
    table = parse_interrupts(APIC)
    assert table.count.shape == (8, 3)
    assert table.hwirq[:4] == ("2", "9", "65536", "1")
    assert table.chip[:4] == ("IO-APIC", "IO-APIC", "PCI-MSI", "PCI-MSI-0000:00:03.0")
    assert table.actions[:4] == (("timer",), ("acpi",), ("virtio0-config",), ("virtio0-input.0", "odd name"))
    assert table.count[2].tolist() == [7, 4294967295, 0]
    assert table.count_of("LOC") == 6000
    assert table.count_of("ERR") == 4  # one figure for the whole system
    assert table.count_of("999") == 0


@pytest.mark.parametrize(
    ("row", "chip", "hwirq", "actions"),
    [
        ("  0:  5    XT-PIC-XT-PIC    timer", "XT-PIC-XT-PIC", "", ("timer",)),
        ("  4:  5    XT-PIC   4-edge      ttyS0", "XT-PIC", "4", ("ttyS0",)),
        ("  4:  5    XT-PIC   4 Edge      ttyS0", "XT-PIC", "4", ("ttyS0",)),
        (" 10:  5    XT-PIC", "XT-PIC", "", ()),
        (" 10:  5    XT-PIC  10 ", "XT-PIC", "10", ()),
        (" 10:  5      None", "None", "", ()),
        (" 10:  5    XT-PIC     uhci_hcd:usb1, 8139cp", "XT-PIC", "", ("uhci_hcd:usb1", "8139cp")),
    ],
)
def test_row_shapes(row, chip, hwirq, actions):
    table = parse_interrupts(f"      CPU0\n{row}\n")
    assert (table.chip[0], table.hwirq[0], table.actions[0]) == (chip, hwirq, actions)
    assert table.count.tolist() == [[5]]


def test_delta_matches_rows_by_name_and_wraps():
    after = APIC.replace("4294967295", "         1").replace("1000       2000", "1010       2000")
    after = after.replace(" NMI:", "  30:          1          0          0   PCI-MSI 1-edge      late\n NMI:")
    change = delta(parse_interrupts(APIC), parse_interrupts(after))
    assert change.irq[4] == "30"
    assert change.count_of("30") == 1
    assert change.count_of("24") == 2  # 2**32 - 1 to 1
    assert change.count_of("LOC") == 10
    assert change.count_of("9") == 0
    assert change.count.dtype == np.int64


def test_delta_refuses_other_cpus_and_vanished_rows():
    with pytest.raises(KreproError, match="CPUs changed"):
        delta(parse_interrupts(XT_PIC), parse_interrupts(APIC))
    shorter = "\n".join(line for line in XT_PIC.splitlines() if not line.startswith(" 14:"))
    with pytest.raises(KreproError, match=r"vanished.*14"):
        delta(parse_interrupts(XT_PIC), parse_interrupts(shorter))


def test_delta_refuses_a_first_snapshot_that_is_cut_short():
    short = "\n".join(line for line in XT_PIC.splitlines() if line.split(":")[0].strip().isdigit() or "CPU0" in line)
    with pytest.raises(KreproError, match=r"cut short.*ERR"):
        delta(parse_interrupts(short), parse_interrupts(XT_PIC))


def test_frame_is_long():
    frame = parse_interrupts(APIC).frame()
    assert len(frame) == 8 * 3
    row = frame[(frame["irq"] == "25") & (frame["cpu"] == "CPU2")].iloc[0]
    assert (row["count"], row["actions"]) == (11, "virtio0-input.0, odd name")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("", "empty"),
        ("  0: 5 XT-PIC timer\n", "row of CPUs"),
        ("  CPU0 CPU1\n  0: 5 XT-PIC timer\n", "not a row"),
        ("  CPU0\ngarbage\n", "not a row"),
        ("  CPU0\n  0: 5 XT-PIC timer\n  0: 6 XT-PIC timer\n", "twice"),
    ],
)
def test_bad_tables(text, says, tmp_path):
    path = tmp_path / "interrupts.before"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KreproError, match=says) as caught:
        read_interrupts(path)
    assert str(path) in str(caught.value)


def test_header_only():
    table = parse_interrupts("   CPU0\n")
    assert table.count.shape == (0, 1)
    assert not delta(table, table).irq


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000])
def test_a_count_of_more_than_64_bits_is_an_error(number):
    with pytest.raises(KreproError, match="not a row of an interrupt table"):
        parse_interrupts(f"CPU0\n 0: {number} x\n")
