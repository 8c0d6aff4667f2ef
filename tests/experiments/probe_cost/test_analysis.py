# SPDX-License-Identifier: MIT
"""experiments/probe-cost without a guest: a known model makes the runs of its own scripts, and must be found again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from experiments.probe_cost import scripts
from experiments.probe_cost.model.cost import CostModel, Script
from experiments.probe_cost.model.prediction import predict
from experiments.probe_cost.runs import Run, words

from harness.errors import UsageError
from harness.measure.analysis import Analysis
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.experiments.probe_cost.printed import printed
from tests.experiments.probe_cost.test_cost_model import COPIED, KPROBE, MODEL, SYSCALL, UPROBE, cost
from tests.records import host_sched, trial_record

FOLDER = EXPERIMENTS / "probe-cost"
analysis = Analysis(FOLDER)
FULL = KPROBE | {"memory": cost(150), "comm": cost(110)}
#: What the synthetic machine really costs; it has no oracle, so the trap is in dispatch.
TRUTH = CostModel.model_validate(
    {
        **MODEL,
        "providers": {
            "kprobe-int3": {"stages": {k: v for k, v in FULL.items() if k != "trap"}},
            "kprobe-ftrace": {"stages": {k: v for k, v in FULL.items() if k != "trap"}},
            "uprobe": {"stages": {**FULL, **UPROBE}},
            "tracepoint": {"stages": {**FULL, **SYSCALL, "consumer": cost(600)}},
            "syscall": {"stages": {**FULL, **SYSCALL, **COPIED}},
            "sample": MODEL["providers"]["sample"],
        },
    }
)
BARE = {"getppid": 223, "getuid": 186, "upush": 29, "rename": 445, "pipe": 1644, "nothing": 10}


def blocks(name: str, tmp_path: Path) -> list[list[str]]:
    """The runs of one of the guest's scripts, as the guest's shell makes them."""
    out = printed(name, tmp_path)
    return [block.strip().split("\n") for block in re.split(r"^go\n", out, flags=re.MULTILINE) if block.strip()]


def measured(lines: list[str], batches: int = 5) -> dict[str, Any]:
    """What a guest that costs TRUTH would print of one run."""
    options = words(lines[0])
    name, work, rounds = lines[0].split()[1], options["work"], int(options.get("rounds", "400"))
    bare = BARE.get(work, 1000) + 2 * int(options.get("spin", "0"))
    probes = [line for line in lines if line.startswith("probe ")]
    run: dict[str, Any] = {
        "run": name, "script": "\n".join(lines), "rounds": rounds, "lap": -1, "problem": "", "drops": 0,
        "buffers": [], "took": [bare * rounds] * batches, "plain": [bare * rounds] * batches,
        "syscalls": rounds * batches if work.startswith("get") else 0, "probes": [],
        # there and back, and nothing to save of them where no names are
        "switches": 2 * rounds * batches if work == "pingpong" and options.get("cmdlines") != "0" else 0,
    }  # fmt: skip
    fires = not (work == "getuid" or work == "nothing")
    for line in probes:
        uses = lines[lines.index(line) + 1 :]
        uses = uses[: next((i for i, use in enumerate(uses) if use.startswith("probe ")), len(uses))]
        firings = rounds * batches * fires * (2 if work == "pingpong" else 1)  # both of its tasks pass
        passes = [0 if "<0" in use else firings for use in uses]
        copies = {"texts": int("sys_enter_openat" in line), "arrays": int("sys_enter_write" in line)}
        probe = {
            **copies,
            "firings": firings,
            "hits": firings,
            "misses": 0,
            "passes": passes,
            "size": 16 + 8 * line.count("="),
        }
        # As deep as the names of kind and work are long: stacks of two depths at least are needed.
        deep = any("stack" in use for use in uses)
        probe |= {"frames": float(len(line.split()[1]) + len(line.split()[2]) % 5) if deep else 0.0}
        probe |= {"user_frames": float(options.get("depth", 1)) if line.split()[1] == "sample" and deep else 0.0}
        probe["executed"] = [executed(use) for use in uses]
        run["probes"].append(probe)
        run["buffers"] = max(run["buffers"], [{"entries": 10**6, "overrun": 0}] * len(uses), key=len)
    if probes:
        try:
            found = predict(TRUTH, scripts.script(Run.model_validate(run)))
        except UsageError as error:
            run |= {"problem": str(error), "took": None}
            del run["plain"]
            return run
        added, looks = found.added, found.looks
        if looks.all_wakes:  # a guest counts whole ones: those cost what they cost
            events, size = run["probes"][0]["firings"], 4 + run["probes"][0]["size"]
            pages = round(looks.pages * batches)
            copied = events - pages * (4080 // size) if looks.partials else 0
            counted = {
                "refresh": round(looks.wakes * batches), "page": pages, "partial": round(looks.partials * batches),
                "copied": copied, "byte": copied * size, "ring-wake": round(looks.ring_wakes * batches),
            }  # fmt: skip
            exact = (looks.wakes, looks.pages, looks.partials, looks.copied, looks.bytes, looks.ring_wakes)
            for (stage, count), was in zip(counted.items(), exact, strict=True):
                added += TRUTH.general[stage].value * (count / batches - was)
            wakes = counted["refresh"] + counted["ring-wake"]
            own = run["switches"] / batches
            switches = [min(own + number, events / batches) for number in (wakes / batches, looks.all_wakes)]
            if any(use == "use" for use in lines):
                added += TRUTH.general["switch"].value * (switches[0] - switches[1])
            run |= {"wakes": wakes, "pages": pages + counted["partial"], "whole": pages}
            run["records"] = events if looks.ring_wakes else 0
        run["took"] = [bare * rounds + added] * batches
    if options.get("check") != "1":
        del run["plain"]
    return run


def executed(use: str) -> int:
    """Of a program that does what a line says: none of the guest's own, but more for more."""
    options = words(use.removeprefix("use"))
    if "bpf" not in options:
        return 0
    calls = sum(7 * int(call.split(":")[1]) for call in options.get("calls", "").split(",") if call)
    return 3 + int(options["bpf"]) + 8 * int(options.get("map", "0")) + calls + 9 * ("ring" in use or "perf" in use)


