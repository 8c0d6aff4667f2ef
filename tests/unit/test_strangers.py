# SPDX-License-Identifier: MIT
"""A stranger's set: whatever is in it, no command reads or writes outside of it, or executes it unasked."""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from harness.analysis import trust, verification
from harness.artefacts.store import Store, hash_tree
from harness.commands.export import export
from harness.commands.results import results as results_command
from harness.errors import KreproError, RunError, UsageError
from harness.machine.sandbox import Sandbox
from harness.paths import EXPERIMENTS
from harness.program import prediction
from harness.report.page import set_page
from harness.report.site import write_site
from harness.run import reanalysis, reexecution
from harness.sets.listing import describe
from harness.sets.maker import is_known
from harness.sets.resultset import MANIFEST, ResultSet, copy_experiment
from tests.hostile.made import commands, forged
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set
from tests.small_sets import small_experiment, small_set
from tests.unit.test_export import HOOKS

SECRET = "the reader's own"


@pytest.fixture
def made(tmp_path: Path) -> ResultSet:
    (tmp_path / "secret").write_text(SECRET)
    return small_set(tmp_path / "results", small_experiment(tmp_path / "small"))


def put(field: str, name: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values[field] = values[field] | {name: "0" * 64}

    return change


def put_in_trial(field: str, value: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values["trials"][0][field] = value

    return change


def put_step(values: dict[str, Any]) -> None:
    kept = ("created", "command_line", "repository", "packages", "experiment_files")
    values["analysed_from"] = [{"id": "../../../secret", **{name: values[name] for name in kept}}]


ESCAPES = {
    "file above": (put("files", "../../secret"), r"field files: '\.\./\.\./secret' is no path in the set"),
    "file above, hidden": (put("files", "raw/../../../secret"), "is no path in the set"),
    "absolute file": (put("files", "/etc/hostname"), "field files: '/etc/hostname' is no path in the set"),
    "file of no name": (put("files", ""), "field files: '' is no path in the set"),
    "NUL": (put("files", "raw/a\0b"), r"'raw/a\\x00b' is no path in the set"),
    "digest": (put("deterministic", "../../secret"), "field deterministic: "),
    "experiment": (put("experiment_files", "../../secret"), "field experiment_files: "),
    "raw folder": (put_in_trial("path", "../.."), r"field trials\.0\.path: "),
    "absolute raw folder": (put_in_trial("path", "/etc"), r"field trials\.0\.path: "),
    "symbols": (put_in_trial("system_map", "../../secret"), r"field trials\.0\.system_map: "),
    "arm": (put_in_trial("arm", "../../x"), r"field trials\.0\.arm: there is no arm '\.\./\.\./x'"),
    "id above": (lambda values: values.update(id="../../../escaped"), r"field id: '\.\./\.\./\.\./escaped' is no ID"),
    "no id": (lambda values: values.update(id=""), "field id: '' is no ID"),
    "origin": (put_step, r"field analysed_from: '\.\./\.\./\.\./secret' is no ID"),
}


@pytest.mark.parametrize(("change", "says"), ESCAPES.values(), ids=ESCAPES)
def test_no_name_in_a_manifest_leads_out_of_the_set(made, tmp_path, change, says):
    path = forged(made, change)
    before = hash_tree(tmp_path)
    with pytest.raises(UsageError, match=says):
        ResultSet(path)
    out = tmp_path / "out"
    for name, action in commands(path, out).items():
        with pytest.raises(KreproError):
            action()
        assert {known: value for known, value in hash_tree(tmp_path).items() if known not in before} == {}, name


@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("tables/more.parquet", lambda path: path.symlink_to("/etc/hostname")),
        ("figures/more.svg", lambda path: path.symlink_to("/etc/hostname")),
        ("raw/left/0/more", os.mkfifo),
        ("experiment/more.py", lambda path: path.symlink_to("/etc/hostname")),
        ("documents", lambda path: path.symlink_to("/etc")),
    ],
)
def test_links_and_pipes_in_a_set_are_refused(made, tmp_path, place, make):
    make(made.path / place)
    with pytest.raises(UsageError, match=rf"{place}: is neither a plain file nor a folder"):
        ResultSet(made.path)
    for name, action in commands(made.path, tmp_path / "out").items():
        with pytest.raises(KreproError):
            action()
        assert not (tmp_path / "out").exists(), name


def test_a_manifest_that_is_a_pipe_holds_nobody(made):
    (made.path / MANIFEST).unlink()
    os.mkfifo(made.path / MANIFEST)
    assert describe(made.path).broken == "manifest.json: is no plain file"
    with pytest.raises(UsageError, match="is no plain file"):
        ResultSet(made.path)
    with pytest.raises(RunError, match="is no plain file"):
        verification.verify_files(made.path)


