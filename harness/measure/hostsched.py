# SPDX-License-Identifier: MIT
"""The host's scheduling of a trial's vCPU threads: whether what the guest measured may be believed.

A vCPU that is ready to run and does not stands still while the guest's wall clock runs on. host-sched.json says for how
long, of each vCPU and over the whole trial.
"""

from __future__ import annotations

import math
from pathlib import Path

from harness.measure.raw import Answer, read_answer

HOST_SCHED = "host-sched.json"
#: Exclude a trial or window whose vCPU was runnable but not running for more than this share. It was 3 % before the
#: first data, 5 % for a while after data had been seen, and is 3 % again.
MOST_WAIT = 0.03


class Vcpu(Answer):
    """One vCPU's thread: time on a host CPU and waiting for one, ns of the host; `slices`: how often it was put on."""

    cpu: int
    thread: int
    host_cpu: int | None = None
    run_ns: int | None
    wait_ns: int | None
    slices: int | None

    @property
    def wait_share(self) -> float:
        """Of the time in which it wanted to run; 0 when it never did, NaN where the host keeps no figures."""
        if self.run_ns is None or self.wait_ns is None:
            return math.nan
        wanted = self.run_ns + self.wait_ns
        return self.wait_ns / wanted if wanted else 0.0


class HostSched(Answer):
    """host-sched.json; docs/file-formats.md, "Host schedule". Older files have no `steal`."""

    pinned: bool
    reason: str | None = None
    nice: int = 0
    seconds: float | None = None
    steal: float | None = None
    vcpus: tuple[Vcpu, ...] = ()


def host_waited(trial: Path) -> tuple[float, str | None]:
    """The worst wait share of a trial's raw folder, or NaN, and why the trial cannot be trusted, or None.

    What a hypervisor steals from a host that is a virtual machine is waiting too, and schedstat does not have it.
    """
    path = trial / HOST_SCHED
    if not path.is_file():
        return math.nan, "no record of the host's scheduling"
    sched = read_answer(path, HostSched)
    if not sched.vcpus or any(math.isnan(vcpu.wait_share) for vcpu in sched.vcpus):
        return math.nan, f"no record of the host's scheduling: {sched.reason}"
    worst = max(sched.vcpus, key=lambda vcpu: vcpu.wait_share)
    share, steal = worst.wait_share, sched.steal or 0.0
    limit = f"more than {100 * MOST_WAIT:g} % of its time"
    if share > MOST_WAIT:
        return max(share, steal), f"the host descheduled vCPU {worst.cpu} for {100 * share:.1f} %, {limit}"
    if steal > MOST_WAIT:
        return steal, f"the host's own hypervisor stole its CPUs for {100 * steal:.1f} %, {limit}"
    return max(share, steal), None
