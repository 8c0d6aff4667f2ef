# SPDX-License-Identifier: MIT
"""The KVM host itself: it has KVM, commands end as they do elsewhere, and nothing leaks out."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.packages.tree import tools
from tests.kvmbox.host import KvmHost

pytestmark = pytest.mark.timeout(1800)

S = 120.0
BOOT = """
timeout 300 {qemu} -nodefaults -no-user-config -display none -machine pc -accel {accelerator} -m 128 \
    -no-reboot -kernel {kernel} -append "earlyprintk=serial console=ttyS0 panic=-1" -serial stdio
"""


def test_a_kernel_boots_under_kvm_and_knows_it(kvm_host: KvmHost, built: Callable):
    kernel = built("irq-hotspot", ["tick-modern"])["modern-6.1"].kernel.file("bzImage")
    ended = kvm_host.run(
        ["sh", "-c", BOOT.format(qemu=shlex.join(tools().qemu()), accelerator="kvm", kernel=kernel)], timeout_s=400
    )
    assert "Hypervisor detected: KVM" in ended.stdout, ended
    assert "Kernel panic - not syncing: VFS" in ended.stdout, ended


def test_its_clock_is_the_cpus_own(kvm_host: KvmHost):
    ended = kvm_host.run(["cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource"], timeout_s=S)
    assert ended.stdout == "tsc\n", "by any other, the clock of guests with several CPUs stands still at times"


def test_outputs_and_status_come_out(kvm_host: KvmHost):
    ended = kvm_host.run(["sh", "-c", "echo out; echo err >&2; exit 7"], timeout_s=S)
    assert (ended.status, ended.stdout, ended.stderr) == (7, "out\n", "err\n")
    assert kvm_host.run(["sh", "-c", "kill -9 $$"], timeout_s=S).status == 128 + signal.SIGKILL
    assert kvm_host.run(["no-such-program"], timeout_s=S).status == 127
    odd = ["printf", "%s|", "a b", "", "c'd", "$HOME", "e\nf"]
    assert kvm_host.run(odd, timeout_s=S).stdout == "a b||c'd|$HOME|e\nf|"


def test_output_is_echoed_as_it_comes(kvm_host: KvmHost, capfdbinary):
    command = "for i in 1 2 3; do echo $i; sleep 0.5; done; head -c 300000 /dev/zero | tr '\\0' x; echo end >&2"
    ended = kvm_host.run(["sh", "-c", command], timeout_s=S, echo=True)
    echoed = capfdbinary.readouterr()
    assert echoed.out.decode() == ended.stdout == "1\n2\n3\n" + "x" * 300000
    assert echoed.err == b"end\n"


def test_it_is_this_host_without_its_network_and_as_this_user(kvm_host: KvmHost):
    ended = kvm_host.run(
        ["sh", "-c", "pwd; id -u; cat /proc/net/dev | tail -n +3 | cut -d: -f1; hostname"], timeout_s=S
    )
    assert ended.stdout.split() == [str(Path.cwd()), str(os.getuid()), "lo", "kvm-host"]
    ended = kvm_host.run(["cat", __file__], timeout_s=S, cwd=Path("/"), env={"X": "1"})
    assert ended.stdout == Path(__file__).read_text()


def test_only_a_writable_folder_is_written_outside(kvm_host: KvmHost, inside: Path, tmp_path: Path):
    (tmp_path / "kept").write_text("outer")
    (inside / "given").write_text("outer")
    lost, kept = tmp_path / "kept", inside / "made"
    command = f"cat given; echo inner >{lost}; cat {lost}; echo inner >{kept}; ln -s made link; rm given"
    ended = kvm_host.run(["sh", "-c", command], timeout_s=S, cwd=inside)
    assert (ended.status, ended.stdout) == (0, "outerinner\n"), ended
    assert lost.read_text() == "outer"
    assert kept.read_text() == "inner\n"
    assert (inside / "link").readlink() == Path("made")
    assert not (inside / "given").exists()


def test_locks_and_mappings_work_where_it_writes(kvm_host: KvmHost, inside: Path):
    program = """
import fcntl, mmap, os, sys
with open(sys.argv[1], "w+b") as first, open(sys.argv[1], "r+b") as second:
    fcntl.flock(first, fcntl.LOCK_EX)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked")
    first.truncate(8192)
    with mmap.mmap(first.fileno(), 8192) as mapped:
        mapped[4096:4100] = b"here"
        mapped.flush()
    os.fsync(first.fileno())
os.rename(sys.argv[1], sys.argv[2])
"""
    before, after = inside / "before", inside / "after"
    ended = kvm_host.run([sys.executable, "-c", program, before, after], timeout_s=S)
    assert (ended.status, ended.stdout) == (0, "locked\n"), ended
    assert after.read_bytes() == bytes(4096) + b"here" + bytes(4092)
