# SPDX-License-Identifier: MIT
"""A kernel that patches itself for long while two CPUs run at once."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.machine import stale
from tests.faults.rows import fault
from tests.shim_guests import SMP, check_storm

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

#: A busy host: the CPU that patches is held up before each step, and the one that translates a breakpoint before the
#: block gets into its page's list. By then the breakpoint has been taken away.
BUSY = """
static void nap(unsigned int cpu, void *ms)
{
	struct timespec time = { 0, (long)(intptr_t)ms * 1000000 };

	(void)cpu;
	nanosleep(&time, NULL);
}

static void be_slow(struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t room[LONGEST_INSN];

		if (qemu_plugin_insn_vaddr(insn) == TEXT_POKE)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, nap, QEMU_PLUGIN_CB_NO_REGS, (void *)5);
		if (insn_code(insn, room)[0] == 0xcc)
			nap(0, (void *)50);
	}
}
"""
CALLBACK = "static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)\n{"


def on_a_busy_host(folder: Path, *, looks: bool) -> Path:
    """Sources of the plugin as it is on such a host; `looks`: whether it does its work."""
    symbols = build_kernel(Store.default(), load_kernel(SMP["kernel"], beside=None)).file("System.map")
    shutil.copytree(stale.SOURCES, folder)
    text = (folder / "stale.c").read_text()
    assert CALLBACK in text
    busy = BUSY.replace("TEXT_POKE", f"{address_of('__text_poke', symbols):#x}")
    unused = "" if looks else "__attribute__((unused)) "
    text = text.replace(CALLBACK, unused + CALLBACK.replace("on_translation", "note"), 1)
    does = "note(id, tb);" if looks else "(void)id;"
    wrapped = f"{busy}\n{CALLBACK}\n\t{does}\n\tbe_slow(tb);\n}}\n\n"
    (folder / "stale.c").write_text(text.replace("static void forget(", f"{wrapped}static void forget(", 1))
    return folder


def address_of(name: str, system_map: Path) -> int:
    found = re.search(rf"^([0-9a-f]+) [tT] {name}$", system_map.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1], 16)


def test_no_cpu_runs_for_ever_what_another_has_patched(tmp_path: Path):
    check_storm(tmp_path, 50)


@fault("a CPU translates what another one patches, and the host holds both up", "no CPU runs what is no longer there")
def test_on_a_busy_host_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stale, "SOURCES", on_a_busy_host(tmp_path / "stale", looks=True))
    check_storm(tmp_path, 5)


def test_without_its_plugin_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """Else the plugin would be of no use."""
    monkeypatch.setattr(stale, "SOURCES", on_a_busy_host(tmp_path / "stale", looks=False))
    with pytest.raises(AssertionError):
        check_storm(tmp_path, 5)
    assert "the guest hung" in capfd.readouterr().err
