# SPDX-License-Identifier: MIT
"""A night without guests: what is resumed, what the budget allows, what a killed process leaves, how it ends."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console

from harness.errors import UsageError
from harness.experiment.model import load_experiment
from harness.paths import ROOT
from harness.report.junit import Case, Suite
from harness.report.night import (
    Night,
    load_night,
    next_night,
    over_budget,
    run_case,
    summary,
    write_whole,
)
from harness.run import night as night_module
from harness.run.estimate import estimate_seconds
from harness.run.night import JUNIT, STATE, SUMMARY, BudgetOver, NightRequest, nightly
from harness.trial.model import TrialRecord
from harness.trial.plan import make_plan
from tests.conftest import EXPERIMENT
from tests.records import trial_record

INPUTS = {"profile": "full"}


def suite(name: str, *cases: Case) -> Suite:
    return Suite(experiment=name, begun="t", seconds=90, result=None, cases=cases or (run_case("ok"),))


def fresh(*names: str) -> Night:
    return next_night(None, INPUTS, names, "first")


# -- state -------------------------------------------------------------------------------------------------


def test_a_stopped_night_is_gone_on_with_and_what_was_running_starts_anew(tmp_path):
    night = fresh("a", "b", "c").with_suite(suite("a")).model_copy(update={"running": "b"})
    write_whole(tmp_path / STATE, night.model_dump_json().encode())
    again = next_night(load_night(tmp_path / STATE), INPUTS, ["a", "b", "c"], "second")
    assert again == night
    assert again.left == ["b", "c"]


@pytest.mark.parametrize(
    ("change", "inputs"), [({"finished": True}, INPUTS), ({}, {"profile": "quick"}), ({}, {**INPUTS, "new": 1})]
)
def test_a_new_night_begins_after_a_finished_one_and_with_other_inputs(change, inputs):
    night = next_night(fresh("a", "b").with_suite(suite("a")).model_copy(update=change), inputs, ["a", "b"], "second")
    assert (night.begun, night.suites, night.left) == ("second", (), ["a", "b"])


def test_what_the_budget_did_not_reach_comes_first_in_the_next_night():
    night = fresh("a", "b", "c")
    late = suite("c", run_case("untried", "budget: used up before this experiment"))
    for one in (suite("a"), suite("b"), late):
        night = night.with_suite(one)
    assert [over_budget(one) for one in night.suites] == [False, False, True]
    done = night.model_copy(update={"finished": True})
    assert next_night(done, INPUTS, ["a", "b", "c"], "second").left == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok"], 0), (["ok", "untried"], 0), (["ok", "news"], 1), (["news", "failed"], 3), ([], 0)],
)
def test_exit_codes(statuses, code):
    night = fresh("a").with_suite(suite("a", *(Case(name="x", status=status) for status in statuses)))
    assert night.exit_code == code


def test_no_state_is_none_and_a_damaged_one_says_what_to_do(tmp_path):
    assert load_night(tmp_path / STATE) is None
    for text in ("", "{", '{"schema_version": 2}'):
        (tmp_path / STATE).write_text(text)
        with pytest.raises(UsageError, match=r"nightly\.json: is no state of a night \(--fresh begins a new one\)"):
            load_night(tmp_path / STATE)


WRITER = """
import sys
from pathlib import Path
from harness.report.night import write_whole

while True:
    for byte in b"ab":
        write_whole(Path(sys.argv[1]), bytes([byte]) * 1_000_000)
        print(flush=True)
