# SPDX-License-Identifier: MIT
"""From the runs of one trial: stages of readers and of samples, of strings, and of what programs call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .fitlines import line, solved
from .model.cost import PROGRAMS_ONLY
from .model.readers import PAGE_BYTES, event_size

if TYPE_CHECKING:
    from .fit import Runs

#: Calls that are about a number of bytes: the two that were measured.
SIZES = {
    **dict.fromkeys(("read", "uread"), (8, 128)),
    **dict.fromkeys(("string", "ustring"), (16, 128)),
    **dict.fromkeys(("look", "put", "hlook", "hput", "renew"), (8, 80)),
}
PLAIN = ("pid", "uid", "time", "boot", "cpu", "task", "random", "comm")
#: How often the fit's programs call what they call.
_TIMES = 5
#: Workloads whose samples have stacks of the kernel's; and the period of these samples, in step with nothing.
IN_KERNEL, BESIDE_NS = ("pipe", "path", "itimer", "rename", "getppid"), 20_011
#: Runs whose readers find events, and the same without a reader.
_DRAINED = {
    "drain.small.often": "drain.small",
    "drain.small.half": "drain.small",
    "drain.small.seldom": "drain.small",
    "drain.large.half": "drain.large",
}


def samples_of(runs: Runs) -> dict[str, float]:
    """Units per sample: what it lasts longer, by the samples in that time."""

    def each(name: str, bare: str, period: float) -> float:
        lasted = runs.cost(name)
        return (lasted - runs.cost(bare)) / (lasted / period) if lasted else math.nan

    stages = {
        "sample": each("sample.one", "bare.spin", 100_000),
        "programs": each("sample.program", "bare.spin", 100_000),
    }
    deep, looked = [], []
    for name, bare, period in (
        ("sample.stack", "bare.spin", 100_000),
        ("sample.frames10", "bare.frames10", 100_000),
        ("sample.frames40", "bare.frames40", 100_000),
        ("sample.pipe", "bare.pipe", 20_000),  # of an older guest's program
        *((f"sample.in-{work}", f"bare.{work}", BESIDE_NS) for work in IN_KERNEL),
    ):
        cost = each(name, bare, period)
        if not math.isnan(cost) and runs.runs[name].probes[0].user_frames:
            probe = runs.runs[name].probes[0]
            told = (probe.frames, probe.user_frames, probe.in_kernel)
            # What the samples themselves had: in a loop that a period is in step with, a look has other ones.
            deep.append(((1.0, *(probe.found if any(probe.found) else told)), cost - stages["sample"]))
            looked.append((1.0, *told))
    named = ("stack", "frame", "user-frame", "kernel-stack")
    known = len(named) if any(row[-1] for row, _ in deep) else len(named) - 1
    if len(deep) >= known:
        found = solved([row[:known] for row, _ in deep], [value for _, value in deep])
        off = [
            abs(math.fsum(one * other for one, other in zip(found, row, strict=False)) - cost)
            for row, (_, cost) in zip(looked, deep, strict=True)
        ]
        return stages | dict(zip(named, found, strict=False)) | {"spread": max(off)}
    return stages | {"stack": each("sample.stack", "bare.spin", 100_000)}


def within_of(runs: Runs, provider: str, sample: Mapping[str, float]) -> dict[str, float]:
    """What the stack of a sample that falls into a probe's handling takes beyond the frames of the probed place.

    Of the time of a run with a sampler beside the probe, the workload's share has the workload's stacks; without the
    sampler it takes what it takes in a run of its own. Where it takes stacks, the rest is shared with the recording.
    """
    programs = provider in PROGRAMS_ONLY
    beside, alone = f"{provider}.sampled", f"{provider}.{'called' if programs else 'four'}"
    if "kernel-stack" not in sample or not {beside, alone} <= set(runs.runs):
        return {}
    place, sampler = runs.runs[beside].probes
    own = sample["sample"] + sample["stack"] + sample["user-frame"] * sampler.user_frames
    there = own + sample["frame"] * place.place
    workload = own + sample["frame"] * sampler.frames + sample["kernel-stack"] * sampler.in_kernel
    bare = runs.bare(beside)

    def beyond(name: str, other: str, recording: float, within: float) -> float:
        lasted, without = runs.cost(name), runs.cost(other)
        each = (lasted - without) / (lasted / BESIDE_NS)
        others = bare * workload + recording * (there + within)
        return (each * without - others) / (without - bare - recording) - there

    found = {"within": beyond(beside, alone, 0.0, 0.0)}
    if not programs and {f"{provider}.sampled-stack", f"{provider}.stack", f"{provider}.one"} <= set(runs.runs):
        recording = runs.cost(f"{provider}.one") - bare
        found["within-stack"] = beyond(f"{beside}-stack", f"{provider}.stack", recording, found["within"])
    return found


def refresh_of(runs: Runs) -> dict[str, float]:
    """What a wake-up costs, and what its reader takes out."""

    def beyond(name: str, other: str) -> float:
        return runs.runs[name].total - runs.runs[other].total

    wake = beyond("general.wake", "general.idle") / runs.runs["general.wake"].wakes
    wake2 = beyond("general.wake2", "general.idle") / runs.runs["general.wake2"].wakes
    stages = {"refresh": wake, "buffer": wake2 - wake}
    if {"general.wake4", "general.idle4"} <= set(runs.runs):
        stages["beside"] = beyond("general.wake4", "general.idle4") / runs.runs["general.wake4"].wakes - wake
    switch = (runs.cost("general.switch") - runs.cost("general.switch-nameless")) / 2
    if {*_DRAINED, *_DRAINED.values()} <= set(runs.runs):
        rows, values = [], []
        for name, undrained in _DRAINED.items():
            run = runs.runs[name]
            size = event_size(run.probes[0].size or (16 + 40 * ("large" in name)))
            events = run.firing_rounds
            by_page = PAGE_BYTES // size
            copied = events - run.whole * by_page
            rows.append((run.whole, run.pages - run.whole, copied, copied * size))
            values.append(beyond(name, undrained) - run.wakes * (wake + switch))
        stages |= dict(zip(("page", "partial", "copied", "byte"), solved(rows, values), strict=True))
    else:
        drained = runs.runs["general.drained"]
        page = (beyond("general.drained", "general.undrained") - wake * drained.wakes) / drained.pages
        stages["page"] = page
    for kind, wakes, taken in (("ring", "ring-wake", "taken"), ("perf", "perf-wake", "perf-taken")):
        names = [f"drain.{kind}{what}" for what in (".idle", ".unread", ".half", "")]
        if not set(names) <= set(runs.runs) or not runs.runs[names[2]].records:
            continue
        idle, unread, half, whole = names
        stages[wakes] = beyond(idle, unread) / runs.runs[idle].wakes
        found = runs.runs[half]
        stages[taken] = (beyond(half, whole) - found.wakes * stages[wakes]) / found.records
    stages.pop("perf-wake", None)
    return stages


def strings_of(runs: Runs) -> dict[str, float]:
    """A string of a user's in an event, and a filter on one."""

    def cost(name: str) -> float:
        return runs.cost(f"string.{name}")

    lengths = (12, 100)
    if not {"string.12", "string.100", "string.differs", "string.begins"} <= set(runs.runs):
        return {}
    each, character = line([(length + 1, cost(f"{length}.one") - cost(str(length))) for length in lengths])
    # One character is compared where the first differs; all of the pattern where that is how a text begins.
    begins = len(runs.runs["string.begins"].lines[2].split("'")[1]) - 1
    first, more = (cost(name) - cost("100.one") for name in ("differs", "begins"))
    compared = (more - first) / (begins - 1)
    return {"string": each, "character": character, "string-predicate": first - compared, "compared": compared}


