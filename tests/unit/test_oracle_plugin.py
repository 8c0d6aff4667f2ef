# SPDX-License-Identifier: MIT
"""The plugin: what it takes for a jump, and for which QEMU it is compiled."""

from __future__ import annotations

import ctypes
import os

import pytest

from harness.errors import UsageError
from harness.machine import halt, stale
from harness.machine.plugin import API_SINCE, CFLAGS, INCLUDE, build_plugin, plugin_api
from harness.run.prepared import SOURCES
from tests.compiling import run


@pytest.mark.parametrize(
    ("define", "code", "size", "target"),
    [
        ([], "75 fe", 2, 0),  # jne to itself
        ([], "75 f0", 2, -14),
        ([], "3e 75 f0", 3, -13),  # with a hint
        ([], "eb 10", 2, 18),
        ([], "e2 fe", 2, 0),  # loop
        ([], "0f 85 f0 ff ff ff", 6, -10),
        ([], "e9 00 01 00 00", 5, 261),
        ([], "e8 00 01 00 00", 0, 0),  # a call
        ([], "0f 95 c0 ff ff ff", 0, 0),  # setne
        ([], "0f 85 f0 ff ff", 0, 0),  # cut
        (["-DGUEST_ARM64"], "ff ff ff 17", 4, -4),  # b
        (["-DGUEST_ARM64"], "c1 ff ff 54", 4, -8),  # b.ne
        (["-DGUEST_ARM64"], "e0 ff ff b5", 4, -4),  # cbnz
        (["-DGUEST_ARM64"], "e0 ff 0f 37", 4, -4),  # tbnz
        (["-DGUEST_ARM64"], "ff ff ff 97", 0, 0),  # bl
        (["-DGUEST_ARM64"], "c0 03 5f d6", 0, 0),  # ret
    ],
)
def test_direct_jumps_are_told_from_other_code(tmp_path, define, code, size, target):
    made = tmp_path / "isa.so"
    flags = [flag for flag in CFLAGS if flag != "-fvisibility=hidden"]
    sources = sorted(SOURCES.glob("*.c"))
    run("gcc", *flags, *define, "-O0", f"-I{INCLUDE}", "-DQEMU_PLUGIN_VERSION=1", *sources, "-o", made)
    jump = ctypes.CDLL(str(made), os.RTLD_LAZY).isa_jump
    jump.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)]
    jump.restype = ctypes.c_size_t
    where, room = ctypes.c_uint64(0), bytes.fromhex(code)
    assert jump(room, len(room), 0x1000, ctypes.byref(where)) == size
    assert not size or where.value == 0x1000 + target


@pytest.mark.parametrize(
    ("qemu", "api"),
    [
        ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", 1),
        ("QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", 1),
        ("QEMU emulator version 9.0.50", 2),
        ("QEMU emulator version 9.1.0", 3),
        ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", 4),
        ("QEMU emulator version 11.2.0", 4),
    ],
)
def test_the_plugin_api_is_that_of_qemu(qemu, api):
    assert plugin_api(qemu) == api


def test_an_older_qemu_is_refused():
    for qemu in ("QEMU emulator version 5.2.0 (Debian 1:5.2+dfsg-11)", "something else"):
        with pytest.raises(UsageError, match=r"is not QEMU 7\.2 or later"):
            plugin_api(qemu)


@pytest.mark.parametrize("api", sorted(API_SINCE.values()))
@pytest.mark.parametrize("sources", [SOURCES, halt.SOURCES, stale.SOURCES], ids=lambda path: path.name)
@pytest.mark.deep
def test_every_plugin_compiles_for_every_api_and_says_for_which(tmp_store, sources, api):
    made = build_plugin(tmp_store, sources.name, sources, api).file(f"{sources.name}.so")
    listing = run("nm", "-D", made)
    own = [line.split()[-1] for line in listing.splitlines() if " U qemu_plugin_" in line]
    assert ("qemu_plugin_register_vcpu_insn_exec_inline" in own) == (api == 1 and sources == SOURCES)
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(made), os.RTLD_LAZY), "qemu_plugin_version").value == api
