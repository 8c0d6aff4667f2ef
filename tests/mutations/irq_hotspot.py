# SPDX-License-Identifier: MIT
"""What turns each claim and finding of irq-hotspot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.oracle.places import INTERRUPT, NMI, SOFTIRQ, TASK
from harness.oracle.reader import FUNCTION, WINDOW
from harness.trial.model import TrialRecord
from tests.golden import Golden
from tests.mutation import Change, turns
from tests.rawfiles import edit, records, said

#: Why trials are made.
MAP = "its trial needs the symbol map of a kernel that no committed trial has"
FIVE = "one committed trial has too few ticks to tell"
OLDER = "the committed trial of the arm is older than what tells it"
STOCK = "its kernel, without patches, is built for this arm alone"
#: The edu driver's handler and the loop in it.
EDU = ("krepro_edu_irq", "krepro_edu_work")
#: Arms whose trials have every kind of file between them, and a trial beside the damaged one.
DAMAGED = ("tick", "irq-entry-wall", "nmi", "map-tick")
#: Records of functions.bin that are all there say nothing of those that a cut has taken.
MAY_CHANGE = {
    "functions.bin": {
        *("truth", "estimate", "missed", "error", "error_of_independent", "entries_counted", "entries_as_time"),
        *("nmi_cost", "light_instructions_ratio", "known_instructions", "fix_cost", "interrupt_share", "off_cost"),
        *("profile_error", "profile_of_independent", "sampler_error", "sampler_of_independent"),
    },
}


def _addresses(trial: TrialRecord) -> dict[str, int]:
    lines = [line.split() for line in trial.system_map.read_text().splitlines()]
    return {name: int(place, 16) for place, _, name in lines}


def _extent(address: dict[str, int], function: str) -> tuple[int, int]:
    """A function's first byte, and that of the next."""
    begin = address[function]
    return begin, min(place for place in address.values() if place > begin)


def _of(golden: Golden, arm: str) -> list[TrialRecord]:
    return [trial for trial in golden.trials if trial.arm == arm]


def _copy(golden: Golden, arm: str, other: str, repetition: int = 0) -> None:
    """A trial more: what an arm's first one is, under another arm's name or as another repetition."""
    trial, path = _of(golden, arm)[0], golden.raw(other, repetition)
    shutil.copytree(trial.path, path)
    golden.trials.append(trial.model_copy(update={"arm": other, "repetition": repetition, "path": path}))


