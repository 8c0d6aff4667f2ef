# SPDX-License-Identifier: MIT
"""A finished set: one bit changed anywhere is found and the file named; what is derived is made again."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from harness.analysis.verification import verify
from harness.errors import RunError, UsageError
from harness.measure.analysis import Analysis
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.seal import content_hash, manifest_pieces, verify_files
from tests.result_sets import ANALYSIS, TIMED, YAML, experiment_folder, write_set

VALUES = {"short": [100.0, 101.0, 103.0], "wall": [7.5, None]}


@pytest.fixture
def one(tmp_path: Path) -> ResultSet:
    return write_set(tmp_path / "results", experiment_folder(tmp_path), VALUES)


def verified(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert verify(path.parent.parent, str(path), Console(width=200), trust=True) == 0
    return capsys.readouterr().out.splitlines()


def reseal(path: Path, change: Callable[[Path], None] = lambda _: None, **fields: object) -> Path:
    """What a forger would do: change the set, then write all hashes and the ID anew."""
    from harness.artefacts.store import hash_tree

    change(path)
    files = hash_tree(path)
    files.pop(MANIFEST)
    values = json.loads((path / MANIFEST).read_text()) | {"files": files} | fields
    name = f"{path.name.partition('-')[0]}-{content_hash(values)[:8]}"
    (path / MANIFEST).write_text("".join(manifest_pieces(values | {"id": name})))
    return path.rename(path.with_name(name))


HOOK = """

def profiles(tables):
    return pd.DataFrame({"profile": ["p"], "unit": ["none"], "stack": ["a;b"], "weight": [1.0]})
