# SPDX-License-Identifier: MIT
"""QEMU's command line of every kind of machine, and the machines that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.errors import UsageError
from harness.experiment.model import Arm
from harness.kernel.spec import Hardware
from harness.machine.spec import (
    MAILBOX_BYTES,
    BootFiles,
    MachineSpec,
    Plugin,
    argv,
    initrd,
    kvm_model,
    prepare_folder,
    view,
)
from harness.trial.prepare import machine_for

CLASSIC = Hardware(type="pc", cpu="qemu32", memory_mib=256, nic="e1000", disk="ide", smp=False)
MODERN = Hardware(type="q35", cpu="qemu64", memory_mib=512)
FILES = BootFiles(kernel=Path("/k/bzImage"), initrds=(Path("/k/image.cpio"),), halt=Path("/k/halt.so"))
FOLDER = Path("/scratch")


def spec(**fields: object) -> MachineSpec:
    return MachineSpec.model_validate(
        {"hardware": MODERN, "accelerator": "tcg", "clock": "wall", "session": "ssh", **fields}
    )


def virtual(**fields: object) -> MachineSpec:
    return spec(**{"hardware": CLASSIC, "clock": "virtual", "session": "mailbox", **fields})


def line(machine: MachineSpec, **options: object) -> str:
    return " ".join(argv(machine, FILES, FOLDER, 7, **options))


KINDS = {
    "virtual": virtual(cmdline=("quiet",), devices=("edu", "stream")),
    "wall": spec(devices=("edu", "disk", "net"), cpus=2),
    "mailbox": spec(session="mailbox"),
    "wall-classic": spec(hardware=CLASSIC, session="mailbox"),
    "console": spec(session="console", devices=("edu", "disk", "net")),
    "kvm": spec(accelerator="kvm", cpus=4),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_shut_in_and_listens_on_loopback_only(kind):
    words = argv(KINDS[kind], FILES, FOLDER, 7)
    netdevs = [words[index + 1] for index, word in enumerate(words) if word == "-netdev"]
    assert len(netdevs) == (1 if kind in {"wall", "console", "kvm"} else 0)
    for netdev in netdevs:
        options = netdev.split(",")
        assert options[0] == "user"
        assert "restrict=on" in options
        forwards = [option for option in options if option.startswith("hostfwd=")]
        assert forwards == ["hostfwd=tcp:127.0.0.1:0-:22"], "the kernel chooses the port"
    assert sum("netdev=net" in word for word in words) == len(netdevs)


def test_the_virtual_clock_is_fixed():
    text = line(virtual(icount_shift=5))
    assert "-icount shift=5,sleep=off -rtc base=2024-01-01T00:00:00,clock=vm -seed 1" in text
    assert "host" not in text.replace("hostfwd", "").split("-append")[0]
    assert line(virtual()) == line(virtual())


def test_kvm_passes_the_hosts_cpu_and_pmu():
    assert "-cpu host,pmu=on -smp" in line(KINDS["kvm"])
    assert "-cpu qemu64" in line(KINDS["wall"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_machine_starts_a_program(kind):
    text = " ".join(argv(KINDS[kind], FILES, FOLDER, 7, incoming_fd=9))
    assert "exec:" not in text
    assert "cmd:" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_sees_the_files_that_its_command_line_names(kind):
    machine = KINDS[kind]
    plugin = Plugin(path=Path("/store/oracle.so"), arguments={"places": "/store/places", "modes": "pages"})
    seen = view(machine, FILES, FOLDER, plugin)
    named = [word for word in argv(machine, FILES, FOLDER, 7, plugin=plugin) if word.startswith("/")]
    assert {Path(word) for word in named} <= {*seen.readable}
    assert {Path("/store/oracle.so"), Path("/store/places")} <= {*seen.readable}
    assert seen.folder == FOLDER
    assert seen.kvm == (machine.accelerator == "kvm")


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (FILES, Path("/scra,tch")),
        (BootFiles(kernel=Path("/a,b"), initrds=FILES.initrds), FOLDER),
        (BootFiles(kernel=FILES.kernel, initrds=(Path("/x"), Path("/a,b"))), FOLDER),
        (FILES.model_copy(update={"halt": Path("/a,b")}), FOLDER),
        (FILES.model_copy(update={"stale": Path("/a,b")}), FOLDER),
    ],
)
def test_a_comma_in_a_path_is_refused(files, folder):
    with pytest.raises(UsageError, match=r"^/.*,.*: QEMU takes no comma in a path"):
        argv(spec(), files, folder, 7)


def test_several_cpus_under_tcg_have_the_plugin_that_they_need():
    files = FILES.model_copy(update={"stale": Path("/k/stale.so")})
    several = [spec(hardware=MODERN, cpus=2), spec(hardware=MODERN, cpus=2, accelerator="kvm"), spec(), virtual()]
    assert ["-plugin file=/k/stale.so" in " ".join(argv(one, files, FOLDER, 7)) for one in several] == [
        True,
        False,
        False,
        False,
    ]
    assert "stale" not in line(spec(hardware=MODERN, cpus=2))


def test_a_virtual_clock_without_its_plugin_is_a_mistake():
    assert "-plugin file=/k/halt.so" in line(virtual())
    assert "halt.so" not in line(spec())
    with pytest.raises(ValueError, match="needs BootFiles"):
        argv(virtual(), FILES.model_copy(update={"halt": None}), FOLDER, 7)


IMPOSSIBLE = [
    ({"clock": "virtual", "session": "mailbox", "cpus": 2}, "the virtual clock takes one CPU: QEMU cannot run icount"),
    ({"clock": "virtual", "session": "mailbox", "accelerator": "kvm"}, "the virtual clock needs the tcg accelerator"),
    ({"clock": "virtual", "session": "ssh"}, "the virtual clock has no network card; its session is mailbox"),
    ({"clock": "virtual", "session": "mailbox", "devices": ["disk"]}, "device disk completes at moments that the host"),
    ({"clock": "virtual", "session": "mailbox", "devices": ["net"]}, "device net completes at moments that the host"),
    ({"hardware": CLASSIC, "cpus": 2}, "this kernel drives one CPU only"),
    ({"cpus": 0}, "Input should be greater than or equal to 1"),
    ({"icount_shift": 11}, "Input should be less than or equal to 10"),
    ({"devices": ["usb"]}, "Input should be 'edu', 'disk', 'net', 'counters' or 'stream'"),
    ({"colour": "red"}, "Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("fields", "says"), IMPOSSIBLE)
def test_impossible_machines(fields, says):
    with pytest.raises(ValidationError, match=says):
        spec(**fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"clock": "virtual", "devices": ["net"]}, "arm odd: device net completes"),
        ({"clock": "virtual", "session": "ssh"}, "arm odd: the virtual clock has no network card"),
        ({"cpus": 2}, "arm odd: this kernel drives one CPU only"),
    ],
)
def test_an_impossible_arm_is_named(fields, says):
    from harness.kernel.load import load_kernel

    with pytest.raises(UsageError, match=f"^{says}"):
        machine_for("odd", Arm.model_validate({"kernel": "classic", **fields}), load_kernel("classic"), "tcg")


def test_a_job_fills_the_mailbox_and_no_more(tmp_path):
    job = "x" * (MAILBOX_BYTES - 1) + "\n"
    prepare_folder(virtual(), tmp_path, job)
    assert (tmp_path / "job").read_text() == job
    prepare_folder(virtual(), tmp_path, "true\n")
    assert (tmp_path / "job").read_bytes() == b"true\n".ljust(MAILBOX_BYTES, b"\n"), "its size never changes"
    with pytest.raises(UsageError, match=f"commands take {MAILBOX_BYTES + 1} bytes; the mailbox holds {MAILBOX_BYTES}"):
        prepare_folder(virtual(), tmp_path, "ä" * (MAILBOX_BYTES // 2) + "\n")


def test_a_machine_gets_the_files_that_it_opens(tmp_path):
    prepare_folder(spec(devices=("disk",)), tmp_path / "new", None)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["disk.raw"]


def test_archives_of_an_initramfs_are_joined_aligned(tmp_path):
    parts = []
    for name, data in (("a", b"12345"), ("b", b"1234"), ("c", b"1")):
        (tmp_path / name).write_bytes(data)
        parts.append(tmp_path / name)
    assert initrd(BootFiles(kernel=FILES.kernel, initrds=(parts[0],)), tmp_path) == parts[0]
    joined = initrd(BootFiles(kernel=FILES.kernel, initrds=tuple(parts)), tmp_path)
    assert joined.read_bytes() == b"12345\0\0\0" + b"1234" + b"1\0\0\0"


@pytest.mark.parametrize(
    ("cpu", "under_kvm"), [("qemu64", "host,pmu=on"), ("qemu64,-hypervisor,+la57", "host,pmu=on,-hypervisor,+la57")]
)
def test_a_kernels_cpu_features_are_those_of_its_guests_under_kvm_too(cpu, under_kvm):
    assert kvm_model(cpu) == under_kvm
