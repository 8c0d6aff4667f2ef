# SPDX-License-Identifier: MIT
"""Command lines of trace-cmd: `record`, `start` and `stream`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from getopt import GetoptError, getopt

from harness.errors import UsageError
from harness.program.scripts.asked import RAW, Asked, Event, trace_points
from harness.program.scripts.filters import filter_of
from harness.program.scripts.triggers import Triggers, read_trigger

KINDS = ("record", "start", "stream", "set")
#: Systems of the kernel's events: a name without a colon is one of these, or an event's.
_SYSTEMS = """
    alarmtimer amd_cpu avc block bpf_test_run bpf_trace bridge btrfs cgroup clk compaction context_tracking cpuhp
    devfreq devlink dma_fence drm error_report exceptions ext4 fib fib6 filelock filemap fs_dax gpio huge_memory
    hwmon hyperv i2c initcall interconnect io_uring iocost iomap iommu ipi irq irq_matrix irq_vectors jbd2 kmem kvm
    kvmmmu libata lock mce mdio migrate mmap mmap_lock mmc module mptcp msr napi neigh net netlink nfs nfs4 nfsd nmi
    nvme oom osnoise page_isolation page_pool pagemap percpu power printk pwm qdisc ras raw_syscalls rcu regmap
    regulator resctrl rpm rseq rtc sched scsi signal skb smbus sock spi sunrpc swiotlb syscalls task tcp thermal thp
    timer tlb udp vmalloc vmscan vsyscall watchdog wbt workqueue writeback x86_fpu xdp xen xfs
"""
SYSTEMS = frozenset(_SYSTEMS.split())
_SHORT = "e:f:R:TB:p:O:v" + "aFP:cC:o:b:s:r:m:M:k:N:tdDql:g:n:hiSGH:A:"
_LONG = ["date", "debug", "quiet", "module=", "profile", "nofifos", "compression=", "max-graph-depth=", "no-filter",
         "func-stack", "user=", "proc-map", "cmdlines-size=", "poll", "file-version=", "notimeout"]  # fmt: skip
_OF_SOME = ("-P", "-F", "-c")


@dataclass
class _Instance:
    """What one buffer of tracefs is asked for."""

    events: list[tuple[list[str], Triggers]] = field(default_factory=list)
    stack: bool = False


def read(lines: Sequence[Sequence[str]]) -> Asked:
    """All commands of a script. UsageError for what trace-cmd would not take."""
    asked = Asked("trace-cmd")
    for line in lines:
        kind = line[1] if len(line) > 1 else ""
        if line[:1] != ["trace-cmd"] or kind not in KINDS:
            said = " ".join(line[:2])
            raise UsageError(f"{said}: traces nothing that has a price", hint="trace-cmd record -e SYSTEM:NAME")
        _command(asked, kind, line[2:])
    if asked.events:
        asked.note("while tracefs records, each switch of tasks may keep a name: that is not in the sum")
    return asked


def _command(asked: Asked, kind: str, words: Sequence[str]) -> None:
    try:
        found, program = getopt(list(words), _SHORT, _LONG)
    except GetoptError as error:
        hint = "an option that is not known here changes the price"
        raise UsageError(f"trace-cmd {kind}: {error}", hint=hint) from error
    if program:
        asked.note(f"trace-cmd would start {program[0]}: what other tasks fire is recorded too, without -F")
    instances = [_Instance()]
    for option, value in found:
        if option == "-B":
            instances.append(_Instance())
        elif option in ("-T", "--func-stack") or (option == "-O" and value == "stacktrace"):
            instances[-1].stack = True
        else:
            _option(asked, instances[-1], kind, option, value)
    for instance in instances:
        for probes, triggers in instance.events:
            for probe in probes:
                consumer, notes = triggers.consumer(enabled=True, stack=instance.stack)
                asked.events.append(Event(probe, (consumer,), notes=(*notes, *_name_notes(probe))))


def _option(asked: Asked, instance: _Instance, kind: str, option: str, value: str) -> None:
    if option == "-e":
        probes = _named(value)
        if isinstance(probes, str):
            asked.unpriced.append((value, probes))
            probes = []
        instance.events.append((probes, Triggers()))
    elif option in ("-f", "-R"):
        if not instance.events:
            raise UsageError(f"trace-cmd {kind}: {option} comes behind the -e that it is of", where=value)
        probes, triggers = instance.events[-1]
        if option == "-f":
            triggers.filter = filter_of(value)
        elif (why := read_trigger(value, triggers)) is not None:
            asked.unpriced.append((f"the trigger {value}", why))
    elif option == "-p":
        asked.unpriced.append((f"the tracer {value}", "the model has no price for functions that a tracer records"))
    elif option == "-v":
        raise UsageError(f"trace-cmd {kind}: -v leaves events out", hint="name those alone that are recorded")
    elif option in _OF_SOME:
        asked.note(f"{option}: of some tasks alone; firings are to be theirs, and what leaves others out has no price")
    elif option == "--profile":
        asked.unpriced.append(("--profile", "it enables events of its own choice: name them with -e"))


def _named(name: str) -> list[str] | str:
    """The probes of -e: SYSTEM:NAME, a system, or an event's name alone."""
    system, colon, event = name.replace("/", ":").partition(":")
    if colon:
        return trace_points(system, event or "*")
    if name == "all":
        return "all events: what they are, and so their price, hangs on the kernel"
    if name in SYSTEMS:
        return trace_points(name, "*")
    if name.startswith(("sys_enter_", "sys_exit_")):
        return trace_points("syscalls", name)
    if name in ("sys_enter", "sys_exit"):
        return [f"{RAW}{name.removeprefix('sys_')}"]
    return trace_points("*", name)


def _name_notes(probe: str) -> list[str]:
    if probe.startswith("tracepoint:*:"):
        return [f"{probe.rpartition(':')[2]} is taken as an event's name, of any system"]
    return []
