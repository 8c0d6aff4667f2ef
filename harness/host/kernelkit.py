# SPDX-License-Identifier: MIT
"""What one kernel can do here: arms of every kind that is not a paper's, and what it offers to instruments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.artefacts.store import Store
from harness.experiment.model import Arm, Experiment, Paper, Workload
from harness.host.kindtrial import SEED, run_one
from harness.host.kindwork import Absent
from harness.kernel.load import load_kernel
from harness.run.prepared import prepare_trials
from harness.scratch import scratch_space
from harness.trial.plan import PlannedTrial

NAME, WORK = "kernel", "work"
#: Arms by what they are to show: bits on the virtual clock with all that the oracle counts, ssh, several CPUs.
ARMS: Mapping[str, Mapping[str, Any]] = {
    "virtual": {"clock": "virtual", "oracle": ["functions", "pages", "sampler"]},
    "counters": {"clock": "virtual", "oracle": ["counters"], "devices": ["counters"]},
    "ssh": {"clock": "wall", "devices": ["disk", "net"]},
    "two": {"clock": "wall", "session": "mailbox", "cpus": 2},
}
_AT = "/sys/kernel/tracing"
#: What instruments need of a kernel, each by a test in its guest.
OFFERS: Mapping[str, str] = {
    "BTF (programs that run on any kernel)": "[ -s /sys/kernel/btf/vmlinux ]",
    "kprobes": f"[ -e {_AT}/kprobe_events ]",
    "uprobes": f"[ -e {_AT}/uprobe_events ]",
    "function tracer": f"grep -qw function {_AT}/available_tracers",
    "tracepoints of lock contention": f"[ -d {_AT}/events/lock/contention_begin ]",
    "BPF": "[ -e /proc/sys/kernel/unprivileged_bpf_disabled ]",
    "perf events": "[ -e /proc/sys/kernel/perf_event_paranoid ]",
    "statistics of locks": "[ -e /proc/lock_stat ]",
}


def kernels_experiment(kernels: Sequence[str]) -> Experiment:
    """Arms on these kernels, for `harness.host.kinds`: of several kernels the first of ARMS, of one all, those with
    several CPUs where it drives them.
    """
    if len(kernels) > 1:
        first = next(iter(ARMS.values()))
        return _experiment({_name(kernel): Arm(kernel=NAME, **first).on(kernel) for kernel in kernels}, "true")
    several = load_kernel(kernels[0]).spec.hardware.smp
    arms = {name: Arm(kernel=NAME, **arm).on(kernels[0]) for name, arm in ARMS.items() if several or "cpus" not in arm}
    return _experiment(arms, "true")


def _name(kernel: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "-", kernel)


def _experiment(arms: dict[str, Arm], command: str) -> Experiment:
    paper = Paper(authors=["krepro"], year=2026, title="what a kernel can do")
    return Experiment(name=NAME, paper=paper, arms=arms, workloads={WORK: Workload(command=command, timeout_s=60)})


@dataclass
class Offers:
    """What one kernel offers, asked for once, in one guest."""

    store: Store
    kernel: str
    _told: dict[str, bool] = field(default_factory=dict)

    def check(self, name: str) -> tuple[str, str | None]:
        """The row's detail where it offers this; Absent where it does not."""
        if not self._told:
            self._told = self._ask()
        if not self._told[name]:
            raise Absent(f"{self.kernel} has none")
        return "there", None

    def _ask(self) -> dict[str, bool]:
        tests = [f"{test} 2>/dev/null && echo {number} >>there" for number, test in enumerate(OFFERS.values())]
        command = "\n".join([f"cd {WORK} || exit", f"mount -t tracefs tracefs {_AT} 2>/dev/null", *tests, "true"])
        with scratch_space("selftest") as folder:
            experiment = _experiment({NAME: Arm(kernel=NAME, clock="virtual").on(self.kernel)}, command)
            plan = [PlannedTrial(NAME, 0, SEED)]
            prepared = prepare_trials(self.store, experiment, folder, plan, folder / "offers", "tcg")
            there = run_one(prepared.trials[0], folder).path / WORK / "there"
            found = there.read_text().split() if there.is_file() else []
        return {name: str(number) in found for number, name in enumerate(OFFERS)}
