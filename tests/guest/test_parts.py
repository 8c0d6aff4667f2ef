# SPDX-License-Identifier: MIT
"""Parts of a run on real guests: their union is the run that nobody split, and is replayed and resumed as one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import EXIT_OK
from harness.paths import ROOT
from harness.sets.digest import HOST_TIMED
from harness.sets.resultset import ResultSet
from tests.folders import HELLO, experiment

pytestmark = pytest.mark.timeout(1200)


def inv(*words: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "harness.commands.program", *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == EXIT_OK, done.stderr
    return done.stdout, done.stderr


@pytest.mark.deep
def test_two_parts_are_one_run(tmp_path):
    folder = experiment(tmp_path / "hello", HELLO)

    def run(results: str, *words: str) -> tuple[ResultSet, str]:
        out, err = inv("run", str(folder), "--results", str(tmp_path / results), *words)
        return ResultSet(Path(out.strip().splitlines()[-1])), err

    whole, _ = run("whole", "--repetitions", "2")
    parts = [run("one", "--repetitions", "2", "--shard", "1/2")[0], run("two", "--repetitions", "1:2/2")[0]]
    assert [claim.verdict for part in parts for claim in part.claims] == ["not-measurable"] * 2
    out, _ = inv("merge", *(str(part.path) for part in parts), "--results", str(tmp_path / "merged"))
    union = ResultSet(Path(out.strip().splitlines()[-1]))
    assert union.manifest.digest == whole.manifest.digest
    bits = [
        {name: value for name, value in one.manifest.files.items() if Path(name).name not in HOST_TIMED}
        for one in (union, whole)
    ]
    assert bits[0] == bits[1]
    assert [claim.verdict for claim in union.claims] == ["reproduced"]
    assert "every bit is equal" in inv("replay", str(union.path), "--arms", "two/1")[0]
    again, err = run("merged", "--repetitions", "2", "--resume", union.path.name)
    assert f"4 of 4 trials are those of {union.path.name}" in err
    assert again.manifest.digest == whole.manifest.digest
    assert {trial.host for trial in again.manifest.trials} == {None}, (
        "places are those of the set that it took them from"
    )
