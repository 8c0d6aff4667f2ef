# SPDX-License-Identifier: MIT
"""Dimensions of a matrix in result sets: tables, metrics, reports, exports, comparisons, figures, and the way back."""

from __future__ import annotations

import itertools
import re
import shlex
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from harness.analysis.verification import verify
from harness.errors import UsageError
from harness.experiment.model import load_experiment
from harness.measure.dimensions import pivot
from harness.measure.rows import METRIC_COLUMNS
from harness.report.columns import print_columns
from harness.report.compared import compare
from harness.report.figures import draw_over
from harness.report.page import set_page
from harness.report.reproduce import reproduction
from harness.run.reanalysis import reanalyse
from harness.run.request import RunRequest
from harness.run.resuming import working_on
from harness.sets.export import export
from harness.sets.resultset import ResultSet
from harness.trial.plan import make_plan
from tests.result_sets import ANALYSIS, experiment_folder, write_set

YAML = """\
name: waits
paper: {authors: [Nobody], year: 2024, title: Waiting}
workloads:
  wait: {command: "sleep 1"}
arms:
  plain: {kernel: classic, clock: virtual}
  waits:
    clock: virtual
    matrix: {kernel: [classic, modern-6.1], method: [poll, "on"], ms: [1, 2, 4]}
claims:
  - {id: linear, metric: wait_ms/waits, across: {slope: ms, scale: linear}, expect: {between: [9, 11]}, because: so}
  - {id: misses, metric: misses/waits, across: {equal: kernel}, because: nothing counts them}
"""
TABLE = 'number("ms", "ms", "the wait"), string("problem", "none")'
#: Its table has the dimensions too, under their names, and its own wait by another.
ANALYSIS = (
    ANALYSIS.replace(TABLE, 'number("wait", "ms", "the wait"), number("ms", "ms", "asked"), string("method", "how")')
    .replace('{"ms": float', '{"wait": float')
    .replace("row.ms)", "row.wait)")
    .replace('["ms"]', '["wait"]')
)
KERNELS, METHODS, SIZES = ("classic", "modern-6.1"), ("poll", "on"), (1, 2, 4)
PLACES = list(itertools.product(KERNELS, METHODS, SIZES))


def arm_of(kernel: str, method: str, ms: int) -> str:
    return f"waits.{kernel}.{method}.ms-{ms}"


