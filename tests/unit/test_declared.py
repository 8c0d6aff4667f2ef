# SPDX-License-Identifier: MIT
"""Declared tables and metrics, rows and reasons: what does not fit is refused, what is absent says why."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest

from harness.errors import RunError, UsageError
from harness.experiment.model import load_experiment
from harness.measure.analysis import Analysis
from harness.measure.claims import judge
from harness.measure.declared import (
    ARM,
    TRIAL,
    WORKLOAD,
    Column,
    Metric,
    Table,
    check_metrics,
    check_tables,
    columns_of,
    count,
    flag,
    number,
    string,
)
from harness.measure.hostsched import host_waited
from harness.measure.raw import Answer, read_csv, read_json, read_json_lines, read_last_json_line
from harness.measure.rows import MOST_PARTS, NO_VALUE, MetricRows, TableRows
from harness.measure.trials import trial_table
from harness.sets.columns import declared_metrics, declared_table, write_metrics, write_table
from harness.sets.resultset import read_tables
from harness.yamlfile import about
from tests.records import host_sched
from tests.result_sets import ANALYSIS, YAML, experiment_folder, record

TABLE = Table(
    "runs",
    "one run",
    (ARM, TRIAL, WORKLOAD, count("steps", "steps"), number("took", "s", "time"), flag("ok", "it"), string("why", "if")),
)
METRICS = [Metric("steps", "count", "neither", "steps", of="kind"), Metric("cost", ("cycles", "ns"), "lower", "cost")]


def trial(root: Path, arm: str = "short", repetition: int = 0, clock: str = "wall") -> Any:
    folder = root / "raw" / arm / str(repetition)
    folder.mkdir(parents=True, exist_ok=True)
    return record(arm, repetition, clock).relocated(root)


# -- declarations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"unit": "fraction"}, "column steps: unit fraction: must be 1, count"),
        ({"unit": None}, "column steps: unit None: must be"),
        ({"type": "int"}, "column steps: type int: must be string, int64"),
        ({"meaning": " "}, "column steps: meaning: must be what it means"),
        ({"name": "a-b"}, "column a-b: name: must be letters"),
        ({"name": "arm"}, "table runs: column arm is declared twice"),
    ],
)
def test_a_wrong_column_is_named(change, says):
    wrong = dataclasses.replace(TABLE.columns[3], **change)
    with pytest.raises(UsageError, match=says):
        check_tables([dataclasses.replace(TABLE, columns=(*TABLE.columns[:3], wrong))])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"unit": "share"}, "metric m: unit share: must be 1, count"),
        ({"unit": ("ns", "share")}, "metric m: unit"),
        ({"direction": "up"}, "metric m: direction up: must be higher, lower, neither"),
        ({"meaning": ""}, "metric m: meaning"),
        ({"name": "m.x"}, "metric m.x: name"),
    ],
)
def test_a_wrong_metric_is_named(change, says):
    with pytest.raises(UsageError, match=says):
        check_metrics([dataclasses.replace(Metric("m", "1", "neither", "it"), **change)])


def test_text_has_no_unit():
    with pytest.raises(UsageError, match="column why: unit ns"):
        check_tables([Table("t", "a row", (Column("why", "string", "ns", "if"),))])


# -- tables --------------------------------------------------------------------------------------------------


def test_a_table_is_typed_and_ordered_as_declared():
    row = {"why": None, "steps": 3.0, "arm": "a", "trial": 0, "workload": "w", "ok": True}
    typed = TABLE.typed(pd.DataFrame([row]))
    assert list(typed.columns) == TABLE.names
    assert [str(kind) for kind in typed.dtypes[3:]] == ["int64", "float64", "bool", "object"]
    assert np.isnan(typed["took"][0])
    assert [str(kind) for kind in TABLE.empty().dtypes] == [str(kind) for kind in typed.dtypes]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"more": 1}, "table runs: column more is not declared"),
        ({"steps": 2.5}, "column steps is no int64: a value is no whole number"),
        ({"steps": np.nan}, "column steps is no int64: a int64 cannot be absent"),
        ({"took": "long"}, "column took is no float64"),
        ({"ok": 2}, "column ok is no bool: neither true nor false"),
        ({"why": 5}, "column why holds 5, which is no string"),
    ],
)
def test_what_does_not_fit_is_named(values, says):
    row = {"arm": "a", "trial": 0, "workload": "w", "steps": 1, "took": 1.0, "ok": True, "why": "x"} | values
    with pytest.raises(UsageError, match=says):
        TABLE.typed(pd.DataFrame([row]))


def test_a_number_that_is_missing_is_no_zero():
    with pytest.raises(UsageError, match="column steps is missing, and a int64 cannot be absent"):
        TABLE.typed(pd.DataFrame([{"arm": "a", "trial": 0, "workload": "w", "ok": True}]))


def test_declarations_come_back_from_the_files(tmp_path):
    frame = pd.DataFrame([{"arm": "a", "trial": 0, "workload": "w", "steps": 1, "ok": True, "why": None}])
    (tmp_path / "tables").mkdir()
    write_table(TABLE.typed(frame), TABLE, tmp_path / "tables/runs.parquet")
    assert declared_table(tmp_path / "tables/runs.parquet") == TABLE
    assert read_tables(tmp_path)["runs"]["why"].tolist() == [None]
    rows = MetricRows(METRICS, TableRows([TABLE]).frames()["problems"])
    rows.put("a", 0, "cost", 5, unit="ns")
    write_metrics(rows.frame(), METRICS, tmp_path / "metrics.parquet")
    assert declared_metrics(tmp_path / "metrics.parquet") == METRICS
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "old.parquet")
    assert declared_table(tmp_path / "old.parquet") is None


# -- rows and problems ---------------------------------------------------------------------------------------


def test_a_part_that_fails_costs_its_rows_and_says_why(tmp_path):
    one, two = trial(tmp_path, "a"), trial(tmp_path, "b")
    rows = TableRows([TABLE])
    good = {"steps": 1, "took": 1.0, "ok": True}
    for where in (one, two):
        with rows.part(where, "steps", "w"):
            rows.put("runs", good, where, "w")
            if where is one:
                read_json(where.path / "w" / "answer")
        with rows.part(where, "more", "w"):
            rows.put("runs", [good, good], where, "w")
    with rows.part(two, "bug"):
        _ = {}["none"]  # type: ignore[var-annotated]
    tables = rows.frames()
    assert tables["runs"]["arm"].tolist() == ["a", "a", "b", "b", "b"]
    problems = tables["problems"]
    assert problems["part"].tolist() == ["steps", "bug"]
    assert problems["reason"][0] == "a/0/w/answer: cannot be read: No such file or directory"
    assert problems["reason"][1].startswith("KeyError: 'none' (at test_declared.py:")
    assert problems["workload"].tolist() == ["w", None]
    assert str(tmp_path) not in problems.to_string()


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (MemoryError(), MemoryError),
        (OSError(errno.EMFILE, "Too many open files"), OSError),
        (OSError(errno.ENOENT, "No such file"), None),
        (ValueError("no"), None),
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_what_the_host_lacks_is_no_problem_of_the_trial(tmp_path, error, raised, wrapped):
    one, rows = trial(tmp_path, "a"), TableRows([TABLE])

    def decode() -> None:
        with rows.part(one, "steps"):
            if wrapped:
                raise RunError("cannot be read", where="x") from error
            raise error

    if raised is None:
        decode()
        assert len(rows.frames()["problems"]) == 1
    else:
        with pytest.raises(raised):
            decode()
        assert rows.frames()["problems"].empty


def test_rows_of_many_parts_keep_their_order_and_a_part_that_fails_has_none(tmp_path):
    rows, most = TableRows([TABLE]), MOST_PARTS + 3
    good = {"took": 1.0, "ok": True}
    for repetition in range(2 * most):
        one = trial(tmp_path, "a", repetition)
        with rows.part(one, "x"):
            rows.put("runs", good | {"steps": repetition}, one, "w")
            if repetition == most:
                for _ in range(most):
                    rows.put("runs", good | {"steps": -1}, one, "w")
                raise ValueError("no")
    frames = rows.frames()
    assert frames["runs"]["steps"].tolist() == [repetition for repetition in range(2 * most) if repetition != most]
    assert frames["runs"].dtypes.equals(TABLE.empty().dtypes)
    assert frames["problems"]["trial"].tolist() == [most]


def test_a_table_or_a_column_that_is_not_declared_is_no_problem_of_the_trial(tmp_path):
    one, rows = trial(tmp_path, "a"), TableRows([TABLE])
    good = {"steps": 1, "took": 1.0, "ok": True}
    with pytest.raises(UsageError, match=r"table run is not declared \(known: runs, problems\)"), rows.part(one, "x"):
        rows.put("run", good, one, "w")
    with pytest.raises(UsageError, match="column step is not declared"), rows.part(one, "x"):
        rows.put("runs", good | {"step": 1}, one, "w")
    with rows.part(one, "x"):
        rows.put("runs", good | {"steps": 0.5}, one, "w")
    assert rows.frames()["problems"]["reason"].str.contains("steps is no int64").tolist() == [True]


def test_an_absent_metric_takes_the_reason_of_its_trial(tmp_path):
    rows = TableRows([TABLE])
    with rows.part(trial(tmp_path, "a"), "steps"):
        raise RunError("is damaged", where=str(tmp_path / "raw/a/0/w/x"))
    metrics = MetricRows(METRICS, rows.frames()["problems"])
    metrics.put("a", 0, "steps.up", None)
    metrics.put("a", 0, "cost", float("inf"), unit="cycles", reason="too long")
    assert metrics.frame()["reason"].tolist() == ["a/0/w/x: is damaged", "too long"]
    assert metrics.frame()["value"].isna().all()
    with pytest.raises(UsageError, match="cost of b 0 is absent without a reason"):
        metrics.put("b", 0, "cost", None, unit="ns")
    with pytest.raises(UsageError, match=r"metric costs is not declared \(known: steps, cost\)"):
        metrics.put("a", 0, "costs", 1)
    with pytest.raises(UsageError, match=r"metric cost\.up: cost has no parts"):
        metrics.put("a", 0, "cost.up", 1, unit="ns")
    with pytest.raises(UsageError, match="metric cost: unit None is not declared"):
        metrics.put("a", 0, "cost", 1)


@pytest.mark.parametrize(
    ("text", "read", "says"),
    [
        ("[1]", read_json, "is no JSON object"),
        ("{", read_json, "is no JSON"),
        ('{"a": 1}\n{', read_json_lines, ":2: is no JSON"),
        ("", read_last_json_line, "is empty"),
        ("words\n{}\nmore", read_last_json_line, ":3: is no JSON"),
        ("a,b\n1,x\n", lambda path: read_csv(path, ("a", "b")), "line 2: b is no whole number: x"),
        ("a\n1\n", lambda path: read_csv(path, ("a", "b")), "has columns a, not a, b"),
        ("a\ninf\n", lambda path: read_csv(path, ("a",)), "a is no whole number"),
        (
            "a\n1\n18446744073709551616\n",
            lambda path: read_csv(path, ("a",)),
            "line 3: a is no whole number: 18446744073709551616",
        ),
        ("a\n1\n1.5\n", lambda path: read_csv(path, ("a",)), "line 3: a is no whole number: 1.5"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(tmp_path, text, read, says):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(RunError, match=says) as caught:
        read(path)
    assert str(caught.value.where).startswith(str(path))
    path.unlink()
    with pytest.raises(RunError, match="cannot be read"):
        read(path)


# -- how the host ran the trials -----------------------------------------------------------------------------


def test_a_trial_that_the_host_disturbed_says_so(tmp_path):
    trials = [
        trial(tmp_path, "a", 0),
        trial(tmp_path, "a", 1),
        trial(tmp_path, "v", 0, "virtual"),
        trial(tmp_path, "b"),
    ]
    for one, wait in zip(trials, (10, 1, 10, None), strict=True):
        if wait is not None:
            host_sched(one.path, wait, ran_ns=90)
    table = trial_table(trials)
    assert table["disturbed"].notna().tolist() == [True, False, False, True]
    assert table["disturbed"][0] == "the host descheduled vCPU 0 for 10.0 %, more than 3 % of its time"
    assert table["host_wait"].round(3).tolist()[:2] == [0.1, 0.011]
    assert table["host_wait"][2:].isna().all()


@pytest.mark.parametrize(
    ("steal", "wait", "says"),
    [
        (0.63, 0, "the host's own hypervisor stole its CPUs for 63.0 %, more than 3 % of its time"),
        (0.63, 1000, "the host descheduled vCPU 0 for 50.0 %, more than 3 % of its time"),
        (0.03, 0, None),
        (None, 0, None),
    ],
)
def test_a_host_whose_own_cpus_are_stolen_keeps_the_guest_waiting_too(tmp_path, steal, wait, says):
    host_sched(tmp_path, wait, steal=steal)
    share, reason = host_waited(tmp_path)
    assert reason == says
    assert share == max(steal or 0.0, wait / (1000 + wait))


# -- loading -------------------------------------------------------------------------------------------------


def checked(tmp_path: Path, yaml: str = YAML, analysis: str = ANALYSIS) -> None:
    folder = experiment_folder(tmp_path, yaml, analysis)
    Analysis(folder).check(load_experiment(folder), folder)


def test_a_misspelt_metric_of_a_claim_is_an_error_with_file_line_and_known_names(tmp_path):
    checked(tmp_path)
    with pytest.raises(UsageError) as caught:
        checked(tmp_path, YAML.replace("metric: waits/short", "metric: wait/short"))
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{tmp_path}/waits/experiment.yaml:11: claim counted: metric wait is not")
    assert "(known: wait_ms, waits, misses)" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        checked(tmp_path, YAML.replace("metric: waits/short", "metric: wait/short").replace("wait_ms", "waitms"))
    assert [line.partition(" metric ")[0] for line in caught.value.lines] == [
        f"{tmp_path}/waits/experiment.yaml:10: claim short-enough:",
        f"{tmp_path}/waits/experiment.yaml:11: claim counted:",
    ]
    with pytest.raises(UsageError, match=r"metric waits\.x is not declared"):
        checked(tmp_path, YAML.replace("metric: waits/short", "metric: waits.x/short"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def summary(tables)", "def summary(tables, results)", r"summary\(\) asks for results \(known: claims, metr"),
        ('"the wait")', '"")', "column ms: meaning"),
        ("METRICS = [", "METRICS = 5, [", "METRICS must be a list of Metric"),
    ],
)
def test_a_wrong_declaration_is_an_error_before_anything_runs(tmp_path, old, new, says):
    with pytest.raises(UsageError, match=says):
        checked(tmp_path, analysis=ANALYSIS.replace(old, new))


def test_a_metric_that_a_claim_asks_for_is_absent_with_the_trial_s_problem(tmp_path):
    folder = experiment_folder(tmp_path)
    analysis, experiment = Analysis(folder), load_experiment(folder)
    trials = [trial(tmp_path, "short", 0), trial(tmp_path, "short", 1)]
    (trials[1].path / "wait").write_text("5.0")
    tables = analysis.tables(trials)
    metrics = analysis.metrics(tables, experiment.claims).set_index(["trial", "metric"])
    assert metrics.loc[(0, "wait_ms"), "reason"] == "short/0/wait: cannot be read: No such file or directory"
    assert metrics.loc[(0, "waits"), "reason"] == metrics.loc[(0, "wait_ms"), "reason"]
    assert metrics.loc[(1, "wait_ms"), "value"] == 5.0


PARTS = """
METRICS = [Metric("wait_ms", "ms", "lower", "the wait", of="end"), Metric("waits", "1", "neither", "whether")]