@pytest.fixture
def trial(tmp_path: Path) -> TrialRecord:
    for name in ("fit", "validate"):
        folder = tmp_path / "raw" / name
        folder.mkdir(parents=True)
        runs = [measured(lines) for lines in blocks(name, tmp_path)]
        for run in runs:
            if run["took"] is None:
                del run["took"]
        (folder / "stdout").write_text("".join(json.dumps(run) + "\n" for run in runs))
    host_sched(tmp_path / "raw", 0, ran_ns=1)
    made = {"kernel": "modern-6.1", "params": {"unit": "ns"}, "workloads": ("fit", "validate")}
    return trial_record("wall", clock="wall", root=tmp_path, path=tmp_path / "raw", **made)


@pytest.fixture
def tables(trial: TrialRecord) -> dict[str, Any]:
    return analysis.tables([trial])


def test_the_stages_of_a_known_machine_are_found_again(tables):
    assert tables["problems"].empty
    stages = tables["stages"][tables["stages"]["point"] == ""]
    found = stages.set_index(["provider", "stage"])["value"].to_dict()
    for provider in ("kprobe-int3", "uprobe", "tracepoint", "syscall"):
        truth = {**TRUTH.general, **TRUTH.providers[provider].stages}
        names = {stage for name, stage in found if name == provider}
        assert {"delivery", "consumer", "predicate", "term", "histogram", "program", "aggregation"} <= names
        assert not names & {"trap", "dispatch"}, "only an oracle tells them apart"
        assert provider != "syscall" or set(COPIED) <= names
        for stage in names:
            parts = [part for part in ("trap", "dispatch") if part in truth] if stage == "delivery" else [stage]
            expected = sum(truth[part].value for part in parts)
            assert found[provider, stage] == pytest.approx(expected), (provider, stage)
    for stage in (
        "frame",
        "page",
        "partial",
        "copied",
        "byte",
        "refresh",
        "buffer",
        "ring-wake",
        "taken",
        "perf-taken",
    ):
        # what readers take is told apart by equations that are nearly alike
        assert found["general", stage] == pytest.approx(TRUTH.general[stage].value, rel=1e-3), stage
    for stage in ("string", "character", "string-predicate", "compared"):
        assert found["general", stage] == pytest.approx(TRUTH.general[stage].value), stage
    for stage, truth in TRUTH.providers["sample"].stages.items():
        assert found["sample", stage] == pytest.approx(truth.value), stage
    for name, truth in TRUTH.calls.items():
        assert found["call", name] == pytest.approx(truth.each.value), name
        if truth.byte is not None:
            assert found["call", f"{name}-byte"] == pytest.approx(truth.byte.value), name


def test_what_could_not_be_set_up_is_absent_and_not_zero(tables):
    assert not any(tables["stages"]["provider"] == "uretprobe")
    problems = tables["runs"].set_index("run")["problem"]
    assert "no provider 'uretprobe'" in problems["uretprobe.one"]
    metrics = analysis.metrics(tables).set_index("metric")
    assert "run uprobe-step.one: the model has no provider" in metrics.loc["stepped_over_emulated", "reason"]


