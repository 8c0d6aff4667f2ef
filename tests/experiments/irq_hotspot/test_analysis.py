# SPDX-License-Identifier: MIT
"""The analysis of experiments/irq-hotspot over synthetic raw folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.oracle_files import write_oracle
from tests.records import trial_record

FOLDER = EXPERIMENTS / "irq-hotspot"
STEXT = 0xC1000000
# Every function 64 bytes apart, as the driver's are; 128-byte counters hold two of them.
FUNCTIONS = (
    *("startup_32", "schedule", "default_idle", "do_idle", "timer_interrupt", "vfs_read"),
    *("krepro_edu_work", "krepro_edu_task_work", "krepro_edu_irq", "krepro_edu_raise"),
    *("ata_bmdma_interrupt", "cp_interrupt", "e1000_intr", "vp_interrupt", "serial8250_interrupt"),
    *("uart_write", "last", "end"),
)
LENGTH = 64 * len(FUNCTIONS)
TOOK = {"elapsed_ns": 1_000_000_000}
EDU = TOOK | {"raised_user": 60, "raised_kernel": 40, "handled": 100, "handler_ns": 2_000_000, "handler_loops": 9}


#: What stepload prints of two cells: in the first no sample is in the work (counter 7 of 64 bytes).
IN_STEP = {
    "phases": 40,
    "cycles": 20,
    "step": 64,
    "jitter": False,
    "cells": [{"phase": 1, "duty": 95, "counts": [[5, 20]]}, {"phase": 3, "duty": 10, "counts": [[7, 3], [5, 17]]}],
}

#: What the profilers of workload peers leave that do not count in the profile buffer.
PEERS_FILES = {
    "perf": {"cpuclock": bytes(8)},
    "trace": {"trace": b""},
    "account": dict.fromkeys(("stat.before", "stat.after"), b"cpu 1 0 1 9 0 1 3\n"),
    "times": dict.fromkeys(("times.before", "times.after"), b"0 1 1 krepro_edu_irq\n"),
}

#: What the kernel of these tests calls for an action.
CALLED = {
    "timer": "timer_interrupt",
    "krepro-edu": "krepro_edu_irq",
    "ata_piix": "ata_bmdma_interrupt",
    "eth0": "cp_interrupt",
    "ttyS0": "serial8250_interrupt",
    **dict.fromkeys(("virtio0", "virtio1", "virtio2"), "vp_interrupt"),
}

analysis = Analysis(FOLDER)


def address(function: str) -> int:
    return STEXT + 64 * FUNCTIONS.index(function)


class Lab:
    """Writes raw folders as the guest's collector does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system_map = root / "System.map"
        lines = [f"{STEXT:08x} T _stext"]
        lines += [f"{address(name):08x} t {name}" for name in FUNCTIONS]
        self.system_map.write_text("\n".join([*lines, f"{STEXT + LENGTH:08x} T _etext"]) + "\n")

    def trial(self, arm: str = "tick", *, repetition: int = 0, sampling: Any = "off", **workloads: Any) -> TrialRecord:
        path = self.root / "raw" / arm / str(repetition)
        for name, content in workloads.items():
            self.workload(path / name, **content)
        told = {"fidelity": "virtual", "params": {"irq_sampling": sampling}, "workloads": tuple(workloads)}
        return trial_record(arm, repetition, "wall" if "wall" in arm else "virtual", root=self.root, **told)

    def workload(
        self,
        folder: Path,
        *,
        counts: dict[str, int] | None = None,
        lines: dict[str, tuple[str, int]] | None = None,
        shift: int = 4,
        answer: dict[str, Any] | None = None,
        bracket: dict[str, Any] | None = None,
        called: dict[str, str] | None = None,
        status: str = "0",
    ) -> None:
        """counts: samples at a function's first byte; lines: irq -> (actions, interrupts); called: of actions."""
        folder.mkdir(parents=True)
        words = np.zeros(1 + (LENGTH >> shift), dtype="<u4")
        words[0] = 1 << shift
        for function, count in (counts or {}).items():
            words[1 + min((address(function) - STEXT) >> shift, LENGTH - 1 >> shift)] += count
        (folder / "profile").write_bytes(words.tobytes())
        table = lines if lines is not None else {"0": ("timer", 100)}
        for name, scale in (("before", 0), ("after", 1)):
            rows = [f"{irq:>3}: {7 + scale * n:>10}    XT-PIC      {what}" for irq, (what, n) in table.items()]
            (folder / f"interrupts.{name}").write_text("\n".join(["      CPU0", *rows, "ERR:  0", ""]))
        functions = CALLED | (called or {})
        told = [
            f"{irq} {address(functions[action]):x} {functions[action]} {action}"
            for irq, (what, _) in table.items()
            for action in what.split(", ")
            if action in functions
        ]
        (folder / "handlers").write_text("\n".join([*told, f"idle {address('default_idle') + 9:x} default_idle", ""]))
        values = {
            "begin_exact": 1,
            "begin_retries": 0,
            "begin_tick_slack": 0,
            "begin_entry_slack": "",
            "begin_ns": 10_000_000,
            "begin_stats": "5 5 0 0",
            "begin_nmi_stats": "1 0 1 0",
            "end_exact": 1,
            "end_retries": 0,
            "end_tick_slack": 0,
            "end_entry_slack": "",
            "end_ns": 1_010_000_000,
            "end_stats": "9 8 0 0",
            "end_nmi_stats": "7 0 4 1",
        } | (bracket or {})
        (folder / "bracket").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        (folder / "stdout").write_text(json.dumps(answer if answer is not None else TOOK))
        (folder / "stderr").write_text("")
        (folder / "exit").write_text(f"{status}\n")


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def measured(*trials: TrialRecord) -> dict[tuple[str, str], tuple[float, str | None]]:
    rows = analysis.metrics(analysis.tables(trials))
    assert rows.columns.tolist() == ["arm", "trial", "metric", "value", "unit", "reason"]
    # A figure is there or a reason is, never both and never neither.
    assert (rows["value"].isna() == rows["reason"].notna()).all()
    assert not rows.duplicated(["arm", "trial", "metric"]).any()
    return {
        (f"{arm}.{trial}" if trial else arm, metric): (value, None if pd.isna(reason) else reason)
        for arm, trial, metric, value, _, reason in rows.itertuples(index=False)
    }