def metrics(tables):
    rows = MetricRows(METRICS, tables["problems"])
    for row in tables["waits"].itertuples():
        for end in ("soon", "late"):
            rows.put(row.arm, row.trial, f"wait_ms.{end}", row.ms)
    return rows.frame()
"""


def test_a_misspelt_part_of_a_metric_is_told_with_the_parts_that_there_are(tmp_path):
    folder = experiment_folder(tmp_path, YAML.replace("wait_ms/short", "wait_ms.sone/short"), ANALYSIS + PARTS)
    analysis, experiment = Analysis(folder), load_experiment(folder)
    analysis.check(experiment, folder)
    one = record("short", 0, "virtual").relocated(tmp_path)
    one.path.mkdir(parents=True)

    def reason(text: str) -> str | None:
        (one.path / "wait").write_text(text)
        metrics = analysis.metrics(analysis.tables([one]), experiment.claims)
        return judge(experiment.claims, metrics)[0].reason

    assert reason("7.0") == f"{NO_VALUE}; of this family it gives wait_ms.late, wait_ms.soon"
    assert str(reason("?")).startswith("ValueError: "), "it may be there, unread"


class Said(Answer):
    """All kinds of fields; the last is no column."""

    name: Annotated[str, about("who")]
    why: Annotated[str | None, about("why not; null: it was")] = None
    fine: Annotated[bool, about("whether")]
    seen: Annotated[int, about("so many")]
    lasted: Annotated[int, about("so long", "ns")]
    share: Annotated[float | None, about("a share; NaN: none", "1")] = None
    missed: Annotated[int | None, about("so many; NaN: it does not count them")] = None
    own: int = 7


def test_the_fields_of_an_answer_are_columns_where_they_say_what_they_mean():
    columns = columns_of(Said)
    assert [(one.name, one.type, one.unit) for one in columns] == [
        ("name", "string", None),
        ("why", "string", None),
        ("fine", "bool", "1"),
        ("seen", "int64", "count"),
        ("lasted", "int64", "ns"),
        ("share", "float64", "1"),
        ("missed", "float64", "count"),
    ]
    assert columns[3].meaning == "so many"
    said = Said(name="a", fine=True, seen=1, lasted=2)
    table = Table("said", "one answer", columns)
    assert list(said.as_columns()) == table.names
    row = table.typed(pd.DataFrame([said.as_columns()])).iloc[0]
    assert (row["name"], row["why"], row["seen"], np.isnan(row["missed"])) == ("a", None, 1, True)
