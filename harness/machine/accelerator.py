# SPDX-License-Identifier: MIT
"""Which accelerator works here. KVM is proved by booting the kernel in question under a time limit.

A /dev/kvm that opens proves nothing: on hosts that nest virtual machines badly, ordinary guests hang for ever.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from harness.build.store import Artefact, Store
from harness.errors import UsageError
from harness.machine.saved import qemu_version
from harness.progress import step
from harness.scratch import discard
from harness.yamlfile import Strict

PROOF_LIMIT_S = 8.0
#: A kernel without a root file system comes this far and no further: its whole boot ran.
BOOTED = b"Kernel panic - not syncing: VFS"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class KvmVerdict(Strict):
    """Whether guests run under KVM on this host, with the evidence."""

    works: bool
    reason: str
    seconds: float | None = None


def prove_kvm(store: Store, kernel: Artefact) -> KvmVerdict:
    """Boot `kernel` under KVM to its end within PROOF_LIMIT_S; the verdict is kept for this host boot."""
    if not Path("/dev/kvm").exists():
        return KvmVerdict(works=False, reason="there is no /dev/kvm")
    try:
        with open("/dev/kvm", "rb+", buffering=0):  # noqa: PTH123  (an ioctl device, opened as QEMU opens it)
            pass
    except OSError as error:
        return KvmVerdict(works=False, reason=f"/dev/kvm does not open: {error.strerror}")
    boot = BOOT_ID.read_text().strip()
    memory = store.root / "kvm" / f"{boot}-{kernel.key}.json"
    try:
        seen = json.loads(memory.read_text())
        if seen["qemu"] == qemu_version():
            return KvmVerdict.model_validate(seen["verdict"])
    except (OSError, ValueError, KeyError, ValidationError):
        pass
    with step("proving KVM by a boot"):
        verdict = _boot_under_kvm(store, kernel)
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps({"qemu": qemu_version(), "verdict": verdict.model_dump()}))
    return verdict


def kvm_finding(store: Store) -> tuple[bool, str]:
    """For `doctor`: whether KVM is proven, with the newest 64-bit kernel that the store has."""
    kernels = [kernel for kernel in store.all("kernel") if kernel.inputs["arch"] == "x86_64"]
    if shutil.which("qemu-system-x86_64") is None:
        return False, "not proven: QEMU is not installed"
    if not kernels:
        there = Path("/dev/kvm").exists()
        return False, f"not proven: no 64-bit kernel is built yet (./inv build){'' if there else '; no /dev/kvm'}"
    verdict = prove_kvm(store, max(kernels, key=lambda kernel: kernel.path.stat().st_mtime))
    return verdict.works, verdict.reason


def choose_accelerator(store: Store, wanted: Literal["auto", "kvm", "tcg"], kernel: Artefact) -> Literal["tcg", "kvm"]:
    """The accelerator to use; UsageError with the reason when KVM was asked for and cannot work."""
    if wanted == "tcg":
        return "tcg"
    verdict = prove_kvm(store, kernel)
    if verdict.works:
        return "kvm"
    if wanted == "kvm":
        raise UsageError(f"--accel kvm: {verdict.reason}", hint="use --accel tcg or --accel auto")
    return "tcg"


def _boot_under_kvm(store: Store, kernel: Artefact) -> KvmVerdict:
    scratch = store.scratch("kvm")
    console, stderr = scratch / "console", scratch / "stderr"
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc"]
    command += ["-accel", "kvm", "-cpu", "host,pmu=on", "-m", "128", "-no-reboot"]
    command += ["-kernel", str(kernel.file("bzImage")), "-append", "earlyprintk=serial console=ttyS0 panic=-1"]
    command += ["-serial", f"file:{console}"]
    started = time.monotonic()
    try:
        with stderr.open("wb") as sink:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
            )
        try:
            while (elapsed := time.monotonic() - started) < PROOF_LIMIT_S:
                if console.exists() and BOOTED in console.read_bytes():
                    return KvmVerdict(works=True, reason="a kernel booted under KVM", seconds=round(elapsed, 3))
                if process.poll() is not None:
                    said = stderr.read_text(errors="replace").strip().splitlines()
                    why = said[-1] if said else f"QEMU ended with status {process.returncode}"
                    return KvmVerdict(works=False, reason=f"QEMU does not start a guest under KVM: {why}")
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        return KvmVerdict(
            works=False,
            reason=f"/dev/kvm opens, but a kernel under it {_came(console)} within {PROOF_LIMIT_S:.0f} s",
        )
    finally:
        discard(scratch)


def _came(console: Path) -> str:
    lines = console.read_text(errors="replace").splitlines() if console.exists() else []
    return f"only came to {lines[-1].strip()!r}" if lines else "printed nothing"
