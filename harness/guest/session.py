# SPDX-License-Identifier: MIT
"""One interface to a guest: run a job, get a folder. Workloads cannot tell which session carried them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.errors import RunError
from harness.guest.bulk import Bulk
from harness.machine.tail import read_tail


@dataclass(frozen=True)
class JobResult:
    """What a job left: its exit status and the folder with job.stdout, job.stderr, dmesg and all it wrote."""

    exit_status: int
    folder: Path
    bulk_bytes: int

    @property
    def stdout(self) -> str:
        """Its end."""
        return read_tail(self.folder / "job.stdout")

    @property
    def stderr(self) -> str:
        """Its end."""
        return read_tail(self.folder / "job.stderr")


class Session(Protocol):
    """A way to talk to one guest."""

    def run(self, job: str, target: Path, timeout_s: float) -> JobResult:
        """Run the shell text `job` in the guest and unpack what it left into `target`.

        Raises GuestLost when the guest ends, hangs or takes longer than `timeout_s`; RunError when its data is
        not whole. A job that exits non-zero is a result, not an error.
        """
        ...

    def close(self) -> None:
        """End the session; harmless when the guest is gone."""
        ...


def collect(bulk: Bulk, target: Path) -> JobResult:
    """Unpack the next frame as a job's result; RunError when it has no exit status."""
    target.mkdir(parents=True, exist_ok=True)
    length = bulk.unpack(target)
    try:
        status = int(read_tail(target / "job.exit", 64))
    except (OSError, ValueError) as error:
        raise RunError("the guest's data has no job.exit", where=str(target)) from error
    return JobResult(status, target, length)
