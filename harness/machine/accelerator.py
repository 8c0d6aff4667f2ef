# SPDX-License-Identifier: MIT
"""Which accelerator works here. KVM is proved by booting the kernel in question for as long as its console moves.

A /dev/kvm that opens proves nothing: on hosts that nest virtual machines badly, ordinary guests hang for ever. Nor does
a slow boot prove the contrary: a host that is itself a virtual machine takes its time.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from harness.artefacts.store import Artefact, Store
from harness.choices import AcceleratorChoice
from harness.errors import UsageError
from harness.machine.hostsched import read_thread
from harness.machine.process import QemuProcess
from harness.machine.qemu import qemu_version
from harness.machine.sandbox import MOST_FILE_BYTES, View
from harness.machine.spec import KVM_CPU
from harness.progress import step
from harness.yamlfile import Strict

log = logging.getLogger(__name__)

LOOK_S = 0.05
#: A console that says nothing for so long is a guest that hangs: the first line comes within a tenth of a second.
SILENCE_S = 8.0
#: What QEMU itself may take until its guest can print: it reads its libraries, on a busy host for many seconds.
START_S = 60.0
#: A host that let a guest go on after a pause may let it pause for this many times longer.
PATIENCE = 4.0
#: However busily it prints: a kernel may report for ever that it does not come on.
MOST_S = 300.0
#: Memory of the guest that proves it.
PROOF_MIB = 128
#: What did not work once may have been the host's hour, so it is tried again after so long.
FORGET_S = 600.0
#: A kernel without a root file system comes this far and no further: its whole boot ran.
BOOTED = b"Kernel panic - not syncing: VFS"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class KvmVerdict(Strict):
    """Whether guests run under KVM on this host, with the evidence."""

    works: bool
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class Choice:
    """The accelerator that is used; `why`: why it is not KVM where that was wanted, else empty."""

    used: Literal["tcg", "kvm"]
    why: str = ""


class Seen(Strict):
    """A proof as it is kept: with which QEMU, when (seconds since 1970), and what came of it."""

    qemu: str
    at: float
    verdict: KvmVerdict


class Patience:
    """When a growing console is given up. Times are seconds of one clock, `started` its reading at QEMU's start.

    A silence may last SILENCE_S, or PATIENCE times the longest one that came to an end. What QEMU takes until it has
    made the console's file is the first of these, and may last START_S: no guest is silent then. Time in which QEMU
    waited for a CPU of the host is no silence of the guest either.
    """

    def __init__(self, started: float) -> None:
        self._started = self._moved = self._ran = started
        self._size = -1
        self._longest = 0.0

    def over(self, now: float, size: int, waited: float = 0.0) -> str | None:
        """Why to give up at `now`, with `size` bytes on the console (-1: it has no file yet); None to go on.

        `waited`: seconds since the start in which QEMU waited for a CPU.
        """
        ran = now - waited
        if size != self._size:
            self._longest = max(self._longest, now - self._moved)  # waits too: they tell how slow the host is
            self._size, self._moved, self._ran = size, now, ran
        words, limit = "printed nothing for", max(SILENCE_S, PATIENCE * self._longest)
        if size < 0:
            words, limit = "made no console in", START_S
        elif size > 0:
            words = "then nothing for"
        if ran - self._ran > limit:
            return f"{words} {limit:.0f} s"
        if now - self._started > MOST_S:
            return f"was not through after {MOST_S:.0f} s"
        return None


def waited_s(process: int, proc: Path = Path("/proc")) -> float:
    """For how long a process' threads have waited for a CPU, all together; 0 where the host does not tell.

    One after another they start QEMU, and each has to wait on a busy host. Where two wait at once that counts twice: a
    host that is so busy deserves the patience.
    """
    threads = [int(task.name) for task in (proc / str(process) / "task").glob("[0-9]*")]
    readings = [read_thread(process, thread, proc) for thread in threads]
    return sum(reading.wait_ns for reading in readings if reading is not None) / 1e9


def prove_kvm(store: Store, kernel: Artefact) -> KvmVerdict:
    """Boot `kernel` under KVM to its end, for as long as its console moves.

    A proof is kept until the host boots or QEMU changes, a failure for FORGET_S.
    """
    if not Path("/dev/kvm").exists():
        return KvmVerdict(works=False, reason="there is no /dev/kvm")
    try:
        with open("/dev/kvm", "rb+", buffering=0):  # noqa: PTH123  (an ioctl device, opened as QEMU opens it)
            pass
    except OSError as error:
        return KvmVerdict(works=False, reason=f"/dev/kvm does not open: {error.strerror}")
    boot = BOOT_ID.read_text().strip()
    memory = store.root / "kvm" / f"{boot}-{kernel.key}.json"
    kept = recall(memory, qemu_version(), time.time())
    if kept is not None:
        return kept
    with step("proving KVM by a boot"):
        verdict = boot_to_end(store, kernel, ("-accel", "kvm", "-cpu", KVM_CPU))
    memory.parent.mkdir(parents=True, exist_ok=True)
    seen = Seen(qemu=qemu_version(), at=time.time(), verdict=verdict)
    memory.write_text(seen.model_dump_json())
    return verdict


def recall(memory: Path, qemu: str, now: float) -> KvmVerdict | None:
    """What this file remembers of an earlier proof with this QEMU; None when there is none or it is to be made again.

    `now` is in seconds since 1970.
    """
    try:
        seen = Seen.model_validate_json(memory.read_bytes())
    except (OSError, ValidationError):
        return None
    age = now - seen.at
    if seen.qemu != qemu or not (seen.verdict.works or 0 <= age < FORGET_S):
        return None
    if seen.verdict.works:
        return seen.verdict
    ago = f"{seen.verdict.reason} ({age / 60:.0f} min ago; tried again after {FORGET_S / 60:.0f})"
    return seen.verdict.model_copy(update={"reason": ago})


def kvm_finding(store: Store) -> tuple[bool, str]:
    """For `doctor`: whether KVM is proven, with the newest 64-bit kernel that the store has."""
    kernels = [kernel for kernel in store.all("kernel") if kernel.inputs["arch"] == "x86_64"]
    if not kernels:
        there = Path("/dev/kvm").exists()
        return False, f"not proven: no 64-bit kernel is built yet (./inv build){'' if there else '; no /dev/kvm'}"
    verdict = prove_kvm(store, max(kernels, key=lambda kernel: kernel.path.stat().st_mtime))
    return verdict.works, verdict.reason


def foreign_to_host(arch: str) -> str | None:
    """Why no KVM of this host runs guests of `arch`; None: it may."""
    host = platform.machine()
    own = {"x86_64": ("i386", "x86_64"), "aarch64": ("arm64",)}.get(host, ())
    return None if arch in own else f"this host is {host}, its guests are {arch}"


def choose_accelerator(store: Store, wanted: AcceleratorChoice, kernel: Artefact) -> Choice:
    """The accelerator to use; UsageError with the reason when KVM was asked for and cannot work."""
    if wanted == "tcg":
        return Choice("tcg")
    foreign = foreign_to_host(kernel.inputs["arch"])
    verdict = KvmVerdict(works=False, reason=foreign) if foreign else prove_kvm(store, kernel)
    log.debug("KVM: %s", verdict.reason)
    if verdict.works:
        return Choice("kvm")
    if wanted == "kvm":
        raise UsageError(f"--accel kvm: {verdict.reason}", hint="use --accel tcg or --accel auto")
    return Choice("tcg", verdict.reason)


def boot_to_end(store: Store, kernel: Artefact, accelerator: Sequence[str]) -> KvmVerdict:
    """Boot `kernel` with these words for QEMU until it misses its root file system; see `Patience`."""
    with store.scratch("kvm") as scratch:
        console, stderr = scratch / "console", scratch / "stderr"
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc"]
        command += [*accelerator, "-m", str(PROOF_MIB), "-no-reboot"]
        command += ["-kernel", str(kernel.file("bzImage")), "-append", "earlyprintk=serial console=ttyS0 panic=-1"]
        command += ["-serial", f"file:{console}"]
        with stderr.open("wb") as sink:
            process = QemuProcess(
                command,
                View((kernel.file("bzImage"),), scratch, kvm="kvm" in accelerator),
                sink,
                memory_mib=PROOF_MIB,
                file_bytes=MOST_FILE_BYTES,
            )
        # Not before: the first QEMU of a process has its tools and its sandbox looked at, which is no boot.
        started, waited = time.monotonic(), 0.0
        patience = Patience(started)
        try:
            while True:
                ended = process.poll() is not None  # before its last words are read
                printed = console.read_bytes() if console.exists() else None
                seconds = time.monotonic() - started
                if BOOTED in (printed or b""):
                    how = f"a kernel booted under KVM in {seconds:.1f} s"
                    return KvmVerdict(works=True, reason=how, seconds=round(seconds, 3))
                if ended:
                    last = stderr.read_text(errors="replace").strip().splitlines()[-1:]
                    why = last[0] if last else f"QEMU ended with status {process.returncode}"
                    reason = _given_up(printed, f"QEMU ended: {why}") if printed else f"QEMU does not start: {why}"
                    return KvmVerdict(works=False, reason=reason)
                waited = max(waited, waited_s(process.pid))  # a thread that ends takes its figures with it
                why_not = patience.over(started + seconds, -1 if printed is None else len(printed), waited)
                if why_not is not None:
                    return KvmVerdict(works=False, reason=_given_up(printed, why_not))
                time.sleep(LOOK_S)
        finally:
            process.kill()
            process.close()


def _given_up(printed: bytes | None, why: str) -> str:
    if printed is None:
        return f"/dev/kvm opens, but QEMU under it {why}"
    lines = printed.decode(errors="replace").splitlines()
    came = f"came to {lines[-1].strip()!r}, " if lines else ""
    return f"/dev/kvm opens, but a kernel under it {came}{why}"