#: What newer kernels copy into the event of a call: a string with its end, or as many bytes as another argument says.
COPIES = {"string": ("string", "character", 1), "data": ("data", "data-byte", 0)}


def kept_of(runs: Runs) -> float:
    """What perf goes on with behind a program at a trace point that returns 1."""
    return runs.cost("call.kept") - runs.cost("call.none")


def copies_of(runs: Runs, consumer: float) -> dict[str, float]:
    """What a system call's event copies of the user's, of two lengths: for each consumer, and where perf goes on.

    `consumer`: what one takes at a call whose event copies nothing. Nothing where a kernel copies nothing.
    """
    found: dict[str, float] = {}
    for kind, (each, more, end) in COPIES.items():
        own, perfs = [], []
        names = [name.split(".") for name in runs.runs if name.startswith(f"{kind}-copied.")]
        for length in sorted({int(name[1]) for name in names}):
            two, four, program, keeps = (
                runs.cost(f"{kind}-copied.{length}.{what}") for what in ("two", "four", "program", "kept")
            )
            own.append((float(length + end), (four - two) / 2 - consumer))
            perfs.append((float(length + end), keeps - program - kept_of(runs)))
        if len(own) > 1:
            found |= dict(zip((each, more), line(own), strict=True))
            found |= dict(zip((f"kept-{each}", f"kept-{more}"), line(perfs), strict=True))
    return found


