# SPDX-License-Identifier: MIT
"""Analysing a set again: a new set beside the old one, which says whose raw files it has; sets without one."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis.verification import verify
from harness.artefacts.store import hash_tree
from harness.errors import KreproError, RunError, UsageError
from harness.report.setlist import list_lines
from harness.report.summary import closing_lines
from harness.run.reanalysis import measured_experiment, reanalyse
from harness.sets.listing import describe, find_set, set_paths
from harness.sets.resultset import EXPERIMENT, ResultSet
from harness.sets.seal import verify_files
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set

VALUES = {"short": [100.0, 101.0, 103.0], "wall": [7.5]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment_folder(tmp_path)


@pytest.fixture
def old(tmp_path: Path, folder: Path) -> ResultSet:
    return write_set(tmp_path / "results", folder, VALUES)


def again(old: ResultSet, chosen: Path | None = None) -> tuple[int, ResultSet, str]:
    out = io.StringIO()
    code = reanalyse(old.path.parent.parent, str(old.path), chosen, Console(file=out, width=200), verbose=False)
    text = out.getvalue()
    return code, ResultSet(Path(text.strip().splitlines()[-1])), text


def verified(result: ResultSet, code: int = 0) -> str:
    out = io.StringIO()
    assert verify(result.path.parent.parent, str(result.path), Console(file=out, width=200)) == code
    return out.getvalue()


def unanalysed(tmp_path: Path, folder: Path) -> ResultSet:
    """A set whose analysis has failed, as a run leaves it."""
    made = write_set(tmp_path / "made", folder, VALUES)
    results = tmp_path / "results"
    from harness.sets.resultset import write_result_set

    with write_result_set(results, "waits") as writer:
        for name in ("raw", EXPERIMENT):
            shutil.copytree(made.path / name, writer.path / name)
        writer.remove_derived()
        writer.write_claims([])
        manifest = made.manifest.model_copy(update={"unanalysed": "analysis.py:7: tables() failed"})
        return writer.finish(manifest, latest=False)


def test_a_set_is_analysed_again_by_its_own_analysis(old):
    before = hash_tree(old.path)
    code, new, _ = again(old)
    assert code == 0
    assert hash_tree(old.path) == before, "nothing in a finished set changes"
    verify_files(new.path)
    assert new.path.parent == old.path.parent
    (step,) = new.manifest.analysed_from
    assert (step.id, step.experiment_files) == (old.manifest.id, old.manifest.experiment_files)
    assert new.manifest.trials == old.manifest.trials
    assert new.manifest.digest == old.manifest.digest
    assert new.metrics.equals(old.metrics)
    assert [claim.verdict for claim in new.claims] == [claim.verdict for claim in old.claims]
    assert f"analysed again; measured by the set {old.manifest.id}: every raw file is the same" in verified(new)
    assert find_set(old.path.parent.parent, "waits/latest") == new.path
    assert measured_experiment(new) == new.path / EXPERIMENT


@pytest.mark.deep
def test_another_folder_gives_other_claims_and_the_old_experiment_is_kept(old, tmp_path):
    yaml = YAML.replace("at_most: 200", "at_most: 2") + (
        "  - {id: longer, metric: wait_ms/more, expect: {at_least: 1}, because: new}\n"
    )
    yaml = yaml.replace("arms:\n", "arms:\n  more: {kernel: classic, clock: virtual}\n").replace("sleep 1", "sleep 9")
    other = experiment_folder(tmp_path / "other", yaml, ANALYSIS.replace('"wait_ms", row.ms', '"wait_ms", 2 * row.ms'))
    code, new, text = again(old, other)
    assert code == 1
    assert "contradicted" in text
    assert [claim.verdict for claim in new.claims] == ["contradicted", "reproduced", "not-measurable"]
    assert new.manifest.experiment.workloads["wait"].command == "sleep 1", "what was run is what was run"
    assert new.metrics["value"].max() == 206.0
    assert hash_tree(measured_experiment(new)) == old.manifest.experiment_files
    assert new.manifest.experiment_files == hash_tree(new.path / EXPERIMENT) != old.manifest.experiment_files
    assert "short-enough is contradicted, known as reproduced" in verified(new, 1)
    _, third, _ = again(new)
    assert [step.id for step in third.manifest.analysed_from] == [old.manifest.id, new.manifest.id]
    assert hash_tree(measured_experiment(third)) == old.manifest.experiment_files
    verified(third, 1)


@pytest.mark.deep
def test_a_set_that_was_not_analysed_gets_its_verdicts(tmp_path, folder):
    results = tmp_path / "results"
    old = unanalysed(tmp_path, folder)
    assert not (results / "waits/latest").exists()
    with pytest.raises(UsageError, match="no whole result set was analysed yet"):
        find_set(results, "latest")
    assert "not analysed, 4 trials: analysis.py:7: tables() failed" in list_lines([describe(old.path)])[1]
    first = closing_lines(old, [])[0]
    again_by = f"./inv analyse waits/{old.manifest.id} --with FOLDER"
    assert first == f"not analysed: analysis.py:7: tables() failed ({again_by})"
    assert "only the raw files are verified: the set was not analysed" in verified(old)
    code, new, _ = again(old, folder)
    assert code == 0
    assert new.manifest.unanalysed == ""
    assert find_set(results, "latest") == new.path
    verified(new)


@pytest.mark.deep
def test_failed_trials_make_the_exit_code_as_in_a_run(tmp_path, folder):
    old = write_set(tmp_path / "results", folder, VALUES | {"long": [5.0, None]})
    with pytest.raises(RunError, match=r"1 of 6 trials failed; the first: long 1: lost \(the command of the run with"):
        again(old)
    assert len(set_paths(tmp_path / "results")) == 2, "what could be analysed is kept"


def test_verdicts_of_which_none_could_be_measured_make_it_too(old, tmp_path):
    other = experiment_folder(tmp_path / "other", YAML.replace("/short", "/long"))
    with pytest.raises(RunError, match="no claim of the paper could be measured; short-enough: arm long took no part"):
        again(old, other)


def test_findings_decide_where_the_paper_says_nothing_of_the_arms_that_ran(old, tmp_path):
    finding = """\
  - id: shorter
    kind: finding
    source: known answer
    statement: waits are shorter than a second
    metric: wait_ms/short
    expect: {at_most: 1000}
    because: so they are made
