# SPDX-License-Identifier: MIT
"""What turns each claim and finding of irq-hotspot."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.oracle.places import INTERRUPT, TASK
from harness.oracle.reader import FUNCTION
from harness.trial.model import TrialRecord
from tests.golden import Golden
from tests.mutation import turns

Tables = dict[str, pd.DataFrame]
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


def _where(frame: pd.DataFrame, **equal: Any) -> pd.Series[bool]:
    chosen = pd.Series(True, index=frame.index)
    for column, value in equal.items():
        chosen &= frame[column] == value
    return chosen


def _set(tables: Tables, table: str, column: str, value: Any, **equal: Any) -> None:
    frame = tables[table]
    chosen = _where(frame, **equal)
    assert chosen.any(), (table, equal)
    frame.loc[chosen, column] = value


def _addresses(trial: TrialRecord) -> dict[str, int]:
    lines = [line.split() for line in trial.system_map.read_text().splitlines()]
    return {name: int(place, 16) for place, _, name in lines}


def _count(golden: Golden, arm: str, workload: str, function: str, counts: int, *, repetition: int = 0) -> None:
    """Add counts at a function's first byte, in the raw buffer."""
    address = _addresses(next(trial for trial in golden.trials if trial.arm == arm))
    path = golden.raw(arm, repetition) / workload / "profile"
    words = np.fromfile(path, dtype="<u4")
    words[1 + (address[function] - address["_stext"]) // int(words[0])] += counts
    words.tofile(path)


def _clear(golden: Golden, arm: str, *functions: str, workload: str = "edu") -> None:
    """Take all counts of functions from the raw buffers of a workload, with those of neighbours in their counters."""
    for trial in golden.trials:
        if trial.arm != arm:
            continue
        address, path = _addresses(trial), trial.path / workload / "profile"
        words = np.fromfile(path, dtype="<u4")
        for name in functions:
            begin = address[name]
            end = min(place for place in address.values() if place > begin)
            first, last = ((place - address["_stext"]) // int(words[0]) for place in (begin, end - 1))
            words[1 + first : 2 + last] = 0
        words.tofile(path)


@turns("blind-spot", kind="raw")
def a_tick_in_the_handler(golden: Golden) -> None:
    """One tick is added at krepro_edu_work, in the raw buffer of arm tick."""
    _count(golden, "tick", "edu", "krepro_edu_work", 1)


@turns("blind-spot-wall", kind="raw")
def a_tick_in_the_disks_handler(golden: Golden) -> None:
    """One tick is added at ata_bmdma_interrupt, in the raw buffer of arm tick-wall."""
    _count(golden, "tick-wall", "disk", "ata_bmdma_interrupt", 1)


def _modern(tables: Tables) -> None:
    for name, frame in tables.items():
        copy = frame[_where(frame, arm="tick")].assign(arm="tick-modern")
        tables[name] = pd.concat([frame, copy], ignore_index=True)


@turns("modern-blind-spot", before=_modern)
def a_tick_in_a_modern_handler(tables: Tables) -> None:
    """One tick is added to the edu handler of arm tick-modern, which takes arm tick's tables here."""
    _set(tables, "handlers", "ticks", 1.0, arm="tick-modern", handler="edu")


@turns("debian-blind-spot", kind="raw")
def a_tick_in_the_serial_ports_handler(golden: Golden) -> None:
    """One tick is added at serial8250_interrupt, in the raw buffer of arm tick-debian."""
    _count(golden, "tick-debian", "serial", "serial8250_interrupt", 1)


@turns("debian-interrupts-take-time", kind="raw")
def nothing_runs_in_an_interrupt(golden: Golden) -> None:
    """The oracle of arm tick-debian saw every instruction of a hard interrupt in a task."""
    path = golden.raw("tick-debian") / "oracle" / "functions.bin"
    counts = np.fromfile(path, dtype=FUNCTION)
    counts["context"][counts["context"] == INTERRUPT] = TASK
    counts.tofile(path)


@turns("idle-on-top", also=("single-count-tick",), kind="raw")
def another_function_on_top(golden: Golden) -> None:
    """1,000 ticks are added at vfs_read, in the raw buffer of workload idle of arm tick."""
    _count(golden, "tick", "idle", "vfs_read", 1000)


@turns("idle-on-top-wall", kind="raw")
def another_function_on_top_on_the_wall_clock(golden: Golden) -> None:
    """1,000 ticks are added at vfs_read, in the raw buffer of workload idle of arm tick-wall."""
    _count(golden, "tick-wall", "idle", "vfs_read", 1000)


@turns("phantom-handler", kind="raw")
def no_neighbours_ticks(golden: Golden) -> None:
    """The counters that have a byte of the edu handler are set to 0, in the raw buffer of arm n7."""
    _clear(golden, "n7", "krepro_edu_irq", "krepro_edu_work")


@turns("entries-edu", also=("entries-exact",), kind="raw")
def an_entry_too_much(golden: Golden) -> None:
    """One more count is put at krepro_edu_irq, in the raw buffer of arm irq-entry."""
    _count(golden, "irq-entry", "edu", "krepro_edu_irq", 1)


@turns("entries-timer", kind="raw")
def an_entry_of_the_timer_too_much(golden: Golden) -> None:
    """One more count is put at timer_interrupt, in the raw buffer of arm irq-entry."""
    _count(golden, "irq-entry", "idle", "timer_interrupt", 1)


@turns("entries-edu-wall", kind="raw")
def an_entry_too_much_on_the_wall_clock(golden: Golden) -> None:
    """One more count is put at krepro_edu_irq, in the raw buffer of arm irq-entry-wall."""
    _count(golden, "irq-entry-wall", "edu", "krepro_edu_irq", 1)


@turns("entries-disk", kind="raw")
def an_entry_of_the_disk_too_much(golden: Golden) -> None:
    """One more count is put at ata_bmdma_interrupt, in the raw buffer of arm irq-entry-wall."""
    _count(golden, "irq-entry-wall", "disk", "ata_bmdma_interrupt", 1)


@turns("entries-net", kind="raw")
def an_entry_of_the_network_too_much(golden: Golden) -> None:
    """One more count is put at cp_interrupt, in the raw buffer of arm irq-entry-wall."""
    _count(golden, "irq-entry-wall", "net", "cp_interrupt", 1)


@turns("blocks-are-2-to-the-n")
def sixteen_counters(tables: Tables) -> None:
    """The buffers of arm tick are told to have 16 counters."""
    _set(tables, "buffers", "counters", 16, arm="tick")


@turns("index-of-a-block", "index-as-printed", also=("displaced-time",), kind="raw")
def all_counts_at_the_begin(golden: Golden) -> None:
    """All counts are moved into the first 16 counters, in the raw buffers of arm tick."""
    for trial in golden.trials:
        if trial.arm == "tick":
            path = trial.path / "edu/profile"
            words = np.fromfile(path, dtype="<u4")
            words[1], words[2:] = words[1:].sum(), 0
            words.tofile(path)


@turns("larger-n-is-finer", "larger-n-is-coarser", "neighbours-n2-to-n7")
def a_finer_buffer_at_n7(tables: Tables) -> None:
    """Arm n7 gets counters of 2 bytes, none of which several functions share."""
    _set(tables, "buffers", "step", 2, arm="n7")
    _set(tables, "buffers", "shared", 0.0, arm="n7")


@turns("pseudo-code", "printed-pseudo-code")
def the_pseudo_code_is_right(tables: Tables) -> None:
    """The pseudo-code's error is set to 0."""
    _set(tables, "buffers", "printed_error", 0.0, arm="tick", workload="idle")


@turns("third-column-is-a-share", "third-column-above-one")
def a_long_idle_function(tables: Tables) -> None:
    """The idle function is made ten times as long as it has ticks."""
    _set(tables, "buffers", "idle_per_byte", 0.1, arm="tick", workload="idle")


@turns("strictly-serialised", "handlers-with-interrupts-on", "handlers-with-interrupts-on-time", kind="raw")
def no_tick_in_the_open_handler(golden: Golden) -> None:
    """The ticks inside the edu handler are removed from the raw buffer of arm tick-sti."""
    _clear(golden, "tick-sti", "krepro_edu_irq", "krepro_edu_work")


@turns("usual-sampling", "double-count")
def counted_once(tables: Tables) -> None:
    """Half of the counts that are no entries are taken from workload idle of arm irq-entry."""
    entries = tables["handlers"].loc[_where(tables["handlers"], arm="irq-entry", workload="idle"), "entries"].sum()
    total = tables["buffers"].loc[_where(tables["buffers"], arm="irq-entry", workload="idle"), "total"].iloc[0]
    _set(tables, "buffers", "total", int((total - entries) // 2 + entries), arm="irq-entry", workload="idle")


@turns("single-count-handler-only", kind="raw")
def counted_twice_with_handlers_only(golden: Golden) -> None:
    """200 counts are added at default_idle, in the raw buffer of workload idle of arm handler-only."""
    _count(golden, "handler-only", "idle", "default_idle", 200)


@turns("single-count-tick", kind="raw")
def counted_twice_without_the_fix(golden: Golden) -> None:
    """200 counts are added at default_idle, in the raw buffers of workload idle of arm tick."""
    for repetition in range(2):
        _count(golden, "tick", "idle", "default_idle", 200, repetition=repetition)


def _entries_as_time(tables: Tables) -> None:
    _set(tables, "handlers", "entries", 1.0, arm="irq-entry", handler="edu", workload="edu-light")
    _set(tables, "handlers", "ticks", 60.0, arm="irq-entry", handler="edu", workload="edu")
    truth = tables["truth"]
    chosen = _where(truth, arm="irq-entry", workload="edu")
    truth.loc[chosen, "ticks"] = truth.loc[chosen, "instructions"]


@turns(
    "hot-handlers-are-detected", "fix-does-not-see-time", "entries-of-a-light-handler", "entries-are-not-time",
    also=("entries-edu",),
)  # fmt: skip
def a_fix_that_sees_time(tables: Tables) -> None:
    """The light handler has one entry, ticks fall into the other, and the buffer's shares are the exact ones."""
    _entries_as_time(tables)


@turns("handlers-ran")
def few_interrupts(tables: Tables) -> None:
    """The interrupts of arm tick are divided by ten."""
    tables["handlers"].loc[_where(tables["handlers"], arm="tick"), "interrupts"] //= 10


@turns("known-answer-edu", kind="raw")
def an_interrupt_not_handled(golden: Golden) -> None:
    """The load of arm tick reports one raised interrupt more."""
    path = golden.raw("tick") / "edu/stdout"
    text = path.read_text()
    raised = int(text.split('"raised_user": ')[1].split(",")[0])
    path.write_text(text.replace(f'"raised_user": {raised}', f'"raised_user": {raised + 1}'))


@turns("known-answer-disk", kind="raw")
def half_of_the_reads(golden: Golden) -> None:
    """The load of arm tick-wall reports half of its reads."""
    path = golden.raw("tick-wall") / "disk/stdout"
    path.write_text(path.read_text().replace('"reads": 1000', '"reads": 500'))


@turns("displaced-time", kind="raw")
def ticks_elsewhere(golden: Golden) -> None:
    """The ticks of krepro_edu_raise are removed from the raw buffers of arm tick."""
    _clear(golden, "tick", "krepro_edu_raise")


def _five_trials(golden: Golden) -> None:
    """Five trials like that of arm tick-wall: one has too few ticks to tell."""
    trial = next(trial for trial in golden.trials if trial.arm == "tick-wall")
    for repetition in range(1, 5):
        path = golden.raw("tick-wall", repetition)
        shutil.copytree(trial.path, path)
        golden.trials.append(trial.model_copy(update={"repetition": repetition, "path": path}))


@turns("displaced-time-wall", kind="raw", before=_five_trials)
def ticks_elsewhere_on_the_wall_clock(golden: Golden) -> None:
    """The ticks of krepro_edu_raise are removed from the raw buffers of arm tick-wall, which has five trials here."""
    _clear(golden, "tick-wall", "krepro_edu_raise")


@turns("light-handler-takes-no-time")
def a_light_handler_that_works(tables: Tables) -> None:
    """The edu handler of edu-light executes as many instructions as that of edu."""
    truth = tables["truth"]
    heavy = truth.loc[_where(truth, arm="irq-entry", workload="edu", role="handler edu"), "instructions"].sum()
    _set(tables, "truth", "instructions", heavy, arm="irq-entry", workload="edu-light", function="krepro_edu_irq")


@turns(
    "oracle-sees-the-handler", "tick-error",
    also=("ideal-sampler-misses-none", "sampler-error", "oracle-counts-what-is-known"),
)  # fmt: skip
def a_handler_without_time(tables: Tables) -> None:
    """The exact instructions of arm tick become what the buffer counts, which has none in the handler."""
    truth = tables["truth"]
    chosen = _where(truth, arm="tick", workload="edu")
    truth.loc[chosen, "instructions"] = truth.loc[chosen, "ticks"] + _where(truth, role="handler edu")[chosen]


@turns("ideal-sampler-misses-none", "sampler-error")
def a_sampler_that_misses_the_handler(tables: Tables) -> None:
    """The ideal sampler's samples in the edu handler of arm tick are removed."""
    _set(tables, "truth", "samples", 0.0, arm="tick", workload="edu", role="handler edu")


@turns("nmi-sees-the-handler", "nmi-error")
def nmis_that_miss_the_handler(tables: Tables) -> None:
    """The samples in the edu handler of arm nmi are removed."""
    _set(tables, "truth", "ticks", 0.0, arm="nmi", workload="edu", role="handler edu")


@turns("entries-exact", also=("entries-edu", "entries-of-a-light-handler"), kind="raw")
def entries_that_are_no_calls(golden: Golden) -> None:
    """500 counts are added at krepro_edu_irq, in the raw buffer of arm irq-entry."""
    _count(golden, "irq-entry", "edu", "krepro_edu_irq", 500)


@turns("nmi-samples-complete", kind="raw")
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


def _begin(golden: Golden, arm: str, function: str, distance: int) -> None:
    """A function more in the map of one arm's trials: it begins so many bytes behind `function`."""
    for index, trial in enumerate(golden.trials):
        if trial.arm != arm:
            continue
        line = f"{_addresses(trial)[function] + distance:08x} t krepro_mutant"
        path = golden.root / f"{arm}.map"
        path.write_text("\n".join(sorted([*trial.system_map.read_text().splitlines(), line])) + "\n")
        golden.trials[index] = trial.model_copy(update={"system_map": path})


@turns("hundred-hz", kind="raw")
def a_longer_window(golden: Golden) -> None:
    """The bracket of arm tick-mixed ends a tenth of a second later, with no interrupt more."""
    path = golden.raw("tick-mixed") / "mixed/bracket"
    _reword(path, "end_ns", lambda old: str(int(old) + 100_000_000))


@turns("kernel-mode-only", kind="raw")
def a_sample_of_user_mode(golden: Golden) -> None:
    """One count is added to the last counter, in the raw buffer of arm tick-mixed."""
    path = golden.raw("tick-mixed") / "mixed/profile"
    words = np.fromfile(path, dtype="<u4")
    words[-1] += 1
    words.tofile(path)


@turns("step-shows-n")
def a_step_of_four_at_n4(tables: Tables) -> None:
    """The buffers of arm tick-mixed are told to have a step of 4."""
    _set(tables, "buffers", "step", 4, arm="tick-mixed")


@turns("step-is-2-to-the-n")
def a_step_of_sixteen_at_n2(tables: Tables) -> None:
    """The buffers of arm n2 are told to have a step of 16."""
    _set(tables, "buffers", "step", 16, arm="n2")


@turns("set-rtc-mmss-is-hot", kind="raw")
def a_tick_in_the_clocks_function(golden: Golden) -> None:
    """One count is added at mach_set_cmos_time, in the raw buffer of arm irq-entry-mixed."""
    _count(golden, "irq-entry-mixed", "mixed", "mach_set_cmos_time", 1)


@turns("timer-interrupt-has-its-counts", kind="raw")
def an_entry_of_the_timer_too_much_in_the_mix(golden: Golden) -> None:
    """One more count is put at timer_interrupt, in the raw buffer of arm irq-entry-mixed."""
    _count(golden, "irq-entry-mixed", "mixed", "timer_interrupt", 1)


@turns("first-table-has-its-jobs", "tick-on-many-functions", kind="raw")
def nothing_is_unmapped(golden: Golden) -> None:
    """The ticks of unmap_page_range are removed from the raw buffer of arm tick-mixed."""
    _clear(golden, "tick-mixed", "unmap_page_range", workload="mixed")


@turns("idle-doubles", kind="raw")
def idle_as_long_again(golden: Golden) -> None:
    """100 counts are added at default_idle, in the raw buffer of arm tick-mixed."""
    _count(golden, "tick-mixed", "mixed", "default_idle", 100)


@turns("cs-test-is-needed", kind="raw")
def all_interrupts_in_the_kernel(golden: Golden) -> None:
    """The tally of arm irq-entry-mixed has as many interrupted addresses as entries."""
    path = golden.raw("irq-entry-mixed") / "mixed/bracket"
    _reword(path, "end_stats", lambda old: f"{old.split()[0]} {old.split()[0]} 0 0")


@turns("early-by-a-counter-renames-handlers", kind="raw")
def a_short_function_before_the_handler(golden: Golden) -> None:
    """A function of 8 bytes is put right before timer_interrupt, in the map of arm irq-entry-mixed."""
    _begin(golden, "irq-entry-mixed", "timer_interrupt", -8)


@turns("step-as-a-counter-renames-none", kind="raw")
def a_handler_as_short_as_a_counter(golden: Golden) -> None:
    """timer_interrupt is cut to 16 bytes, in the map of arm irq-entry-mixed."""
    _begin(golden, "irq-entry-mixed", "timer_interrupt", 16)


def _takes(golden: Golden, arm: str, other: str) -> None:
    shutil.copyfile(golden.raw(other) / "step/stdout", golden.raw(arm) / "step/stdout")


@turns("interrupted-eip-is-random", "tick-in-step-is-blind", "tick-in-step-sees-nothing-else", kind="raw")
def a_tick_at_random_moments(golden: Golden) -> None:
    """The load of arm map-tick reports the counts of arm map-jitter."""
    _takes(golden, "map-tick", "map-jitter")


@turns("jittered-tick-is-random", "jittered-tick-sees-what-the-tick-does-not", kind="raw")
def a_jittered_tick_in_step(golden: Golden) -> None:
    """The load of arm map-jitter reports the counts of arm map-tick."""
    _takes(golden, "map-jitter", "map-tick")


@turns("nmis-in-step", kind="raw")
def nmis_with_the_tick(golden: Golden) -> None:
    """The load of arm map-nmi reports the counts of arm map-tick."""
    _takes(golden, "map-nmi", "map-tick")


@turns("ideal-sampler-in-step", kind="raw")
def samples_of_other_cells(golden: Golden) -> None:
    """The ideal sampler's samples of arm map-tick are told to be of the cells of the next duty."""
    path = golden.raw("map-tick") / "oracle/samples.bin"
    words = np.fromfile(path, dtype="<u8").reshape(-1, 3)
    lap = words[:, 2] >> np.uint64(42)
    inside = lap > 0
    moved = (lap[inside] - np.uint64(1) + np.uint64(20)) % np.uint64(60) + np.uint64(1)
    words[inside, 2] = words[inside, 2] & np.uint64((1 << 42) - 1) | moved << np.uint64(42)
    words.tofile(path)


@turns("oracle-counts-what-is-known", kind="raw")
def a_loop_more_in_each_run(golden: Golden) -> None:
    """The load of arm tick reports 20,001 loops a run."""
    path = golden.raw("tick") / "edu/stdout"
    path.write_text(path.read_text().replace('"handler_loops": 20000', '"handler_loops": 20001'))


@turns("fix-costs-little")
def a_fix_that_loops(tables: Tables) -> None:
    """The second sampling point of arm irq-entry executes 100 instructions more in each of its calls."""
    truth = tables["truth"]
    chosen = _where(truth, arm="irq-entry", workload="edu", function="__irq_hotspot_hit")
    assert chosen.any()
    truth.loc[chosen, "instructions"] += 100 * truth.loc[chosen, "entries"]


def _tells(tables: Tables, profiler: str, share: float) -> None:
    """The profiler of arm peer-PROFILER tells this part of the edu handler's time."""
    exact = tables["peers"].loc[_where(tables["peers"], arm=f"peer-{profiler}"), "exact_ns"]
    _set(tables, "peers", "told_ns", float(exact.iloc[0]) * share, arm=f"peer-{profiler}")


@turns("peer-tick-tells-nothing")
def a_tick_that_tells_some(tables: Tables) -> None:
    """The tick of arm peer-tick tells a hundredth of the handler's time."""
    _tells(tables, "tick", 0.01)


@turns("peer-jitter-tells-nothing")
def a_jittered_tick_that_tells_some(tables: Tables) -> None:
    """The jittered tick of arm peer-jitter tells a hundredth of the handler's time."""
    _tells(tables, "jitter", 0.01)


@turns("peer-perf-tells-nothing")
def a_clock_that_tells_some(tables: Tables) -> None:
    """The event cpu-clock of arm peer-perf tells a hundredth of the handler's time."""
    _tells(tables, "perf", 0.01)


@turns("peer-entry-tells-something-else")
def entries_that_tell_time(tables: Tables) -> None:
    """The entries of arm peer-entry tell the handler's time."""
    _tells(tables, "entry", 1)


@turns("peer-nmi-tells-it")
def nmis_that_tell_too_much(tables: Tables) -> None:
    """The NMIs of arm peer-nmi tell a fifth too much."""
    _tells(tables, "nmi", 1.2)


@turns("peer-account-tells-it")
def time_that_is_not_the_handlers(tables: Tables) -> None:
    """The time in interrupts of arm peer-account is a fifth more than the handler's."""
    _tells(tables, "account", 1.2)


@turns("peer-trace-tells-it")
def events_that_are_far_apart(tables: Tables) -> None:
    """The events of arm peer-trace tell a tenth too much."""
    _tells(tables, "trace", 1.1)


@turns("repaired-fix-tells-it")
def time_that_is_not_charged(tables: Tables) -> None:
    """The repaired fix of arm peer-times misses a fiftieth of the handler's time."""
    _tells(tables, "times", 0.98)


@turns("repaired-fix-costs-little")
def a_dear_clock(tables: Tables) -> None:
    """The work of arm peer-times has a million instructions more, which is 1,000 an interrupt."""
    more = tables["peers"].loc[_where(tables["peers"], arm="peer-times"), "instructions"] + 1e6
    _set(tables, "peers", "instructions", float(more.iloc[0]), arm="peer-times")


def _off(tables: Tables) -> None:
    """Arms patched and stock have counts made here: a call on the stock kernel is an instruction shorter."""
    for arm, less in (("patched", 0), ("stock", 1)):
        for name, frame in tables.items():
            copy = frame[_where(frame, arm="n2")].assign(arm=arm)
            tables[name] = pd.concat([frame[~_where(frame, arm=arm)], copy], ignore_index=True)
        key = {"arm": arm, "trial": 0, "workload": "syscalls", "role": "other"}
        rows = [
            key | {"function": name, "instructions": (40 - less) * 200, "entries": 200, "interrupt": 0}
            for name in ("__handle_irq_event_percpu", "profile_tick")
        ]
        tables["truth"] = pd.concat([tables["truth"], pd.DataFrame(rows)], ignore_index=True)


def _costs(tables: Tables, function: str) -> None:
    """Three instructions more in each call on the patched kernel."""
    truth = tables["truth"]
    chosen = _where(truth, arm="patched", function=function)
    assert chosen.any()
    truth.loc[chosen, "instructions"] += 3 * truth.loc[chosen, "entries"]


@turns("off-is-stock", before=_off)
def a_sampling_point_that_costs(tables: Tables) -> None:
    """A call of handlers of arm patched executes three instructions more."""
    _costs(tables, "__handle_irq_event_percpu")


@turns("off-is-stock-tick", before=_off)
def a_tick_that_costs(tables: Tables) -> None:
    """A tick of arm patched executes three instructions more."""
    _costs(tables, "profile_tick")


@turns("ideal-sampler-on-many-functions", kind="raw")
def samples_in_few_functions(golden: Golden) -> None:
    """Half of the ideal sampler's samples of arm tick-mixed are moved to vfs_read."""
    path = golden.raw("tick-mixed") / "oracle/samples.bin"
    address = _addresses(next(trial for trial in golden.trials if trial.arm == "tick-mixed"))
    words = np.fromfile(path, dtype="<u8").reshape(-1, 3)
    words[::2, 1] = address["vfs_read"]
    words.tofile(path)


@turns("tick-on-many-functions")
def all_ticks_in_one_function(tables: Tables) -> None:
    """All ticks of arm tick-mixed are in vfs_read."""
    _set(tables, "truth", "ticks", 0.0, arm="tick-mixed")
    _set(tables, "truth", "ticks", 100.0, arm="tick-mixed", function="vfs_read")


@turns("disk-interrupts-take-time")
def a_disk_without_interrupts(tables: Tables) -> None:
    """No instruction of workload disk of arm truth-wall is in a hard interrupt."""
    _set(tables, "truth", "interrupt", 0.0, arm="truth-wall", workload="disk")


@turns("network-interrupts-take-time")
def a_network_in_interrupts(tables: Tables) -> None:
    """All instructions of workload net of arm truth-wall are in hard interrupts."""
    truth = tables["truth"]
    chosen = _where(truth, arm="truth-wall", workload="net")
    assert chosen.any()
    truth.loc[chosen, "interrupt"] = truth.loc[chosen, "instructions"]
