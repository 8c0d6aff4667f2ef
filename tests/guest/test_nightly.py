# SPDX-License-Identifier: MIT
"""A night with a real guest: run, judged against a reference, resumed; ended by its budget; killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from harness.paths import ROOT
from harness.report.night import load_night, write_whole
from harness.run.night import JUNIT, STATE, NightRequest, nightly
from harness.sets.listing import UNFINISHED
from harness.sets.reference import write_reference
from harness.sets.resultset import find_result_set
from harness.sets.seal import verify_files
from tests.faults.rows import fault
from tests.guest.test_run import outside  # noqa: F401  (a fixture)
from tests.processes import eventually, machines

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]


@pytest.fixture
def options(outside: Path, tmp_path: Path) -> NightRequest:  # noqa: F811
    yaml = outside / "experiment.yaml"
    text = yaml.read_text()
    yaml.write_text(text.replace("paper: numbers always add up", "paper: numbers always add up, known: contradicted"))
    return NightRequest(
        experiments=(str(outside),),
        budget_s=1200,
        profile="quick",
        results=tmp_path / "results",
        out=tmp_path / "out",
        references=tmp_path / "references",
    )


def statuses(options: NightRequest) -> dict[str, str]:
    root = ElementTree.parse(options.out / JUNIT).getroot()
    return {str(case.get("name")): next((child.tag for child in case), "") for case in root.iter("testcase")}


def test_a_night_is_run_resumed_and_fails_when_a_verdict_is_news(options, outside, capfd):  # noqa: F811
    assert nightly(options, Console(width=200)) == 0, "what is known to be contradicted is no news"
    assert statuses(options) == {"run": "", "digest": "skipped", "adds": "system-out", "shifts": "system-out"}
    first = find_result_set(options.results, "latest")
    verify_files(first.path)
    assert (options.out / "reports/index.html").is_file()

    state = load_night(options.out / STATE)
    assert state is not None
    write_whole(options.out / STATE, state.model_copy(update={"finished": False}).model_dump_json().encode())
    assert nightly(options, Console(width=200)) == 0
    assert find_result_set(options.results, "latest").path == first.path, "it was done, and is not run again"

    write_reference(first, options.references)
    source = outside / "guest/adder.c"
    source.write_text(source.read_text().replace("atoi(argv[1]) +", "1 + atoi(argv[1]) +"))
    capfd.readouterr()
    assert nightly(options, Console(width=200)) == 3, "the bits are others as well"
    assert statuses(options)["adds"] == "failure"
    assert statuses(options)["digest"] == "error"
    assert find_result_set(options.results, "latest").path != first.path
    said = " ".join(capfd.readouterr().err.split())
    turned = "krepro: hello-guest: claim adds is contradicted, known as reproduced: measured 43"
    assert turned in said
    assert "reference 42" in said


def endless(folder: Path) -> None:
    yaml = folder / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("adder 20 22", "while :; do :; done"))


@fault("the budget of `nightly` is over in the middle of a run", "it ends; what is sealed is kept")
def test_a_run_is_ended_when_the_budget_is_over(options, outside):  # noqa: F811
    endless(outside)
    short = NightRequest(**{**vars(options), "budget_s": 20})
    assert nightly(short, Console(width=200)) == 0
    assert statuses(options) == {"run": "skipped"}, "a trial of this run ends when its time limit does, and fails then"
    home = options.results / "hello-guest"
    assert {path.name for path in home.iterdir()} <= {UNFINISHED}, "no half-written set"
    for run in (home / UNFINISHED).glob("*"):
        assert list(run.glob("trials/*/*.json")), "a run is kept if there is something in it to go on with"


def test_a_killed_night_begins_its_experiment_anew(options, outside, tmp_path):  # noqa: F811
    endless(outside)
    words = ["--profile", "quick", "--results", str(options.results), "--out", str(options.out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "invoke", "nightly", "--experiment", str(outside), *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert eventually(lambda: machines(tmp_path))
    process.send_signal(signal.SIGKILL)
    process.wait()
    state = load_night(options.out / STATE)
    assert state is not None
    assert (state.running, state.left, state.finished) == ("hello-guest", ["hello-guest"], False)
    assert statuses(options) == {}, "what there is can be read"
    yaml = outside / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("while :; do :; done", "adder 20 22"))
    assert nightly(options, Console(width=200)) == 0
    assert statuses(options)["adds"] == "system-out"
    left = {path.name for path in (options.results / "hello-guest").iterdir()}
    assert left == {"latest", find_result_set(options.results, "latest").path.name}
