# SPDX-License-Identifier: MIT
"""What can be recorded, what is refused with the reason, and the words that QEMU gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.kernel.spec import Hardware
from harness.machine.spec import BootFiles, MachineSpec, argv

CLASSIC = Hardware(type="pc", cpu="qemu32", memory_mib=256, nic="e1000", disk="ide", smp=False)
MODERN = Hardware(type="q35", cpu="qemu64", memory_mib=512, nic="virtio-net-pci", disk="virtio")
FILES = BootFiles(kernel=Path("bzImage"), initrds=(Path("image.cpio"),))


def spec(hardware: Hardware = CLASSIC, **fields: object) -> MachineSpec:
    given = {"accelerator": "tcg", "clock": "wall", "session": "ssh", "record": "record", **fields}
    return MachineSpec(hardware=hardware, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hardware", "fields", "reason"),
    [
        (CLASSIC, {"clock": "virtual", "session": "mailbox"}, "repeats every bit without a recording"),
        (CLASSIC, {"accelerator": "kvm"}, "needs the tcg accelerator"),
        (MODERN, {"cpus": 2}, "machines of one CPU only"),
        (CLASSIC, {"session": "mailbox"}, "only ssh sessions are recorded"),
        (CLASSIC, {"session": "console"}, "only ssh sessions are recorded"),
        (CLASSIC, {"devices": ("net",)}, "sends faster than a guest takes, and hangs; leave out net"),
    ],
)
def test_what_qemu_cannot_record_is_refused_with_the_reason(hardware, fields, reason):
    with pytest.raises(ValidationError, match=reason):
        spec(hardware, **fields)


def test_a_replay_differs_from_its_recording_in_mode_and_host_network_only():
    def words(record: str) -> list[str]:
        return argv(spec(record=record, devices=("disk",)), FILES, Path("f"), 3)

    recording, replay = words("record"), words("replay")
    assert [word for word in replay if word not in recording] == [
        "shift=3,rr=replay,rrfile=f/rr.log",
        "user,id=net,restrict=on",
    ]
    assert [word.split(",")[0] for word in recording if word not in replay] == ["shift=3", "user"]
    assert all("hostfwd" not in word and "guestfwd" not in word for word in words("replay"))
    assert "driver=blkreplay,if=none,image=image,id=disk" in words("record")


def test_virtio_net_sends_by_timer_in_recordings_only():
    assert "virtio-net-pci,netdev=net,tx=timer" in argv(spec(MODERN), FILES, Path("f"), 3)
    assert "virtio-net-pci,netdev=net" in argv(spec(MODERN, record="off"), FILES, Path("f"), 3)


def test_a_recorded_machine_boots_and_is_never_restored():
    assert not spec().restorable
    assert spec(record="off").restorable
    assert spec().fidelity == "virtual"
