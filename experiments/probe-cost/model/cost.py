# SPDX-License-Identifier: MIT
"""The cost model of dynamic tracing, and the scripts of probes whose cost it predicts (prediction.py).

After Tao Jie and Yang Min (2009), "Performance Model of Dynamic Tracing System": the cost of a trace is a sum over
probes of firings times the cost of one firing, and that is a sum over stages. The stages here are those of Linux; an
experiment measures them (experiments/probe-cost).
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, FiniteFloat, model_validator

from harness.yamlfile import Strict, about

Stage = Literal[
    "trap",  # from the probed instruction to the kernel's handler, and back: exceptions, trampolines, detours
    "dispatch",  # the provider finds the probe and calls its consumers
    "same-place",  # each further probe on one place shares the trap; counts negative
    "iteration",  # once, when a trace point has more than one consumer
    "listed",  # where several listen to one function by ftrace: each listener that listens to others alone
    "mixed",  # a function that has a kprobe by ftrace and a program of fprobe's
    "consumer",  # a tracefs instance that records the event, without fields of its own
    "register",  # each recorded field: a register
    "memory",  # each recorded field: 8 bytes behind a pointer
    "comm",  # each recorded field: the task's name
    "string",  # each recorded field: a string of the user's
    "character",  # each character of it, with its end
    "data",  # what a system call's event copies of the user's as so many bytes, and each of these
    "data-byte",
    "kept-string",  # the same four where perf goes on behind programs, to sample the event
    "kept-character",
    "kept-data",
    "kept-data-byte",
    "predicate",  # a filter with one term, when it is true
    "term",  # each further term
    "string-predicate",  # a filter with one term on a string, when it is true, without its characters
    "compared",  # each character that it compares
    "predicate-false",  # a filter, when it is false; the record that is not kept counts negative
    "stack",  # a kernel stack trace
    "frame",  # each frame of it
    "user-frame",  # each frame of the user's in a sample's stack
    "kernel-stack",  # a sample's stack that has frames of the kernel's
    "spread",  # what samples' stacks of a workload take more, or less, than by a look at them; in the interval alone
    "within",  # a sample in a probe's handling: what its stack has beyond the place that is probed
    "within-stack",  # and in the taking of a stack there
    "histogram",  # aggregation by one key
    "second-key",  # the second key
    "key",  # each further key
    "value",  # each summed value
    "unrecorded",  # aggregating without recording; what is not recorded counts negative
    "trigger-predicate",  # a filter of an aggregation, when it is true
    "histogram-false",  # and when it is false; what is not aggregated counts negative
    "programs",  # once, when eBPF programs are attached
    "program",  # each program
    "instruction",  # each instruction of a program
    "aggregation",  # each counter in a hash map that a program adds to
    "miss",  # a firing that is lost because another probe is being handled
    "passage",  # system calls that pass a probe on another system call
    "program-passage",  # the same, where programs alone consume the probe
    "second-passage",  # and for each further consumer
    "shared-passage",  # counted twice where both ways are probed; negative
    "switch",  # each context switch while something records
    "sample",  # a timer's sample
    "refresh",  # each time that a reader wakes up
    "beside",  # less, where another reader wakes up beside it; negative
    "buffer",  # and for each further buffer that it looks into
    "page",  # each whole page that it takes out
    "partial",  # each time that it takes out what is in a page that is being written, or is left of one
    "copied",  # each event that is copied for that
    "byte",  # each byte of these
    "ring-wake",  # each time that the reader of a program's ring wakes up
    "taken",  # each event that it takes out of a ring of BPF's
    "perf-taken",  # and of perf's
]
#: What a program calls; docs/file-formats.md says which of the kernel's helpers each is.
CALLS = (
    *("pid", "uid", "time", "boot", "cpu", "task", "random", "comm", "read", "uread", "string", "ustring"),
    *(
        "look",
        "put",
        "hlook",
        "hput",
        "renew",
        "delete",
        "array",
        "stack",
        "syscall-stack",
        "ring",
        "perf",
        "wake",
        "woken",
        "ring-wake",
        "ring-woken",
        "kept",
    ),
)
Unit = Literal["instructions", "ns"]
#: Providers that trace points serve: more than one consumer is called in a loop.
TRACE_POINTS = frozenset({"tracepoint", "syscall", "syscall-return"})
SYSCALLS = ("syscall", "syscall-return")
#: Providers whose fields are fetched once for all consumers; elsewhere each consumer fetches them.
USER = frozenset({"uprobe", "uprobe-step", "uretprobe", "usdt"})
#: Providers of one listener at a function's entry; each program of fprobe's is one more (arch_ftrace_ops_list_func).
BY_FTRACE = frozenset({"kprobe-ftrace", "kretprobe"})
#: Providers that only eBPF programs consume.
PROGRAMS_ONLY = frozenset({"fprobe", "raw-tracepoint"})
#: perf's software clock raises shorter periods to this (perf_swevent_start_hrtimer), and a task has no more pending
#: uretprobes (MAX_URETPROBE_DEPTH).
LEAST_PERIOD_NS, MOST_DEPTH = 10_000, 64


class Cost(Strict):
    """One measured stage: the median over trials and its 95 % interval, or the trials' range where they are few."""

    value: Annotated[FiniteFloat, about("median over trials", "the model's")]
    low: Annotated[FiniteFloat, about("lower end", "the model's")]
    high: Annotated[FiniteFloat, about("upper end", "the model's")]