def test_the_model_that_is_saved_predicts_the_same(tables):
    documents = analysis.documents(tables, analysis.metrics(tables))
    assert list(documents) == ["model-wall"]
    model = CostModel.model_validate_json(documents["model-wall"])
    assert model.unit == "ns"
    script = {
        "workload": {"cost": 1e6},
        "probes": [{"provider": "kprobe-int3", "point": "f", "firings": 10, "consumers": [{"stack_frames": 4}, {}]}],
    }
    expected = predict(TRUTH, Script.model_validate(script)).added
    assert predict(model, Script.model_validate(script)).added == pytest.approx(expected)


def test_scripts_are_read_as_the_guest_ran_them():
    lines = [
        "run x work=pipe rounds=10 check=1 drain=100",
        "probe kprobe-int3 vfs_read maxactive=3 a=%di b=+8(%di):u64 c=$comm",
        "use filter=a==1||a==2 stack=1",
        "use hist=keys=a,b:vals=c record=0",
        "probe sample 5000",
        "use",
    ]
    run = measured(lines) | {"took": [1] * 5}
    run["probes"][0] |= {"passes": [5, 0], "frames": 7.0}
    script = scripts.script(Run.model_validate(run))
    probe, sample = script.probes
    assert {name: n for name, n in probe.fields.numbers().items() if n} == {"register": 1, "memory": 1, "comm": 1}
    assert probe.firings == 10
    first, second = probe.consumers
    assert (first.predicate.terms, first.predicate.terms_if_true, first.predicate.terms_if_false) == (2, 1, 2)
    assert first.predicate.passes == 0.1
    assert first.stack_frames == 7
    assert (second.record, second.histogram.keys, second.histogram.values) == (False, 2, 1)
    assert sample.period_ns == 5000
    assert (script.refresh.wakes, script.refresh.period_ns, script.refresh.each) == (None, 100_000, False)


def test_nothing_of_a_prediction_is_from_the_traced_batches():
    lines = [
        "run x work=pipe rounds=10 check=1 drain=100 readers=2",
        "probe kprobe-int3 vfs_read a=%di",
        "use filter=a==1 stack=1",
        "use bpf=3 calls=pid:2,look/8:1 ring=16",
        "probe sample 50000",
        "use stack=1",
    ]
    run = measured(lines)
    run["probes"][1]["user_frames"] = 3.0
    before = scripts.script(Run.model_validate(run))
    traced = {"took": [7] * 5, "wakes": 999, "pages": 999, "whole": 99, "records": 999, "drops": 9, "buffers": []}
    for probe in run["probes"]:
        probe |= {"hits": 12345, "misses": 678}
    assert scripts.script(Run.model_validate(run | traced)) == before
    counted = json.loads(json.dumps(run))
    counted["probes"][0]["by_wake"] = 3.5
    assert scripts.script(Run.model_validate(counted)) != before, "what was counted before it does"


def test_a_reader_whose_looks_fired_less_than_one_look_fires_nothing_by_them():
    run = measured(["run x work=pipe rounds=10 check=1 drain=100", "probe kprobe-int3 vfs_read", "use"])
    run["probes"][0] |= {"by_wake": 3.5, "by_read": -0.0053}
    (probe,) = scripts.script(Run.model_validate(run)).probes
    assert (probe.by_wake, probe.by_read) == (3.5, 0.0)


@pytest.mark.parametrize(
    ("probe", "told", "size"),
    [("syscall sys_enter_getppid", 12, 16), ("syscall sys_enter_write", 40, 40), ("kprobe-int3 f a=%di:u32", 20, 20)],
)
def test_an_event_of_a_system_call_ends_where_an_argument_would_begin(probe, told, size):
    run = measured(["run x work=pipe rounds=10 check=1 drain=100", f"probe {probe}", "use"])
    run["probes"][0]["size"] = told
    (found,) = scripts.script(Run.model_validate(run)).probes
    assert found.event_bytes == size