def shown(*trials: TrialRecord) -> dict[str, pd.DataFrame]:
    tables = analysis.tables(trials)
    return analysis.summary(tables, analysis.metrics(tables), [])


def stacks_of(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return analysis.profiles(tables, analysis.metrics(tables))


BEFORE = "Before the fix: the paper, and workload mixed in arm tick-mixed"
AFTER = "After the fix: the paper, and workload mixed in arm irq-entry-mixed"
LINES = {"0": ("timer", 100), "11": ("krepro-edu", 100)}


def test_blind_spot_counts_ticks_and_interrupts(lab):
    trial = lab.trial(edu={"counts": {"krepro_edu_raise": 9, "vfs_read": 5}, "lines": LINES, "answer": EDU})
    values = measured(trial)
    assert values["tick", "handler_ticks"][0] == 0
    assert values["tick", "handler_interrupts"][0] == 200
    assert values["tick", "handler_interrupts.edu"][0] == 100
    assert values["tick", "entries_per_interrupt.edu"][1] == "entries are not sampled in this arm"


@pytest.mark.parametrize("function", ["krepro_edu_irq", "krepro_edu_work", "timer_interrupt"])
def test_one_tick_in_any_handler_is_seen(lab, function):
    trial = lab.trial(edu={"counts": {function: 1, "vfs_read": 50}, "lines": LINES, "answer": EDU})
    assert measured(trial)["tick", "handler_ticks"][0] == 1


def test_handler_that_did_not_run_is_not_part_of_the_blind_spot(lab):
    values = measured(lab.trial(idle={"lines": {"0": ("timer", 100), "11": ("krepro-edu", 0)}}))
    assert ("tick", "handler_ticks.edu") not in values
    assert values["tick", "handler_ticks"][0] == 0


@pytest.mark.parametrize(("entries", "ratio"), [(100, 1.0), (99, 0.99), (101, 1.01), (0, 0.0)])
def test_entries_are_compared_exactly(lab, entries, ratio):
    counts = {"krepro_edu_irq": entries, "timer_interrupt": 100}
    trial = lab.trial("irq-entry", sampling="entry", edu={"counts": counts, "lines": LINES, "answer": EDU})
    values = measured(trial)
    assert values["irq-entry", "entries_per_interrupt.edu"][0] == ratio
    assert values["irq-entry", "entries_per_interrupt.timer"][0] == 1
    assert values["irq-entry", "handler_ticks"][0] == 0  # entries are not ticks


def test_errors_of_two_workloads_do_not_cancel(lab):
    def load(entries: int) -> dict[str, Any]:
        return {"counts": {"krepro_edu_irq": entries, "timer_interrupt": 100}, "lines": LINES, "answer": EDU}

    trial = lab.trial("irq-entry", sampling="entry", edu=load(95), **{"edu-light": load(105)})
    assert measured(trial)["irq-entry", "entries_per_interrupt.edu"][0] in {0.95, 1.05}


@pytest.mark.parametrize(
    ("entries", "value", "reason"),
    [
        (100, None, "not exact: 100 to 103 interrupts, 100 entries"),
        (103, None, "not exact: 100 to 103 interrupts, 103 entries"),
        (99, 0.99, None),
        (206, 2.0, None),
    ],
)
def test_inexact_bracket_is_an_interval(lab, entries, value, reason):
    load = {
        "counts": {"krepro_edu_irq": entries},
        "lines": {"11": ("krepro-edu", 100), "0": ("timer", 100)},
        "answer": EDU,
        "bracket": {"begin_exact": 0, "begin_entry_slack": "11:1 14:9", "end_entry_slack": "11:2"},
    }
    got, why = measured(lab.trial("irq-entry", sampling="entry", edu=load))["irq-entry", "entries_per_interrupt.edu"]
    if value is None:
        assert np.isnan(got)
        assert reason in why
    else:
        assert (got, why) == (value, None)


def test_shared_lines_and_drivers_with_several_lines(lab):
    # Line 11 calls both handlers every time; two virtio devices on line 10 call theirs twice.
    lines = {
        "10": ("virtio0, virtio1", 30),
        "11": ("krepro-edu, virtio2", 100),
        "14": ("ata_piix", 5),
        "15": ("ata_piix", 6),
    }
    counts = {"krepro_edu_irq": 100, "vp_interrupt": 160, "ata_bmdma_interrupt": 11}
    trial = lab.trial(
        "irq-entry", sampling="entry", disk={"counts": counts, "lines": lines, "answer": TOOK | {"reads": 11}}
    )
    values = measured(trial)
    for label in ("edu", "virtio", "disk"):
        assert values["irq-entry", f"entries_per_interrupt.{label}"][0] == 1
    assert values["irq-entry", "interrupts_per_read"][0] == 1


@pytest.mark.parametrize("driver", ["cp_interrupt", "e1000_intr"])
def test_either_driver_of_a_kind_may_be_at_work(lab, driver):
    load = {
        "counts": {driver: 20},
        "lines": {"10": ("eth0", 20)},
        "called": {"eth0": driver},
        "answer": TOOK | {"bytes": 1},
    }
    values = measured(lab.trial("irq-entry", sampling="entry", net=load))
    assert values["irq-entry", "entries_per_interrupt.net"][0] == 1
    assert values["irq-entry", "handler_ticks.net"][0] == 0


def test_interrupts_of_a_shared_line_are_not_the_devices_own(lab):
    load = {"lines": {"11": ("krepro-edu, eth0", 102)}, "answer": EDU}
    values = measured(lab.trial(edu=load))
    assert np.isnan(values["tick", "interrupts_per_raise"][0])
    assert "same line" in values["tick", "interrupts_per_raise"][1]
    assert values["tick", "handled_per_raise"][0] == 1


def test_entry_counter_that_is_shared_gives_no_ratio(lab):
    load = {"counts": {"krepro_edu_irq": 100}, "lines": LINES, "answer": EDU, "shift": 7}
    value, reason = measured(lab.trial("irq-entry", sampling="entry", edu=load))[
        "irq-entry", "entries_per_interrupt.edu"
    ]
    assert np.isnan(value)
    assert "shares its counter" in reason


def test_unknown_action_is_absent_with_the_reason_and_so_is_the_sum(lab):
    values = measured(lab.trial(idle={"lines": {"0": ("timer", 100), "5": ("mystery", 3)}}))
    assert values["tick", "handler_ticks"][1] == "the functions of mystery are not known"
    assert values["tick", "handler_ticks.timer"][0] == 0
    value, reason = values["tick", "handler_ticks.mystery"]
    assert np.isnan(value)
    assert "not known" in reason
    assert values["tick", "handler_interrupts.mystery"][0] == 3


def test_idle_rank_and_double_counting(lab):
    tick = lab.trial(idle={"counts": {"default_idle": 97, "vfs_read": 3}})
    both = lab.trial(
        "irq-entry",
        sampling="entry",
        idle={"counts": {"default_idle": 194, "vfs_read": 6, "timer_interrupt": 100}},
    )
    one = lab.trial("handler-only", sampling="handler", idle={"counts": {"default_idle": 97, "timer_interrupt": 100}})
    values = measured(tick, both, one)
    assert values["tick", "idle_rank"][0] == 1
    assert values["handler-only", "idle_rank"][0] == 2
    assert values["tick", "idle_share"][0] == 0.97
    assert values["tick", "samples_per_timer_interrupt"][0] == 1
    assert values["irq-entry", "samples_per_timer_interrupt"][0] == 2
    assert values["handler-only", "samples_per_timer_interrupt"][0] == 0.97


def test_uncertain_ticks_make_the_ratio_absent(lab):
    trial = lab.trial(idle={"counts": {"default_idle": 90}, "bracket": {"end_exact": 0, "end_tick_slack": 3}})
    value, reason = measured(trial)["tick", "samples_per_timer_interrupt"]
    assert np.isnan(value)
    assert "3 of 100" in reason


def test_handler_time_known_sampled_and_displaced(lab):
    # 100 runs of 2 ms in one second; a tick is 10 ms: 20 ticks inside if they can be seen.
    sti = lab.trial("tick-sti", edu={"counts": {"krepro_edu_work": 20}, "lines": LINES, "answer": EDU})
    load = {"counts": {"krepro_edu_raise": 8}, "lines": LINES, "answer": EDU}
    off = [lab.trial("tick", repetition=number, edu=load) for number in range(4)]
    values = measured(sti, *off)
    assert values["tick", "handler_time_known"][0] == pytest.approx(0.2)
    assert values["tick-sti", "handler_time_ratio"][0] == pytest.approx(1.0)
    assert values["tick", "handler_time_ratio"][0] == 0
    assert values["tick", "displaced_time_ratio"][0] == pytest.approx(1.0)  # 40 of 100 raised in the kernel
    assert values["tick", "displaced_ticks_due"][0] == pytest.approx(8)
    assert values["tick", "interrupts_per_raise"][0] == 1
    few = measured(*off[:3])
    assert few["tick", "displaced_time_ratio"][1] == "24.0 ticks are due in all trials, fewer than 25"
    assert few["tick", "handler_time_ratio"][0] == 0


def test_light_handler_has_entries_but_executes_little(lab):
    load = {"counts": {"krepro_edu_irq": 100, "timer_interrupt": 100}, "lines": LINES, "answer": EDU}
    trial = lab.trial("irq-entry", sampling="entry", edu=load, **{"edu-light": load})
    assert measured(trial)["irq-entry", "light_instructions_ratio"][1] == "no oracle ran"
    heavy, light = ({(address("krepro_edu_work"), "interrupt"): (n, 1)} for n in (4000, 20))
    write_oracle(trial.path, [heavy, light])
    values = measured(trial)
    assert values["irq-entry", "light_entries_ratio"][0] == 1
    assert values["irq-entry", "light_instructions_ratio"][0] == 0.005


def test_sweep_compares_within_a_repetition(lab):
    counts = {"krepro_edu_task_work": 80, "vfs_read": 20}
    trials = [
        lab.trial(f"n{n}", repetition=r, syscalls={"counts": counts, "shift": n}) for n in (2, 6, 7) for r in (0, 1)
    ]
    values = measured(*trials)
    assert values["n2", "neighbour_share"][0] == 0
    assert values["n6", "neighbour_share"][0] == 0
    assert values["n7", "neighbour_share"][0] == 1  # every 128-byte counter holds two functions
    assert values["n7.1", "neighbour_rise"][0] == 1
    assert values["n7.1", "neighbour_rise_total"][0] == 1
    assert np.isnan(values["n6", "neighbour_rise"][0])  # there is no n5
    assert values["n7", "step_bytes"][0] == 128


def test_phantom_ticks_of_a_neighbour(lab):
    # At 128 bytes the task's work shares a counter with the handler's: half of its ticks go there.
    load = {"counts": {"krepro_edu_task_work": 80}, "lines": LINES, "answer": EDU, "shift": 7}
    assert measured(lab.trial("n7", edu=load))["n7", "handler_ticks.edu"][0] == 40


def test_folding_equals_sampling_at_the_coarser_step(lab):
    rng = np.random.default_rng(7)
    counts = {name: int(n) for name, n in zip(FUNCTIONS[:-2], rng.integers(0, 50, len(FUNCTIONS) - 2), strict=True)}
    trials = [lab.trial(f"n{n}", syscalls={"counts": counts, "shift": n}) for n in range(2, 8)]
    tables = analysis.tables(trials)
    folded = tables["sweep"].set_index("n")["neighbour_share"]
    direct = analysis.metrics(tables).query("metric == 'neighbour_share'").set_index("arm")["value"]
    for n in range(2, 8):
        assert folded[n] == pytest.approx(direct[f"n{n}"])
    assert (np.diff(folded) >= 0).all()


def test_printed_pseudo_code_is_wrong(lab):
    values = measured(lab.trial(idle={"counts": {"default_idle": 97, "vfs_read": 3}}))
    assert values["tick", "printed_error.idle"][0] == 1  # reads the first counters, which are 0
    rows = shown(lab.trial("tick-wall", idle={"counts": {"startup_32": 4}}))
    row = rows["Fault 3: ticks by the pseudo-code as printed"].iloc[0]
    assert (row["hottest"], row["ticks"], row["printed"]) == ("startup_32", 4, 4)


def test_index_as_printed_leaves_its_array(lab):
    # 2^4 = 16 counters of 16 bytes: those of the first four functions.
    values = measured(lab.trial(idle={"counts": {"schedule": 30, "do_idle": 20, "vfs_read": 50}}))
    assert values["tick", "printed_outside.idle"][0] == 0.5
    assert values["tick", "counters"][0] == LENGTH / 16


def test_third_column_is_counts_per_byte(lab):
    values = measured(lab.trial(idle={"counts": {"default_idle": 96}}))
    assert values["tick", "idle_per_byte"][0] == 96 / 64


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "exit").write_text("1\n"), "ended with status 1"),
        (lambda folder: (folder / "profile").unlink(), "profile"),
        (lambda folder: (folder / "profile").write_bytes(b"\x10\0\0\0\1"), "cut short"),
        (lambda folder: (folder / "bracket").unlink(), "bracket"),
        (lambda folder: (folder / "interrupts.after").write_text(""), "empty"),
        (
            lambda folder: (folder / "interrupts.before").write_text("  CPU0\n 0: 7 XT-PIC timer\n"),
            "no rows ERR",
        ),
        (lambda folder: (folder / "stdout").write_text("Segmentation fault"), "not what it should be"),
        (lambda folder: (folder / "bracket").write_text("begin_exact=1\nbegin_retries=0\n"), "begin_tick_slack"),
        (lambda folder: replaced(folder / "bracket", "begin_retries=", f"begin_retries={'9' * 30}"), "than 64 bits"),
    ],
)
def test_spoilt_raw_data_is_absent_with_the_reason(lab, spoil, says):
    load = {"edu": {"lines": LINES, "answer": EDU}, "idle": {}}
    good, bad = (lab.trial(repetition=repetition, **load) for repetition in (0, 1))
    spoil(bad.path / "edu")
    values = measured(good, bad)
    assert values["tick.1", "idle_rank"] == values["tick", "idle_rank"]
    value, reason = values["tick.1", "interrupts_per_raise"]
    assert values["tick", "interrupts_per_raise"] == (1, None)
    assert np.isnan(value)
    assert says in reason
    assert "tick/1/edu" in reason
    assert str(lab.root) not in reason


