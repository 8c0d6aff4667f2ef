# SPDX-License-Identifier: MIT
"""A KVM host always ends: with its time, with the process that started it, or before it came up.

Each test boots one of its own.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.paths import ROOT
from tests.kvmbox.host import KvmHost, KvmHostLost
from tests.processes import DEFAULT_SIGNALS, eventually

pytestmark = pytest.mark.timeout(1800)


def test_time_over_ends_the_host():
    with KvmHost(Store.default(), cpus=1) as host:
        pid = host.pid
        with pytest.raises(KvmHostLost, match="did not end sleep 1000 within 2 s"):
            host.run(["sleep", "1000"], timeout_s=2)
        folder = host.folder
    assert not Path(f"/proc/{pid}").exists()
    assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_host_ends_with_its_command(number: signal.Signals, tmp_path: Path):
    beat = tmp_path / "shared" / "beat"
    words = [*DEFAULT_SIGNALS, ROOT / "inv", "kvmhost", "--cpus", "1", "--out", beat.parent, "--", "sh", "-c"]
    command = f"while true; do echo >>{beat}; sleep 0.2; done"
    with subprocess.Popen([*words, command], cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        assert eventually(lambda: beat.exists() and beat.stat().st_size > 3, 300)
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
    assert (done.returncode, paging) in ((0, "1"), (0, "Y")), done
    assert release.endswith("-amd64")
    assert device.startswith("crw-rw-rw-")


def test_a_host_that_cannot_boot_says_why():
    with pytest.raises(KvmHostLost, match=r"ended before it could boot.*max CPUs"):
        KvmHost(Store.default(), cpus=1000).__enter__()