class Provider(Strict):
    """What one provider's stages cost, per firing or per what the stage says."""

    stages: Annotated[dict[Stage, Cost], about("by stage")]
    points: Annotated[dict[str, Cost], about("the stage consumer at points that were measured one by one")] = {}


class CallCost(Strict):
    """What a call of a helper costs."""

    each: Annotated[Cost, about("a call")]
    byte: Annotated[Cost | None, about("each byte that it is about, or frame of a stack; null: it has none")] = None


class Counts(Strict):
    """A workload as it was measured once, without probes and with its firings counted."""

    cost: Annotated[float, about("untraced", "the model's")] = Field(gt=0)
    syscalls: Annotated[float, about("system calls, of all kinds", "calls")] = Field(default=0, ge=0)
    switches: Annotated[float, about("context switches", "switches")] = Field(default=0, ge=0)
    firings: Annotated[dict[str, float], about("by PROVIDER POINT", "firings")] = {}
    drift: Annotated[float, about("how far untraced runs of it are apart", "the model's")] = Field(default=0, ge=0)
    syscalls_by_wake: Annotated[float, about("of a reader that finds nothing, each time it wakes up", "calls")] = Field(
        default=0, ge=0
    )
    switches_by_wake: Annotated[float, about("the same of context switches", "switches")] = Field(default=0, ge=0)


class Accuracy(Strict):
    """How far predictions were off on scripts that took no part in the fit: |predicted / measured - 1|."""

    scripts: Annotated[int, about("how many", "scripts")] = Field(ge=1)
    added_median: Annotated[float, about("of the added cost, median", "ratio")]
    added_worst: Annotated[float, about("of the added cost, worst", "ratio")]
    added_most: Annotated[
        float | None, about("of the added cost, that 19 of 20 are within; null: the worst", "ratio")
    ] = None
    slowdown_median: Annotated[float, about("of the slowdown, median", "ratio")]
    slowdown_worst: Annotated[float, about("of the slowdown, worst", "ratio")]


class Calibrated(Strict):
    """Where and when ./inv calibrate has measured a model."""

    machine: Annotated[str, about("the CPU, as it calls itself; or QEMU")]
    cpus: Annotated[int, about("of the machine", "CPUs")] = Field(ge=1)
    date: Annotated[str, about("YYYY-MM-DD, UTC")]
    passes: Annotated[int, about("that were made", "passes")] = Field(ge=1)