"""


@pytest.mark.deep
def test_profiles_and_time_lines_follow_too(tmp_path, capsys):
    made = write_set(tmp_path / "results", experiment_folder(tmp_path, YAML, ANALYSIS + HOOK), VALUES)
    verified(made.path, capsys)

    def change(path: Path) -> None:
        frame = pd.read_parquet(path / "profiles.parquet")
        frame.assign(weight=2.0).to_parquet(path / "profiles.parquet", index=False)

    other = reseal(made.path, change)
    with pytest.raises(
        RunError, match=r"profiles\.parquet: does not follow .* column weight: row 0 comes out as .*1\.0"
    ):
        verified(other, capsys)


def test_a_set_as_it_was_written_verifies_and_is_not_changed_by_that(one, capsys):
    before = {path: path.stat().st_mtime_ns for path in one.path.rglob("*")}
    lines = verified(one.path, capsys)
    assert lines == [
        "21 files: every bit is what was written",
        "unsigned",
        "digest: follows from 3 raw files",
        "3 tables, 8 metrics and 2 claims follow from the raw files",
        "1 figures: drawn again, byte for byte as they are stored",
        str(one.path),
    ]
    assert {path: path.stat().st_mtime_ns for path in one.path.rglob("*")} == before


@pytest.mark.deep
def test_one_bit_anywhere_is_found_and_its_file_named(one):
    """Every file: its first bit, its last, and some between; every 13th bit of the manifest."""
    files = [path for path in sorted(one.path.rglob("*")) if path.is_file()]
    assert len(files) == len(one.manifest.files) + 1
    kinds = {path.suffix for path in files}
    assert kinds >= {".json", ".parquet", ".svg", ".py", ".yaml"}
    for path in files:
        data = path.read_bytes()
        last = len(data) * 8
        bits = range(0, last, 13) if path.name == MANIFEST else sorted({*range(0, last, max(last // 20, 1)), last - 1})
        for bit in bits if data else ():
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with pytest.raises(RunError) as caught:
                verify_files(one.path)
            assert caught.value.where == str(path), bit
            assert caught.value.exit_code == 3
        path.write_bytes(data)
    verify_files(one.path)


DAMAGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "empty file added": (lambda root: (root / "raw/short/0/new").touch(), "raw/short/0/new", "is not of this set"),
    "hidden file added": (lambda root: (root / ".hidden").touch(), ".hidden", "is not of this set"),
    "bytecode added": (
        lambda root: ((root / "experiment/__pycache__").mkdir(), (root / "experiment/__pycache__/a.pyc").touch()),
        "experiment/__pycache__/a.pyc",
        "is not of this set",
    ),
    "link added": (lambda root: (root / "tables/link").symlink_to("waits.parquet"), "tables/link", "is not of this"),
    "dangling link": (lambda root: (root / "link").symlink_to("nowhere"), "link", "is not of this set"),
    "link to a folder": (lambda root: (root / "more").symlink_to(root.parent), "more", "is not of this set"),
    "file made a link to its copy": (lambda root: as_link(root / "claims.json"), "claims.json", "no plain file"),
    "manifest made a link": (lambda root: as_link(root / MANIFEST), MANIFEST, "is a link"),
    "pipe": (lambda root: os.mkfifo(root / "pipe"), "pipe", "is not of this set"),
    "file removed": (lambda root: (root / "figures/waits.svg").unlink(), "figures/waits.svg", "is missing"),
    "file emptied": (lambda root: (root / "metrics.parquet").write_bytes(b""), "metrics.parquet", "differs from what"),
    "manifest emptied": (lambda root: (root / MANIFEST).write_bytes(b""), MANIFEST, "differs from what was written"),
    "manifest a list": (lambda root: (root / MANIFEST).write_bytes(b"[]"), MANIFEST, "no list of files"),
    "manifest in other words": (
        lambda root: (root / MANIFEST).write_bytes((root / MANIFEST).read_bytes().replace(b"1e-07", b"1E-07")),
        MANIFEST,
        "hash is not the one in the ID",
    ),
    "manifest with a field twice": (
        lambda root: (root / MANIFEST).write_bytes((root / MANIFEST).read_bytes().replace(b"{", b'{"seed": 2,', 1)),
        MANIFEST,
        "hash is not the one in the ID",
    ),
    "half a surrogate": (
        lambda root: (root / MANIFEST).write_bytes((root / MANIFEST).read_bytes().replace(b"quick", b"\\ud800", 1)),
        MANIFEST,
        "hash is not the one in the ID",
    ),
}


def as_link(path: Path) -> None:
    copy = path.parent.parent / f"copy-{path.name}"
    shutil.copyfile(path, copy)
    path.unlink()
    path.symlink_to(copy)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_other_damage_is_found_and_named(one, damage, tmp_path):
    spoil, name, says = damage
    spoil(one.path)
    with pytest.raises(RunError, match=f"^{re.escape(str(one.path / name))}: .*{says}"):
        verify(tmp_path / "results", str(one.path), Console(), trust=True)


def test_a_renamed_set_is_told(one):
    other = one.path.rename(one.path.with_name("20300101T000000.00Z-00000000"))
    with pytest.raises(RunError, match=f"is of the set {one.path.name}, and this folder is 2030.*rename the folder"):
        verify_files(other)


# -- what a forger who writes all hashes anew is caught by ---------------------------------------------------


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new, 1))

    return change


def parquet(name: str, column: str, value: object) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        import pandas as pd

        frame = pd.read_parquet(root / name)
        frame.loc[1, column] = value
        frame.to_parquet(root / name, index=False)

    return change


FORGERIES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "raw": (replace("raw/short/1/wait", "101", "102"), MANIFEST, "raw/short/1/wait differs"),
    "raw of a wall clock": (
        replace("raw/wall/0/wait", "7.5", "7.25"),
        "tables/waits.parquet",
        "column ms: row 3 comes out as .*7.25.*, not .*7.5",
    ),
    "table": (parquet("tables/waits.parquet", "ms", 99.0), "tables/waits.parquet", "column ms: row 1 comes out as"),
    "metric": (parquet("metrics.parquet", "value", 2.0), "metrics.parquet", "column value: row 1 comes out as"),
    "reason": (parquet("metrics.parquet", "reason", "why"), "metrics.parquet", "column reason: "),
    "verdict": (replace("claims.json", "reproduced", "contradicted"), "claims.json", "verdict of short-enough is"),
    "measured": (replace("claims.json", "101.0", "100.5"), "claims.json", "measured of short-enough is 101.0"),
    "no claims": (lambda root: (root / "claims.json").write_text("[]"), "claims.json", "the claims are short-enough"),
    "figure": (replace("figures/waits.svg", "wait [ms]", "wait [us]"), "figures/waits.svg", "drawn another way"),
    "more figures": (lambda root: (root / "figures/x.svg").touch(), "figures/x.svg", "does not make it"),
    "fewer tables": (lambda root: (root / "tables/waits.parquet").unlink(), "tables/waits.parquet", "is not there"),
    "another analysis": (
        replace("experiment/analysis.py", '"wait_ms", row.ms', '"wait_ms", 2 * row.ms'),
        "metrics.parquet",
        "column value: row 0 comes out as",
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_what_does_not_follow_from_the_raw_files_is_told(one, forgery, tmp_path):
    change, name, says = forgery
    path = reseal(one.path, change)
    verify_files(path)
    with pytest.raises(RunError, match=f"^{re.escape(str(path / name))}: .*{says}"):
        verify(tmp_path / "results", str(path), Console(), trust=True)


def test_the_digest_must_be_that_of_the_raw_files(one, tmp_path):
    path = reseal(one.path, digest="0" * 64)
    with pytest.raises(RunError, match=r"manifest\.json: the digest is not that of the raw files"):
        verify(tmp_path / "results", str(path), Console(), trust=True)


@pytest.mark.deep
def test_a_library_that_may_be_the_cause_is_named(one, tmp_path):
    packages = {**one.manifest.packages, "scipy": "0.1"}
    path = reseal(one.path, replace("claims.json", "101.0", "100.5"), packages=packages)
    with pytest.raises(RunError, match=r"not 100\.5 \(library scipy: 0\.1 there, .* here\)"):
        verify(tmp_path / "results", str(path), Console(), trust=True)


@pytest.mark.parametrize("package", ["matplotlib", "krepro"])
def test_figures_of_another_matplotlib_or_krepro_are_no_forgery(one, capsys, package):
    packages = {**one.manifest.packages, package: "0.1"}
    path = reseal(one.path, replace("figures/waits.svg", "wait [ms]", "wait [us]"), packages=packages)
    told = next(line for line in verified(path, capsys) if line.startswith("figures/waits.svg"))
    assert "which proves nothing" in told
    assert told.endswith("in the run 0.1")


# -- sets that are whole but poor -----------------------------------------------------------------------------


def test_a_set_without_a_good_trial_verifies(tmp_path, capsys):
    poor = write_set(tmp_path / "results", experiment_folder(tmp_path), {"short": [None]})
    assert "no trial succeeded: there is nothing to analyse" in verified(poor.path, capsys)


def test_an_analysis_without_claims_that_fails_now_is_an_error(tmp_path):
    made = write_set(tmp_path / "results", experiment_folder(tmp_path, YAML.partition("claims:")[0]), VALUES)
    assert verify(tmp_path / "results", str(made.path), Console()) == 0
    path = reseal(made.path, replace("experiment/analysis.py", "def metrics(", "def metricts("))
    with pytest.raises(UsageError, match=r"analysis\.py: has no function metrics"):
        verify(tmp_path / "results", str(path), Console(), trust=True)


@pytest.mark.deep
def test_claims_that_are_older_than_a_field_verify(tmp_path, capsys):
    folder = experiment_folder(tmp_path, YAML.replace("/short", "/wall"), TIMED)
    one = write_set(tmp_path / "results", folder, {"wall": [5.0, 6.0]}, disturbed=[("wall", 0)])

    def change(root: Path) -> None:
        claims = json.loads((root / "claims.json").read_text())
        for claim in claims:
            del claim["left_out"]
        (root / "claims.json").write_text(json.dumps(claims))

    lines = verified(reseal(one.path, change), capsys)
    assert "3 tables, 3 metrics and 2 claims follow from the raw files" in lines


@pytest.mark.parametrize(("stored", "verifies"), [("≤ 1.29537e+06", True), ("≤ 1295368", True), ("≤ 1295369", False)])
@pytest.mark.deep
def test_a_bound_that_was_told_in_six_digits_verifies(tmp_path, capsys, stored, verifies):
    folder = experiment_folder(tmp_path, YAML.replace("at_most: 200", "at_most: 1295368"), ANALYSIS)
    one = write_set(tmp_path / "results", folder, VALUES)
    path = reseal(one.path, replace("claims.json", "≤ 1295368", stored))
    if verifies:
        assert "follow from the raw files" in " ".join(verified(path, capsys))
    else:
        with pytest.raises(RunError, match="expected of short-enough is '≤ 1295368', not '≤ 1295369'"):
            verified(path, capsys)


@pytest.mark.deep
def test_declarations_that_are_older_than_facts_verify(tmp_path, capsys):
    folder = experiment_folder(tmp_path, YAML.replace("/short", "/wall"), ANALYSIS)
    one = write_set(tmp_path / "results", folder, {"wall": [5.0, 6.0]}, disturbed=[("wall", 0)])
    path = reseal(one.path, replace("experiment/analysis.py", "    fact(", "    Metric("))
    lines = verified(path, capsys)
    assert "3 tables, 4 metrics and 2 claims follow from the raw files" in lines


def test_an_analysis_that_fails_now_and_gave_claims_then_is_an_error(one, tmp_path):
    path = reseal(one.path, replace("experiment/analysis.py", "def tables(", "def tablets("))
    with pytest.raises(UsageError, match=r"analysis\.py: has no function tables"):
        verify(tmp_path / "results", str(path), Console(), trust=True)


DOCUMENT = """