def calls_of(runs: Runs, instruction: float) -> dict[str, float]:
    """Each call without the instructions that its arguments take: NAME, and NAME-byte where it is about bytes."""
    found: dict[str, float] = {}
    if not {"call.none", "call.first"} <= set(runs.runs):
        return found

    def more(name: str, other: str, times: int) -> float:
        executed = [runs.runs[run].probes[0].executed[0] for run in (name, other)]
        return (runs.cost(name) - runs.cost(other) - (executed[0] - executed[1]) * instruction) / times

    for name in PLAIN:
        if f"call.{name}" in runs.runs:
            found[name] = more(f"call.{name}", "call.none", _TIMES)
    found["pid"] = more("call.pid", "call.none", _TIMES - 1)
    for name in PLAIN[1:]:
        if name in found:  # the run without a call has one, of pid
            found[name] += found["pid"] / _TIMES
    text = more("call.first", "call.none", 1) + found["pid"]
    read = more("call.read/8", "call.first", _TIMES - 1)
    text -= read  # what looking for a text in an array costs, once
    found["array"] = text
    for name, sizes in SIZES.items():
        if not all(f"call.{name}/{size}" in runs.runs for size in sizes):
            continue
        own = text if name in ("read", "string") else 0.0
        each = [(more(f"call.{name}/{size}", "call.none", 1) + found["pid"] - own) / _TIMES for size in map(str, sizes)]
        found[name], found[f"{name}-byte"] = line(list(zip(map(float, sizes), each, strict=True)))
    for what in ("", "-byte"):
        # A key that is taken out is put in anew: that is dearer than a put of one that is there.
        if {f"renew{what}", f"hput{what}"} <= set(found):
            found[f"delete{what}"] = found[f"renew{what}"] - found[f"hput{what}"]
    found |= _stacks_and_rings(runs, more, found["pid"])
    return {name: value for name, value in found.items() if not math.isnan(value)}


#: A program at a system call has the registers of its caller, the program's: older kernels find no frame in these (one
#: of 6.1), newer ones look from the trace point on.
SYSCALL = "call-stack@enter.one"


def _stacks_and_rings(runs: Runs, more: Callable[[str, str, int], float], pid: float) -> dict[str, float]:
    found: dict[str, float] = {}
    deep = []
    for name, run in runs.runs.items():
        if name.startswith("call-stack@") and name.endswith(".one"):
            cost = more(name, name.removesuffix("one") + "none", 1) + pid
            if name == SYSCALL:
                found["syscall-stack"] = cost
            else:
                deep.append((run.stack_frames, cost))
    if len({frames for frames, _ in deep}) > 1:
        found["stack"], found["stack-byte"] = line(deep)
    for kind in ("ring", "perf"):
        names = [f"out.{kind}={size}" for size in (8, 128)]
        if set(names) <= set(runs.runs):
            each = [more(name, "call.none", 1) + pid for name in names]
            found[kind], found[f"{kind}-byte"] = line(list(zip((8.0, 128.0), each, strict=True)))
    if "call.kept" in runs.runs:
        found["kept"] = kept_of(runs)
    for kind, wake, woken in (("perf", "wake", "woken"), ("ring", "ring-wake", "ring-woken")):
        waited, unread = f"drain.{kind}.waited", f"drain.{kind}"
        if {waited, unread} <= set(runs.runs) and runs.runs[waited].records:
            # Both share the CPU; what the one took that was woken up is known by its own clock.
            found[woken] = runs.runs[waited].waiter_ns / runs.runs[waited].records
            found[wake] = runs.cost(waited) - runs.cost(unread) - found[woken]
    return found