class CostModel(Strict):
    """A fitted model: documents/model.json of a result set of probe-cost."""

    format: Annotated[Literal[1], about("version of this format", "1")] = 1
    experiment: Annotated[str, about("name")]
    arm: Annotated[str, about("whose trials were fitted")]
    kernel: Annotated[str, about("name of the kernel")]
    fidelity: Annotated[str, about("what kind of time this is")]
    unit: Annotated[Unit, about("of all costs")]
    trials: Annotated[int, about("that were fitted", "trials")] = Field(ge=1)
    providers: Annotated[dict[str, Provider], about("by name")]
    general: Annotated[dict[Stage, Cost], about("stages that are the same for all providers")]
    calls: Annotated[dict[str, CallCost], about("of helpers, by name")] = {}
    workloads: Annotated[dict[str, Counts], about("that were counted, by name")] = {}
    accuracy: Annotated[Accuracy | None, about("null: no script was held out")] = None
    calibrated: Annotated[Calibrated | None, about("null: it is of a result set")] = None


# -- scripts ----------------------------------------------------------------------------------------------


class Predicate(Strict):
    """A filter: terms that are and-ed, and how often all of them hold."""

    terms: Annotated[int, about("in all", "terms")] = Field(default=1, ge=1)
    passes: Annotated[float, about("fraction of firings for which it is true", "ratio")] = Field(default=1, ge=0, le=1)
    terms_if_true: Annotated[int | None, about("evaluated when it is true; null: all", "terms")] = Field(
        default=None, ge=1
    )
    terms_if_false: Annotated[int, about("evaluated when it is false", "terms")] = Field(default=1, ge=1)
    read_passes: Annotated[
        float | None, about("of firings by reads of a reader's, the same; null: as of the workload's", "ratio")
    ] = Field(default=None, ge=0, le=1)
    characters: Annotated[
        float | None, about("compared of a string, on average; null: its first term is on a number", "characters")
    ] = Field(default=None, ge=0)


class Histogram(Strict):
    """Aggregation in the kernel, a hist: trigger."""

    keys: Annotated[int, about("that make an entry", "keys")] = Field(default=1, ge=1)
    values: Annotated[int, about("summed besides the hit count", "values")] = Field(default=0, ge=0)


class Call(Strict):
    """A helper that a program calls."""

    name: Annotated[Literal[CALLS], about("of the helper")]  # type: ignore[valid-type]
    times: Annotated[float, about("per firing", "calls")] = Field(default=1, ge=0)
    bytes: Annotated[float, about("that it is about: of a key, a text, an event; of a stack its frames", "bytes")] = (
        Field(default=8, ge=0)
    )


class Program(Strict):
    """An eBPF program."""

    instructions: Annotated[float, about("executed per firing", "instructions")] = Field(default=0, ge=0)
    aggregations: Annotated[int, about("counters in a hash map that it adds to", "counters")] = Field(default=0, ge=0)
    calls: Annotated[list[Call], about("of helpers")] = []


class Consumer(Strict):
    """What is done with a probe's firings: a tracefs instance, or an eBPF program."""

    record: Annotated[bool, about("into the ring buffer")] = True
    predicate: Annotated[Predicate | None, about("null: none")] = None
    stack_frames: Annotated[float | None, about("of a stack trace; null: none is taken", "frames")] = Field(
        default=None, ge=0
    )
    user_frames: Annotated[float, about("of the user's in it, where it is a sample's", "frames")] = Field(
        default=0, ge=0
    )
    in_kernel: Annotated[
        float | None, about("share of samples that have frames of the kernel's; null: all, if there are any", "ratio")
    ] = Field(default=None, ge=0, le=1)
    histogram: Annotated[Histogram | None, about("null: none")] = None
    program: Annotated[Program | None, about("null: tracefs consumes")] = None