def test_events_are_those_that_the_counted_firings_make():
    lines = [
        "run x work=hot rounds=10 check=1",
        "probe kprobe-int3 __x64_sys_prctl+5 a=%di",
        "use stack=1",
        "use filter=a<3 stack=1",
        "probe uprobe u_nop a=%di",
        "use hist=keys=a record=0",
        "use filter=a<5",
        "probe tracepoint task/task_rename",
        "use",
        "use bpf=10",
        "probe sample 5000",
        "use",
    ]
    run = measured(lines) | {"took": [1] * 5}
    for probe, firings, passes in zip(run["probes"], (51, 50, 50, 9), ([0, 4], [0, 20], [0, 0], [0]), strict=True):
        probe |= {"firings": firings, "passes": passes}
    # 50 with a stack each (one firing is probecost's own call) and 50; 4 with a stack each and 20.
    assert scripts.events_of(Run.model_validate(run)) == [2 * 50 + 50, 2 * 4 + 20]


def test_a_held_out_script_that_needs_what_was_not_fitted_is_absent_with_the_reason(trial):
    path = trial.path / "fit" / "stdout"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if '"run": "uprobe.' not in line))
    metrics = analysis.metrics(analysis.tables([trial])).set_index("metric")
    assert "no provider 'uprobe'" in metrics.loc["error.v07-sort-cold", "reason"]
    assert metrics.loc["error.v05-signal-filtered", "value"] == pytest.approx(0, abs=1e-9)


def test_a_script_of_what_never_fires_costs_nothing_and_that_is_right(trial):
    """A compiler may have put the function into its callers. What is predicted to cost and does not, is told."""
    path = trial.path / "validate" / "stdout"
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    for run in runs:
        if run["run"].startswith(("v05", "v07")) and "plain" in run:
            run["took"] = run["plain"]
        if run["run"].startswith("v05"):
            for probe in run["probes"]:
                probe["firings"] = 0
            run["switches"] = 0
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    tables = analysis.tables([trial])
    assert not len(tables["problems"])
    metrics = analysis.metrics(tables).set_index("metric")
    assert metrics.loc["error.v05-signal-filtered", "value"] == 0
    assert "it adds nothing, and" in metrics.loc["error.v07-sort-cold", "reason"]
    assert metrics.loc["error.v01-service-mixed", "value"] == pytest.approx(0, abs=1e-9)


def test_what_the_guest_did_not_print_is_told_and_costs_that_alone(trial):
    whole = analysis.metrics(analysis.tables([trial])).set_index("metric")["value"]
    (trial.path / "fit" / "stdout").write_text("probecost: no\n")
    tables = analysis.tables([trial])
    (problem,) = tables["problems"].to_dict("records")
    assert (problem["workload"], problem["part"]) == ("fit", "runs")
    assert "fit/stdout:1: is not what it should be" in problem["reason"]
    metrics = analysis.metrics(tables).set_index("metric")
    assert metrics.loc["nonlinear_consumers", "reason"] == problem["reason"]
    slowdowns = [name for name in metrics.index if name.startswith("slowdown.")]
    assert slowdowns
    assert metrics.loc[slowdowns, "value"].equals(whole[slowdowns])


def second(trial: TrialRecord, folder: Path) -> TrialRecord:
    """The same trial once more, whose raw files may be changed."""
    shutil.copytree(trial.path, folder)
    return trial.model_copy(update={"repetition": 1, "path": folder})


def test_a_trial_is_predicted_by_its_own_fit_so_another_ones_does_not_matter(trial, tmp_path):
    other = second(trial, tmp_path / "other")
    path = other.path / "fit" / "stdout"
    runs = [json.loads(line) for line in path.read_text().splitlines()]
    for run in runs:
        run["took"] = [3 * took for took in run.get("took", [])]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    alone = analysis.metrics(analysis.tables([trial]))
    both = analysis.metrics(analysis.tables([trial, other]))
    assert both[both["trial"] == 0].reset_index(drop=True).equals(alone)
    errors = both[both["metric"] == "error_added_worst"].set_index("trial")["value"]
    assert errors[1] > 1 > errors[0]


def test_the_model_is_of_the_trials_that_the_host_did_not_disturb(trial, tmp_path):
    other = second(trial, tmp_path / "other")
    host_sched(other.path, 1, ran_ns=1)
    tables = analysis.tables([trial, other])
    assert set(tables["stages"]["trial"]) == {0, 1}
    assert set(tables["costs"]["trials"]) == {1}
    disturbed = analysis.tables([other])
    assert disturbed["costs"].empty
    assert analysis.documents(disturbed, analysis.metrics(disturbed)) == {}


@pytest.mark.parametrize("workloads", [("fit",), ("validate",), ()])
def test_a_trial_of_some_workloads_is_shown_and_drawn(trial, workloads):
    tables = analysis.tables([trial.model_copy(update={"workloads": workloads})])
    metrics = analysis.metrics(tables)
    analysis.figures(tables, metrics)
    analysis.summary(tables, metrics, [])
    analysis.paper(tables, metrics, [])
