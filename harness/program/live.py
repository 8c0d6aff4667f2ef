# SPDX-License-Identifier: MIT
"""How often probes fire on this host: perf's counters, which record nothing and stop nobody.

One counter a CPU and probe: on trace points, and on functions through perf's own PMU of kprobes. All are closed at the
end, and the kernel takes away what it made for them. Run as a program it is the process that counts,
for it is to see trace points that may be mounted for it alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import RunError, UsageError
from harness.paths import CODE
from harness.program.bpftrace import TRACEFS, among_trace_points
from harness.program.probenames import counts_time, split_probe

_SYSCALL, _TRACEPOINT, _CLOEXEC = 298, 2, 8
_ATTRIBUTES = 128
#: Where perf_event_attr has its config, its flags, and kprobe_func with the offset behind it.
_CONFIG, _FLAGS, _NAME = 8, 40, 56
_DISABLED = 1
#: A trace point, or a pattern of some.
_POINT = re.compile(r"[\w*?\[\]-]+:[\w*?\[\]-]+")
#: Of prctl, for all counters of the caller at once: reading them one by one makes calls that others count.
_DISABLE_ALL, _ENABLE_ALL = 31, 32
_RETURNS = 1
_SOURCES = Path("/sys/bus/event_source/devices")
#: Beyond the seconds that were asked for: to open and close counters.
_MORE_S = 30.0
MOST_COUNTERS = 512


@dataclass(frozen=True)
class Counted:
    """Firings by probe; and by probe why there are none.

    Of a program in a guest besides: the instructions that it takes untraced, and its kernel.
    """

    firings: dict[str, float]
    absent: dict[str, str]
    seconds: float
    cpus: int
    base: int | None = None
    kernel: str | None = None


def count(probes: Sequence[str], seconds: int) -> Counted:
    """Count them on all CPUs. UsageError for who is not root; what cannot be counted has a reason of its own."""
    if os.geteuid():
        raise UsageError(
            "--live counts on all CPUs, which is for root", hint="run it as root, or give rates with --set"
        )
    argv = [sys.executable, "-m", "harness.program.live", str(seconds), *dict.fromkeys(probes)]
    words = among_trace_points(argv)
    try:
        done = subprocess.run(words, cwd=CODE, capture_output=True, text=True, check=False, timeout=seconds + _MORE_S)
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RunError(f"--live counted nothing: {error}") from error
    return Counted(found["firings"], found["absent"], float(seconds), os.cpu_count() or 1)


# -- the process that counts -------------------------------------------------------------------------------------


def _opened(probe: str) -> list[int] | str:
    """A counter for each CPU; or why there is none."""
    kept: list[ctypes.Array[ctypes.c_char]] = []  # what the kernel reads while it opens them
    kind, rest = split_probe(probe)
    attributes = bytearray(_ATTRIBUTES)
    struct.pack_into("<II", attributes, 0, _TRACEPOINT, _ATTRIBUTES)
    struct.pack_into("<Q", attributes, _FLAGS, _DISABLED)
    if kind in ("tracepoint", "rawtracepoint"):
        return _trace_points(attributes, rest if kind == "tracepoint" else f"*:{rest}")
    if kind in ("kprobe", "kretprobe", "uprobe", "uretprobe"):
        source = "uprobe" if kind.startswith("u") else "kprobe"
        try:
            number = int((_SOURCES / source / "type").read_text())
        except (OSError, ValueError):
            return f"this kernel has no {source}s"
        place, _, offset = (rest.rpartition(":")[2] if source == "uprobe" else rest).partition("+")
        if source == "uprobe" or not place or any(char in place for char in "*?"):
            return "counted are functions of the kernel by name, not patterns or a program's own"
        kept.append(ctypes.create_string_buffer(place.encode()))
        struct.pack_into("<I", attributes, 0, number)
        struct.pack_into("<Q", attributes, _CONFIG, _RETURNS if kind == "kretprobe" else 0)
        struct.pack_into("<QQ", attributes, _NAME, ctypes.addressof(kept[-1]), int(offset or "0", 0))
    else:
        return f"nothing counts a {kind}" if kind not in ("profile", "interval") else ""
    return _per_cpu(attributes)


def _trace_points(attributes: bytearray, name: str) -> list[int] | str:
    """Of SYSTEM:NAME, or of all that this is a pattern of."""
    if (why := counts_time(name)) is not None:
        return why
    found = sorted((TRACEFS / "events").glob(f"{name.replace(':', '/', 1)}/id")) if _POINT.fullmatch(name) else []
    counters: list[int] = []
    for file in found:
        try:
            struct.pack_into("<Q", attributes, _CONFIG, int(file.read_text()))
        except (OSError, ValueError):
            continue
        opened = _per_cpu(attributes)
        if isinstance(opened, str):
            for one in counters:
                os.close(one)
            return opened
        counters += opened
    return counters or f"this kernel has no trace point {name}"


def _per_cpu(attributes: bytearray) -> list[int] | str:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * _ATTRIBUTES).from_buffer(attributes)
    counters: list[int] = []
    for cpu in range(os.cpu_count() or 1):
        counter = libc.syscall(_SYSCALL, ctypes.byref(buffer), -1, cpu, -1, ctypes.c_ulong(_CLOEXEC))
        if counter < 0:
            for one in counters:
                os.close(one)
            return f"perf_event_open: {os.strerror(ctypes.get_errno())}"
        counters.append(counter)
    return counters


def main(argv: Sequence[str]) -> int:
    seconds, probes = int(argv[0]), argv[1:]
    # Patterns of trace points take a counter for each of them and each CPU.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    counters: dict[str, list[int]] = {}
    absent: dict[str, str] = {}
    for probe in probes[:MOST_COUNTERS]:
        found = _opened(probe)
        if isinstance(found, str):
            absent |= {probe: found} if found else {}
        else:
            counters[probe] = found
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_ENABLE_ALL)
    time.sleep(seconds)
    libc.prctl(_DISABLE_ALL)
    firings = {probe: _sum(found) for probe, found in counters.items()}
    print(json.dumps({"firings": firings, "absent": absent}))
    return 0


def _sum(counters: Sequence[int]) -> int:
    return sum(int.from_bytes(os.read(counter, 8), "little") for counter in counters)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
