# SPDX-License-Identifier: MIT
"""What a guest under KVM gets of its host's CPU: a booted state of it fits a host where all of this is equal."""

from __future__ import annotations

import fcntl
import os
import re
from functools import cache
from pathlib import Path

# linux/kvm.h
KVM_CREATE_VM = 0xAE01
KVM_CREATE_VCPU = 0xAE41
KVM_GET_TSC_KHZ = 0xAEA3
#: Of the first CPU; `-cpu host` shows the guest its features, and the guest's kernel chose by them as it booted.
CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags")


def kvm_cpu(proc: Path = Path("/proc"), device: Path = Path("/dev/kvm")) -> dict[str, str | int | None]:
    """CPU, kernel and time stamp counter (kHz) of a host as its guests meet them.

    A host that calibrates its counter at each boot has another frequency after each: where that cannot be scaled, a
    guest of before would run too fast or too slow. None: the host does not tell.
    """
    text = (proc / "cpuinfo").read_text().partition("\n\n")[0]
    said = dict(re.findall(r"^([^\t:]+?)\s*: ?(.*)$", text, re.MULTILINE))
    return {
        **{name: said.get(name) for name in CPU_FIELDS},
        "kernel": os.uname().release,
        "tsc_khz": tsc_khz(device),
    }


def absent_features(cpu: str, proc: Path = Path("/proc")) -> list[str]:
    """Features that a `-cpu` text demands (`qemu64,+la57`: la57) and this host's CPU does not have.

    QEMU would leave them out with a warning, and a guest that is to show something of them would show it without.
    """
    found = re.search(r"^flags\s*:(.*)$", (proc / "cpuinfo").read_text(), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    demanded = [word[1:] for word in cpu.split(",")[1:] if word.startswith("+")]
    return [name for name in demanded if re.sub(r"[-.]", "_", name) not in flags]


@cache
def tsc_khz(device: Path = Path("/dev/kvm")) -> int | None:
    """The frequency of a guest's time stamp counter under KVM, in kHz; None where KVM does not tell."""
    opened: list[int] = []
    try:
        opened.append(os.open(device, os.O_RDWR | os.O_CLOEXEC))
        opened.append(fcntl.ioctl(opened[-1], KVM_CREATE_VM, 0))
        opened.append(fcntl.ioctl(opened[-1], KVM_CREATE_VCPU, 0))
        return fcntl.ioctl(opened[-1], KVM_GET_TSC_KHZ, 0) or None
    except OSError:
        return None
    finally:
        for descriptor in reversed(opened):
            os.close(descriptor)
