# SPDX-License-Identifier: MIT
"""`./inv calibrate` on a host of Debian's with all kinds of probes: what it measures there, and what it leaves."""

from __future__ import annotations

import json

LEFT = """\
ls /run
mount -t tracefs tracefs /sys/kernel/tracing
cat /sys/kernel/tracing/kprobe_events /sys/kernel/tracing/uprobe_events && echo seen
ls /sys/kernel/tracing/instances
"""


def test_a_host_with_kprobes_is_measured_and_left_as_it_was(kvm_host, inv, inside):
    look = ["cat", "/proc/sys/debug/kprobes-optimization", "/proc/sys/kernel/perf_cpu_time_max_percent"]
    before = kvm_host.run(look, timeout_s=60).stdout
    done = inv("calibrate", "--repetitions", "1", "--out", str(inside / "model.json"))
    assert done.status == 0, done.stderr
    model = json.loads((inside / "model.json").read_text())
    assert (model["unit"], model["fidelity"]) == ("ns", "host")
    assert {"kprobe-ftrace", "kprobe-int3", "kretprobe", "tracepoint", "uprobe"} <= set(model["providers"])
    assert {"refresh", "frame", "wake"} <= {*model["general"], *model["calls"]}
    assert model["accuracy"]["scripts"] > 1
    assert kvm_host.run(look, timeout_s=60).stdout == before
    left = kvm_host.run(["unshare", "--mount", "sh", "-c", LEFT], timeout_s=60).stdout
    assert "seen" in left
    assert "krepro" not in left
