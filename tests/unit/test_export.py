# SPDX-License-Identifier: MIT
"""Exports: what other tools read, valid by the formats' own rules, the same bytes every time."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from harness.artefacts.store import hash_tree
from harness.errors import KreproError, RunError, UsageError
from harness.measure.claims import ClaimResult
from harness.sets.export import export
from harness.sets.export.speedscope import SCHEMA
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files
from tests.oracle_files import write_oracle
from tests.small_sets import small_experiment, small_set

HOOKS = """
import pandas as pd


def profiles(tables):
    rows = [("left: ticks", "none", "idle;default_idle", 3.0), ("left: ticks", "none", "schedule", 0.5),
            ("right: time", "seconds", "schedule", 2.0)]
    return pd.DataFrame(rows, columns=["profile", "unit", "stack", "weight"])


def timeline(tables):
    rows = [("guest", "cpu 1", "late", 2.0, 0.5), ("guest", "cpu 0", "mark", 1.5, float("nan")),
            ("guest", "cpu 0", "work", 1.0, 0.25)]
    return pd.DataFrame(rows, columns=["process", "track", "name", "start_s", "duration_s"])
"""


class Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Frame(Checked):
    name: str


class Sampled(Checked):
    """`SampledProfile` of speedscope's schema."""

    type: Literal["sampled"]
    name: str
    unit: Literal["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]
    startValue: float
    endValue: float
    samples: list[list[int]]
    weights: list[float]


class Shared(Checked):
    frames: list[Frame]


class Speedscope(Checked):
    """`File` of speedscope's schema."""

    schema_: Annotated[str, Field(alias="$schema")]
    shared: Shared
    profiles: list[Sampled]
    name: str
    exporter: str
    activeProfileIndex: int


class Named(Checked):
    name: str


class Meta(Checked):
    """Metadata event of the Trace Event Format."""

    ph: Literal["M"]
    name: Literal["process_name", "thread_name"]
    pid: int
    tid: int
    args: Named


class Slice(Checked):
    ph: Literal["X"]
    name: str
    cat: str
    pid: int
    tid: int
    ts: float
    dur: Annotated[float, Field(ge=0)]


class Instant(Checked):
    ph: Literal["i"]
    s: Literal["t"]
    name: str
    cat: str
    pid: int
    tid: int
    ts: float


class Trace(Checked):
    displayTimeUnit: Literal["ms", "ns"]
    traceEvents: list[Annotated[Meta | Slice | Instant, Field(discriminator="ph")]]


@pytest.fixture
def result(tmp_path) -> ResultSet:
    experiment = small_experiment(tmp_path / "experiments/small", more=HOOKS)
    return small_set(tmp_path / "results", experiment)


def content(path: Path) -> object:
    return hash_tree(path) if path.is_dir() else path.read_bytes()


@pytest.mark.parametrize("form", ["csv", "parquet", "ro-crate", "speedscope", "perfetto"])
def test_equal_sets_give_equal_bytes_and_stay_as_they_are(result, tmp_path, form):
    first, second = (export(result, form, tmp_path / name) for name in ("a", "b"))
    assert content(first) == content(second)
    assert first == tmp_path / "a"
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "experiments", "results"}, "no scratch is left"
    verify_files(result.path)


