# SPDX-License-Identifier: MIT
"""The cost model of probes: sums worked out by hand, refusals in one line, and what ./inv predict prints."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from experiments.probe_cost.fitlines import line, solved
from experiments.probe_cost.fittimes import PLAIN, SIZES
from experiments.probe_cost.model.cost import Cost, CostModel, Script, stages
from experiments.probe_cost.model.prediction import Prediction, predict
from rich.console import Console

from harness.errors import UsageError
from harness.program import prediction


def cost(value: float, about: float = 0.0) -> dict[str, float]:
    return {"value": value, "low": value - about, "high": value + about}


KPROBE = {
    "trap": cost(100, 1), "dispatch": cost(50), "consumer": cost(500, 10), "register": cost(90), "predicate": cost(40),
    "term": cost(20), "predicate-false": cost(-300), "histogram": cost(400), "unrecorded": cost(-350),
    "trigger-predicate": cost(30), "histogram-false": cost(-200), "programs": cost(80), "program": cost(20),
    "instruction": cost(1), "aggregation": cost(130), "miss": cost(60), "same-place": cost(-70),
}  # fmt: skip
UPROBE = {"dispatch": cost(800), "consumer": cost(600), "register": cost(95), "same-place": cost(-700)}
STEP = {**UPROBE, "dispatch": cost(1300), "same-place": cost(-1200)}
SYSCALL = {
    "dispatch": cost(40), "consumer": cost(580), "iteration": cost(22), "passage": cost(70), "second-passage": cost(45),
    "program-passage": cost(73),
}  # fmt: skip
#: Its events copy of the user's, as newer kernels' do.
COPIED = {
    "string": cost(310), "character": cost(7), "data": cost(260), "data-byte": cost(2), "kept-string": cost(280),
    "kept-character": cost(6), "kept-data": cost(230), "kept-data-byte": cost(1),
}  # fmt: skip
MODEL: dict[str, Any] = {
    "experiment": "probe-cost", "arm": "virtual", "kernel": "modern-6.1", "fidelity": "virtual", "unit": "instructions",
    "trials": 3,
    "providers": {
        "kprobe-int3": {"stages": KPROBE},
        "uprobe": {"stages": UPROBE},
        "uprobe-step": {"stages": STEP},
        "uretprobe": {"stages": {**UPROBE, "same-place": cost(-1400)}},
        "tracepoint": {"stages": {**SYSCALL}, "points": {"task/task_rename": cost(600)}},
        "syscall": {"stages": {**SYSCALL, **COPIED, "programs": cost(80), "program": cost(20)}},
        "syscall-return": {"stages": SYSCALL},
        "fprobe": {
            "stages": {
                "trap": cost(60), "dispatch": cost(90), "instruction": cost(1), "iteration": cost(24),
                "same-place": cost(62), "aggregation": cost(130),
            },
        },
        "sample": {
            "stages": {
                "sample": cost(1_000), "stack": cost(600), "frame": cost(300), "user-frame": cost(40),
                "programs": cost(900),
            },
        },
    },
    "general": {
        "stack": cost(2000), "frame": cost(300), "second-key": cost(120), "key": cost(100), "value": cost(50),
        "shared-passage": cost(-44), "switch": cost(380), "refresh": cost(6000), "buffer": cost(700),
        "page": cost(7000), "partial": cost(1500), "copied": cost(130), "byte": cost(0.5), "ring-wake": cost(5000),
        "taken": cost(12), "perf-taken": cost(30), "string": cost(300), "character": cost(3),
        "string-predicate": cost(110), "compared": cost(8),
    },
    "calls": {
        **{name: {"each": cost(10 * at)} for at, name in enumerate(PLAIN, 1)},
        **{name: {"each": cost(100 + at), "byte": cost(1.5 + at)} for at, name in enumerate(SIZES, 1)},
        "delete": {"each": cost(1), "byte": cost(1)}, "array": {"each": cost(11)},
        "stack": {"each": cost(200), "byte": cost(400)}, "ring": {"each": cost(150), "byte": cost(0.25)},
        "perf": {"each": cost(540), "byte": cost(0.5)}, "kept": {"each": cost(617)},
    },
    "workloads": {
        "loop": {
            "cost": 1e6, "syscalls": 1000, "switches": 10,
            "firings": {"kprobe-int3 f": 200, "syscall sys_enter_x": 100},
        }
    },
}  # fmt: skip


def predicted(probes: list[dict[str, Any]], model: dict[str, Any] = MODEL, **fields: Any) -> Prediction:
    script = Script.model_validate({"workload": {"cost": 1e6}, "probes": probes, **fields})
    return predict(CostModel.model_validate(model), script)


def added(probe: dict[str, Any], **fields: Any) -> float:
    """By ten firings of one probe, per firing."""
    return predicted([{"firings": 10, **probe}], **fields).added / 10


CALLS = [{"name": "stack", "bytes": 4}, {"name": "array", "times": 2}]
COPYING = {"provider": "syscall", "fields": {"strings": 1, "characters": 20, "data": 1, "bytes": 9}}
INT3 = {"provider": "kprobe-int3", "point": "f"}


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (INT3, 100 + 50 + 500),
        ({**INT3, "fields": {"registers": 2}, "consumers": [{}, {}]}, 150 + 2 * (500 + 180)),
        ({**INT3, "consumers": [{"predicate": {"terms": 3}}]}, 150 + 500 + 40 + 2 * 20),
        ({**INT3, "consumers": [{"predicate": {"terms": 3, "passes": 0}}]}, 150 + 500 - 300),
        ({**INT3, "consumers": [{"predicate": {"passes": 0.25}}]}, 150 + 500 + 0.25 * 40 - 0.75 * 300),
        ({**INT3, "consumers": [{"predicate": {"terms": 2, "passes": 0, "terms_if_false": 2}}]}, 150 + 200 + 20),
        ({**INT3, "consumers": [{"predicate": {"terms": 2, "terms_if_true": 1}}]}, 150 + 540),
        ({**INT3, "consumers": [{"stack_frames": 5}]}, 650 + 2000 + 1500),
        ({**INT3, "consumers": [{"histogram": {}}]}, 650 + 400),
        ({**INT3, "consumers": [{"histogram": {"keys": 3, "values": 2}}]}, 650 + 400 + 120 + 100 + 2 * 50),
        ({**INT3, "consumers": [{"record": False, "histogram": {}}]}, 650 + 400 - 350),
        (
            {**INT3, "consumers": [{"record": False, "histogram": {"keys": 2}, "predicate": {"passes": 0.5}}]},
            650 + 400 - 350 + 0.5 * (30 - 200 + 120),
        ),
        ({**INT3, "consumers": [{"program": {"instructions": 7, "aggregations": 2}}]}, 150 + 80 + 20 + 7 + 260),
        ({**INT3, "consumers": [{"program": {}}, {"program": {}}]}, 150 + 80 + 2 * 20),
        ({**INT3, "misses": 4}, 0.6 * 650 + 0.4 * 60),
        # fields are fetched once for all consumers of a user probe
        ({"provider": "uprobe", "fields": {"registers": 2}, "consumers": [{}, {}]}, 800 + 2 * 600 + 2 * 95),
        # a trace point calls more than one consumer in a loop
        ({"provider": "tracepoint", "point": "task/task_rename", "consumers": [{}, {}]}, 40 + 22 + 2 * 600),
        ({"provider": "tracepoint", "point": "other"}, 40 + 580),
        # each program is a consumer of the function itself, and from the second on there is a list of them
        (
            {"provider": "fprobe", "consumers": [{"program": {}}, {"program": {"instructions": 5}}]},
            2 * 150 + 5 + 24 + 62,
        ),
        # a filter on a string takes the place of one on a number
        ({**INT3, "consumers": [{"predicate": {"characters": 5}}]}, 150 + 500 + 110 + 5 * 8),
        ({**INT3, "consumers": [{"predicate": {"characters": 5, "passes": 0}}]}, 150 + 500 - 300 + 110 - 40 + 5 * 8),
        ({**INT3, "fields": {"strings": 1, "characters": 20}}, 650 + 300 + 20 * 3),
        # an event that copies what a call's arguments point to, for each consumer; perf once, if it goes on
        (
            {**COPYING, "consumers": [{}, {}]},
            40 + 22 + 2 * (580 + 310 + 20 * 7 + 260 + 9 * 2),
        ),
        ({**COPYING, "consumers": [{"program": {}}, {"program": {}}]}, 40 + 80 + 2 * 20),
        (
            {**COPYING, "consumers": [{"program": {"calls": [{"name": "kept"}]}}, {"program": {}}]},
            40 + 80 + 2 * 20 + 617 + 280 + 20 * 6 + 230 + 9,
        ),
        # helpers, by what they are about
        (
            {
                **INT3,
                "consumers": [{"program": {"calls": CALLS}}],
            },
            150 + 80 + 20 + 200 + 4 * 400 + 2 * 11,
        ),
        # the loop over consumers is a frame of a trace point's stack
        (
            {"provider": "tracepoint", "point": "other", "consumers": [{"stack_frames": 5}, {}]},
            40 + 22 + 2 * 580 + 2000 + 6 * 300,
        ),
    ],
)
def test_one_firing_costs_the_sum_of_its_stages(probe, expected):
    assert added(probe) == pytest.approx(expected)


def test_firings_and_the_workload_may_be_those_that_the_model_has_counted():
    found = predicted([INT3], workload="loop")
    assert found.base == 1e6
    assert found.added == 200 * 650 + 10 * 380, "and each switch keeps names while something records"
    few = predicted([{**INT3, "firings": 4}], workload="loop")
    assert few.added == 4 * 650 + 4 * 380, "but only those after an event"
    false = predicted([{**INT3, "firings": 200, "consumers": [{"predicate": {"passes": 0}}]}], workload="loop")
    assert "switch" not in {part.stage for part in false.parts}, "that was recorded"
    assert found.slowdown == pytest.approx(1.1338)


def test_calls_that_pass_a_probed_one_cost_too():
    one = predicted([{"provider": "syscall", "point": "sys_enter_x"}], workload="loop")
    assert one.added == 100 * 620 + 900 * 70 + 10 * 380
    workload = {"cost": 1e6, "syscalls": 1000}
    both = predicted([{"provider": name, "firings": 0} for name in ("syscall", "syscall-return")], workload=workload)
    assert both.added == 2 * 1000 * 70 - 1000 * 44
    two = predicted([{"provider": "syscall", "firings": 0, "consumers": [{}, {}]}], workload=workload)
    assert two.added == 1000 * (70 + 45)
    three = predicted([{"provider": "syscall", "firings": 0, "consumers": [{}, {}, {}]}], workload=workload)
    assert three.added == 1000 * (70 + 45 + 45 - 22), "the loop over consumers began with the second"
    program = {"program": {}}
    programs = predicted([{"provider": "syscall", "firings": 0, "consumers": [program, program]}], workload=workload)
    assert programs.added == 1000 * 73, "perf is one consumer, however many programs it runs"


def test_probes_on_one_place_share_a_trap():
    twice = predicted([{**INT3, "firings": 10}, {**INT3, "firings": 4}])
    assert twice.added == 14 * 650 - 4 * 70
    apart = predicted([{**INT3, "firings": 10}, {**INT3, "point": "g", "firings": 4}])
    assert apart.added == 14 * 650
    # what a stepped and a returning probe share is a plain trap: neither the step nor the return
    mixed = predicted([{"provider": name, "point": "f", "firings": 1} for name in ("uprobe-step", "uretprobe")])
    assert mixed.added == 1300 + 600 + 800 + 600 - 700


def test_where_several_listen_to_a_function_all_listeners_are_asked():
    """Two programs at f and three at g, and kprobes, which are one listener; f and then h have a kprobe too."""
    stages = MODEL["providers"]["fprobe"]["stages"] | {"listed": cost(40), "mixed": cost(126)}
    providers = MODEL["providers"] | {"fprobe": {"stages": stages}, "kprobe-ftrace": {"stages": KPROBE}}

    def asked(kprobe: str, *programs: tuple[str, int]) -> dict[str, float]:
        probes: list[dict[str, Any]] = [
            {"provider": "fprobe", "point": point, "firings": 10, "consumers": [{"program": {}}] * number}
            for point, number in programs
        ]
        probes.append({"provider": "kprobe-ftrace", "point": kprobe, "firings": 10})
        made = predicted(probes, MODEL | {"providers": providers})
        return {
            f"{part.probe.removeprefix('(all) ')} {part.stage}": part.added
            for part in made.parts
            if "(all)" in part.probe
        }

    assert asked("k", ("f", 2), ("g", 3)) == {"f listed": 10 * 4 * 40, "g listed": 10 * 3 * 40}
    assert asked("k", ("f", 1), ("g", 1)) == {}
    assert asked("f", ("f", 2)) == {"f mixed": 1260, "f iteration": -240}
    assert asked("h", ("h", 1), ("f", 1)) == {"h mixed": 1260, "h listed": 400}


def test_the_refresh_adds_its_own_term():
    found = predicted([{**INT3, "firings": 1}], refresh={"wakes": 3, "pages": 5, "buffers": 2})
    # one of the wake-ups leaves a task that has recorded
    assert found.added == 650 + 3 * (6000 + 700) + 5 * 7000 + 380
    assert predicted([{**INT3, "firings": 1}], refresh={"wakes": 3}, workload={"cost": 1e6}).looks.wakes == 3


def test_a_reader_with_a_period_takes_what_is_there_and_what_it_makes_itself():
    probe = {**INT3, "firings": 1000, "event_bytes": 16}
    found = predicted([probe], refresh={"period_ns": 100_000})
    looks = found.looks
    own = 6000 * looks.wakes + 1500 * looks.partials + 130 * looks.copied + 0.5 * looks.bytes
    assert looks.wakes == pytest.approx((1e6 + found.added) / (100_000 + own / looks.wakes))
    assert (looks.pages, looks.copied, looks.bytes) == (0, 1000, 20_000)
    assert looks.partials == pytest.approx(looks.wakes + 20_000 / 4080)
    # Two readers wake up twice as often; what each read fires is fired too, and is read again.
    each = predicted([{**probe, "consumers": [{}, {}]}], refresh={"period_ns": 100_000, "each": True}).looks
    assert each.wakes > 1.8 * looks.wakes
    echo = predicted([{**probe, "by_wake": 2, "by_read": 0.5}], refresh={"period_ns": 100_000})
    assert echo.firings == pytest.approx(1000 + 2 * echo.looks.wakes + 0.5 * echo.looks.reads)
    # A buffer that each read writes into is never empty: a reader takes as much as it ever does.
    fed = {**probe, "by_read": 1}
    some = predicted([fed], refresh={"period_ns": 100_000, "reads": 8})
    assert some.looks.reads == pytest.approx(8 * some.looks.wakes)
    assert some.firings == pytest.approx(1000 + some.looks.reads)
    with pytest.raises(UsageError, match="never finds it empty"):
        predicted([fed], refresh={"period_ns": 100_000})
    # Another buffer's reader finds nothing of that, but waits while the first one works: measured were 70 beside 68.
    other = predicted(
        [fed, {**INT3, "firings": 10, "consumers": [{"record": False}, {}], "event_bytes": 16}],
        refresh={"period_ns": 100_000, "reads": 8, "each": True},
    ).looks
    assert other.readers[1].wakes == pytest.approx(other.readers[0].wakes, rel=1e-3)
    assert other.readers[1].copied < other.readers[0].copied / 10
    # Of what reads fire the filter may pass none: then that feeds nothing.
    dry = {**fed, "consumers": [{"predicate": {"passes": 1, "read_passes": 0}}]}
    assert predicted([dry], refresh={"period_ns": 100_000}).looks.reads < 0.3 * some.looks.reads
    seldom = predicted([{**probe, "firings": 100_000}], refresh={"period_ns": 20_000_000}).looks
    assert seldom.pages == pytest.approx(100_000 * 20 / 4080 - seldom.wakes), (
        "whole pages, but for the last of each look"
    )
    with pytest.raises(UsageError, match="saturated"):
        predicted([{**probe, "by_wake": 1e3}], refresh={"period_ns": 10_000})


def test_rings_of_programs_have_readers_of_their_own():
    ring = {"program": {"calls": [{"name": "ring", "bytes": 32}]}}
    found = predicted([{**INT3, "firings": 100, "consumers": [ring, ring]}], refresh={"period_ns": 100_000})
    assert found.looks.wakes == 0
    assert found.looks.ring_wakes == pytest.approx(2 * (1e6 + found.added) / 105_000)
    reading = sum(part.added for part in found.parts if part.probe == "(readers)")
    assert reading == pytest.approx(5000 * found.looks.ring_wakes + 2 * 100 * 12)


def test_equations_are_solved_to_the_last_digit():
    assert solved([(1, 2), (3, 4), (5, 6)], [5, 11, 17]) == [1, 2]
    with pytest.raises(ValueError, match="do not tell"):
        solved([(1, 2), (2, 4)], [1, 2])


def test_samples_lengthen_what_they_sample():
    one = predicted([{"provider": "sample", "period_ns": 10_000}])
    assert one.slowdown == pytest.approx(1 / (1 - 0.1))
    short = predicted([{"provider": "sample", "period_ns": 1_000}])
    assert short.slowdown == pytest.approx(one.slowdown), "the kernel takes no shorter period"
    assert "10000 ns instead" in short.notes[0]
    deep = {"stack_frames": 3, "user_frames": 5}
    stacks = predicted([{"provider": "sample", "period_ns": 10_000, "consumers": [deep]}])
    assert stacks.slowdown == pytest.approx(1 / (1 - (1000 + 600 + 3 * 300 + 5 * 40) / 10_000))
    dear = {**MODEL, "providers": {"sample": {"stages": {"sample": cost(20_000)}}}}
    with pytest.raises(UsageError, match="saturated"):
        predicted([{"provider": "sample", "period_ns": 10_000}], dear)


def test_the_interval_is_that_of_the_stages_and_of_the_held_out_scripts():
    alone = predicted([{**INT3, "firings": 10}])
    assert (alone.low, alone.high) == (6500 - 110, 6500 + 110)
    assert "no script was held out" in alone.notes[0]
    errors = {"scripts": 12, "added_median": 0.01, "added_worst": 0.1, "slowdown_median": 0.01, "slowdown_worst": 0.02}
    checked = predicted([{**INT3, "firings": 10}], {**MODEL, "accuracy": errors})
    assert (checked.low, checked.high) == (6500 - 110 - 650, 6500 + 110 + 650)
    assert checked.interval == pytest.approx((1.00574, 1.00726))


def test_nothing_that_fires_costs_exactly_nothing():
    found = predicted([{**INT3, "firings": 0}])
    assert (found.added, found.slowdown, found.parts) == (0, 1, [])
    assert any("exactly what it takes untraced" in note for note in found.notes)
    passing = predicted([{"provider": "syscall", "firings": 0}], workload={"cost": 1e6, "syscalls": 5})
    assert passing.added == 350
    assert any("where they do not fire" in note for note in passing.notes)


def test_what_makes_a_prediction_invalid_is_noted():
    assert "will not show" in predicted([{**INT3, "firings": 5, "misses": 2}]).notes[0]
    deep = predicted([{"provider": "uretprobe", "point": "f", "firings": 5, "depth": 128}])
    assert "50% of the returns are lost" in deep.notes[0]
    elsewhere = predicted([{"provider": "tracepoint", "point": "other", "firings": 5}])
    assert "was not measured" in elsewhere.notes[0]


@pytest.mark.parametrize(
    ("probe", "workload", "says"),
    [
        ({"provider": "dtrace", "firings": 1}, {"cost": 1}, "no provider 'dtrace'"),
        ({"provider": "kprobe-int3", "point": "g"}, "loop", "unknown probe 'kprobe-int3 g'"),
        ({"provider": "kprobe-int3", "point": "f"}, {"cost": 1}, "unknown probe 'kprobe-int3 f'"),
        (INT3, "loops", "not counted a workload 'loops'"),
        ({**INT3, "firings": 1, "fields": {"memory": 1}}, {"cost": 1}, "no stage 'memory'"),
        ({"provider": "fprobe", "firings": 1}, {"cost": 1}, "only a program"),
        ({**INT3, "firings": 1, "misses": 2}, {"cost": 1}, "misses 2 of 1"),
    ],
)
def test_what_the_model_cannot_say_is_one_clear_error(probe, workload, says):
    with pytest.raises(UsageError, match=says):
        predicted([probe], workload=workload)


def test_every_stage_has_a_place_in_the_order():
    assert len(set(stages())) == len(stages())
    assert Cost.model_validate(cost(1)).value == 1


# -- the command -------------------------------------------------------------------------------------------


def printed(tmp_path: Path, script: str, model: dict[str, Any] = MODEL) -> str:
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "script.yaml").write_text(script)
    console = Console(record=True, width=120, file=(tmp_path / "out").open("w"))
    code = prediction.predict_script(tmp_path, str(tmp_path / "model.json"), tmp_path / "script.yaml", console)
    assert code == 0
    return console.export_text()


def test_the_answer_is_split_by_probe_and_stage(tmp_path):
    text = printed(tmp_path, "workload: loop\nprobes: [{provider: kprobe-int3, point: f}]\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["1", "kprobe-int3", "f", "trap", "200", "100.0", "20,000", "14.9%"] in rows
    assert ["sum", "130,000"] in rows
    assert "slowdown: 1.13x [1.13x, 1.14x]" in text


def test_what_the_interval_is_worth_is_said(tmp_path):
    errors = {"scripts": 12, "added_median": 0.01, "added_worst": 0.1, "slowdown_median": 0.01, "slowdown_worst": 0.02}
    text = printed(
        tmp_path, "workload: loop\nprobes: [{provider: kprobe-int3, point: f}]\n", MODEL | {"accuracy": errors}
    )
    assert "the error that 19 of 20 of 12 other scripts were within" in " ".join(text.split())


def test_a_script_that_never_fires_is_answered(tmp_path):
    text = printed(tmp_path, "workload: {cost: 5}\nprobes: [{provider: kprobe-int3, firings: 0}]\n")
    assert "slowdown: exactly 1.0x" in text
    assert "exactly what it takes untraced" in text


@pytest.mark.deep
def test_a_damaged_model_and_a_wrong_script_name_file_and_field(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    console = Console(file=io.StringIO(), width=200)
    words = (tmp_path, str(tmp_path / "model.json"), tmp_path / "script.yaml", console)
    with pytest.raises(UsageError, match=r"model.json: has no field experiment"):
        prediction.predict_script(*words)
    (tmp_path / "model.json").write_text('{"experiment": "probe-cost", "arm": 5}')
    with pytest.raises(UsageError, match=r"is no cost model: arm"):
        prediction.predict_script(*words)
    with pytest.raises(UsageError, match="period_ns belongs to"):
        printed(tmp_path, "workload: {cost: 5}\nprobes: [{provider: uprobe, firings: 1, period_ns: 5}]\n")
    with pytest.raises(UsageError, match=r"field probes.0.fire: Extra") as caught:
        printed(tmp_path, "workload: {cost: 5}\nprobes: [{provider: uprobe, fire: 1}]\n")
    assert str(caught.value.where).endswith("script.yaml:2")


def test_a_line_is_that_of_least_squares_and_does_not_depend_on_the_order_of_its_points():
    points = [(1, 10.1), (2, 12.3), (4, 15.9), (7, 22.2)]
    assert line(points) == pytest.approx((8.133333, 1.997619), abs=1e-6)
    assert line([(frames, 3 + 0.5 * frames) for frames in (1, 2, 9)]) == (3, 0.5)
    # In floats, sums of these come out otherwise in another order.
    wild = [(x, 1e16 + 1 / 3 * x**3) for x in range(9)] + [(x, 1e-3 / (x + 1)) for x in range(9)]
    assert line(wild) == line(wild[::-1])


def test_readers_that_feed_themselves_make_a_small_error_a_large_one():
    """A tenth of what is added, by held-out scripts: with so many firings a wake-up that is of the time too."""
    errors = {"scripts": 12, "added_median": 0.01, "added_worst": 0.1, "slowdown_median": 0.01, "slowdown_worst": 0.02}

    def fed(by_wake: float) -> tuple[float, Prediction]:
        """What the interval has above the sum, by it; of one look more or less it has half a look."""
        probe = {**INT3, "firings": 1, "by_wake": by_wake, "consumers": [{"record": False}]}
        found = predicted([probe], {**MODEL, "accuracy": errors}, refresh={"period_ns": 100_000})
        reading = sum(part.added for part in found.parts if part.probe == "(readers)")
        return (found.high - reading / found.looks.all_wakes / 2) / found.added - 1, found

    assert fed(0)[0] == pytest.approx(0.1, rel=0.1)
    assert fed(250)[0] > 0.9
    near = fed(300)[1]
    assert "near saturation" in near.notes[0]
    assert near.high > 1000 * near.base > 100 * near.added
    with pytest.raises(UsageError, match="saturated"):
        fed(350)
