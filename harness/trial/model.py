# SPDX-License-Identifier: MIT
"""Trials: the resolved description that a worker process gets, and the record that an analysis reads."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from harness.artefacts.neutral import neutral
from harness.experiment.scalar import Parameter, Scalar
from harness.guest.job import WorkloadCommand, trial_job
from harness.guest.ssh import Keys
from harness.machine.sandbox import MOST_FILE_BYTES
from harness.machine.spec import BootFiles, MachineSpec, Plugin
from harness.packages.choice import Name
from harness.status import TrialStatus
from harness.yamlfile import Strict, about

Fidelity = Literal["virtual", "virtual+pmu", "emulated", "kvm", "kvm+pmu", "host"]
#: One of many equal texts: a set's trials have nearly the same command line, and each of its words is kept once.
Word = Annotated[str, AfterValidator(sys.intern)]


class SavedState(Strict):
    """A booted machine's state in the store."""

    path: Path
    key: str


#: Fields of a trial and of its record.
_OF_BOTH = ("arm", "repetition", "kernel", "params", "cmdline", "group", "dimensions")


class TrialSpec(Strict):
    """One trial, resolved: a function of this value and nothing else gives the trial's files."""

    arm: str
    repetition: int
    seed: int
    kernel: str
    machine: MachineSpec
    files: BootFiles
    keys: Keys | None
    state: SavedState | None
    recording: Path | None = None
    params: dict[str, Scalar]
    cmdline: dict[str, Scalar]
    group: str | None = None
    dimensions: dict[str, Scalar] = {}
    workloads: tuple[WorkloadCommand, ...]
    folder: Path
    plugin: Plugin | None = None
    predictions: str | None = None
    file_bytes: int = MOST_FILE_BYTES

    def predicted(self, text: str) -> TrialSpec:
        """This trial with what was predicted of it: it writes that down, and its guest is told the hash."""
        told = {**self.params, "predictions": hashlib.sha256(text.encode()).hexdigest()}
        return self.model_copy(update={"predictions": text, "params": told})

    @property
    def job(self) -> str:
        return trial_job(self.seed, self.params, self.workloads)

    @property
    def timeout_s(self) -> float:
        """Wall time that the workloads may take: under TCG on a busy host, virtual seconds can be long."""
        return 60.0 + 4.0 * sum(workload.timeout_s for workload in self.workloads)

    @property
    def recorded(self) -> dict[str, Any]:
        """Fields of its record that say which trial it is, whatever came of it."""
        return {
            **{name: getattr(self, name) for name in _OF_BOTH},
            "workloads": tuple(workload.name for workload in self.workloads),
            "path": Path("raw") / self.arm / str(self.repetition),
            "system_map": Path("kernels") / self.kernel / "System.map",
        }


class TrialRecord(Strict):
    """What a result set says of one trial, and what an analysis is given (with `path` and `system_map` set)."""

    arm: Annotated[str, about("name")]
    repetition: Annotated[int, about("from 0", "1")]
    seed: Annotated[int, about("32 bits; the same for one repetition of every arm", "1")]
    status: Annotated[TrialStatus, about("whether its data may be used")]
    reason: Annotated[str | None, about("why it failed; null: it did not")] = None
    kernel: Annotated[str, about("name")]
    clock: Annotated[Literal["virtual", "wall"], about("virtual: instructions are time; wall: the host's")]
    session: Annotated[str, about("ssh or mailbox")]
    fidelity: Annotated[Fidelity, about("what kind of time its figures are in")]
    params: Annotated[dict[str, Scalar], about("the arm's", "the parameter's own")]
    cmdline: Annotated[dict[str, Scalar], about("the arm's", "the parameter's own")]
    workloads: Annotated[tuple[str, ...], about("names, in order")]
    argv: Annotated[tuple[Word, ...], about("QEMU's command line; empty: it was not started")] = ()
    sandbox: Annotated[
        Word,
        about(
            "what QEMU was shut in: bubblewrap + seccomp, one of them or none, and why not the others; empty: it was "
            "not started, or the set is older than that"
        ),
    ] = ""
    seconds: Annotated[
        dict[str, float], about("wall time: ready until the session could begin, trial in all", "s")
    ] = {}
    pmu: Annotated[str, about("ok: COUNTED of EXPECTED instructions; or absent: and why")]
    path: Annotated[Path, about("raw folder, relative to the set")]
    system_map: Annotated[Path, about("of its kernel, relative to the set")]
    description: Annotated[
        str | None,
        about(
            "sha256 of all that decides the trial, but its arm's name: krepro's code that runs trials (without "
            "docstrings and comments), QEMU, machine, kernel, image, plugins, booted state, job, seed; on the wall "
            "clock also the host's CPU and kernel; null: the set is older than that"
        ),
    ] = None
    group: Annotated[Name | None, about("the arm of experiment.yaml whose matrix its arm is of; null: of none")] = None
    dimensions: Annotated[dict[Parameter, Scalar], about("its arm's place in the matrix", "the dimension's")] = {}
    taken_from: Annotated[
        str | None, about("the set whose trial it is, with an equal description; null: this run measured it")
    ] = None
    host: Annotated[
        int | None, about("place in the manifest's `hosts` of the machine that ran it; null: the set's `host`", "1")
    ] = None

    def relocated(self, root: Path) -> TrialRecord:
        """The same record with paths below `root` (records are stored with relative paths)."""
        return self.model_copy(update={"path": root / self.path, "system_map": root / self.system_map})

    def neutral(self) -> TrialRecord:
        """The same with neutral names for this host's folders; this one, where it names none."""
        argv = tuple(sys.intern(neutral(word)) for word in self.argv)
        reason = self.reason and neutral(self.reason)
        if (argv, reason) == (self.argv, self.reason):
            return self
        return self.model_copy(update={"argv": argv, "reason": reason})

    def summary(self) -> dict[str, Any]:
        """JSON form for the manifest."""
        return self.model_dump(mode="json")
