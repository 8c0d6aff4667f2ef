# SPDX-License-Identifier: MIT
"""The commands as a user calls them: a run from start to verdict, an experiment outside the repository, errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import KERNELS, PATCHES, ROOT
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files
from tests.folders import SUMS, experiment
from tests.processes import eventually, machines

pytestmark = pytest.mark.timeout(1800)

EXPERIMENT = """\
name: hello-guest
paper: {authors: [Nobody], year: 2024, title: A guest adds numbers}
workloads:
  add: {command: "adder 20 22"}
arms:
  virtual: {kernel: classic, clock: virtual, params: {offset: 0}}
  shifted: {kernel: classic, clock: virtual, params: {offset: 1}}
repetitions: {quick: 2, full: 4}
claims:
  - {id: adds, metric: total/virtual, expect: {equals: 42}, because: a sum, paper: numbers add up}
  - {id: shifts, metric: total/shifted, expect: {equals: 42}, because: a sum,
     paper: numbers always add up}
"""
ADDER = """\
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	const char *offset = getenv("KREPRO_OFFSET");

	if (argc != 3 || !offset)
		return 2;
	printf("%d\\n", atoi(argv[1]) + atoi(argv[2]) + atoi(offset));
	return 0;
}
"""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = experiment(tmp_path / "hello-guest", EXPERIMENT)
    (folder / "guest").mkdir()
    (folder / "guest/adder.c").write_text(ADDER)
    return folder


def invoke(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "invoke", *words], cwd=ROOT, capture_output=True, text=True, check=False, **options
    )


def result_path(done: subprocess.CompletedProcess[str]) -> Path:
    return Path(done.stdout.strip().splitlines()[-1])


@pytest.mark.deep
def test_an_experiment_outside_the_repository_runs_and_a_false_claim_exits_1(outside, tmp_path):
    done = invoke("run", f"experiment={outside}", "--results", str(tmp_path / "results"))
    assert done.returncode == 1, done.stderr
    result = ResultSet(result_path(done))
    verify_files(result.path)
    assert {claim.id: claim.verdict for claim in result.claims} == {"adds": "reproduced", "shifts": "contradicted"}
    assert [trial.status for trial in result.trials] == ["ok"] * 4
    assert result.manifest.fidelity == {"virtual": "virtual", "shifted": "virtual"}
    assert (result.path.parent / "latest").resolve() == result.path

    again = invoke(
        "run", str(outside), "--results", str(tmp_path / "results"), "--check-digest", result.manifest.digest
    )
    assert again.returncode == 1, again.stderr
    assert ResultSet(result_path(again)).manifest.digest == result.manifest.digest

    other = invoke(
        "run", str(outside), "--results", str(tmp_path / "results"), "--seed", "2", "--check-digest", "latest"
    )
    assert other.returncode == 3
    assert "differs" in other.stderr

    replayed = invoke("replay", str(result.path))
    assert replayed.returncode == 0, replayed.stderr
    assert "every bit is equal" in replayed.stdout


@pytest.mark.deep
def test_the_bits_are_compared_also_where_no_claim_is_measured(outside, tmp_path):
    declared = outside / "experiment.yaml"
    declared.write_text(declared.read_text().replace("total/virtual", "total/shifted"))
    words = ("run", str(outside), "--arms", "virtual", "--results", str(tmp_path / "results"))
    first = invoke(*words)
    assert first.returncode == 3, first.stderr
    unmeasured = "no claim of the paper could be measured"
    assert unmeasured in first.stderr
    again = invoke(*words, "--check-digest", "latest")
    assert again.returncode == 3, again.stderr
    assert unmeasured in again.stderr
    assert "differs" not in again.stderr
    other = invoke(*words, "--check-digest", "0" * 64)
    assert other.returncode == 3, other.stderr
    assert unmeasured in other.stderr
    assert "not 0000" in other.stderr


@pytest.mark.deep
def test_another_digest_exits_3_and_names_the_first_file(outside, tmp_path):
    first = invoke("run", str(outside), "--arms", "virtual", "--results", str(tmp_path / "results"))
    assert first.returncode == 0, first.stderr
    source = outside / "guest/adder.c"
    source.write_text(source.read_text().replace("%d\\n", "%d \\n"))
    changed = invoke(
        "run",
        str(outside),
        "--arms",
        "virtual",
        "--results",
        str(tmp_path / "results"),
        "--check-digest",
        str(result_path(first)),
    )
    assert changed.returncode == 3
    message = changed.stderr.strip().splitlines()[-1]
    assert "raw/virtual/0/" in message
    assert "differs" in message
    assert "guest/adder.c" in message


def test_an_analysis_that_edits_raw_files_exits_3_and_the_trials_are_kept(outside, tmp_path):
    edit = '    (trials[0].path / "add" / "stdout").write_text("0")\n'
    (outside / "analysis.py").write_text(SUMS.replace("(trials):\n", f"(trials):\n{edit}"))
    done = invoke("run", str(outside), "--results", str(tmp_path / "results"))
    assert done.returncode == 3, done.stderr
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("krepro: ")]
    assert "tables() failed: " in line
    assert "Read-only file system" in line or "Permission denied" in line
    (kept,) = (tmp_path / "results/hello-guest").glob("2*")
    verify_files(kept)


@pytest.mark.deep
def test_only_the_asked_arm_runs_and_absent_claims_say_so(outside, tmp_path):
    done = invoke("run", str(outside), "--arms", "virtual", "--repetitions", "1", "--results", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    claims = json.loads((result_path(done) / "claims.json").read_text())
    assert [claim["verdict"] for claim in claims] == ["reproduced", "not-measurable"]
    assert "took no part" in claims[1]["reason"]


def test_kvm_is_refused_with_the_reason_or_really_used(outside, tmp_path):
    yaml = outside / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("clock: virtual", "clock: wall"))
    done = invoke("run", str(outside), "--accel", "kvm", "--repetitions", "1", "--results", str(tmp_path / "r"))
    if done.returncode == 2:
        (line,) = [text for text in done.stderr.splitlines() if text.startswith("krepro:")]
        assert line.startswith("krepro: --accel kvm: ")
        assert not list((tmp_path / "r").glob("*/*")), "nothing half-written"
    else:
        assert set(ResultSet(result_path(done)).manifest.accelerator.values()) == {"kvm"}


def test_guest_code_that_does_not_compile_exits_2_with_file_and_line(outside, tmp_path):
    (outside / "guest/adder.c").write_text("int main(void)\n{\n\treturn nothing;\n}\n")
    done = invoke("run", str(outside), "--results", str(tmp_path / "r"))
    assert done.returncode == 2
    assert "adder.c:3:" in done.stderr
    assert not list((tmp_path / "r").glob("*/*"))


@pytest.mark.deep
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_no_space_left_is_one_line_and_leaves_only_sealed_trials(outside, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], check=True)
    try:
        done = invoke("run", str(outside), "--results", str(small))
        left = [path.name for path in (small / "hello-guest").iterdir()]
        sealed = list((small / "hello-guest").glob(".unfinished/*/trials/*/*.json"))
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 3
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("krepro: ") and "warning" not in text]
    assert "no space left" in line
    assert left == ([".unfinished"] if sealed else [])
    assert ("trials are kept" in line) == bool(sealed)


@pytest.mark.deep
def test_a_patch_that_does_not_apply_exits_2_with_patch_and_hunk(outside, tmp_path):
    (outside / "kernels").mkdir()
    spec = (KERNELS / "classic.yaml").read_text().replace("patches: [irq-hotspot]", "patches: [irq-hotspot, broken]")
    (outside / "kernels/classic.yaml").write_text(spec)
    series = outside / "kernel-patches/broken/6.1"
    series.mkdir(parents=True)
    source = sorted((PATCHES / "irq-hotspot/6.1").glob("*.patch"))[0]
    (series / source.name).write_text(source.read_text())  # applied twice, the first series no longer fits
    done = invoke("run", str(outside), "--results", str(tmp_path / "r"))
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert str(series / source.name) in line
    assert "hunk at kernel/profile.c:" in line or "hunk at include/linux/profile.h:" in line


@pytest.mark.deep
def test_guests_die_with_a_killed_harness_and_nothing_is_left(outside, tmp_path):
    yaml = outside / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("adder 20 22", "while :; do :; done"))
    process = subprocess.Popen(
        [sys.executable, "-m", "invoke", "run", str(outside), "--results", str(tmp_path / "r")],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert eventually(lambda: len(machines(tmp_path)) >= 2), "both cores run a guest"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert eventually(lambda: not machines(tmp_path)), "no guest outlives its harness"


def test_an_interrupted_run_leaves_no_set(outside, tmp_path):
    yaml = outside / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("adder 20 22", "while :; do :; done"))
    process = subprocess.Popen(
        [sys.executable, "-m", "invoke", "run", str(outside), "--results", str(tmp_path / "r")],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert eventually(lambda: len(machines(tmp_path)) >= 1)
    process.send_signal(signal.SIGTERM)
    # The harness waits for the trials that its workers run; the limit of one is 300 s.
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "interrupted" in err
    assert not machines(tmp_path)
    assert not list((tmp_path / "r/hello-guest").iterdir())


@pytest.mark.deep
@pytest.mark.parametrize("mistake", ["raise ValueError('no such luck')", "import sys; sys.exit(1)"])
def test_a_run_whose_analysis_fails_keeps_its_trials_and_is_judged_when_that_is_mended(outside, tmp_path, mistake):
    results = tmp_path / "results"
    good = (outside / "analysis.py").read_text()
    (outside / "analysis.py").write_text(f"{good}\n\ndef tables(trials):\n    {mistake}\n")
    words = ("run", str(outside), "--arms", "virtual", "--repetitions", "1", "--results", str(results))
    done = invoke(*words)
    assert done.returncode == 3
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("krepro: ")]
    assert "bug of krepro" not in line
    assert "trials are kept, but their analysis failed" in line
    (made,) = [path for path in (results / "hello-guest").iterdir() if not path.is_symlink()]
    assert f"./inv analyse hello-guest/{made.name} --with FOLDER" in line
    assert not (results / "hello-guest/latest").exists()
    assert "not analysed, 1 trials: analysis.py:" in invoke("results", "--results", str(results)).stdout
    assert "not analysed: analysis.py:" in invoke("show", made.name, "--results", str(results)).stdout
    assert invoke("verify", made.name, "--results", str(results)).returncode == 0

    (outside / "analysis.py").write_text(good)
    again = invoke("analyse", made.name, "--with", str(outside), "--results", str(results))
    assert again.returncode == 0, again.stderr
    result = ResultSet(result_path(again))
    assert [step.id for step in result.manifest.analysed_from] == [made.name]
    assert {claim.id: claim.verdict for claim in result.claims}["adds"] == "reproduced"
    assert (results / "hello-guest/latest").resolve() == result.path
    checked = invoke("verify", "latest", "--results", str(results))
    assert checked.returncode == 0, checked.stderr
    replayed = invoke("replay", "latest", "--results", str(results))
    assert replayed.returncode == 0, replayed.stderr
