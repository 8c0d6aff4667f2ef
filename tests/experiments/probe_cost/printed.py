# SPDX-License-Identifier: MIT
"""The text that a guest's script of probe-cost gives to probecost, by the host's shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from harness.paths import EXPERIMENTS


def printed(name: str, folder: Path) -> str:
    """Of guest/NAME.sh, where events of system calls copy what is the user's."""
    program = folder / "bin" / "probecost"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\ncat\n")
    program.chmod(0o755)
    event = folder / "tracing/events/syscalls/sys_enter_openat"
    event.mkdir(parents=True, exist_ok=True)
    (event / "format").write_text("field:__data_loc char[] __filename_val;\n")
    (folder / "tracing/kprobe_events").touch()
    # Folders of the guest, but not what a filter compares with.
    text = re.sub("(?<!')/run/", f"{folder}/", (EXPERIMENTS / "probe-cost/guest" / f"{name}.sh").read_text())
    text = text.replace("/sys/kernel/tracing", f"{folder}/tracing")
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "KREPRO_UNIT": "ticks"}
    return subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=True).stdout