def test_a_manifest_that_is_a_link_is_not_followed(made, tmp_path):
    (made.path / MANIFEST).rename(tmp_path / "elsewhere")
    (made.path / MANIFEST).symlink_to(tmp_path / "elsewhere")
    assert (describe(made.path).broken or "").startswith("manifest.json: ")
    with pytest.raises(UsageError, match="is no result set"):
        ResultSet(made.path)


def test_a_set_of_any_depth_is_opened_or_refused_in_one_line(made):
    deep = made.path
    for _ in range(600):
        deep /= "d"
        deep.mkdir()
    ResultSet(made.path)


@pytest.mark.parametrize(("name", "text"), [(MANIFEST, "[" * 100_000), ("claims.json", "[" * 100_000)])
def test_json_of_any_depth_is_an_error_and_no_crash(made, name, text):
    (made.path / name).write_text(text)
    assert describe(made.path).broken
    with pytest.raises(KreproError):
        _ = ResultSet(made.path).claims


@pytest.mark.parametrize(("name", "text"), [(MANIFEST, "Nowhere"), ("claims.json", "stays low")])
def test_half_a_surrogate_pair_is_no_text(made, name, text):
    path = made.path / name
    path.write_text(path.read_text().replace(text, "\\ud800"))
    with pytest.raises(KreproError, match=rf"{name}: .*surrogates not allowed"):
        _ = ResultSet(made.path).claims


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("other")])
def test_a_crate_states_hashes_and_is_made_of_what_has_them(made, tmp_path, damage):
    damage(made.path / "raw/left/0/job.exit")
    with pytest.raises(RunError, match=r"raw/left/0/job\.exit: (is missing|differs from what was written)"):
        export(str(made.path), "ro-crate", tmp_path / "crate", made.path.parent.parent)
    assert not (tmp_path / "crate").exists()


# -- nothing is executed unasked --------------------------------------------------------------------------------

TRACE = """

import pathlib

for _folder in pathlib.Path(__file__).parents:
    if (_folder / "secret").exists():
        (_folder / "executed").touch()
"""
PREDICTING = """

def documents(tables):
    return {"model": {}}


def predict(document, script):
    return {}, []
"""
READING = (
    *("show", "report", "report in the site", "compare", "api"),
    *(f"export {form}" for form in ("csv", "parquet", "ro-crate", "zip", "speedscope", "perfetto")),
)
EXECUTING = ("figures", "verify", "analyse")


class Open(Sandbox):
    """One that keeps nothing in: what is executed in it leaves its trace."""

    @property
    def keeps_in(self) -> bool:
        return True


OPEN = Open((), filtered=False, why="a test")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultSet:
    """A set of another host, whose analysis.py leaves a trace."""
    (tmp_path / "secret").touch()
    folder = experiment_folder(tmp_path / "theirs", YAML, ANALYSIS + HOOKS + TRACE)
    made = write_set(tmp_path / "results", folder, {"short": [100.0, 101.0]})
    assert executed(tmp_path)
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "other-store"))
    (tmp_path / "out").mkdir()
    return made


def executed(tmp_path: Path) -> bool:
    """Whether there is a trace; there is none afterwards."""
    trace = tmp_path / "executed"
    there = trace.exists()
    trace.unlink(missing_ok=True)
    return there


def test_reading_a_strangers_set_executes_nothing_of_it(foreign, tmp_path, capsys):
    wanted = commands(foreign.path, tmp_path / "out")
    others = {"replay", "predict", "reference", "capsule", "sign", "merge"}
    assert {*READING, *EXECUTING, *others} == wanted.keys()
    for name in READING:
        wanted[name]()
        assert not executed(tmp_path), name
    results_command(results=foreign.path.parent.parent)
    assert foreign.path.name in capsys.readouterr().out
    assert not executed(tmp_path)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name != "verify")) for name in EXECUTING]
)
def test_what_must_execute_asks_first(foreign, tmp_path, monkeypatch, name):
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: OPEN)  # from in there it could leave no trace
    action = commands(foreign.path, tmp_path / "out")[name]
    with pytest.raises(UsageError, match=r"was not made on this host, and this executes code .*--trust"):
        action()
    assert not executed(tmp_path)
    for answer in ("n\n", "\n", "", "perhaps\n"):
        terminal = answering(monkeypatch, answer)
        with pytest.raises(UsageError, match="was not made on this host"):
            action()
        assert not executed(tmp_path)
        assert "Go on? [y/N]" in terminal.getvalue()
    answering(monkeypatch, "y\n")
    action()
    assert executed(tmp_path)