"""


def test_a_killed_writer_leaves_the_file_whole(tmp_path):
    path = tmp_path / "file"
    moments = random.Random(1)
    for _ in range(5):
        running = subprocess.Popen([sys.executable, "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()  # of this writer one file is whole: from here on there must always be one
        time.sleep(moments.uniform(0, 0.05))
        running.kill()
        running.communicate()
        assert path.read_bytes() in {b"a" * 1_000_000, b"b" * 1_000_000}


def test_a_failing_write_leaves_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_summary_says_what_turned_what_failed_what_was_skipped_and_what_is_to_come():
    cases = (run_case("failed", "a:\nhung"), Case(name="c", status="news", message="x | turned"))
    night = fresh("a", "b").with_suite(suite("a", *cases).model_copy(update={"shifts": ("m/a: 1 → 2 s",)}))
    text = summary(night)
    assert "Not finished: b to come." in text
    assert "| a | 0 | 1 | 1 | 0 | 0 | 1.5 | none |" in text
    assert "## Verdicts that are news\n\n- `a` `c`: x | turned\n" in text
    assert "## Did not run\n\n- `a` `run`: a: hung\n" in text
    assert "## Had no turn" not in text
    assert text.endswith("## Figures of a that moved most\n\n- m/a: 1 → 2 s\n")


# -- budget ------------------------------------------------------------------------------------------------


def earlier(arm: str, repetition: int, seconds: float, status: str = "ok") -> TrialRecord:
    return trial_record(arm, repetition, workloads=("add",)).model_copy(
        update={"seconds": {"trial": seconds}, "status": status}
    )


def test_an_estimate_from_an_earlier_run(example):
    text = EXPERIMENT.replace("  right:\n    kernel: classic\n    clock: virtual", "  right:\n    kernel: classic")
    (example / "experiment.yaml").write_text(text)
    experiment = load_experiment(example)  # left: virtual, 4 in full; right: wall, 2 in full
    plan = make_plan(experiment, profile="full")
    seconds = {"harness": 3.0, "build": 7.0, "guests": 99.0}
    records = [earlier("left", 0, 1.0), earlier("left", 1, 5.0), earlier("left", 2, 3.0)]
    # four of left on two CPUs, two of right at the longest known, harness for six trials instead of three, build
    assert estimate_seconds(plan, experiment, records, seconds, 2) == 4 * 3.0 / 2 + 2 * 3.0 + 2 * 3.0 + 7.0
    records.append(earlier("right", 0, 10.0))
    assert estimate_seconds(plan, experiment, records, seconds, 2) == 4 * 3.0 / 2 + 2 * 10.0 + 1.5 * 3.0 + 7.0
    assert estimate_seconds(plan, experiment, [earlier("left", 0, 1.0, "news")], seconds, 2) is None
    assert estimate_seconds(plan, experiment, [], seconds, 2) is None


def test_the_budget_ends_a_block_like_ctrl_c_and_leaves_the_alarm_as_it_was():
    before = signal.getsignal(signal.SIGALRM)
    cleaned = []

    def too_long() -> None:
        with night_module._until(0.05):
            try:
                time.sleep(30)
            finally:
                cleaned.append(True)

    with pytest.raises(BudgetOver):
        too_long()
    assert cleaned
    with night_module._until(3600):
        pass
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


# -- a night of experiments that come to nothing before a guest would start ----------------------------------


@pytest.fixture
def options(example, tmp_path, monkeypatch) -> NightRequest:
    """One experiment, whose kernel nobody knows."""
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    (example / "experiment.yaml").write_text(EXPERIMENT.replace("kernel: classic", "kernel: antique"))
    return NightRequest(
        experiments=(str(example),),
        budget_s=60,
        results=tmp_path / "results",
        out=tmp_path / "out",
        references=tmp_path / "references",
    )


@pytest.mark.deep
def test_a_run_that_fails_is_an_error_in_the_reports_and_exit_code_3(options, capfd):
    assert nightly(options, Console(width=200)) == 3
    said = capfd.readouterr()
    assert said.out.splitlines()[-1] == str(options.out / JUNIT)
    assert ":7: unknown kernel 'antique'" in " ".join(said.err.split())
    assert b"<error" in (options.out / JUNIT).read_bytes()
    assert "unknown kernel 'antique'" in (options.out / SUMMARY).read_text()
    night = load_night(options.out / STATE)
    assert night is not None
    assert (night.finished, night.running) == (True, None)


@pytest.mark.deep
def test_over_the_budget_nothing_is_begun(options):
    out = NightRequest(**{**vars(options), "budget_s": 0})
    assert nightly(out, Console(width=200)) == 0
    assert "budget: used up before this experiment" in (options.out / JUNIT).read_text()
    assert not options.results.exists()


@pytest.mark.deep
def test_done_experiments_are_not_run_again_unless_the_night_is_begun_anew(options, capfd):
    nightly(options, Console(width=200))
    state = load_night(options.out / STATE)
    assert state is not None
    marked = suite("example", Case(name="c", status="news", message="kept from before"))
    stopped = state.model_copy(update={"finished": False, "suites": (marked,), "begun": "before"})
    write_whole(options.out / STATE, stopped.model_dump_json().encode())
    assert nightly(options, Console(width=200)) == 1
    assert "resuming the night of before: 1 done, 0 left" in " ".join(capfd.readouterr().err.split())
    assert "kept from before" in (options.out / JUNIT).read_text()
    write_whole(options.out / STATE, stopped.model_dump_json().encode())
    assert nightly(NightRequest(**{**vars(options), "fresh": True}), Console(width=200)) == 3
    assert "kept from before" not in (options.out / JUNIT).read_text()


@pytest.mark.deep
def test_slips_are_found_before_anything_runs(options, example):
    with pytest.raises(UsageError, match="experiment example is given twice"):
        nightly(NightRequest(**{**vars(options), "experiments": (str(example), str(example))}), Console())
    (options.references / "example").mkdir(parents=True)
    (options.references / "example/values.json").write_text("{}")
    with pytest.raises(UsageError, match=r"values\.json: not reference values"):
        nightly(options, Console())
    (options.references / "example/values.json").unlink()
    yaml = example / "experiment.yaml"
    yaml.write_text(yaml.read_text() + "  - {id: slip, metric: misspelt/left, expect: {equals: 1}, because: a sum}\n")
    with pytest.raises(UsageError, match="claim slip: metric misspelt is not declared"):
        nightly(options, Console())
    assert not options.out.exists()


def test_two_nights_do_not_share_a_folder(options):
    options.out.mkdir()
    with FileLock(options.out / f".{STATE}.lock"), pytest.raises(UsageError, match="another nightly is using"):
        nightly(options, Console())


@pytest.mark.deep
def test_an_experiment_that_will_not_fit_is_skipped_with_both_times(options, tmp_path):
    fixture = Path(ROOT / "tests/fixtures/20261121T061822.78Z-d26ba662")
    home = options.results / "example"
    home.mkdir(parents=True)
    (home / fixture.name).mkdir()
    text = (
        (fixture / "manifest.json")
        .read_text()
        .replace('"seconds": {},\n   "pmu"', '"seconds": {"trial": 600},\n   "pmu"')
    )
    assert '"trial": 600' in text
    (home / fixture.name / "manifest.json").write_text(text)
    (home / "latest").symlink_to(fixture.name)
    assert nightly(options, Console(width=200)) == 0
    said = (options.out / SUMMARY).read_text()
    assert "budget: needs about" in said
    # Of one minute; with an empty store the tools are unpacked first.
    assert re.search(r"min judging by its last run, (0\.\d|1\.0) min are left", said)
