# SPDX-License-Identifier: MIT
"""probecost's C on this host."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.image.programs import build_program
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages

pytestmark = needs_guest_packages
GUEST = EXPERIMENTS / "probe-cost" / "guest"
INTERRUPTED = Path(__file__).with_name("interrupted.c")


def test_interrupted_calls_are_made_again(tmp_path):
    guest = tmp_path / "guest"
    driver = guest / "driver"
    driver.mkdir(parents=True)
    for name in ("bpf.c", "bpf.h", "events.c", "keeper.c", "keeper.h", "util.c", "util.h"):
        shutil.copyfile(GUEST / "probecost" / name, driver / name)
    shutil.copyfile(INTERRUPTED, driver / "main.c")
    wrapped = [f"-Wl,--wrap={name}" for name in ("syscall", "ioctl", "read")]
    build_program("x86_64", driver, tmp_path / "interrupted", tmp_path / "log", wrapped)
    said = subprocess.run([tmp_path / "interrupted"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "perf_event_open 7 after 3 calls",
        "ioctl 1 after 3 calls",
        "read 42 after 3 calls",
        "program 7 after 3 calls",
        "fprobe 7 after 3 calls",
        "raw_tracepoint 7 after 3 calls",
        (
            "refused -1 after 64 calls: perf event krepro/e0: "
            "refused, for a user probe is traced or has programs, not both"
        ),
    ]