def wait(kernel: str, method: str, ms: int) -> float:
    return 10.0 * ms + (5 if kernel == "classic" else 0) + (0.5 if method == "on" else 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment_folder(tmp_path, YAML, ANALYSIS)


@pytest.fixture
def made(tmp_path: Path, folder: Path) -> ResultSet:
    values = {arm_of(*place): [wait(*place) + 0.01 * k for k in range(3)] for place in PLACES}
    return write_set(tmp_path / "results", folder, {"plain": [7.0], **values})


def shown(action) -> str:
    console = Console(file=StringIO(), width=160)
    action(console)
    return console.file.getvalue()


# -- tables and metrics ------------------------------------------------------------------------------------


def test_trials_and_metrics_have_a_column_for_each_dimension(made):
    trials, metrics = made.tables["trials"], made.metrics
    assert list(trials.columns)[-3:] == ["group", "method", "ms"], "it has a column kernel anyway"
    assert list(metrics.columns) == [*METRIC_COLUMNS, "kernel", "method", "ms"]
    row = metrics[metrics["arm"] == arm_of("modern-6.1", "on", 4)].iloc[0]
    assert (row["kernel"], row["method"], row["ms"]) == ("modern-6.1", "on", 4.0)
    plain = trials[trials["arm"] == "plain"].iloc[0]
    assert (plain["group"], plain["method"]) == (None, None)
    assert pd.isna(plain["ms"])
    assert (trials["ms"].dtype, metrics["ms"].dtype) == ("float64", "float64")


def test_own_columns_that_are_called_as_a_dimension_are_filled_in(made):
    waits = made.tables["waits"]
    row = waits[waits["arm"] == arm_of("classic", "poll", 2)].iloc[0]
    assert (row["ms"], row["method"]) == (2.0, "poll")
    assert waits.loc[waits["arm"] == "plain", "ms"].isna().all()


def test_claims_compare_the_arms_of_a_set(made):
    told = {claim.id: claim for claim in made.claims}
    assert told["linear"].verdict == "reproduced"
    assert told["linear"].measured == pytest.approx(10)
    assert told["misses"].verdict == "not-measurable"
    assert "the analysis gives no value for this trial" in told["misses"].reason


def test_a_failed_arm_is_not_passed_over(tmp_path, folder):
    values = {arm_of(*place): [wait(*place)] for place in PLACES} | {arm_of("classic", "poll", 4): [None]}
    told = {claim.id: claim for claim in write_set(tmp_path / "results", folder, values).claims}
    assert told["linear"].verdict == "not-measurable"
    assert "waits.classic.poll.ms-4: no trial was good" in told["linear"].reason


@pytest.mark.deep
def test_the_set_verifies_and_can_be_analysed_again(made, tmp_path):
    assert "metrics and 2 claims follow from the raw files" in shown(
        lambda console: verify(tmp_path / "results", str(made.path), console, trust=True)
    )
    results = tmp_path / "results"
    again = shown(lambda console: reanalyse(results, str(made.path), None, console, verbose=False, trust=True))
    fresh = ResultSet(Path(again.strip().splitlines()[-1].strip()))
    pd.testing.assert_frame_equal(fresh.metrics, made.metrics)
    assert fresh.claims == made.claims


def test_the_dictionary_the_report_and_exports_have_them(made, tmp_path):
    text = shown(lambda console: print_columns(console, made.declared_tables, made.declared_metrics))
    assert "dimension ms of the arm, in its own unit; NaN: it has none" in text
    page = set_page(made)
    assert "dimension method of the arm" in page
    heads = re.findall(r"<th[^>]*><button[^>]*>([^<]*)</button></th>", page)
    starts = [heads[place : place + 6] for place, name in enumerate(heads) if name == "metric"]
    assert ["metric", "arm", "kernel", "method", "ms", "fidelity"] in starts
    assert ["arm", "method", "ms", "repetition"] in [heads[place : place + 4] for place in range(len(heads))]
    written = pd.read_csv(export(made, "csv", tmp_path / "csv") / "metrics.csv")
    assert written.loc[written["arm"] == arm_of("classic", "on", 2), "ms"].unique().tolist() == [2.0]


# -- comparing ---------------------------------------------------------------------------------------------


def compared(a: ResultSet, b: ResultSet, over: str) -> str:
    return shown(
        lambda console: compare(a.path.parent.parent, str(a.path), str(b.path), None, False, console, over=over)
    )


@pytest.mark.parametrize("over", ["kernel", "kernel=classic,modern-6.1"])
def test_two_kernels_in_one_table(made, over):
    text = compared(made, made, over)
    assert "B, kernel modern-6.1, against A, kernel classic" in text
    rows = [line.split() for line in text.splitlines() if " wait_ms " in line]
    assert [tuple(row[:3]) for row in rows] == [(m, str(ms), "wait_ms") for m in METHODS for ms in SIZES]
    for (method, ms), row in zip(itertools.product(METHODS, SIZES), rows, strict=True):
        old, new = (wait(kernel, method, ms) + 0.01 for kernel in KERNELS)
        assert [float(row[4]), float(row[5])] == [pytest.approx(old, rel=1e-3), pytest.approx(new, rel=1e-3)]
    assert "plain" not in text


def test_two_sets_of_one_kernel_each(tmp_path, folder):
    sets = [
        write_set(
            tmp_path / "results", folder, {arm_of(*place): [wait(*place)] for place in PLACES if place[0] == kernel}
        )
        for kernel in KERNELS
    ]
    text = compared(sets[0], sets[1], "kernel")
    assert "B, kernel modern-6.1, against A, kernel classic" in text
    assert text.count(" wait_ms ") == 6
    assert "kernel classic, against A, kernel modern-6.1" in compared(sets[1], sets[0], "kernel")


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ("ms", r"--set ms: say which two: ms=FIRST,SECOND \(there are 1, 2, 4\)"),
        ("ms=1", "--set ms: say which two"),
        ("ms=1,3", r"--set ms: no arm has 3 \(there are 1, 2, 4\)"),
        ("size=1,2", r"--set size: no arm has this dimension \(known: kernel, method, ms\)"),
    ],
)
def test_what_cannot_be_compared(made, over, says):
    with pytest.raises(UsageError, match=says):
        compared(made, made, over)


def test_arms_and_a_dimension_are_not_compared_at_once(made):
    with pytest.raises(UsageError, match="--arms and --set: give one of them"):
        compare(
            made.path.parent.parent, str(made.path), str(made.path), ("plain", "plain"), False, Console(), over="ms"
        )


