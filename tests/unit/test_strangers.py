# SPDX-License-Identifier: MIT
"""A stranger's set: whatever is in it, no command reads or writes outside of it, or executes it unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.build.store import hash_tree
from harness.commands import comparison, reanalysis, reexecution, verification
from harness.commands.export import export
from harness.commands.figures import figures
from harness.commands.report import report
from harness.commands.show import show
from harness.errors import KreproError, RunError, UsageError
from harness.store.listing import describe
from harness.store.resultset import MANIFEST, ResultSet
from harness.store.seal import content_hash, manifest_text
from tests.small_sets import small_experiment, small_set

SECRET = "the reader's own"


@pytest.fixture
def made(tmp_path: Path) -> ResultSet:
    (tmp_path / "secret").write_text(SECRET)
    return small_set(tmp_path / "results", small_experiment(tmp_path / "small"))


def forged(made: ResultSet, change: Callable[[dict[str, Any]], None]) -> Path:
    """The set with another manifest, sealed as a forger would: all hashes and the folder's name fit."""
    values = json.loads((made.path / MANIFEST).read_text())
    named = values["id"]
    change(values)
    sealed = f"{made.path.name.partition('-')[0]}-{content_hash(values)[:8]}"
    values["id"] = sealed if values["id"] == named else values["id"]
    (made.path / MANIFEST).write_text(manifest_text(values))
    return made.path.rename(made.path.with_name(sealed))


def commands(path: Path, out: Path) -> dict[str, Callable[[], object]]:
    """All that opens a set, by name."""
    results, text, console = path.parent.parent, str(path), Console(quiet=True)
    forms = ("csv", "parquet", "ro-crate", "speedscope", "perfetto")
    return {
        "show": lambda: show(text, results),
        "report": lambda: report(text, out / "x.html", results=results),
        "report in the site": lambda: report(text, results=results),
        **{f"export {form}": lambda form=form: export(text, form, out / form, results) for form in forms},
        "export zip": lambda: export(text, "ro-crate", out / "crate.zip", results),
        "figures": lambda: figures(text, "svg", out / "figures", results),
        "verify": lambda: verification.verify(results, text, console),
        "analyse": lambda: reanalysis.reanalyse(results, text, None, console, verbose=False),
        "compare": lambda: comparison.compare(results, text, text, None, False, console),
        "replay": lambda: reexecution.replay(results, text, None, console),
    }


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
    "raw folder": (put_in_trial("path", "../.."), r"field trials\.path: "),
    "absolute raw folder": (put_in_trial("path", "/etc"), r"field trials\.path: "),
    "symbols": (put_in_trial("system_map", "../../secret"), r"field trials\.system_map: "),
    "arm": (put_in_trial("arm", "../../x"), r"field trials: there is no arm '\.\./\.\./x'"),
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


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("other")])
def test_a_crate_states_hashes_and_is_made_of_what_has_them(made, tmp_path, damage):
    damage(made.path / "raw/left/0/job.exit")
    with pytest.raises(RunError, match=r"raw/left/0/job\.exit: is (missing|not what was written)"):
        export(str(made.path), "ro-crate", tmp_path / "crate", made.path.parent.parent)
    assert not (tmp_path / "crate").exists()