def documents(tables):
    return {"note": {"trials": len(tables["waits"])}}
"""


@pytest.mark.deep
def test_documents_of_an_analysis_are_written_and_verified(tmp_path, capsys):
    made = write_set(tmp_path / "results", experiment_folder(tmp_path, YAML, ANALYSIS + DOCUMENT), VALUES)
    (path,) = (made.path / "documents").iterdir()
    assert path.name == "note.json"
    assert json.loads(path.read_text())["trials"] > 0
    assert verified(made.path, capsys)[-1] == str(made.path)
    forged = reseal(made.path, replace("documents/note.json", "trials", "trails"))
    with pytest.raises(RunError, match=r"documents/note\.json: .*comes out with other values"):
        verify(tmp_path / "results", str(forged), Console(), trust=True)
    extra = reseal(forged, lambda root: (root / "documents/note.json").rename(root / "documents/more.json"))
    with pytest.raises(RunError, match=r"documents/(note|more)\.json: "):
        verify(tmp_path / "results", str(extra), Console(), trust=True)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("[]", "must return a dict by names"),
        ("{'../up': 1}", "must return a dict by names"),
        ("{'a': float('nan')}", "a value is no JSON"),
        ("{'a': tables}", "a value is no JSON"),
    ],
)
def test_documents_that_cannot_be_written_are_refused(tmp_path, returned, says):
    folder = experiment_folder(
        tmp_path, YAML, f"TABLES, METRICS = [], []\n\n\ndef documents(tables):\n    return {returned}\n"
    )
    with pytest.raises(UsageError, match=says):
        Analysis(folder).documents({"t": pd.DataFrame()}, pd.DataFrame())


def test_the_analysis_is_the_one_in_the_set(tmp_path, capsys):
    folder = experiment_folder(tmp_path, YAML, ANALYSIS)
    made = write_set(tmp_path / "results", folder, VALUES)
    (folder / "analysis.py").write_text("raise ValueError")
    assert verified(made.path, capsys)[-1] == str(made.path)
