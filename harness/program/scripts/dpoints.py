# SPDX-License-Identifier: MIT
"""Providers of DTrace's: which probe of today's Linux is nearest to each of theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.program.scripts.asked import RAW

#: Calls that Linux names otherwise.
_CALLS = {"exece": "execve", "rexit": "exit", "pread": "pread64", "pwrite": "pwrite64", "stat": "newstat",
          "lstat": "newlstat", "fstat": "newfstat", "open64": "open", "gtime": "time", "uname": "newuname"}  # fmt: skip
#: By provider and name, with - for __, as D has it.
_POINTS = {
    "proc": {"exec-success": "sched:sched_process_exec", "exit": "sched:sched_process_exit",
             "create": "sched:sched_process_fork", "signal-send": "signal:signal_generate",
             "signal-handle": "signal:signal_deliver"},
    "sched": {"on-cpu": "sched:sched_switch", "off-cpu": "sched:sched_switch", "wakeup": "sched:sched_wakeup"},
    "io": {"start": "block:block_rq_issue", "done": "block:block_rq_complete"},
    "vminfo": {"as_fault": "exceptions:page_fault_user", "kernel_asflt": "exceptions:page_fault_kernel"},
}  # fmt: skip
_TIMER = re.compile(r"(?P<what>tick|profile)-(?P<number>\d+)(?P<unit>[a-z]*)")
#: Units of a timer, as bpftrace has them: so many of its units.
_UNITS = {"": ("hz", 1), "hz": ("hz", 1), "s": ("s", 1), "sec": ("s", 1), "ms": ("ms", 1), "msec": ("ms", 1),
          "us": ("us", 1), "usec": ("us", 1), "m": ("s", 60), "min": ("s", 60), "h": ("s", 3600), "hour": ("s", 3600),
          "d": ("s", 86400), "day": ("s", 86400)}  # fmt: skip
ONCE = ("BEGIN", "END", "ERROR")


@dataclass(frozen=True)
class Point:
    """A probe by bpftrace's name; `kind` says what is known there (dtrace.py)."""

    probe: str
    kind: str


def point_of(description: str) -> Point | str:
    """The nearest probe of PROVIDER:MODULE:FUNCTION:NAME; or why there is none."""
    parts = description.split(":")
    provider, module, function, name = [""] * (4 - len(parts)) + parts[-4:]
    timer = _TIMER.fullmatch(name)
    if timer and provider in ("", "profile", "tick"):
        return _timed(timer)
    if provider in _NEAR:
        return _NEAR[provider](module, function, name)
    if provider in _POINTS:
        near = _POINTS[provider].get(name)
        return Point(f"tracepoint:{near}", "tracepoint") if near else f"no near one is known of {provider}'s {name}"
    return _why_none(provider, name)


def _why_none(provider: str, name: str) -> str:
    if name in ONCE and provider in ("", "dtrace"):
        return "it runs once, when the trace begins or ends"
    if not provider:
        return "name its provider: PROVIDER:MODULE:FUNCTION:NAME"
    if re.fullmatch(r"pid(\d+|\$target|\*)", provider):
        return "which file its functions are in is not known: uprobe:FILE:FUNCTION is bpftrace's for it"
    return f"no near one is known of the provider {provider}"


def _timed(timer: re.Match[str]) -> Point | str:
    unit, times = _UNITS.get(timer.group("unit"), ("", 0))
    number = int(timer.group("number")) * times
    if not number:
        return f"its period {timer.group()} is not known"
    if timer.group("what") == "tick":
        return "a timer on one CPU that samples nothing: the model has no provider for it"
    return Point(f"profile:{unit}:{number}", "profile")


def _call(module: str, function: str, name: str) -> Point | str:
    if name not in ("entry", "return"):
        return "of a system call there are entry and return: ask for one of them"
    kind = f"syscall-{name}"
    way = "enter" if name == "entry" else "exit"
    if function in ("", "*"):
        return Point(f"{RAW}{way}", f"{kind}-of-all")
    return Point(f"tracepoint:syscalls:sys_{way}_{_CALLS.get(function, function)}", kind)


def _function(module: str, function: str, name: str) -> Point | str:
    if not function.strip("*?"):
        return "all functions of the kernel: name some"
    if name == "entry":
        return Point(f"kprobe:{function}", "function")
    if name == "return":
        return Point(f"kretprobe:{function}", "function-return")
    return "of a function there are entry and return: ask for one of them"


def _mark(system: str, function: str, name: str) -> Point | str:
    """As DTrace for Linux names trace points: their system is the module."""
    if not system or not name or any(char in system for char in "*?"):
        return "name the system of its trace point: sdt:SYSTEM::NAME"
    return Point(f"tracepoint:{system}:{name.replace('-', '_')}", "tracepoint")


_NEAR: dict[str, Callable[[str, str, str], Point | str]] = {"syscall": _call, "fbt": _function, "sdt": _mark}
