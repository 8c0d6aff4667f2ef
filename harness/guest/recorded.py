# SPDX-License-Identifier: MIT
"""Recorded session: a machine that replays a recording does again what its guest was told over ssh then."""

from __future__ import annotations

from pathlib import Path

from harness.guest.bulk import Bulk
from harness.guest.session import JobResult, collect
from harness.machine.machine import Machine

#: Wall time for the recorded boot and login, on top of the job's own.
BOOT_S = 240.0


class RecordedSession:
    """One job, the one in the recording; the machine is over when the recording is."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._bulk = Bulk(machine.folder / "bulk")

    def run(self, job: str, target: Path, timeout_s: float) -> JobResult:
        """See `Session.run`. `job` is in the recording and has no effect.

        GuestLost when the guest leaves its recording: QEMU then either ends or waits for ever for what was recorded.
        """
        outcome = self._machine.wait(None, BOOT_S + timeout_s, "come to the end of its recording")
        if outcome.reason == "stopped":
            raise self._machine.lost(self._machine.ending(outcome))
        if outcome.exit_status != 0:
            raise self._machine.lost("left its recording")
        return collect(self._bulk, target)

    def close(self) -> None:
        """Nothing to close: the session ends with its machine."""