def test_trust_executes_without_a_question(foreign, tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: OPEN)
    results = foreign.path.parent.parent
    assert verification.verify(results, str(foreign.path), Console(quiet=True), trust=True) == 0
    assert executed(tmp_path)


def test_replay_and_predict_ask_too(foreign, tmp_path):
    results = foreign.path.parent.parent
    with pytest.raises(UsageError, match="was not made on this host"):
        reexecution.replay(results, str(foreign.path), None, Console(quiet=True))
    (tmp_path / "model.json").write_text(json.dumps({"experiment": str(foreign.path / "experiment")}))
    with pytest.raises(UsageError, match="is named by the document, and this executes code"):
        prediction.predict_script(tmp_path, str(tmp_path / "model.json"), tmp_path, Console(quiet=True))
    assert not executed(tmp_path)


def test_a_strangers_recording_is_not_replayed_even_with_the_projects_code(foreign, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.analysis.trust.is_known", lambda root, experiment: True)
    path = forged(foreign, lambda values: values["experiment"]["arms"]["short"].update(clock="wall", record=True))
    with pytest.raises(UsageError, match="was not made on this host"):
        reexecution.replay(path.parent.parent, str(path), None, Console(quiet=True))
    assert not executed(tmp_path)


def test_predicting_by_a_strangers_set_asks_too(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: OPEN)
    (tmp_path / "secret").touch()
    folder = experiment_folder(tmp_path / "theirs", YAML, ANALYSIS + PREDICTING + TRACE)
    made = write_set(tmp_path / "results", folder, {"short": [100.0]})
    words = (tmp_path / "results", str(made.path), tmp_path / "script", Console(quiet=True))
    assert executed(tmp_path)
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "other-store"))
    with pytest.raises(UsageError, match="was not made on this host"):
        prediction.predict_script(*words)
    assert not executed(tmp_path)
    assert prediction.predict_script(*words, trust=True) == 0
    assert executed(tmp_path)


def test_a_set_older_than_a_script_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: OPEN)
    refusing = "from harness.errors import UsageError\n    raise UsageError('no', where=str(script))"
    older = PREDICTING.replace("return {}, []", refusing)
    folder = experiment_folder(tmp_path / "theirs", YAML, ANALYSIS + older)
    made = write_set(tmp_path / "results", folder, {"short": [100.0]})
    words = (tmp_path / "results", str(made.path))
    with pytest.raises(
        UsageError, match=r"does not know all that this script has .the project's does: name .*model.json"
    ):
        prediction.predict_script(*words, "perf record -e a:b", Console(quiet=True), trust=True)
    with pytest.raises(UsageError, match=r"script\.yaml: no"):
        prediction.predict_script(*words, tmp_path / "script.yaml", Console(quiet=True), trust=True)


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> io.StringIO:
    """Somebody at a terminal; what they are shown."""
    entered, told = io.StringIO(answer), io.StringIO()
    for stream in (entered, told):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin", entered)
    monkeypatch.setattr("sys.stderr", told)
    return told


# -- which sets are known ---------------------------------------------------------------------------------------


def test_a_set_is_known_where_it_was_made_and_nowhere_else(made, tmp_path, monkeypatch):
    assert is_known(made.path, "small")
    key = Store.default().root / "maker.key"
    assert key.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "other"))
    assert not is_known(made.path, "small")
    assert not (tmp_path / "other").exists(), "who only looks makes no key"
    small_set(tmp_path / "more", tmp_path / "small")
    assert not is_known(made.path, "small")
    assert (tmp_path / "other/maker.key").read_bytes() != key.read_bytes()


def add(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "experiment/analysis.py").write_text("x = 1\n"),
        lambda root: add(root / "experiment/more.py"),
        lambda root: add(root / "measured/analysis.py"),
        lambda root: (root / "experiment/experiment.yaml").unlink(),
    ],
)
def test_a_set_of_this_host_whose_code_was_changed_is_not_known(made, change):
    change(made.path)
    assert not is_known(made.path, "small")
    files = {name: value for name, value in hash_tree(made.path).items() if name != MANIFEST}
    assert not is_known(forged(made, lambda values: values.update(files=files)), "small"), "with hashes that fit"


def test_code_of_the_project_is_known_whoever_measured(tmp_path):
    root = tmp_path / "set"
    root.mkdir()
    copy_experiment(EXPERIMENTS / "probe-cost", root)
    assert is_known(root, "probe-cost")
    assert not is_known(root, "irq-hotspot")
    assert not is_known(root, "../experiments/probe-cost")
    (root / "experiment/README.md").write_text("prose")
    assert is_known(root, "probe-cost")
    add(root / "experiment/more.py")
    assert not is_known(root, "probe-cost")


