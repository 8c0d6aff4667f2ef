# SPDX-License-Identifier: MIT
"""A kernel of two emulated CPUs that patches its own text where both run: no CPU meets what stood there meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.newcomer import inv

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="CPUs of one thread are translated for in turn"),
]

TIMES = 40
#: The first is a static key on the way of each system call, the second several in the scheduler.
TOGGLE = f"""
mount -t tracefs tracefs /sys/kernel/tracing && cd /sys/kernel/tracing/events || exit 1
taskset 2 sh -c 'while :; do dd if=/dev/zero of=/dev/null bs=1 count=3000 2>/dev/null; done' &
for i in $(seq {TIMES}); do
    for events in raw_syscalls sched; do
        echo 1 > $events/enable
        echo 0 > $events/enable
    done
done
kill $!
echo "toggled $i times"
"""


def test_static_keys_are_switched_under_a_cpu_that_runs_through_them(version: str, tmp_path: Path):
    words = ["--cpus", "2", "--append", "no_timer_check", "--timeout", "900", "--exec", TOGGLE]
    done = inv(tmp_path, "boot", f"modern-{version}", *words)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"toggled {TIMES} times"]), done.stderr
