# SPDX-License-Identifier: MIT
"""A sixth experiment, outside the repository, with all that an experiment may own; on a real guest.

It has tables and metrics of its own, decoders in a package with a package inside, and a hook `predict`. What its set
says must not depend on what becomes of its folder, nor of the harness.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.sets.columns import declared_metrics, declared_table
from harness.sets.resultset import ResultSet

pytestmark = pytest.mark.timeout(1800)

FILES = {
    "experiment.yaml": """\
name: sixth
paper: {authors: [Nobody], year: 2024, title: Counting what a guest counts, says: Counts add up.}
workloads:
  count: {command: "counter 20 22"}
arms:
  plain: {kernel: classic, clock: virtual}
  twice: {kernel: classic, clock: virtual, params: {factor: 2}}
repetitions: {quick: 2, full: 4}
claims:
  - {id: adds, metric: total/plain, expect: {equals: 42}, paper: They add up., because: 20 and 22.}
  - {id: parts, metric: share.first/twice, expect: {between: [0.47, 0.48]}, paper: By parts., because: 20 / 42.}
""",
    "guest/counter.c": """\
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const char *factor = getenv("KREPRO_FACTOR");
	int times = factor ? atoi(factor) : 1;

	if (argc != 3)
		return 2;
	printf("{\\"first\\": %d, \\"second\\": %d}\\n", times * atoi(argv[1]), times * atoi(argv[2]));
	return 0;
}
""",
    "declared.py": """\
from harness.measure.declared import ARM, TRIAL, Table, count, fact

TABLES = [
    Table("counts", "one trial", (ARM, TRIAL, count("first", "the first count"), count("second", "the second count"))),
]
METRICS = [
    fact("total", "count", "higher", "sum of both counts"),
    fact("share", "1", "neither", "share of the sum", of="part"),
]
""",
    "decode/__init__.py": """\
\"\"\"The decoder: what both files below find, in one row.\"\"\"

from .answer import read
from .deep.total import total

__all__ = ["read", "total"]
""",
    "decode/answer.py": """\
\"\"\"What the guest printed.\"\"\"

from harness.measure.raw import Answer, read_answer


class Counts(Answer):
    first: int
    second: int


def read(path):
    return read_answer(path, Counts)
""",
    "decode/deep/total.py": """\
\"\"\"The sum.\"\"\"


def total(row):
    return row["first"] + row["second"]
""",
    "analysis.py": """\
import json

import pandas as pd

from harness.measure.rows import MetricRows, TableRows

from .decode import read, total
from .declared import METRICS, TABLES


def tables(trials):
    rows = TableRows(TABLES)
    for trial in trials:
        with rows.part(trial, "counts", "count"):
            rows.put("counts", read(trial.path / "count" / "stdout").model_dump(), trial)
    return rows.frames()


def metrics(tables):
    rows = MetricRows(METRICS, tables["problems"])
    for row in tables["counts"].to_dict("records"):
        rows.put(row["arm"], row["trial"], "total", total(row))
        rows.put(row["arm"], row["trial"], "share.first", row["first"] / total(row))
    return rows.frame()


def documents(tables):
    return {"model": {"experiment": "sixth", "per_count": float(tables["counts"]["first"].median())}}


def predict(document, script):
    times = json.loads(script.read_text())["times"]
    return {"Predicted": pd.DataFrame({"times": [times]})}, [f"sum: {times * document['per_count']:g}"]