# -- the way back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chosen", [{"ms": ["1", "8"], "method": ["on"]}, {"kernel": ["modern-6.1"]}, {"ms": ["8", "16"]}]
)
def test_the_command_of_a_report_runs_the_same_trials(tmp_path, folder, chosen):
    seeds = {trial.arm: trial.seed for trial in make_plan(load_experiment(folder, chosen), chosen=chosen)}
    result = write_set(tmp_path / "results", folder, {arm: [1.0] for arm in seeds}, chosen=chosen)
    trials = [trial.model_copy(update={"seed": seeds[trial.arm]}) for trial in result.manifest.trials]
    result.manifest = result.manifest.model_copy(update={"trials": trials})
    words = shlex.split(str(reproduction(result).command))
    sets = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "--set"]
    given = {name: text.split(",") for name, _, text in sets}
    assert given == chosen
    assert "--arms" not in words
    again = make_plan(load_experiment(folder, given), chosen=given)
    assert {trial.arm: trial.seed for trial in again} == seeds


def test_a_run_of_other_values_is_another_run(tmp_path):
    home = tmp_path / "results" / "waits"

    def options(**given: object) -> RunRequest:
        return RunRequest("waits", results=tmp_path / "results", **given)

    with working_on(options(set_=("ms=1,2",)), home, 2, None) as run:
        first = run.path
        assert run.plan.words.chosen == {"ms": ["1", "2"]}
        (run.path / "trials" / "a").mkdir(parents=True)
        (run.path / "trials" / "a" / "0.json").write_text("{}")
    with working_on(options(set_=("ms=1,4",)), home, 2, None) as other:
        assert other.path != first
    with working_on(options(set_=("ms=1,2",)), home, 2, None) as same:
        assert same.path == first


# -- small tables and figures ------------------------------------------------------------------------------


def test_pivot_has_a_row_for_each_size_and_a_column_for_each_kernel_and_method(made):
    table = pivot(made.metrics, "wait_ms", "ms", ["kernel", "method"])
    assert list(table.columns) == ["ms", "classic on", "classic poll", "modern-6.1 on", "modern-6.1 poll"]
    assert table["ms"].tolist() == [1.0, 2.0, 4.0]
    assert table["classic poll"].tolist() == pytest.approx([wait("classic", "poll", ms) + 0.01 for ms in SIZES])


def test_pivot_does_not_mix_arms(made):
    with pytest.raises(UsageError, match="wait_ms: arms differ in more than ms, kernel"):
        pivot(made.metrics, "wait_ms", "ms", ["kernel"])
    one = made.metrics[made.metrics["method"] == "poll"]
    assert list(pivot(one, "wait_ms", "ms", ["kernel"]).columns) == ["ms", "classic", "modern-6.1"]
    assert list(pivot(one[one["kernel"] == "classic"], "wait_ms", "ms").columns) == ["ms", "wait_ms"]
    assert pivot(made.metrics, "nothing", "ms", ["kernel", "method"]).empty


def test_a_line_for_each_kernel_and_method_with_its_medians(made):
    axes = Figure().add_subplot()
    draw_over(axes, made.metrics, "wait_ms", "ms")
    handles, labels = axes.get_legend_handles_labels()
    assert labels == ["classic, on", "classic, poll", "modern-6.1, on", "modern-6.1, poll"]
    line = handles[1].lines[0]
    assert list(line.get_xdata()) == [1.0, 2.0, 4.0]
    assert list(line.get_ydata()) == pytest.approx([wait("classic", "poll", ms) + 0.01 for ms in SIZES])
    one = Figure().add_subplot()
    draw_over(one, made.metrics[made.metrics["arm"].str.startswith("waits.classic.on.")], "wait_ms", "ms")
    assert one.get_legend_handles_labels()[1] == ["wait_ms"]


def test_only_arms_that_a_claim_is_about_get_absent_values(tmp_path):
    yaml = YAML.replace("{equal: kernel}", "{equal: kernel, where: {ms: [1, 4], method: poll}}")
    values = {arm_of(*place): [wait(*place)] for place in PLACES}
    metrics = write_set(tmp_path / "results", experiment_folder(tmp_path, yaml, ANALYSIS), values).metrics
    absent = metrics.loc[metrics["metric"] == "misses", "arm"]
    assert sorted(absent) == sorted(arm_of(kernel, "poll", ms) for kernel in KERNELS for ms in (1, 4))