class Fields(Strict):
    """What a probe's event records of its own."""

    registers: Annotated[int, about("registers", "fields")] = Field(default=0, ge=0)
    memory: Annotated[int, about("words behind pointers", "fields")] = Field(default=0, ge=0)
    comm: Annotated[int, about("task names", "fields")] = Field(default=0, ge=0)
    strings: Annotated[int, about("strings of the user's", "fields")] = Field(default=0, ge=0)
    characters: Annotated[float, about("in these, with their ends", "characters")] = Field(default=0, ge=0)

    data: Annotated[int, about("of the user's, as so many bytes", "fields")] = Field(default=0, ge=0)
    bytes: Annotated[float, about("in these", "bytes")] = Field(default=0, ge=0)

    def copied(self) -> dict[Stage, float]:
        """How many of what an event copies of the user's."""
        return {
            "string": self.strings,
            "character": self.characters,
            "data": self.data,
            "data-byte": self.bytes,
        }

    def plus(self, more: Fields) -> Fields:
        """Both."""
        return Fields(**{name: getattr(self, name) + getattr(more, name) for name in Fields.model_fields})

    def numbers(self) -> dict[Stage, float]:
        """How many of each stage."""
        return {
            "register": self.registers,
            "memory": self.memory,
            "comm": self.comm,
            **self.copied(),
        }


class Probe(Strict):
    """One enabled probe and its consumers."""

    provider: Annotated[str, about("as the model calls it")]
    point: Annotated[str, about("what is probed")] = ""
    firings: Annotated[float | None, about("null: as counted in the workload", "firings")] = Field(default=None, ge=0)
    misses: Annotated[float, about("of them, lost in other probes' handling", "firings")] = Field(default=0, ge=0)
    fields: Annotated[Fields, about("recorded")] = Fields()
    consumers: Annotated[list[Consumer], about("at least one")] = Field(default=[Consumer()], min_length=1)
    period_ns: Annotated[float | None, about("of samples; null: not timer sampling", "ns")] = Field(default=None, gt=0)
    depth: Annotated[int, about("calls of the function pending at a time, in one task", "calls")] = Field(
        default=1, ge=1
    )
    event_bytes: Annotated[float | None, about("of an event, without its strings; null: not known", "bytes")] = Field(
        default=None, ge=0
    )
    place_frames: Annotated[
        float | None, about("of the kernel's stack where it fires, for samplers beside it; null: not known", "frames")
    ] = Field(default=None, ge=0)
    by_wake: Annotated[float, about("of a reader that finds nothing, each time it wakes up", "firings")] = Field(
        default=0, ge=0
    )
    by_read: Annotated[float, about("of each further read of it", "firings")] = Field(default=0, ge=0)
    by_ring: Annotated[float | None, about("of a ring's reader, each time it wakes up; null: by_wake", "firings")] = (
        Field(default=None, ge=0)
    )


class Refresh(Strict):
    """The periodic refresh: a reader that drains the buffers."""

    wakes: Annotated[float | None, about("how often it wakes up; null: as its period says", "times")] = Field(
        default=None, ge=0
    )
    pages: Annotated[float, about("that it takes out in all, where its wakes are given", "pages")] = Field(
        default=0, ge=0
    )
    buffers: Annotated[int, about("that it looks into, where its wakes are given", "buffers")] = Field(default=1, ge=1)
    period_ns: Annotated[float | None, about("that it sleeps between two looks; null: wakes are given", "ns")] = Field(
        default=None, gt=0
    )
    each: Annotated[bool, about("a reader for each tracefs instance, and not one for all")] = False
    reads: Annotated[float | None, about("that it makes of a buffer in one look, at most; null: until it is empty")] = (
        Field(default=None, ge=1)
    )

    @model_validator(mode="after")
    def _one(self) -> Refresh:
        if (self.wakes is None) == (self.period_ns is None):
            raise ValueError("one of wakes and period_ns, and not both")
        return self


class Script(Strict):
    """What will be traced, of which workload: the file that ./inv predict reads."""

    workload: Annotated[str | Counts, about("one that the model has counted, or its counts")]
    probes: Annotated[list[Probe], about("at least one")] = Field(min_length=1)
    refresh: Annotated[Refresh | None, about("null: nobody reads")] = None

    @model_validator(mode="after")
    def _sampling(self) -> Script:
        for probe in self.probes:
            if (probe.provider == "sample") != (probe.period_ns is not None):
                raise ValueError("period_ns belongs to the provider sample, and to no other")
        return self


def stages() -> tuple[Stage, ...]:
    """All stages, in the order in which they are shown."""
    return get_args(Stage)