def _count(golden: Golden, arm: str, workload: str, function: str, counts: int, *, repetition: int = 0) -> None:
    """Add counts at a function's first byte, in the raw buffer."""
    address = _addresses(_of(golden, arm)[0])
    with records(golden.raw(arm, repetition) / workload / "profile", "<i4") as words:
        words[1 + (address[function] - address["_stext"]) // int(words[0])] += counts


def _clear(golden: Golden, arm: str, *functions: str, workload: str = "edu", kept: float = 0) -> None:
    """Take the counts of functions, or all but a part, from raw buffers, with those of neighbours in their counters."""
    for trial in _of(golden, arm):
        address, path = _addresses(trial), trial.path / workload / "profile"
        with records(path, "<u4") as words:
            for name in functions:
                begin, end = _extent(address, name)
                first, last = ((place - address["_stext"]) // int(words[0]) for place in (begin, end - 1))
                words[1 + first : 2 + last] = words[1 + first : 2 + last] * kept


def _gather(golden: Golden, arm: str, workload: str, counter: int) -> None:
    """Move all counts into one counter, in the raw buffers of a workload."""
    for trial in _of(golden, arm):
        with records(trial.path / workload / "profile", "<u4") as words:
            whole, words[1:] = words[1:].sum(), 0
            words[1 + counter] = whole


def _fold(golden: Golden, arm: str, step: int) -> None:
    """Counters of another step in an arm's raw buffers; what a counter has is taken for counts at its first byte."""
    for trial in _of(golden, arm):
        address = _addresses(trial)
        for workload in trial.workloads:
            path = trial.path / workload / "profile"
            words = np.fromfile(path, dtype="<u4")
            folded = np.zeros(1 + (address["_etext"] - address["_stext"]) // step, dtype="<u4")
            places = 1 + np.arange(words.size - 2) * int(words[0]) // step
            np.add.at(folded, np.minimum(places, folded.size - 1), words[1:-1])
            folded[0] = step
            folded[-1] += words[-1]
            folded.tofile(path)


def _sample_time(golden: Golden, arm: str, workload: str, instructions: int) -> None:
    """The raw buffers of a sampler of time: a count for each so many instructions that the oracle saw in a function."""
    for trial in _of(golden, arm):
        stext, path = _addresses(trial)["_stext"], trial.path / workload / "profile"
        words, counts = np.fromfile(path, dtype="<u4"), np.fromfile(trial.path / "oracle/functions.bin", dtype=FUNCTION)
        counts = counts[(counts["kind"] == WINDOW) & (counts["region"] == trial.workloads.index(workload))]
        counts = counts[(counts["context"] < NMI) & (counts["address"] >= stext)]
        words[1:] = 0
        np.add.at(words, 1 + (counts["address"].astype("i8") - stext) // int(words[0]), counts["n"] // instructions)
        words.tofile(path)


def _execute(golden: Golden, arm: str, function: str, more: int, *, region: int = 0) -> None:
    """So many instructions more in each execution of a function, as the oracle of an arm's trials saw it."""
    for trial in _of(golden, arm):
        with records(trial.path / "oracle/functions.bin", FUNCTION) as counts:
            chosen = (counts["region"] == region) & (counts["address"] == _addresses(trial)[function])
            assert chosen.any(), (arm, function)
            counts["n"][chosen] = counts["n"][chosen].astype("i8") + more * counts["entries"][chosen].astype("i8")


def _run_in(golden: Golden, arm: str, region: int, context: int, other: int) -> None:
    """What ran in one context of a workload ran in another, as the oracle saw it."""
    with records(golden.raw(arm) / "oracle" / "functions.bin", FUNCTION) as counts:
        chosen = (counts["region"] == region) & (counts["context"] == context)
        assert chosen.any(), (arm, region)
        counts["context"][chosen] = other


def _remap(golden: Golden, arm: str, change: Callable[[dict[str, int], list[str]], list[str]]) -> None:
    """Another map for an arm's trials, by the addresses and the lines of what it was."""
    for index, trial in enumerate(golden.trials):
        if trial.arm == arm:
            path = golden.root / f"{arm}.map"
            lines = change(_addresses(trial), trial.system_map.read_text().splitlines())
            path.write_text("\n".join(sorted(lines)) + "\n")
            golden.trials[index] = trial.model_copy(update={"system_map": path})


def _lengthen(golden: Golden, arm: str, function: str, size: int) -> None:
    """A function is so long in the map of an arm's trials: those that begin within it are gone."""

    def change(address: dict[str, int], lines: list[str]) -> list[str]:
        begin = address[function]
        return [line for line in lines if not begin < int(line.split()[0], 16) < begin + size]

    _remap(golden, arm, change)


def _begin(golden: Golden, arm: str, function: str, distance: int) -> None:
    """A function more in the map of one arm's trials: it begins so many bytes behind `function`."""
    _remap(golden, arm, lambda address, lines: [*lines, f"{address[function] + distance:08x} t krepro_mutant"])


def _modern(golden: Golden) -> None:
    """Arm tick-modern takes arm tick's first trial."""
    _copy(golden, "tick", "tick-modern")


def _more(claim: str, arm: str, workload: str, function: str, counts: int = 1, **turned: Any) -> Change:
    """A mutation: so many counts more at a function's first byte, in the raw buffer of an arm's workload."""

    def change(golden: Golden) -> None:
        _count(golden, arm, workload, function, counts)

    change.__name__ = f"counts_more_for_{claim}"
    number = f"{counts} counts more are" if counts > 1 else "One count more is"
    change.__doc__ = f"{number} put at {function}, in the raw buffer of workload {workload} of arm {arm}."
    return turns(claim, **turned)(change)


COUNTED = [
    _more("blind-spot", "tick", "edu", "krepro_edu_work"),
    _more("blind-spot-wall", "tick-wall", "disk", "ata_bmdma_interrupt"),
    _more("modern-blind-spot", "tick-modern", "edu", "krepro_edu_work", before=_modern, why=MAP),
    _more("debian-blind-spot", "tick-debian", "serial", "serial8250_interrupt"),
    _more("idle-on-top", "tick", "idle", "vfs_read", 1000, also=("single-count-tick",)),
    _more("idle-on-top-wall", "tick-wall", "idle", "vfs_read", 1000),
    _more("entries-edu", "irq-entry", "edu", "krepro_edu_irq", also=("entries-exact",)),
    _more("entries-timer", "irq-entry", "idle", "timer_interrupt"),
    _more("entries-edu-wall", "irq-entry-wall", "edu", "krepro_edu_irq"),
    _more("entries-disk", "irq-entry-wall", "disk", "ata_bmdma_interrupt"),
    _more("entries-net", "irq-entry-wall", "net", "cp_interrupt"),
    _more("single-count-handler-only", "handler-only", "idle", "default_idle", 200),
    _more(
        "entries-exact", "irq-entry", "edu", "krepro_edu_irq", 500, also=("entries-edu", "entries-of-a-light-handler")
    ),
    _more("set-rtc-mmss-is-hot", "irq-entry-mixed", "mixed", "mach_set_cmos_time"),
    _more("timer-interrupt-has-its-counts", "irq-entry-mixed", "mixed", "timer_interrupt"),
    _more("idle-doubles", "tick-mixed", "mixed", "default_idle", 100),
    _more("peer-tick-tells-nothing", "peer-tick", "peers", "krepro_edu_work"),
    _more("peer-jitter-tells-nothing", "peer-jitter", "peers", "krepro_edu_work"),
]


@turns("debian-interrupts-take-time")
def nothing_runs_in_an_interrupt(golden: Golden) -> None:
    """The oracle of arm tick-debian saw every instruction of a hard interrupt in a task."""
    _run_in(golden, "tick-debian", 0, INTERRUPT, TASK)


@turns("phantom-handler")
def no_neighbours_ticks(golden: Golden) -> None:
    """The counters that have a byte of the edu handler are set to 0, in the raw buffer of arm n7."""
    _clear(golden, "n7", *EDU)


@turns(
    "blocks-are-2-to-the-n", "index-of-a-block", "index-as-printed",
    also=("blind-spot", "idle-on-top", "displaced-time", "third-column-is-a-share", "third-column-above-one"),
)  # fmt: skip
def sixteen_blocks(golden: Golden) -> None:
    """The text of arm tick is 4 MiB long in its map, and its raw buffers have the paper's 16 blocks of it."""

    def change(address: dict[str, int], lines: list[str]) -> list[str]:
        ends = f"{address['_stext'] + (1 << 22):08x} T _etext"
        return [ends if line.endswith(" _etext") else line for line in lines]

    _remap(golden, "tick", change)
    _fold(golden, "tick", 1 << 18)


@turns("index-of-a-block", "index-as-printed", also=("displaced-time",))
def all_counts_at_the_begin(golden: Golden) -> None:
    """All counts are moved into the first counter, in the raw buffers of workload edu of arm tick."""
    _gather(golden, "tick", "edu", 0)


@turns("larger-n-is-finer", "larger-n-is-coarser", "neighbours-n2-to-n7")
def a_finer_buffer_at_n7(golden: Golden) -> None:
    """The raw buffers of arm n7 have counters of 2 bytes."""
    _fold(golden, "n7", 2)


@turns(
    "pseudo-code", "printed-pseudo-code",
    also=("idle-on-top", "third-column-is-a-share", "third-column-above-one"),
)  # fmt: skip
def a_long_first_function(golden: Golden) -> None:
    """All counts of workload idle are moved to the end of the first function, made the longest, in arm tick."""
    _lengthen(golden, "tick", "_stext", 12 << 10)
    _gather(golden, "tick", "idle", (12 << 10) // 16 - 1)


@turns("third-column-is-a-share", "third-column-above-one")
def a_long_idle_function(golden: Golden) -> None:
    """The idle function is made 512 bytes long, in the map of arm tick."""
    _lengthen(golden, "tick", "default_idle", 512)


@turns("strictly-serialised", "handlers-with-interrupts-on", "handlers-with-interrupts-on-time")
def no_tick_in_the_open_handler(golden: Golden) -> None:
    """The ticks inside the edu handler are removed from the raw buffer of arm tick-sti."""
    _clear(golden, "tick-sti", *EDU)


@turns("usual-sampling", "double-count")
def counted_once(golden: Golden) -> None:
    """The fix's own tally of interrupted addresses is taken from default_idle, in the raw buffer of arm irq-entry."""
    lines = (golden.raw("irq-entry") / "idle/bracket").read_text().splitlines()
    tally = {name: value.split() for name, value in (line.split("=", 1) for line in lines)}
    _count(golden, "irq-entry", "idle", "default_idle", int(tally["begin_stats"][1]) - int(tally["end_stats"][1]))


@turns("single-count-tick")
def counted_twice_without_the_fix(golden: Golden) -> None:
    """200 counts are added at default_idle, in the raw buffers of workload idle of arm tick."""
    for repetition in range(2):
        _count(golden, "tick", "idle", "default_idle", 200, repetition=repetition)


@turns(
    "hot-handlers-are-detected", "fix-does-not-see-time", "entries-of-a-light-handler", "entries-are-not-time",
    also=("entries-edu", "entries-exact", "entries-timer"),
)  # fmt: skip
def a_fix_that_sees_time(golden: Golden) -> None:
    """The raw buffers of arm irq-entry have a count for each 50,000 instructions of a function, and no entries."""
    for workload in ("edu", "edu-light"):
        _sample_time(golden, "irq-entry", workload, 50_000)


@turns("handlers-ran")
def few_interrupts(golden: Golden) -> None:
    """/proc/interrupts has a tenth of the edu device's interrupts, after workload edu of arm tick."""
    for repetition in range(2):
        path = golden.raw("tick", repetition) / "edu/interrupts.after"
        edu = next(line for line in path.read_text().splitlines() if line.endswith("krepro-edu"))
        raised = edu.split()[1]
        path.write_text(path.read_text().replace(edu, edu.replace(raised, str(int(raised) // 10))))


@turns("known-answer-edu")
def an_interrupt_not_handled(golden: Golden) -> None:
    """The load of arm tick reports one raised interrupt more."""
    path = golden.raw("tick") / "edu/stdout"
    text = path.read_text()
    raised = int(text.split('"raised_user": ')[1].split(",")[0])
    path.write_text(text.replace(f'"raised_user": {raised}', f'"raised_user": {raised + 1}'))


@turns("known-answer-disk")
def half_of_the_reads(golden: Golden) -> None:
    """The load of arm tick-wall reports half of its reads."""
    path = golden.raw("tick-wall") / "disk/stdout"
    path.write_text(path.read_text().replace('"reads": 1000', '"reads": 500'))


@turns("displaced-time")
def ticks_elsewhere(golden: Golden) -> None:
    """The ticks of krepro_edu_raise are removed from the raw buffers of arm tick."""
    _clear(golden, "tick", "krepro_edu_raise")


def _five_trials(golden: Golden) -> None:
    """Five trials like that of arm tick-wall: one has too few ticks to tell."""
    for repetition in range(1, 5):
        _copy(golden, "tick-wall", "tick-wall", repetition)


@turns("displaced-time-wall", before=_five_trials, why=FIVE)
def ticks_elsewhere_on_the_wall_clock(golden: Golden) -> None:
    """The ticks of krepro_edu_raise are removed from the raw buffers of arm tick-wall, which has five trials here."""
    _clear(golden, "tick-wall", "krepro_edu_raise")


@turns("light-handler-takes-no-time")
def a_light_handler_that_works(golden: Golden) -> None:
    """Each run of edu-light's handler executes 40,000 instructions more, as the oracle of arm irq-entry saw it."""
    _execute(golden, "irq-entry", "krepro_edu_irq", 40_000, region=1)


@turns(
    "oracle-sees-the-handler",
    also=("ideal-sampler-misses-none", "sampler-error", "oracle-counts-what-is-known"),
)  # fmt: skip
def a_handler_with_few_loops(golden: Golden) -> None:
    """Each run of the edu handler's loop executes 36,000 instructions less, as the oracle of arm tick saw it."""
    _execute(golden, "tick", "krepro_edu_work", -36_000)


@turns("tick-error", also=("blind-spot", "displaced-time"))
def a_tick_that_sees_time(golden: Golden) -> None:
    """The raw buffers of arm tick have a count for each 1,250,000 instructions of a function, which take 10 ms."""
    _sample_time(golden, "tick", "edu", 1_250_000)


@turns("ideal-sampler-misses-none", "sampler-error")
def a_sampler_that_misses_the_handler(golden: Golden) -> None:
    """The ideal sampler's samples in the edu handler of arm tick are moved to krepro_edu_raise, as if put off."""
    for trial in _of(golden, "tick"):
        address, path = _addresses(trial), trial.path / "oracle/samples.bin"
        with records(path, "<u8", columns=3) as words:
            for name in EDU:
                begin, end = _extent(address, name)
                words[(words[:, 1] >= begin) & (words[:, 1] < end), 1] = address["krepro_edu_raise"]


@turns("nmi-sees-the-handler", "nmi-error")
def nmis_that_miss_the_handler(golden: Golden) -> None:
    """The samples in the edu handler are removed from the raw buffer of arm nmi."""
    _clear(golden, "nmi", *EDU)


@turns("nmi-samples-complete")
def an_nmi_in_two_is_lost(golden: Golden) -> None:
    """The oracle of arm nmi reports twice as many NMIs."""
    path = golden.raw("nmi") / "oracle/oracle.json"
    text = path.read_text()
    sent = int(text.split('"sent": ')[1].split(",")[0])
    path.write_text(text.replace(f'"sent": {sent}', f'"sent": {2 * sent}'))


def _reword(path: Path, name: str, value: Callable[[str], str]) -> None:
    """Change the value of one line `name=value` of a bracket."""
    lines = [line.split("=", 1) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{key}={value(old) if key == name else old}\n" for key, old in lines))


@turns("hundred-hz")
def a_longer_window(golden: Golden) -> None:
    """The bracket of arm tick-mixed ends a tenth of a second later, with no interrupt more."""
    path = golden.raw("tick-mixed") / "mixed/bracket"
    _reword(path, "end_ns", lambda old: str(int(old) + 100_000_000))


@turns("kernel-mode-only")
def a_sample_of_user_mode(golden: Golden) -> None:
    """One count is added to the last counter, in the raw buffer of arm tick-mixed."""
    with records(golden.raw("tick-mixed") / "mixed/profile", "<u4") as words:
        words[-1] += 1


@turns("step-shows-n")
def a_step_of_four_at_n4(golden: Golden) -> None:
    """The raw buffer of arm tick-mixed has counters of 4 bytes."""
    _fold(golden, "tick-mixed", 4)


@turns("step-is-2-to-the-n")
def a_step_of_sixteen_at_n2(golden: Golden) -> None:
    """The raw buffer of arm n2 has counters of 16 bytes."""
    _fold(golden, "n2", 16)


@turns("first-table-has-its-jobs", "tick-on-many-functions")
def nothing_is_unmapped(golden: Golden) -> None:
    """The ticks of unmap_page_range are removed from the raw buffer of arm tick-mixed."""
    _clear(golden, "tick-mixed", "unmap_page_range", workload="mixed")


@turns("cs-test-is-needed")
def all_interrupts_in_the_kernel(golden: Golden) -> None:
    """The tally of arm irq-entry-mixed has as many interrupted addresses as entries."""
    path = golden.raw("irq-entry-mixed") / "mixed/bracket"
    _reword(path, "end_stats", lambda old: f"{old.split()[0]} {old.split()[0]} 0 0")


@turns("early-by-a-counter-renames-handlers")
def a_short_function_before_the_handler(golden: Golden) -> None:
    """A function of 8 bytes is put right before timer_interrupt, in the map of arm irq-entry-mixed."""
    _begin(golden, "irq-entry-mixed", "timer_interrupt", -8)


@turns("step-as-a-counter-renames-none")
def a_handler_as_short_as_a_counter(golden: Golden) -> None:
    """timer_interrupt is cut to 16 bytes, in the map of arm irq-entry-mixed."""
    _begin(golden, "irq-entry-mixed", "timer_interrupt", 16)


def _takes(golden: Golden, arm: str, other: str) -> None:
    shutil.copyfile(golden.raw(other) / "step/stdout", golden.raw(arm) / "step/stdout")


@turns("interrupted-eip-is-random", "tick-in-step-is-blind", "tick-in-step-sees-nothing-else", "by-hand-step")
def a_tick_at_random_moments(golden: Golden) -> None:
    """The load of arm map-tick reports the counts of arm map-jitter."""
    _takes(golden, "map-tick", "map-jitter")


@turns("jittered-tick-is-random", "jittered-tick-sees-what-the-tick-does-not")
def a_jittered_tick_in_step(golden: Golden) -> None:
    """The load of arm map-jitter reports the counts of arm map-tick."""
    _takes(golden, "map-jitter", "map-tick")


@turns("nmis-in-step")
def nmis_with_the_tick(golden: Golden) -> None:
    """The load of arm map-nmi reports the counts of arm map-tick."""
    _takes(golden, "map-nmi", "map-tick")


@turns("ideal-sampler-in-step")
def samples_of_other_cells(golden: Golden) -> None:
    """The ideal sampler's samples of arm map-tick are told to be of the cells of the next duty."""
    with records(golden.raw("map-tick") / "oracle/samples.bin", "<u8", columns=3) as words:
        lap = words[:, 2] >> np.uint64(42)
        inside = lap > 0
        moved = (lap[inside] - np.uint64(1) + np.uint64(20)) % np.uint64(60) + np.uint64(1)
        words[inside, 2] = words[inside, 2] & np.uint64((1 << 42) - 1) | moved << np.uint64(42)


@turns("oracle-counts-what-is-known")
def a_loop_more_in_each_run(golden: Golden) -> None:
    """The load of arm tick reports 20,001 loops a run."""
    path = golden.raw("tick") / "edu/stdout"
    path.write_text(path.read_text().replace('"handler_loops": 20000', '"handler_loops": 20001'))


@turns("fix-costs-little")
def a_fix_that_loops(golden: Golden) -> None:
    """The second sampling point executes 100 instructions more in each call, as the oracle of arm irq-entry saw it."""
    _execute(golden, "irq-entry", "__irq_hotspot_hit", 100)


@turns("peer-perf-tells-nothing")
def a_clock_that_tells_some(golden: Golden) -> None:
    """One of the samples of cpu-clock in the kernel is moved to krepro_edu_work, in what arm peer-perf wrote."""
    with records(golden.raw("peer-perf") / "peers/cpuclock", "<u8") as words:
        words[np.flatnonzero(words)[0]] = _addresses(_of(golden, "peer-perf")[0])["krepro_edu_work"]


@turns("peer-entry-tells-something-else")
def entries_that_tell_time(golden: Golden) -> None:
    """Only one in 32 entries of the handler is left in the raw buffer of arm peer-entry, for 32 take 10 ms."""
    _clear(golden, "peer-entry", "krepro_edu_irq", workload="peers", kept=1 / 32)


@turns("peer-nmi-tells-it")
def nmis_that_are_lost_in_the_handler(golden: Golden) -> None:
    """A fifth of the samples in the edu handler is removed from the raw buffer of arm peer-nmi."""
    _clear(golden, "peer-nmi", *EDU, workload="peers", kept=0.8)


@turns("peer-account-tells-it")
def time_that_is_not_the_handlers(golden: Golden) -> None:
    """Seven of the 10 ms of the system are charged to interrupts, in the /proc/stat of arm peer-account."""
    path = golden.raw("peer-account") / "peers/stat.after"
    first, _, rest = path.read_text().partition("\n")
    words = first.split()
    words[3], words[6] = str(int(words[3]) - 7), str(int(words[6]) + 7)
    path.write_text(f"{' '.join(words)}\n{rest}")


@turns("peer-trace-tells-it", "second-opinion-runs", "second-opinion-time")
def a_trace_that_loses_events(golden: Golden) -> None:
    """The trace of arm peer-trace loses the events of every tenth run of the handler, and does not say so."""
    path = golden.raw("peer-trace") / "peers/trace"
    lines = path.read_text().splitlines(keepends=True)
    events = [line for line in lines if "irq_handler_" in line]
    kept = [event for index, event in enumerate(events) if index // 2 % 10]
    head = "".join(line for line in lines if line.startswith("#"))
    head = head.replace(f"{len(events)}/{len(events)}", f"{len(kept)}/{len(kept)}")
    path.write_text(head + "".join(kept))


@turns("repaired-fix-tells-it", "by-hand-time", "second-opinion-runs-repaired")
def time_that_is_not_charged(golden: Golden) -> None:
    """Every fiftieth run of the handler is not counted and charged, in the /proc/irq_handler_time of arm peer-times."""
    path = golden.raw("peer-times") / "peers/times.after"
    lines = [line.split() for line in path.read_text().splitlines()]
    for words in lines:
        if words[3] in EDU:
            words[1:3] = [str(int(word) * 49 // 50) for word in words[1:3]]
    path.write_text("".join(f"{' '.join(words)}\n" for words in lines))


@turns("repaired-fix-costs-little")
def a_dear_clock(golden: Golden) -> None:
    """Each reading of the clock executes 200 instructions more, as the oracle of arm peer-times saw it."""
    _execute(golden, "peer-times", "native_sched_clock", 200)


# -- counted on paper, and a second opinion ------------------------------------------------------------------


def _handlers(golden: Golden) -> None:
    """What the kernel calls for the edu device, which arm peer-entry's trial does not tell: it is of before that."""
    address = _addresses(_of(golden, "peer-entry")[0])["krepro_edu_irq"]
    (golden.raw("peer-entry") / "peers/handlers").write_text(f"11 {address:x} krepro_edu_irq krepro-edu\n")


@turns("by-hand-peers", before=_handlers, why=OLDER)
def an_entry_that_is_counted_twice(golden: Golden) -> None:
    """The fix counts one entry of the edu handler twice, in the raw buffer of arm peer-entry."""
    _count(golden, "peer-entry", "peers", "krepro_edu_irq", 1)


@turns("by-hand-disk", also=("entries-disk",))
def entries_of_the_disk_that_are_not_counted(golden: Golden) -> None:
    """A tenth of the entries of the disk's handler is not counted, in the raw buffer of arm irq-entry-wall."""
    _count(golden, "irq-entry-wall", "disk", "ata_bmdma_interrupt", -100)


def _dd(golden: Golden) -> None:
    """The reads of irqload are called dd's too."""
    trial = _of(golden, "irq-entry-wall")[0]
    shutil.copytree(trial.path / "disk", trial.path / "dd")
    place = golden.trials.index(trial)
    golden.trials[place] = trial.model_copy(update={"workloads": (*trial.workloads, "dd")})


@turns("by-hand-dd", before=_dd, why=OLDER, also=("entries-disk",))
def entries_of_dd_that_are_not_counted(golden: Golden) -> None:
    """The same of dd's reads."""
    _count(golden, "irq-entry-wall", "dd", "ata_bmdma_interrupt", -100)


@turns("by-hand-step")
def a_tick_more_in_the_work(golden: Golden) -> None:
    """One tick of a cell of arm map-tick falls into the work instead of beside it, by the load's own report."""
    path = golden.raw("map-tick") / "step/stdout"
    cells = said(path)["cells"]
    cells[0]["counts"][0][0] = next(cell["counts"][0][0] for cell in cells if len(cell["counts"]) == 1)
    edit(path, cells=cells)


def _stock(golden: Golden) -> None:
    """Arm stock takes arm patched's trial, where a call is an instruction shorter."""
    _copy(golden, "patched", "stock")
    for function in ("__handle_irq_event_percpu", "profile_tick"):
        _execute(golden, "stock", function, -1)


@turns("off-is-stock", before=_stock, why=STOCK)
def a_sampling_point_that_costs(golden: Golden) -> None:
    """A call of handlers executes an instruction more, as the oracle of arm patched saw it."""
    _execute(golden, "patched", "__handle_irq_event_percpu", 1)


@turns("off-is-stock-tick", before=_stock, why=STOCK)
def a_tick_that_costs(golden: Golden) -> None:
    """A tick executes an instruction more, as the oracle of arm patched saw it."""
    _execute(golden, "patched", "profile_tick", 1)


@turns("ideal-sampler-on-many-functions")
def samples_in_few_functions(golden: Golden) -> None:
    """Half of the ideal sampler's samples of arm tick-mixed are moved to vfs_read."""
    path = golden.raw("tick-mixed") / "oracle/samples.bin"
    address = _addresses(_of(golden, "tick-mixed")[0])
    with records(path, "<u8", columns=3) as words:
        words[::2, 1] = address["vfs_read"]


@turns("disk-interrupts-take-time")
def a_disk_without_interrupts(golden: Golden) -> None:
    """The oracle of arm truth-wall saw every instruction of workload disk's hard interrupts in a task."""
    _run_in(golden, "truth-wall", 0, INTERRUPT, TASK)


@turns("network-interrupts-take-time")
def a_network_in_interrupts(golden: Golden) -> None:
    """The oracle of arm truth-wall saw what workload net's soft interrupts do in its hard interrupts."""
    _run_in(golden, "truth-wall", 1, SOFTIRQ, INTERRUPT)