"""
    other = experiment_folder(tmp_path / "other", YAML.replace("/short", "/long").rstrip("\n") + "\n" + finding)
    assert again(old, other)[0] == 0
    news = experiment_folder(tmp_path / "news", (other / "experiment.yaml").read_text().replace("1000}", "1}"))
    assert again(old, news)[0] == 1


@pytest.mark.deep
def test_an_old_measurement_stays_an_old_one(old, tmp_path, folder):
    newer = write_set(tmp_path / "results", folder, VALUES)
    _, new, _ = again(old)
    assert find_set(tmp_path / "results", "waits/latest") == newer.path
    _, newest, _ = again(newer)
    assert find_set(tmp_path / "results", "waits/latest") == newest.path
    again(new)
    assert find_set(tmp_path / "results", "waits/latest") == newest.path


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("def tables(trials): raise ValueError('no')", "tables.. failed: ValueError: no"),
        ("def metrics(tables): import sys; sys.exit(0)", "metrics.. failed: SystemExit: 0"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_an_analysis_that_fails_leaves_no_new_set(old, tmp_path, mistake, says):
    other = experiment_folder(tmp_path / "other", analysis=f"{ANALYSIS}\n{mistake}\n")
    before = {path.name for path in old.path.parent.iterdir()}
    with pytest.raises(KreproError, match=says):
        again(old, other)
    assert {path.name for path in old.path.parent.iterdir()} == before


def test_another_experiment_is_refused(old, tmp_path):
    other = experiment_folder(tmp_path / "other", YAML.replace("name: waits", "name: others"))
    with pytest.raises(UsageError, match="is of the experiment others, and the set of waits"):
        again(old, other)


def test_a_damaged_set_is_not_analysed(old):
    (old.path / "raw/short/0/wait").write_text("1.0")
    with pytest.raises(RunError, match="raw/short/0/wait: differs from what was written"):
        again(old)
    assert set_paths(old.path.parent.parent) == [old.path]


@pytest.mark.deep
def test_other_raw_files_than_were_measured_are_found(old):
    _, new, _ = again(old)
    shutil.rmtree(old.path)
    assert "which is not here" in verified(new)


def test_what_is_known_of_another_version_of_linux_is_known_again(old, folder):
    """A run with --kernel 7.3 is judged by what versions.yaml says of that, and so is its analysis."""
    (folder / "versions.yaml").write_text(
        'versions: {"7.3": {short-enough: {known: contradicted, because: it waits longer}}}\n'
    )
    made = write_set(old.path.parents[1], folder, VALUES, chosen={"kernel": ["7.3"]})
    _, result, _ = again(made, folder)
    (claim,) = (one for one in result.manifest.experiment.claims if one.id == "short-enough")
    assert claim.known == "contradicted"
