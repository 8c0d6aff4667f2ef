# SPDX-License-Identifier: MIT
"""Result sets: whole or not there, found again, verified, and compared by digest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.errors import RunError, UsageError
from harness.experiment.model import load_experiment
from harness.measure.claims import METRIC_COLUMNS, judge
from harness.measure.declared import Metric
from harness.report.reproduce import reproduction
from harness.sets.digest import deterministic_files, digest, first_difference
from harness.sets.manifest import SCHEMA_VERSION
from harness.sets.provenance import Repository
from harness.sets.reference import check_digest, find_reference, load_reference, reference_of
from harness.sets.resultset import MANIFEST, ResultSet, copy_experiment, find_result_set, write_result_set
from harness.sets.seal import verify_files
from tests.records import trial_record
from tests.result_sets import HOST, KERNEL, manifest_of
from tests.small_sets import declaration


@pytest.fixture
def write(tmp_path: Path, example: Path) -> Callable[..., ResultSet]:
    """Write a set with one file per trial, as a run would."""

    def make(
        contents: dict[str, str] | None = None, *, clock: str = "virtual", qemu: str = "QEMU 7.2", **kernel: Any
    ) -> ResultSet:
        experiment = load_experiment(example)
        with write_result_set(tmp_path / "results", experiment.name) as writer:
            copy_experiment(example, writer.path)
            trials = [trial_record("left", index, clock, workloads=("add",)) for index in range(2)]
            for trial in trials:
                folder = writer.path / trial.path
                folder.mkdir(parents=True)
                for name, text in {"console.log": "booted\n", "job.exit": "0\n", **(contents or {})}.items():
                    (folder / name).write_text(text)
                (folder / "qmp-events.json").write_text(os.urandom(8).hex())
            frame = pd.DataFrame([("left", 0, "total", 42.0, "1", None)], columns=list(METRIC_COLUMNS))
            writer.write_tables({"sums": frame}, [declaration("sums", frame)])
            writer.write_metrics(frame, [Metric("total", "1", "neither", "a sum")])
            writer.write_claims(judge(experiment.claims, frame))
            files = deterministic_files(writer.path, trials)
            told = {
                "repository": Repository(commit="5", dirty=True, diff_sha256="6"), "qemu": qemu, "packages": {},
                "kernels": {"classic": KERNEL.model_copy(update=kernel)}, "accelerator": {}, "fidelity": {},
                "host": HOST.model_copy(update={"governor": "x", "absent": {}}), "seconds": {},
            }  # fmt: skip
            return writer.finish(manifest_of(experiment, trials, files, **told))

    return make


def test_a_set_is_complete_under_its_final_name(write, tmp_path):
    result = write()
    home = tmp_path / "results/example"
    assert re.fullmatch(r"\d{8}T\d{6}\.\d\dZ-[0-9a-f]{8}", result.path.name)
    assert result.manifest.id == result.path.name
    assert (home / "latest").resolve() == result.path
    assert {path.name for path in home.iterdir()} == {"latest", result.path.name}
    assert set(result.manifest.files) == {
        *(f"raw/left/{k}/{name}" for k in range(2) for name in ("console.log", "job.exit", "qmp-events.json")),
        *("experiment/experiment.yaml", "experiment/analysis.py"),
        *("tables/sums.parquet", "metrics.parquet", "claims.json"),
    }
    assert result.path.stat().st_mode & 0o777 == 0o755
    assert [claim.verdict for claim in result.claims] == ["reproduced", "not-measurable"]
    assert result.metrics["value"].tolist() == [42.0]
    assert [trial.path for trial in result.trials] == [result.path / f"raw/left/{k}" for k in range(2)]
    verify_files(result.path)


def test_files_of_packages_are_in_the_set_as_they_were_asked_for(write, example):
    with (example / "experiment.yaml").open("a") as file:
        file.write("packages: [gzip, {name: valgrind, files: [a/b, c]}]\n")
    result = write()
    verify_files(result.path)
    stored = json.loads((result.path / "manifest.json").read_text())["experiment"]["packages"]
    assert stored == ["gzip", {"name": "valgrind", "files": ["a/b", "c"]}]
    assert result.manifest.experiment == load_experiment(result.path / "experiment")
    assert not any("cannot be read" in note for note in reproduction(result).notes)


def test_a_large_experiment_is_refused_by_its_largest_file(example, tmp_path):
    big = example / "guest/trace.bin"
    big.parent.mkdir()
    with big.open("wb") as stream:
        stream.truncate(15 << 20)
    copy_experiment(example, tmp_path / "whole")
    assert (tmp_path / "whole/experiment/guest/trace.bin").stat().st_size == 15 << 20
    (example / "zz.bin").write_bytes(bytes(1 << 20))
    with pytest.raises(UsageError, match=r"trace\.bin: 15\.0 MiB: .* may have 16 MiB in all") as caught:
        copy_experiment(example, tmp_path / "set")
    assert caught.value.where == str(big)


@pytest.mark.parametrize("error", [ValueError("analysis"), KeyboardInterrupt(), RunError("no trial")])
def test_nothing_is_left_after_an_error(tmp_path, error):
    def fails() -> None:
        with write_result_set(tmp_path / "results", "example") as writer:
            (writer.path / "half").write_text("half")
            assert writer.path.parent == tmp_path / "results/example", "a rename stays on one file system"
            raise error

    with pytest.raises(type(error)):
        fails()
    assert not list((tmp_path / "results/example").iterdir())


def test_an_older_set_stays_the_latest_when_a_newer_fails(write, tmp_path):
    result = write()
    with pytest.raises(RunError), write_result_set(tmp_path / "results", "example"):
        raise RunError("analysis")
    assert find_result_set(tmp_path / "results", "latest").path == result.path


def test_a_results_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"file/example: cannot write: Not a directory .*--results"),
        write_result_set(tmp_path / "file", "example"),
    ):
        pass


def test_sets_are_found_by_path_id_start_and_latest(write, tmp_path):
    results = tmp_path / "results"
    first, second = write(), write({"console.log": "other\n"})
    for text in (str(first.path), first.path.name, f"example/{first.path.name}", first.path.name[-8:]):
        assert find_result_set(results, text).path == first.path
    for text in ("latest", "example/latest"):
        assert find_result_set(results, text).path == second.path
    with pytest.raises(UsageError, match=f"could be 2 result sets: .*{first.path.name[-8:]}"):
        find_result_set(results, first.path.name[:8])


@pytest.mark.parametrize("text", ["nonsense", "other/latest", "example/2001", "2001", "**x", "[", "example/", "/"])
def test_what_no_set_fits(write, tmp_path, text):
    write()
    with pytest.raises(UsageError, match="no result set"):
        find_result_set(tmp_path / "results", text)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe"), "manifest.json: is not JSON"),
        (lambda path: path.write_text("[]"), "is not a JSON object"),
        (lambda path: path.write_text(f'{{"schema_version": {SCHEMA_VERSION}}}'), "field id: Field required"),
        (
            lambda path: path.write_text(path.read_text().replace('"governor": "x"', '"governor": null', 1)),
            "field host: governor is null without a reason in absent",
        ),
        (
            lambda path: path.write_text(path.read_text().replace('"cpu": "a CPU"', '"cpu": 1', 1)),
            r"field host\.cpu: Input should be a valid string",
        ),
        (lambda path: path.unlink(), "is no result set: No such file"),
    ],
)
def test_a_manifest_that_cannot_be_read(write, spoil, says):
    result = write()
    spoil(result.path / MANIFEST)
    with pytest.raises(UsageError, match=says):
        ResultSet(result.path)


@pytest.mark.parametrize(
    ("damage", "name", "says"),
    [
        (
            lambda root: (root / "raw/left/0/console.log").write_text("bootee\n"),
            "raw/left/0/console.log",
            "differs from what",
        ),
        (lambda root: (root / "metrics.parquet").unlink(), "metrics.parquet", "is missing"),
        (lambda root: (root / "raw/extra").touch(), "raw/extra", "is not of this set"),
    ],
)
def test_damage_is_named(write, damage, name, says):
    result = write()
    damage(result.path)
    with pytest.raises(RunError, match=f"^{re.escape(str(result.path / name))}: {says}"):
        verify_files(result.path)


def test_equal_bits_have_equal_digests_and_host_times_take_no_part(write):
    first, second, third = write(), write(), write({"job.exit": "1\n"})
    assert first.manifest.digest == second.manifest.digest != third.manifest.digest
    assert not any(name.endswith("qmp-events.json") for name in first.manifest.deterministic)
    assert first.path.name[-8:] != second.path.name[-8:], "the events are in the content's name all the same"


def test_wall_clock_trials_have_no_digest(write):
    result = write(clock="wall")
    assert result.manifest.digest is None
    with pytest.raises(UsageError, match="has no virtual-clock trials and so no digest"):
        reference_of(result)


@pytest.mark.parametrize(
    ("expected", "actual", "says"),
    [
        ({"a": "1"}, {"a": "1"}, None),
        ({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, "a differs"),
        ({"a": "1", "b": "1"}, {"b": "2"}, "a is missing here"),
        ({"b": "1"}, {"a": "1", "b": "2"}, "a is not in the reference"),
        ({}, {}, None),
    ],
)
def test_first_difference(expected, actual, says):
    assert first_difference(expected, actual) == says
    assert (digest(expected) == digest(actual)) == (says is None)


def wanted_as(kind: str, result: ResultSet, folder: Path) -> str:
    assert result.manifest.digest is not None
    path = folder / "reference.json"
    reference_of(result).write(path)
    return {
        "digest": result.manifest.digest,
        "set": result.path.name,
        "path": str(result.path),
        "latest": "latest",
        "file": str(path),
    }[kind]


def test_a_reference_file_has_no_files_and_tells_the_trial(write, tmp_path):
    wanted = wanted_as("file", write(), tmp_path)
    assert "job.exit" not in Path(wanted).read_text()
    other = find_reference(wanted, "example", tmp_path / "results")
    check_digest(write(), wanted, other)
    with pytest.raises(RunError, match=r"differs: raw/left/0 differs \(all inputs are equal\)"):
        check_digest(write({"job.exit": "1\n"}), wanted, other)


@pytest.mark.parametrize("kind", ["digest", "set", "path", "latest"])
def test_check_digest_says_which_file_and_which_input(write, tmp_path, kind):
    first = write()
    wanted = wanted_as(kind, first, tmp_path)
    other = find_reference(wanted, "example", tmp_path / "results")
    check_digest(write(), wanted, other)
    with pytest.raises(RunError, match=r"raw/left/0/job.exit differs \(all inputs are equal\)"):
        check_digest(write({"job.exit": "1\n"}), wanted, other)
    with pytest.raises(RunError, match=r"job.exit differs \(input qemu: QEMU 7.2 there, QEMU 8 here\)"):
        check_digest(write({"job.exit": "1\n"}, qemu="QEMU 8"), wanted, other)
    changed = write({"job.exit": "1\n"}, compiler={"gcc": "gcc 13"})
    with pytest.raises(RunError, match=r"kernel classic · compiler · gcc: gcc 12 there, gcc 13 here") as caught:
        check_digest(changed, wanted, other)
    assert caught.value.where == str(changed.path)
    assert caught.value.exit_code == 3


def test_an_unknown_digest_is_compared_all_the_same(write, tmp_path):
    result = write()
    assert find_reference("0" * 64, "example", tmp_path / "results") is None
    check_digest(result, str(result.manifest.digest), None)
    with pytest.raises(RunError, match=f"digest is {result.manifest.digest}, not 0000"):
        check_digest(result, "0" * 64, None)


@pytest.mark.parametrize(
    ("wanted", "says"), [("nonsense", "no result set 'nonsense'"), ("latest", "there is no result set yet")]
)
def test_a_wrong_word_for_a_digest(tmp_path, wanted, says):
    with pytest.raises(UsageError, match=says):
        find_reference(wanted, "example", tmp_path)


@pytest.mark.parametrize("data", [b"", b"\xff", b"{}", json.dumps({"experiment": 1}).encode()])
def test_what_is_no_reference_is_named(tmp_path, data):
    path = tmp_path / "digest.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"digest\.json: not a reference file"):
        load_reference(path)
    with pytest.raises(UsageError, match="no reference: No such file"):
        load_reference(tmp_path / "absent.json")
