# SPDX-License-Identifier: MIT
"""The matrix of docs/matrix.md on real guests: a few of its arms, chosen on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.sets.resultset import ResultSet
from tests.unit.test_docs import DOCS, blocks

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1200)]

#: As the page has it.
CHOICE = ["--kernel", "classic", "--set", "method=memcpy", "--set", "kib=1024,4096,1536"]


def invoke(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "invoke", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def run(folder: Path, results: Path, *words: str) -> ResultSet:
    """The set of a run; most claims cannot be told from so few arms, and none is contradicted."""
    done = invoke("run", folder, "--results", results, *words)
    assert done.returncode == 0, done.stderr
    return ResultSet(Path(done.stdout.strip().splitlines()[-1]))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a reader would make of the page."""
    root = tmp_path_factory.mktemp("matrix")
    for name, text in blocks(DOCS / "matrix.md").items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "copies"


@pytest.fixture(scope="module")
def chosen(copies: Path) -> ResultSet:
    return run(copies, copies.parent / "results", *CHOICE)


def test_the_arms_that_were_chosen_run(chosen):
    page = (DOCS / "matrix.md").read_text()
    assert f"./inv run experiment=path/to/copies {' '.join(CHOICE)}" in page
    assert {trial.arm for trial in chosen.trials} == {f"copy.classic.memcpy.kib-{size}" for size in (1024, 1536, 4096)}
    assert [trial.status for trial in chosen.trials] == ["ok"] * 3
    assert chosen.manifest.chosen == {"method": ["memcpy"], "kib": ["1024", "4096", "1536"], "kernel": ["classic"]}


def test_the_guest_gets_the_values_and_tables_have_them(chosen):
    copies = chosen.tables["copies"].set_index("kib").sort_index()
    assert list(copies.index) == [1024, 1536, 4096]
    assert copies["copied"].tolist() == [1024 << 10, 1536 << 10, 4096 << 10]
    assert copies["copy_ns"].is_monotonic_increasing
    assert sorted(chosen.metrics["kib"].unique()) == [1024.0, 1536.0, 4096.0]
    assert (chosen.path / "figures" / "copies.svg").is_file()


def test_claims_are_judged_over_the_arms_that_ran(chosen):
    told = {claim.id: claim for claim in chosen.claims}
    assert told["linear"].verdict == "reproduced"
    assert "a line through 3 values of kib, 1024 to 4096" in told["linear"].reason
    assert told["ranks"].verdict == "not-measurable"
    assert "no arms of copy differ in method alone" in told["ranks"].reason


def test_sizes_of_one_set_are_compared_in_one_table(chosen):
    done = invoke("compare", chosen.path, chosen.path, "--set", "kib=1024,4096")
    assert done.returncode == 0, done.stderr
    assert "B, kib 4096, against A, kib 1024" in done.stdout
    verified = invoke("verify", chosen.path)
    assert "follow from the raw files" in verified.stdout, verified.stderr


def test_a_trial_s_bits_depend_neither_on_the_other_arms_nor_on_the_order(copies, chosen, tmp_path):
    other = run(
        copies, tmp_path, "--kernel", "classic", "--set", "method=memcpy", "--set", "kib=4096,1536,256,512,1024"
    )
    shared = {
        name: value for name, value in other.manifest.deterministic.items() if name in chosen.manifest.deterministic
    }
    assert shared == chosen.manifest.deterministic
    orders = [
        [trial.arm for trial in made.trials if trial.dimensions["kib"] in (1024, 1536, 4096)]
        for made in (chosen, other)
    ]
    assert orders[0] != orders[1], "in another order than the arms of the smaller run"
