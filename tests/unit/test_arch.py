# SPDX-License-Identifier: MIT
"""The tables of architectures and machines: what arm64 has of its own, and that x86 has what it always had."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from harness.image.build import init_of
from harness.image.programs import include_folders, library_folders, overlay_of, program_sources, with_overlay
from harness.kernel.arch import ARCHES
from harness.kernel.load import kernel_names, load_kernel
from harness.kernel.spec import Hardware
from harness.machine import accelerator
from harness.machine.board import board_of
from harness.machine.spec import BootFiles, MachineSpec, argv
from harness.measure.symbols import parse_system_map
from harness.oracle.places import describe_places
from harness.packages.lock import load
from harness.paths import EXPERIMENTS, IMAGES
from harness.run.prepared import SOURCES
from harness.trial.execution import with_pmu
from tests.compiling import run

GUEST = IMAGES / "guest"
HARDWARE = Hardware(type="virt,gic-version=3", cpu="max,pmu=on")
FILES = BootFiles(kernel=Path("/k/bzImage"), initrds=(Path("/k/image.cpio"),), halt=Path("/k/halt.so"))


def test_every_kernel_has_a_machine_of_its_architecture():
    for name in kernel_names():
        spec = load_kernel(name).spec
        board = board_of(spec.hardware.type)
        assert ARCHES[spec.arch].cross == board.cross, name
        assert not board.cross or board.cross in load().cross


def test_the_overlay_stands_in_for_what_all_guests_have():
    overlay = overlay_of("arm64")
    assert overlay is not None
    sources = with_overlay([GUEST], overlay)
    assert sources["krepro-stop"] == overlay / "krepro-stop.c"
    assert sources["krepro-pmu"] == GUEST / "krepro-pmu.c"
    assert sources.keys() - program_sources([GUEST]).keys() == {"krepro-end"}
    libraries = [overlay / "lib", GUEST / "lib"]
    assert library_folders(GUEST / "krepro-roi.c", "arm64") == libraries
    assert include_folders(GUEST / "krepro-roi.c", "arm64") == [GUEST, *libraries]
    shim = EXPERIMENTS / "shim/guest"
    assert library_folders(shim / "shimtruth.c", "arm64") == [shim / "lib", *libraries]


def test_every_word_of_init_that_is_another_on_arm64_is_there():
    text = (IMAGES / "init").read_text()
    for word, other in ARCHES["arm64"].init:
        assert word in text
        assert other in init_of("arm64")
        assert word not in init_of("arm64")


def virt(**fields: object) -> str:
    asked = {"hardware": HARDWARE, "accelerator": "tcg", "clock": "virtual", "session": "mailbox", **fields}
    return " ".join(argv(MachineSpec.model_validate(asked), FILES, Path("/scratch"), 7))


def test_the_machine_virt():
    text = virt()
    assert text.startswith("qemu-system-aarch64 -nodefaults ")
    assert "-machine virt,gic-version=3 -accel tcg -cpu max,pmu=on " in text
    assert "-chardev file,id=heartbeat,path=/scratch/heartbeat -device pci-serial,chardev=heartbeat" in text
    assert "-device pvpanic-pci -device i6300esb" in text
    assert "-semihosting-config enable=on,target=native,userspace=on" in text
    assert "-icount shift=3,sleep=off" in text
    for of_a_pc in ("isa-debug-exit", "ib700"):
        assert of_a_pc not in text


def test_kvm_runs_guests_of_its_own_architecture_alone(monkeypatch):
    monkeypatch.setattr(accelerator.platform, "machine", lambda: "x86_64")
    assert accelerator.foreign_to_host("arm64") == "this host is x86_64, its guests are arm64"
    assert accelerator.foreign_to_host("i386") is accelerator.foreign_to_host("x86_64") is None
    monkeypatch.setattr(accelerator.platform, "machine", lambda: "aarch64")
    assert accelerator.foreign_to_host("arm64") is None
    assert accelerator.foreign_to_host("x86_64") == "this host is aarch64, its guests are x86_64"


@pytest.mark.parametrize(
    ("kind", "pmu", "told"),
    [
        ("virtual", "ok: 20000048 of 20000000 instructions", "virtual+pmu"),
        ("virtual", "absent: perf_event_open: No such file or directory", "virtual"),
        ("kvm", "ok: 1 of 1 instructions", "kvm+pmu"),
        ("kvm", "", "kvm"),
        ("emulated", "ok: 1 of 1 instructions", "emulated"),
    ],
)
def test_a_pmu_is_told_where_it_counted_known_work(kind, pmu, told):
    assert with_pmu(kind, pmu) == told


# -- the oracle -------------------------------------------------------------------------------------------


def test_places_of_an_arm64_kernel():
    low = 0xFFFF800008010000
    names = {
        "_stext": low,
        "el0t_64_sync": low + 0x100,
        "el1h_64_irq": low + 0x200,
        "el0_da": low + 0x300,
        "__entry_text_start": low + 0x400,
        "__entry_text_end": low + 0x500,
        "__do_softirq": low + 0x600,
        "finish_task_switch.isra.0": low + 0x700,
        "calculate_sigpending": low + 0x800,
        "begin_new_exec": low + 0x900,
        "setup_new_exec": low + 0xA00,
        "do_group_exit": low + 0xB00,
        "exit_mmap": low + 0xC00,
        "_etext": low + 0xD00,
    }
    symbols = parse_system_map("".join(f"{address:016x} T {name}\n" for name, address in names.items()))
    lines = describe_places(symbols, "CONFIG_ARM64=y\n").splitlines()
    assert {
        f"text {low + 0xD00:x} ffff000000000000",
        f"entry 0 {low + 0x100:x} {low + 0x101:x} 1",
        f"entry 1 {low + 0x200:x} {low + 0x201:x} 1",
        f"entry 3 {low + 0x300:x} {low + 0x301:x} 1",
        f"switch {low + 0x700:x}",
        f"fork {low + 0x800:x}",
        "cr3 fffffffffffe",
    } <= set(lines)


@pytest.fixture(scope="module")
def isa(tmp_path_factory) -> ctypes.CDLL:
    """isa_arm64.c alone, with registers and places that say nothing."""
    folder = tmp_path_factory.mktemp("isa")
    (folder / "stub.c").write_text(
        "#include <stdint.h>\n"
        "char places[1 << 24];\n"
        "uint64_t read_register_of(unsigned int cpu, int number) { return cpu + (unsigned int)number; }\n"
        "uint64_t read_register(int number) { return (uint64_t)number << 32; }\n"
    )
    include = SOURCES.parents[1] / "machine/include"
    flags = ["-DGUEST_ARM64", "-DQEMU_PLUGIN_VERSION=1", f"-I{include}", "-shared", "-fPIC", "-O1"]
    run("gcc", *flags, "-o", folder / "isa.so", SOURCES / "isa_arm64.c", folder / "stub.c")
    return ctypes.CDLL(str(folder / "isa.so"))


def code(word: int) -> bytes:
    return word.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("word", "mark"),
    [
        (0x92ED601F, 0),  # movn xzr, #0x6b00, lsl #48: begin of the workload
        (0x92ED603F, 1),
        (0x92ED621F, 0x100),
        (0x92ED643F, 0x201),
        (0x92ED401F, -1),  # another number
        (0x92ED6000, -1),  # into x0
        (0x92CD601F, -1),  # lsl #32
        (0xD503201F, -1),  # nop
    ],
)
def test_marks_of_arm64(isa, word, mark):
    assert isa.isa_mark(code(word), 4) == mark


@pytest.mark.parametrize(
    ("word", "safe"),
    [
        (0xF1000442, True),  # subs x2, x2, #1
        (0x91000021, True),  # add x1, x1, #0
        (0xAA0303E2, True),  # mov x2, x3
        (0x9AC10800, True),  # udiv x0, x0, x1: by 0 it gives 0
        (0x54FFFFE1, False),  # b.ne
        (0xF9400BF3, False),  # ldr x19, [sp, #16]
        (0xD4000001, False),  # svc #0
        (0xD5182000, False),  # msr ttbr0_el1, x0
        (0xD65F03C0, False),  # ret
        (0x1E602820, False),  # fadd d0, d1, d0: the unit may be off
    ],
)
def test_what_cannot_fail_on_arm64(isa, word, safe):
    isa.isa_cannot_fail.restype = ctypes.c_bool
    assert isa.isa_cannot_fail(code(word), 4) is safe


@pytest.mark.parametrize(
    ("word", "leaves"),
    [
        (0xD65F03C0, True),  # ret
        (0x14000002, False),  # b .+8, inside
        (0x14000100, True),  # b .+0x400, outside
        (0x17FFFFFF, True),  # b .-4, before its begin
        (0x94000100, False),  # bl
    ],
)
def test_what_leaves_a_function_on_arm64(isa, word, leaves):
    class Range(ctypes.Structure):
        _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))

    isa.isa_leaves_function.restype = ctypes.c_bool
    isa.isa_leaves_function.argtypes = (Range, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t)
    assert isa.isa_leaves_function(Range(0x1000, 0x1100), 0x1000, code(word), 4) is leaves


def test_an_address_space_is_taken_from_what_was_written_to_its_register(isa):
    class Instruction(ctypes.Structure):
        _fields_ = (
            ("insn", ctypes.c_void_p),
            ("address", ctypes.c_uint64),
            ("code", ctypes.c_char_p),
            ("size", ctypes.c_size_t),
            ("first", ctypes.c_bool),
        )

    def may_change(address: int, word: int, *, first: bool) -> int | None:
        data = ctypes.c_size_t()
        isa.isa_may_change_address_space.restype = ctypes.c_bool
        told = Instruction(None, address, code(word), 4, first)
        return data.value if isa.isa_may_change_address_space(ctypes.byref(told), ctypes.byref(data)) else None

    isb, msr_from_x5 = 0xD5033FDF, 0xD5182005
    assert may_change(0x1004, isb, first=True) is None
    assert may_change(0x1000, msr_from_x5, first=False) is None, "not yet: the register is true one instruction later"
    assert may_change(0x1004, isb, first=False) is None
    assert may_change(0x1004, isb, first=True) == 5
    assert may_change(0x1008, isb, first=True) is None