def test_what_is_analysed_again_of_a_strangers_set_does_not_become_known(foreign, tmp_path):
    results = foreign.path.parent.parent
    own = experiment_folder(tmp_path / "own", YAML, ANALYSIS)
    reanalysis.reanalyse(results, str(foreign.path), own, Console(quiet=True), verbose=False)
    sets = [path for path in foreign.path.parent.iterdir() if not path.is_symlink() and path.name != foreign.path.name]
    assert [is_known(path, "waits") for path in sets] == [False], "its folder `measured` has a stranger's programs"
    assert not executed(tmp_path)


def test_a_store_that_cannot_be_written_makes_sets_that_are_not_known(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "file"))
    made = small_set(tmp_path / "results", small_experiment(tmp_path / "small"))
    assert made.manifest.maker == ""
    assert not is_known(made.path, "small")
    verification.verify_files(made.path)


# -- data that would like to be code ----------------------------------------------------------------------------


class Trace:
    """Unpickled, it would leave a trace."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_a_parquet_file_brings_no_pickle_to_life(made, tmp_path):
    pickled = pickle.dumps(Trace(tmp_path / "executed"))
    pickle.loads(pickled)
    assert executed(tmp_path), "it is one"
    evil = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": pickled}
    table = pa.table({"arm": ["left"], "trial": [0], "value": [1.0]})
    table = table.cast(pa.schema([field.with_metadata(evil) for field in table.schema]))
    pq.write_table(table, made.path / "tables/sums.parquet")
    assert made.tables["sums"]["value"].tolist() == [1.0]
    _ = made.declared_tables
    assert not executed(tmp_path)


def test_a_script_in_a_figure_stays_in_an_image(tmp_path):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script></svg>'
    made = small_set(tmp_path / "results", small_experiment(tmp_path / "small"), figures={'a"onload="x': svg})
    page = set_page(made)
    assert "alert(" not in page
    assert f'<img src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"' in page
    assert 'a"onload' not in page


# -- damaged or misleading tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(value="many"),
        lambda frame: frame.assign(trial=[{"a": 1}] * len(frame)),
        lambda frame: frame.drop(columns="arm"),
        lambda frame: frame.assign(metric=1.5),
    ],
)
def test_metrics_of_other_types_are_an_error_wherever_they_are_read(made, tmp_path, change):
    change(pd.read_parquet(made.path / "metrics.parquet")).to_parquet(made.path / "metrics.parquet", index=False)
    files = {name: value for name, value in hash_tree(made.path).items() if name != MANIFEST}
    path = forged(made, lambda values: values.update(files=files))
    for name in ("show", "report", "export csv", "compare"):
        with pytest.raises(RunError, match=r"metrics\.parquet: cannot be read: "):
            commands(path, tmp_path / "out")[name]()
    index = write_site(path.parent.parent, tmp_path / "site", 5)
    assert "metrics.parquet" in index.read_text()


def test_text_that_is_none_in_a_parquet_file_is_an_error(made):
    text = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], dtype="<i4")), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"arm": text}), made.path / "tables/sums.parquet")
    with pytest.raises(RunError, match=r"tables/sums\.parquet: cannot be read: "):
        _ = made.tables


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1" + bytes(64) + b"PAR1"])
def test_a_damaged_parquet_file_is_named(made, data):
    (made.path / "tables/sums.parquet").write_bytes(data)
    with pytest.raises(RunError, match=r"tables/sums\.parquet: cannot be read: "):
        _ = made.tables
    with pytest.raises(UsageError, match=r"tables/sums\.parquet: cannot be read: "):
        _ = made.declared_tables


@pytest.mark.parametrize("stored", [b"1", b"[]", b'{"name": "x"}', b'{"name": 1, "columns": [1]}', b"[" * 10_000])
def test_a_declaration_that_is_none_is_named(made, stored):
    table = pa.table({"a": [1]}).replace_schema_metadata({b"krepro.table": stored})
    pq.write_table(table, made.path / "tables/sums.parquet")
    with pytest.raises(UsageError, match=r"tables/sums\.parquet: "):
        _ = made.declared_tables


def test_a_claim_of_no_experiment_is_named(made):
    path = made.path / "claims.json"
    path.write_text(path.read_text().replace('"bounded"', '"bound"'))
    with pytest.raises(RunError, match=r"claims\.json: cannot be read: the experiment has no claim 'bound'"):
        _ = made.claims


@pytest.mark.parametrize("table", [{"columns": ["a", "a"], "rows": []}, {"columns": ["a"], "rows": [[1, 2]]}])
def test_shown_tables_that_are_none_are_named(made, table):
    (made.path / "shown.json").write_text(json.dumps({"summary": [{"title": "t", **table}]}))
    with pytest.raises(UsageError, match=r"shown\.json: field summary\.0: .*a column is there twice, or a row"):
        _ = made.shown
