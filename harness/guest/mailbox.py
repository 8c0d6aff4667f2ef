# SPDX-License-Identifier: MIT
"""Mailbox session: the job is in a fw_cfg file, the result in the bulk file, the end is QEMU's exit.

Nothing of it depends on the host's time, so a virtual-clock guest stays bit-for-bit the same.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import RunError
from harness.guest.bulk import Bulk
from harness.guest.session import JobResult, collect
from harness.machine.machine import Machine
from harness.machine.spec import EXIT_DONE


class MailboxSession:
    """One job, then the machine is over. The machine must be stopped at its mailbox, with the job's file in place.

    `done`: it was not stopped and has done that job.
    """

    def __init__(self, machine: Machine, *, done: bool = False) -> None:
        self._machine = machine
        self._done = done
        self._bulk = Bulk(machine.folder / "bulk")

    def run(self, job: str, target: Path, timeout_s: float) -> JobResult:
        """See `Session.run`. `job` was given to the machine when it was made; it is checked against its file."""
        if not (self._machine.folder / "job").read_bytes().startswith(job.encode()):
            raise RunError("a mailbox machine runs the job that it was started with", where=str(self._machine.folder))
        if self._done:
            return collect(self._bulk, target)
        self._machine.resume()
        outcome = self._machine.wait(None, timeout_s, "finish its job")
        if outcome.reason == "stopped":
            raise self._machine.lost(f"{self._machine.ending(outcome)} during its job")
        if outcome.exit_status != EXIT_DONE:
            raise self._machine.lost(f"ended during its job, QEMU's status {outcome.exit_status}")
        return collect(self._bulk, target)

    def close(self) -> None:
        """Nothing to close: the session ends with its machine."""