""",
}
DECODERS = [name for name in FILES if name.startswith("decode/")]


def invoke(checkout: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of the harness that lies in `checkout`."""
    command = [sys.executable, "-m", "invoke", *map(str, words)]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def write_experiment(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The experiment's folder, for the test's own changes."""
    return write_experiment(tmp_path / "sixth")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the harness, for the test's own changes."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT / "harness", copy / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tasks.py", "pyproject.toml", "requirements.lock", "tools.lock", "kernels.lock"):
        shutil.copyfile(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    """A set of the experiment, whose folder is gone since."""
    root = tmp_path_factory.mktemp("sixth")
    folder = write_experiment(root / "sixth")
    done = invoke(ROOT, "run", folder, "--results", root / "results")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder)
    return ResultSet(Path(done.stdout.strip().splitlines()[-1]))


def test_it_runs_and_says_what_its_numbers_are(finished):
    assert {claim.id: claim.verdict for claim in finished.claims} == {"adds": "reproduced", "parts": "reproduced"}
    assert [trial.status for trial in finished.trials] == ["ok"] * 4
    counts = declared_table(finished.path / "tables" / "counts.parquet")
    assert counts is not None
    assert counts.columns[-1].meaning == "the second count"
    assert [metric.of for metric in declared_metrics(finished.path / "metrics.parquet")] == [None, "part"]
    shown = invoke(ROOT, "show", finished.path, "--verbose")
    assert "the second count" in shown.stdout, shown.stderr


def test_its_own_hook_predicts_by_its_own_document(finished, tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"times": 3}))
    done = invoke(ROOT, "predict", "--result", shlex.join([str(finished.path), str(script)]))
    assert done.returncode == 0, done.stderr
    assert "sum: 90" in done.stdout


def test_its_set_verifies_without_its_folder_and_after_the_harness_has_changed(finished, checkout):
    assert invoke(checkout, "verify", finished.path).returncode == 0
    for name in ("rows", "raw", "declared"):
        path = checkout / "harness" / "measure" / f"{name}.py"
        path.write_text(path.read_text() + "\n# A change.\n")
    done = invoke(checkout, "verify", finished.path)
    assert done.returncode == 0, done.stderr
    assert "follow from the raw files" in done.stdout


@pytest.mark.deep
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_decoder_that_was_edited_in_a_set_is_named(finished, tmp_path, decoder):
    copy = tmp_path / finished.path.name
    shutil.copytree(finished.path, copy)
    path = copy / "experiment" / decoder
    path.chmod(0o644)
    path.write_text(path.read_text() + "\n# A change.\n")
    done = invoke(ROOT, "verify", copy)
    assert done.returncode == 3
    assert f"experiment/{decoder}" in done.stderr


@pytest.mark.deep
def test_what_a_changed_harness_decodes_in_another_way_is_laid_at_its_door(finished, checkout):
    folder = checkout / "harness" / "measure" / "deeper"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "offset.py").write_text("OFFSET = 0\n")
    raw = checkout / "harness" / "measure" / "raw.py"
    text = raw.read_text()
    assert text.count("return kind.model_validate_json(read_bytes(path))") == 1
    text = text.replace(
        "return kind.model_validate_json(read_bytes(path))",
        "from harness.measure.deeper.offset import OFFSET\n\n"
        "        answer = kind.model_validate_json(read_bytes(path))\n"
        "        return answer.model_copy(update={'first': answer.first + OFFSET}) if OFFSET else answer",
    )
    raw.write_text(text)
    alike = invoke(checkout, "verify", finished.path)
    assert alike.returncode == 0, alike.stderr
    before = own_version(checkout)
    (folder / "offset.py").write_text("OFFSET = 1\n")
    assert own_version(checkout) != before
    done = invoke(checkout, "verify", finished.path)
    assert done.returncode == 3
    assert "does not follow from the raw files" in done.stderr
    assert f"library krepro: {finished.manifest.packages['krepro']} there, {own_version(checkout)} here" in done.stderr


def own_version(checkout: Path) -> str:
    """What the harness there says of its own version."""
    code = "from harness.sets.provenance import package_versions as v; print(v()['krepro'])"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.deep
@pytest.mark.parametrize("decoder", DECODERS)
def test_sets_of_different_decoders_are_not_compared(finished, folder, tmp_path, decoder):
    path = folder / decoder
    path.write_text(path.read_text() + "\n# A change.\n")
    results = tmp_path / "results"
    run = invoke(ROOT, "run", folder, "--arms", "plain", "--repetitions", "1", "--results", results)
    assert run.returncode == 0, run.stderr
    done = invoke(ROOT, "compare", finished.path, run.stdout.strip().splitlines()[-1])
    assert done.returncode == 2
    assert f"versions of the experiment differ: {decoder} differs" in done.stderr


def test_a_misspelt_metric_is_an_error_that_knows_the_right_ones(folder, tmp_path):
    yaml = folder / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("metric: total/plain", "metric: totla/plain"))
    done = invoke(ROOT, "run", folder, "--results", tmp_path / "results")
    assert done.returncode == 2
    line = next(line for line in done.stderr.splitlines() if line.startswith("krepro: "))
    assert f"{yaml}:10" in line
    assert "claim adds: metric totla is not declared (known: total, share[.PART])" in line
    assert not any(path.is_file() for path in (tmp_path / "results").rglob("*"))