def test_names_and_what_is_there_already(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = export(result, "csv", None)
    assert written == tmp_path / f"small-{result.path.name}-csv"
    with pytest.raises(UsageError, match="is there already"):
        export(result, "csv", None)
    with pytest.raises(UsageError, match="lies in the result set, which never changes"):
        export(result, "csv", result.path / "tables/csv")


# -- csv and parquet ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_tables_metrics_and_claims_come_back(tmp_path, form, read):
    frame = pd.DataFrame(
        {"arm": ['a "quoted", word', "b\nc"], "trial": [0, 1], "value": [0.1 + 0.2, np.nan], "big": [2**60, 1]}
    )
    result = small_set(tmp_path / "results", small_experiment(tmp_path / "small"), tables={"sums": frame})
    out = export(result, form, tmp_path / "out")
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == {
        *(f"claims.{form}", f"metrics.{form}", f"tables/sums.{form}"),
    }
    pd.testing.assert_frame_equal(read(out / f"tables/sums.{form}"), frame, check_dtype=False, check_exact=True)
    assert read(out / f"metrics.{form}")["value"].tolist() == result.metrics["value"].tolist()
    claims = read(out / f"claims.{form}")
    wanted = [name for name in ClaimResult.model_fields if name != "interval"]
    assert [name for name in claims.columns if not name.startswith("interval_")] == wanted
    assert claims["id"].tolist() == ["adds", "bounded", "seldom"]
    assert claims["measured"].iloc[:2].tolist() == [42.0, 11.0]
    assert np.isnan(claims["measured"].iloc[2])
    assert claims["interval_low"].iloc[0] == claims["interval_high"].iloc[0] == 42.0


def test_a_set_without_a_good_trial_still_has_its_claims_file(tmp_path):
    plan = {"arms": ["left"], "repetitions": 1}
    folder = small_experiment(tmp_path / "small")
    result = small_set(tmp_path / "results", folder, failed={"left": "dead"}, plan=plan)
    out = export(result, "csv", tmp_path / "out")
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["claims.csv"]
    assert (out / "claims.csv").read_text().startswith("id,kind,section,")


def test_damage_is_named(result, tmp_path):
    (result.path / "tables/sums.parquet").write_bytes(b"none")
    with pytest.raises(RunError, match=r"tables/sums\.parquet: cannot be read"):
        export(result, "csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- RO-Crate ----------------------------------------------------------------------------------------------


def crate_of(folder: Path) -> dict[str, dict]:
    data = json.loads((folder / "ro-crate-metadata.json").read_text())
    assert data["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    entities = {entity["@id"]: entity for entity in data["@graph"]}
    assert len(entities) == len(data["@graph"]), "no @id twice"
    return entities


def references(value: object) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in references(item)]
    return [value["@id"]] if isinstance(value, dict) else []


def test_a_crate_keeps_the_rules_of_ro_crate(result, tmp_path):
    out = export(result, "ro-crate", tmp_path / "crate")
    entities = crate_of(out)
    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["@type"] == "Dataset"
    for name in ("name", "description", "datePublished", "license"):
        assert root[name]
    assert "Unknown" in root["license"]
    for entity in entities.values():
        assert {"@id", "@type"} <= entity.keys()
        assert all(
            name in entities for key, value in entity.items() if key != "conformsTo" for name in references(value)
        ), entity
    assert {part["@id"] for part in root["hasPart"]} == {n for n, e in entities.items() if e["@type"] == "File"}


def test_a_crate_has_every_file_and_what_it_is(result, tmp_path):
    out = export(result, "ro-crate", tmp_path / "crate")
    entities = crate_of(out)
    files = {name: entity for name, entity in entities.items() if entity["@type"] == "File"}
    there = hash_tree(out)
    del there["ro-crate-metadata.json"]
    assert files.keys() == there.keys() == {"manifest.json", *result.manifest.files}
    for name, entity in files.items():
        assert entity["contentSize"] == str((out / name).stat().st_size)
        assert entity.get("sha256", there[name]) == there[name]
    assert files["metrics.parquet"]["encodingFormat"] == "application/vnd.apache.parquet"
    assert [entities[author["@id"]]["name"] for author in entities["#paper"]["author"]] == ["Ada Nobody", "Bob Else"]
    tools = [entity for entity in entities.values() if "oftware" in entity["@type"]]
    software = {tool["name"]: tool.get("softwareVersion") or tool["version"] for tool in tools}
    assert software["QEMU"] == "QEMU emulator version 7.2"
    assert software["krepro"] == "c" * 40
    assert software["numpy"] == "2.0"
    assert "6.1.0" in software["kernel classic"]
    ResultSet(out)


def test_a_crate_as_a_zip_file_holds_the_same(result, tmp_path):
    folder = export(result, "ro-crate", tmp_path / "crate")
    packed = export(result, "ro-crate", tmp_path / "crate.zip")
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "again")
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert hash_tree(tmp_path / "again") == hash_tree(folder)


# -- speedscope --------------------------------------------------------------------------------------------


def test_speedscope(result, tmp_path):
    data = Speedscope.model_validate_json(export(result, "speedscope", tmp_path / "out.json").read_text())
    assert data.schema_ == SCHEMA
    assert data.name == f"small {result.path.name}"
    first, second = data.profiles
    names = [frame.name for frame in data.shared.frames]
    assert len(set(names)) == len(names)
    assert (first.name, first.unit, first.weights, first.endValue) == ("left: ticks", "none", [3.0, 0.5], 3.5)
    assert [[names[i] for i in stack] for stack in first.samples] == [["idle", "default_idle"], ["schedule"]]
    assert (second.unit, second.startValue, second.endValue) == ("seconds", 0, 2.0)


@pytest.mark.parametrize(
    ("hook", "says"),
    [
        ("", "has no profiles (its analysis.py has no function profiles; or the set is older"),
        (HOOKS.replace("3.0)", "-3.0)"), "'idle;default_idle' has weight -3 and unit 'none'"),
        (HOOKS.replace("3.0)", "float('inf'))"), "has weight inf"),
        (HOOKS.replace('"seconds"', '"fortnights"'), "unit 'fortnights'"),
        (HOOKS.replace("return pd.DataFrame(rows, ", "return pd.DataFrame([], ", 1), "gives no stacks"),
    ],
)
def test_what_speedscope_cannot_show_is_refused(tmp_path, hook, says):
    result = small_set(tmp_path / "results", small_experiment(tmp_path / "small", more=hook))
    with pytest.raises(UsageError, match=re.escape(says)):
        export(result, "speedscope", tmp_path / "out")


@pytest.mark.parametrize("column", ["stack", "weight"])
def test_a_damaged_profile_is_named(result, tmp_path, column):
    path = result.path / "profiles.parquet"
    frame = pd.read_parquet(path)
    frame.assign(**{column: [None] * len(frame)}).to_parquet(path, index=False)
    with pytest.raises(KreproError, match=r"profiles\.parquet: "):
        export(result, "speedscope", tmp_path / "out")


# -- perfetto ----------------------------------------------------------------------------------------------


def trace_of(path: Path) -> Trace:
    return TypeAdapter(Trace).validate_json(path.read_text())


def test_a_timeline_becomes_slices_and_instants(result, tmp_path):
    events = trace_of(export(result, "perfetto", tmp_path / "out")).traceEvents
    assert [(event.ph, event.name, event.tid) for event in events] == [
        *(("M", "process_name", 0), ("M", "thread_name", 1), ("X", "work", 1), ("i", "mark", 1)),
        *(("M", "thread_name", 2), ("X", "late", 2)),
    ]
    work = events[2]
    assert isinstance(work, Slice)
    assert (work.ts, work.dur, work.cat) == (1e6, 250000.0, "cpu 0")
    names = [event.args.name for event in events if isinstance(event, Meta)]
    assert names == ["guest", "cpu 0", "cpu 1"]


@pytest.mark.parametrize("wrong", ['"late", float("nan")', '"late", 2.0, -0.5)'])
def test_impossible_times_are_refused(tmp_path, wrong):
    right = '"late", 2.0' if "nan" in wrong else '"late", 2.0, 0.5)'
    folder = small_experiment(tmp_path / "small", more=HOOKS.replace(right, wrong))
    with pytest.raises(UsageError, match="start_s must be a number, and duration_s not negative"):
        export(small_set(tmp_path / "results", folder), "perfetto", tmp_path / "out")


def test_the_oracles_samples_are_shown_without_a_hook(tmp_path):
    """One sample a microsecond: two in `first`, one in `second`, then one of the next workload."""

    def oracle(root: Path) -> None:
        (root / "kernels/classic").mkdir(parents=True)
        lines = ["c1000000 T _stext", "c1000000 t first", "c1000040 t second", "c1000080 T _etext"]
        (root / "kernels/classic/System.map").write_text("\n".join(lines) + "\n")
        for repetition in (1, 0):
            hit = [(0, 0xC1000000), (0, 0xC1000004), (0, 0xC1000044), (1, 0xC1000044)]
            write_oracle(root / f"raw/left/{repetition}", [{}, {}], hit)

    result = small_set(tmp_path / "results", small_experiment(tmp_path / "small"), more=oracle)
    events = trace_of(export(result, "perfetto", tmp_path / "out")).traceEvents
    names = [event.args.name for event in events if isinstance(event, Meta)]
    assert names == ["left 0 (virtual time)", "samples", "workload"], "the first trial of each arm that has one"
    slices = [(event.cat, event.name, event.ts, event.dur) for event in events if isinstance(event, Slice)]
    assert slices == [
        ("samples", "first", 0.0, 2.0),
        ("samples", "second", 2.0, 0.0),
        ("samples", "second", 3.0, 0.0),
        ("workload", "add", 0.0, 2.0),
        ("workload", "region 1", 3.0, 0.0),
    ]


def test_without_a_timeline_or_an_oracle_there_is_nothing_to_show(tmp_path):
    result = small_set(tmp_path / "results", small_experiment(tmp_path / "small"))
    with pytest.raises(UsageError, match="has no timeline"):
        export(result, "perfetto", tmp_path / "out")
