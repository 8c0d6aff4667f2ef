# SPDX-License-Identifier: MIT
"""The KVM host itself: it has KVM, commands end as they end elsewhere, nothing leaks out, and it always ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.build.store import Store
from harness.machine.kvmhost import KvmHost, KvmHostLost
from harness.paths import ROOT

S = 120.0
BOOT = """
timeout 300 qemu-system-x86_64 -nodefaults -no-user-config -display none -machine pc -accel {accelerator} -m 128 \
    -no-reboot -kernel {kernel} -append "earlyprintk=serial console=ttyS0 panic=-1" -serial stdio
"""


def test_a_kernel_boots_under_kvm_and_knows_it(kvm_host: KvmHost, built: Callable):
    kernel = built("irq-hotspot")["modern-6.1"].kernel.file("bzImage")
    ended = kvm_host.run(["sh", "-c", BOOT.format(accelerator="kvm", kernel=kernel)], timeout_s=400)
    assert "Hypervisor detected: KVM" in ended.stdout, ended
    assert "Kernel panic - not syncing: VFS" in ended.stdout, ended


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


def test_time_over_ends_the_host(store: Store):
    with KvmHost(store, cpus=1) as host:
        pid = host.pid
        with pytest.raises(KvmHostLost, match="did not end sleep 1000 within 2 s"):
            host.run(["sleep", "1000"], timeout_s=2)
        folder = host.folder
    assert gone(pid)
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_host_ends_with_its_command(number: signal.Signals, store: Store, tmp_path: Path):
    beat = tmp_path / "shared" / "beat"
    words = [ROOT / "inv", "kvmhost", "--cpus", "1", "--writable", beat.parent, "--", "sh", "-c"]
    command = f"while true; do echo >>{beat}; sleep 0.2; done"
    with subprocess.Popen([*words, command], cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: beat.exists() and beat.stat().st_size > 3, 300)
        process.send_signal(number)
        status = process.wait(timeout=60)
    assert status == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    time.sleep(1)
    size = beat.stat().st_size
    time.sleep(2)
    assert beat.stat().st_size == size


def test_without_a_command_it_shows_that_there_is_kvm():
    done = subprocess.run([ROOT / "inv", "kvmhost"], cwd=ROOT, capture_output=True, text=True, check=False)
    release, device, paging = done.stdout.splitlines()
    assert (done.returncode, paging) == (0, "1"), done
    assert release.endswith("-amd64")
    assert device.startswith("crw-rw-rw-")


def test_a_host_that_cannot_boot_says_why(store: Store):
    with pytest.raises(KvmHostLost, match=r"ended before it could boot.*memory"):
        KvmHost(store, memory_mb=100_000_000).__enter__()


def gone(pid: int) -> bool:
    """Whether there is no such process, or none that still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until it holds; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