def replaced(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def test_each_file_costs_what_it_tells(lab):
    load = {"edu": {"lines": LINES, "answer": EDU, "counts": {"krepro_edu_raise": 8}}, "idle": {}}
    costs = {"profile": "step_bytes", "bracket": "bracket_exact", "stdout": "handled_per_raise"}
    for repetition, (name, lost) in enumerate(costs.items()):
        trial = lab.trial(repetition=repetition, **load)
        for workload in load:
            (trial.path / workload / name).unlink()
        values = {metric: value for (_, metric), value in measured(trial).items()}
        for metric in costs.values():
            assert np.isnan(values[metric][0]) == (metric == lost)
        assert f"edu/{name}" in values[lost][1]


def test_truth_stands_without_the_buffer(lab):
    trial = lab.trial(edu={"lines": LINES, "answer": EDU})
    write_oracle(trial.path, [{(address("krepro_edu_work"), "interrupt"): (30, 1)}])
    (trial.path / "edu/profile").unlink()
    values = measured(trial)
    assert values["tick", "truth.handler"][0] == 1
    assert np.isnan(values["tick", "missed.ticks"][0])
    assert "edu/profile" in values["tick", "missed.ticks"][1]


def test_truth_is_that_of_the_buffers_window(lab):
    trial = lab.trial(edu={"lines": LINES, "answer": EDU})
    inside, outside = ({(address("krepro_edu_work"), "interrupt"): (n, 1)} for n in (30, 7))
    more = outside | {(address("vfs_read"), "task"): (21, 1)}
    write_oracle(trial.path, [inside], windows=[more])
    assert measured(trial)["tick", "truth.handler"][0] == 0.25
    write_oracle(trial.path, [inside], windows=[])
    assert "0 windows of 1 workloads" in measured(trial)["tick", "truth.handler"][1]


def test_what_the_kernel_calls_is_read_from_it(lab):
    load = {"lines": {"0": ("timer", 100), "5": ("my own device", 3)}, "called": {"my own device": "vfs_read"}}
    trial = lab.trial("irq-entry", sampling="entry", idle=load | {"counts": {"vfs_read": 3, "timer_interrupt": 100}})
    values = measured(trial)
    assert values["irq-entry", "entries_per_interrupt.my own device"][0] == 1
    assert values["irq-entry", "handler_ticks"][0] == 0
    path = trial.path / "idle/handlers"
    told = path.read_text()
    path.write_text(told.replace(f"{address('default_idle') + 9:x} default_idle", f"{address('do_idle'):x} do_idle"))
    assert analysis.tables([trial])["buffers"]["idle_function"].tolist() == ["do_idle"]
    path.write_text(told[: told.index("idle ")])
    value, reason = measured(trial)["irq-entry", "idle_rank"]
    assert np.isnan(value)
    assert reason == "no CPU was seen idle"
    path.write_text("5 f8000010 theirs [mod] my own device\n" + told[: told.index("5 ")])
    assert "functions of my own device" in measured(trial)["irq-entry", "handler_ticks"][1]
    path.write_text("0 timer_interrupt\n")
    assert "handlers:1" in measured(trial)["irq-entry", "handler_ticks"][1]


def test_many_functions_against_the_truth_without_the_idle_one(lab):
    trial = lab.trial("tick-mixed", mixed={"counts": {"vfs_read": 30, "schedule": 10, "default_idle": 500}})
    exact = {"vfs_read": 500, "schedule": 300, "do_idle": 200, "default_idle": 9}
    region = {(address(name), "interrupt" if name == "do_idle" else "task"): (n, 1) for name, n in exact.items()}
    write_oracle(trial.path, [region], [(0, address(name)) for name in ("vfs_read",) * 6 + ("schedule",) * 4])
    values = measured(trial)
    assert values["tick-mixed", "interrupt_share.mixed"][0] == pytest.approx(200 / 1009)
    assert values["tick-mixed", "profile_error.mixed"][0] == pytest.approx(0.25)
    assert values["tick-mixed", "sampler_error.mixed"][0] == pytest.approx(0.2)
    # Differences 0.1, 0.1, -0.2 of shares; of 10 independent samples the mean square is (1 - 0.38) / 10.
    assert values["tick-mixed", "sampler_of_independent.mixed"][0] == pytest.approx((0.06 / 0.062) ** 0.5)


def test_what_is_off_costs_the_difference_of_a_call(lab):
    trials = [lab.trial(arm, syscalls={}) for arm in ("patched", "stock")]
    for trial, whole in zip(trials, (1652, 1446), strict=True):  # by floats alone, a call's difference is more than 1
        text = trial.system_map.read_text()
        if "profile_tick" not in text:
            trial.system_map.write_text(text.replace(" last\n", " profile_tick\n"))
        write_oracle(trial.path, [{(address("last"), "interrupt"): (whole, 206)}])
    values = measured(*trials)
    assert values["patched", "off_cost.profile_tick"][0] == 1
    assert "__handle_irq_event_percpu ran" in values["patched", "off_cost.__handle_irq_event_percpu"][1]
    assert not any(metric.startswith("off_cost") for arm, metric in values if arm == "stock")


def test_yaml_off_is_off(lab):
    trial = lab.trial(sampling=False, idle={"counts": {"timer_interrupt": 5}})
    assert measured(trial)["tick", "handler_ticks"][0] == 5


def test_no_trials_give_empty_tables_and_no_figure():
    tables = analysis.tables([])
    assert all(frame.empty for frame in tables.values())
    metrics = analysis.metrics(tables)
    assert metrics.empty
    assert analysis.summary(tables, metrics, []) == {}
    assert analysis.figures(tables, metrics) == {}
    assert len(analysis.paper(tables, metrics, [])) == 6  # what the paper prints alone


def every_arm(lab: Lab) -> list[TrialRecord]:
    counts = {"default_idle": 50, "krepro_edu_irq": 100, "krepro_edu_raise": 8, "ata_bmdma_interrupt": 10}
    lines = LINES | {"14": ("ata_piix", 10), "10": ("eth0", 20), "4": ("ttyS0", 10)}
    answer = EDU | {"reads": 10, "bytes": 4096, "calibration_raises": 16} | IN_STEP
    work, rest = (address(name) for name in ("krepro_edu_task_work", "vfs_read"))
    laps = [{(work, "task"): (950, 1), (rest, "task"): (50, 5)}, {(work, "task"): (100, 1), (rest, "task"): (900, 9)}]
    trials = []
    for arm, spec in load_experiment(FOLDER).arms.items():
        load = {"counts": counts, "lines": lines, "answer": answer, "shift": spec.cmdline["profile"]}
        names = dict.fromkeys(spec.workloads or [], load)
        trials.append(lab.trial(arm, sampling=spec.params["irq_sampling"], **names))
        if spec.oracle:
            regions = [{(address(name), "task"): (1000, 100) for name in counts}] * len(names)
            samples = [(0, address(name)) for name in counts] * 20 + [(0, work, 0), (0, rest, 1)] * 9
            own = {"step": laps, "peers": laps[:1]}
            write_oracle(trials[-1].path, regions, samples, laps=own.get(next(iter(names)), ()))
        if profiler := spec.params.get("profiler"):
            trials[-1] = trials[-1].model_copy(update={"params": spec.params})
            for name, content in PEERS_FILES.get(str(profiler), {}).items():
                (trials[-1].path / "peers" / name).write_bytes(content)
    return trials


def test_every_claim_names_a_metric_that_its_arm_has(lab):
    values = measured(*every_arm(lab))
    claims = [claim for claim in load_experiment(FOLDER).claims if claim.metric]
    assert not [claim.id for claim in claims if (claim.arm, claim.metric_name) not in values]


def test_an_oracle_that_failed_its_self_check_is_absent_with_the_reason(lab):
    trial = lab.trial(edu={"counts": {"krepro_edu_raise": 8}, "lines": LINES, "answer": EDU})
    region = {(address("krepro_edu_work"), "interrupt"): (30, 1), (address("krepro_edu_raise"), "task"): (10, 1)}
    write_oracle(trial.path, [region])
    values = measured(trial)
    assert values["tick", "truth.handler"][0] == 0.75
    assert values["tick", "missed.ticks"][0] == 1
    write_oracle(trial.path, [region], functions={"check_instructions": [7]})
    value, reason = measured(trial)["tick", "truth.handler"]
    assert np.isnan(value)
    assert "self-check" in reason


def test_nmis_are_counted_against_those_sent_and_are_no_ticks(lab):
    load = {"counts": {"krepro_edu_irq": 30}, "lines": LINES, "answer": EDU}
    trial = lab.trial("nmi", sampling="nmi", edu=load)
    write_oracle(
        trial.path, [{(address("krepro_edu_irq"), "interrupt"): (30, 3), (address("vfs_read"), "nmi"): (10, 1)}]
    )
    values = measured(trial)
    assert values["nmi", "nmis_received"][0] == 10 / 20  # 6 in the kernel, 3 in user mode, 1 masked
    assert values["nmi", "nmi_cost.edu"][0] == 0.25
    # 30 samples in the handler, one in 0.1 s (10 NMIs in the window of 1 s), of 0.2 s that it ran.
    assert values["nmi", "handler_time_ratio"][0] == pytest.approx(30 * 0.1 / 0.2)
    assert "ticks take no samples" in values["nmi", "displaced_time_ratio"][1]
    assert "not sampled" in values["nmi", "entries_per_interrupt.edu"][1]


@pytest.mark.deep
def test_summary_and_figures_of_a_whole_run(lab):
    trials = every_arm(lab)
    tables = analysis.tables(trials)
    assert not [name for name, frame in tables.items() if frame.empty and name != "problems"]
    assert len(shown(*trials)) == 13
    assert set(analysis.figures(tables, analysis.metrics(tables))) == {
        *("hot-spots", "paper-tables", "n-sweep", "handler-time", "truth", "error", "bias-map"),
    }


@pytest.mark.deep
def test_any_arm_alone_gets_its_summary_and_its_figures(lab):
    for trial in every_arm(lab):
        tables = analysis.tables([trial])
        metrics = analysis.metrics(tables)
        drawn = analysis.figures(tables, metrics)
        assert ("n-sweep" in drawn) == (trial.arm in {f"n{n}" for n in range(2, 8)}), trial.arm
        assert ("paper-tables" in drawn) == (trial.arm in {"tick-mixed", "irq-entry-mixed"}), trial.arm
        assert ("bias-map" in drawn) == trial.arm.startswith("map-"), trial.arm
        assert analysis.summary(tables, metrics, []), trial.arm
        assert all(len(frame.columns) <= 7 for frame in analysis.summary(tables, metrics, []).values())


def paper_of(*trials: TrialRecord) -> dict[str, pd.DataFrame]:
    tables = analysis.tables(trials)
    return analysis.paper(tables, analysis.metrics(tables), [])


def test_the_papers_rows_stand_beside_ours(lab):
    load = [{"counts": {"default_idle": 96 + k, "vfs_read": 3}} for k in range(2)]
    made = paper_of(*(lab.trial("tick-mixed", repetition=k, mixed=load[k]) for k in range(2)))
    before, after = made[BEFORE].set_index("function"), made[AFTER].set_index("function")
    idle = before.loc["default_idle"]
    assert idle[["count", "per byte", "bytes"]].tolist() == [1456, "22.7500", 64]
    assert (idle["here"], idle["here/B"]) == (96.5, round(96.5 / 64, 4))
    assert before.iloc[-1][["here", "today"]].tolist() == [3, "vfs_read"]  # a row that the paper has not
    assert np.isnan(before.loc["vm_set_pte", "here"])
    assert after["here"].isna().all()
    assert (after["today"] == "irq-entry-mixed did not run").all()
    assert (len(before), len(after)) == (10, 7)
    assert before.loc["schedule", "bytes"] == after.loc["schedule", "bytes"] == 688
    assert made["What the paper says of N, for this kernel"].iloc[0].tolist() == [4, 16, LENGTH // 16, LENGTH // 16, 16]


def test_each_printed_quotient_is_that_of_a_whole_number_of_bytes(lab):
    made = paper_of()
    rows = pd.concat([made[BEFORE], made[AFTER]])
    assert len(rows) == 16
    # The paper prints four places; a half goes to the even digit (183/96 = 1.90625), as in C.
    assert (rows["count"] / rows["bytes"]).round(4).tolist() == rows["per byte"].astype(float).tolist()


def test_sizes_are_the_names_own_where_they_are_told(lab):
    sizes = next(frame for title, frame in paper_of().items() if title.startswith("Whose size")).set_index("function")
    own = sizes.index[sizes["whose"] == "name"]
    assert set(own) == {
        *("default_idle", "_rdtsc_delay", "handle_IRQ_event", "set_rtc_mmss", "bust_spinlocks", "unexpected intr"),
    }
    assert "next" not in set(sizes["whose"])
    assert sizes.loc["set_rtc_mmss", ["2.4.10", "2.4.18", "next in 2.4.18", "its"]].tolist() == [
        *(400, 384, "timer_interrupt", 288),
    ]


def test_faults_have_the_papers_numbers_and_ours(lab):
    titled = "Faults of the text, by the paper's own numbers and here"
    alone = paper_of()[titled].set_index("fault or premise")
    assert alone.loc["index restarts at 0", "in the paper"].startswith("functions of 64 bytes have 4, 1456, 228")
    assert "8 of 16 rows" in alone.loc["third column is a share", "in the paper"]
    assert alone.loc["100 Hz", "here"] == "tick-mixed did not run"
    counts = {"default_idle": 50, "timer_interrupt": 100}
    tick = lab.trial("tick-mixed", mixed={"counts": {"default_idle": 50}})
    entry = lab.trial("irq-entry-mixed", sampling="entry", mixed={"counts": counts})
    both = paper_of(tick, entry)[titled].set_index("fault or premise")["here"]
    assert both["100 Hz"] == "100.0 Hz"
    assert both["kernel mode only"] == "50% of the timer's interrupts took a sample"
    assert both["default_idle should double"] == "1.00 times the counts of before"
    assert both["no CS test in do_hot_spot"].startswith("25% of")  # 4 entries, 3 addresses of the kernel
    assert both["no handler in its second table"] == "timer_interrupt: 1 entry per interrupt"


def test_rows_of_the_paper_are_counted_by_the_functions_of_today(lab):
    counts = {"default_idle": 5, "timer_interrupt": 100}
    values = measured(
        lab.trial("tick-mixed", mixed={"counts": {"default_idle": 5}}),
        lab.trial("irq-entry-mixed", sampling="entry", mixed={"counts": counts}),
    )
    assert values["tick-mixed", "row_counts.default_idle"][0] == 5
    assert values["tick-mixed", "rows_counted.before"][0] == 1
    assert "alone" in values["tick-mixed", "row_counts.vm_set_pte"][1]
    assert values["irq-entry-mixed", "row_counts.set_rtc_mmss"][0] == 0
    assert values["irq-entry-mixed", "rows_counted.after"][0] == 0
    alone = measured(lab.trial("irq-entry-mixed", repetition=1, sampling="entry", mixed={"counts": counts}))
    assert "no trial of this repetition" in alone["irq-entry-mixed.1", "idle_doubling"][1]


def test_a_buffer_read_one_off(lab):
    """The step as a count shows at the first function; a reading that is early takes a handler's entries from it."""
    counts = {"vfs_read": 7, "timer_interrupt": 100, "default_idle": 5}
    trial = lab.trial("irq-entry", sampling="entry", idle={"counts": counts})
    rows = analysis.tables([trial])["misread"].set_index("reading")
    assert rows["first_count"].to_dict() == {
        **{"as_it_is": 0, "step_counted": 16},
        **{"counter_early": 0, "function_early": 0},
    }
    assert rows["entries"].tolist() == [100] * 4  # the ticks of other functions are none
    assert rows["entries_own"].tolist() == [100, 100, 0, 0]
    assert rows["entries_before"].tolist() == [0, 0, 100, 100]
    assert rows["top_function"].tolist() == ["timer_interrupt", "timer_interrupt", "do_idle", "do_idle"]
    assert rows["idle_ticks"].tolist() == [5, 5, 0, 0]
    values = measured(trial)
    assert values["irq-entry", "misread_entries.counter_early"][0] == 1
    assert values["irq-entry", "misread_named.step_counted"][0] == 1
    assert "no handler entries" in measured(lab.trial(idle={"counts": counts}))["tick", "misread_entries.as_it_is"][1]


def test_profiles_sum_the_trials_of_an_arm_and_name_what_a_function_is(lab):
    lab_trials = [
        lab.trial(repetition=k, idle={"counts": {"default_idle": 5, "schedule": 2}, "answer": TOOK}) for k in range(2)
    ]
    stacks = stacks_of(analysis.tables(lab_trials))
    assert stacks.sort_values("stack")[["profile", "stack", "weight", "unit"]].to_numpy().tolist() == [
        ["tick, idle: /proc/profile", "idle;default_idle", 10.0, "none"],
        ["tick, idle: /proc/profile", "schedule", 4.0, "none"],
    ]


def test_profiles_have_the_oracles_counts_where_there_are_any(lab):
    tables = analysis.tables(every_arm(lab))
    stacks = stacks_of(tables)
    truth = tables["truth"]
    exact = stacks[stacks["profile"].str.endswith(": exact instructions")]
    assert exact["weight"].sum() == truth["instructions"].sum() > 0
    assert set(exact["profile"]) == set(truth["arm"] + ", " + truth["workload"] + ": exact instructions")
