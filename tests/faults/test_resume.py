# SPDX-License-Identifier: MIT
"""Runs that are broken off: what had ended is kept, what is gone on with comes out as if nothing had happened."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EXIT_RUN_FAILED
from harness.paths import ROOT
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files
from tests.faults.rows import fault
from tests.folders import HELLO, experiment
from tests.processes import DEFAULT_SIGNALS, eventually, machines, sandboxes, worker_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600), pytest.mark.xdist_group("resume")]

TRIALS = 12
KILLS = 20
#: The run that is killed so often has 60 trials.
MORE = ("--repetitions", "30")


class Place:
    """A folder for one run: the experiment, its results and its temporary files."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "hello"
        self.results, self.temporary = root / "results", root / "tmp"
        self.home = self.results / "hello"
        self.temporary.mkdir()
        experiment(self.folder, HELLO)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "invoke", "run", str(self.folder), "--results", str(self.results), *words]
        return subprocess.Popen(
            [*DEFAULT_SIGNALS, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self.temporary)},
        )  # fmt: skip

    def run(self, *words: str, code: int = 0) -> tuple[ResultSet | None, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=900)
        assert process.returncode == code, err
        lines = out.strip().splitlines()
        return (ResultSet(Path(lines[-1])) if lines and Path(lines[-1]).is_dir() else None), err

    def seals(self) -> dict[str, int]:
        """Sealed trials of the unfinished run, by name, with the inode of their seals: another one was written anew."""
        found = self.home.glob(".unfinished/*/trials/*/*.json")
        return {f"{path.parent.name}/{path.stem}": path.stat().st_ino for path in found}

    def more_than(self, count: int, process: subprocess.Popen[str]) -> bool:
        """Whether more trials than that are sealed, or the run has ended."""
        return len(self.seals()) > count or process.poll() is not None

    def left(self) -> set[str]:
        return {path.name for path in self.home.iterdir()} if self.home.is_dir() else set()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    assert eventually(lambda: not machines(made.temporary), 30), "no guest outlives its harness"
    assert eventually(lambda: not sandboxes(made.temporary), 30), "no sandbox outlives the run that went on"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> ResultSet:
    result, _ = Place(tmp_path_factory.mktemp("undisturbed")).run()
    assert result is not None
    return result


@fault("SIGKILL of the harness, at 20 moments of one run", "the same command goes on; same digest")
def test_a_run_of_60_trials_killed_at_20_random_moments_comes_out_as_one_that_was_not(place, tmp_path_factory):
    undisturbed, _ = Place(tmp_path_factory.mktemp("alone")).run(*MORE)
    assert undisturbed is not None
    before: dict[str, int] = {}
    kills = 0
    while True:
        process = place.start(*MORE)
        if kills % 2 and kills < KILLS:  # else at any moment, mostly before a trial has ended
            one_more = functools.partial(place.more_than, len(before), process)
            assert eventually(one_more, 300)
        moment = random.uniform(0, 0.5 if kills % 2 else 5.0)
        try:
            process.wait(timeout=moment if kills < KILLS else 900)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        now = place.seals()
        assert before.items() <= now.items(), "no sealed trial is run twice, or lost"
        before = now
        assert eventually(lambda: not machines(place.temporary), 30)
    out, err = process.communicate()
    assert process.returncode == 0, err
    result = ResultSet(Path(out.strip().splitlines()[-1]))
    verify_files(result.path)
    assert result.manifest.digest == undisturbed.manifest.digest
    assert result.manifest.deterministic == undisturbed.manifest.deterministic
    assert [claim.verdict for claim in result.claims] == ["reproduced"]
    assert place.left() == {"latest", result.path.name}, "nothing of the unfinished run is left"
    assert not list(place.temporary.iterdir())
    print(f"{kills} kills, {len(before)} trials were there at the last")


def test_the_same_words_go_on_and_other_words_do_not(place, undisturbed):
    process = place.start()
    assert eventually(lambda: len(place.seals()) >= 3, 300)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    kept = place.seals()
    (line,) = [text for text in err.splitlines() if text.startswith("krepro: ")]
    assert line == f"krepro: interrupted; {len(kept)} of {TRIALS} trials are kept, and the same command resumes the run"
    listed = subprocess.run(
        [sys.executable, "-m", "invoke", "results", "--results", str(place.results)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f"{len(kept)} of {TRIALS} trials" in listed

    other, _ = place.run("--seed", "2", "--arms", "two", "--repetitions", "1")
    assert other is not None
    assert len(other.manifest.trials) == 1
    assert place.seals() == kept, "another run leaves this one alone"
    _, err = place.run("--resume", "latest", "--seed", "3", code=2)
    assert "was started with other arguments: seed was 1, is 3" in err

    result, err = place.run("--resume", "latest")
    assert result is not None
    assert f"{len(kept)} of {TRIALS} trials are done" in err
    assert result.manifest.digest == undisturbed.manifest.digest
    assert len(result.manifest.resumed) == 1


def test_a_trial_of_an_edited_experiment_is_run_again_and_that_is_said(place):
    process = place.start()
    assert eventually(lambda: {name[:3] for name in place.seals()} == {"one", "two"}, 300)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    kept = place.seals()
    yaml = place.folder / "experiment.yaml"
    yaml.write_text(yaml.read_text().replace("offset: 2", "offset: 3"))
    result, err = place.run(code=1)  # the claim is contradicted now
    assert result is not None
    twos = sum(name.startswith("two") for name in kept)
    assert f"{twos} finished trials are not used" in err
    assert f"{len(kept) - twos} of {TRIALS} trials are done" in err


def test_a_failed_trial_is_tried_again_and_the_others_are_kept(place, undisturbed):
    process = place.start()
    assert eventually(lambda: len(machines(place.temporary)) >= 2, 300)
    victim = machines(place.temporary)[0]
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=900)
    assert process.returncode == EXIT_RUN_FAILED
    assert "1 of 12 trials failed" in err
    first = ResultSet((place.home / "latest").resolve())
    again, err = place.run("--resume", first.path.name)
    assert again is not None
    assert f"11 of {TRIALS} trials are those of {first.path.name}" in err
    assert again.manifest.digest == undisturbed.manifest.digest
    assert sorted(str(trial.taken_from) for trial in again.manifest.trials).count(first.path.name) == 11
    verify_files(again.path)

    reused, err = place.run("--reuse", "--seed", "1")
    assert reused is not None
    assert f"{TRIALS} of {TRIALS} trials are taken from earlier sets" in err
    assert reused.manifest.digest == undisturbed.manifest.digest


@fault("a worker process is killed (as when memory runs out)", "its trial runs again; nothing is lost")
def test_a_killed_worker_costs_no_trial(place, undisturbed):
    process = place.start()
    assert eventually(lambda: len(machines(place.temporary)) >= 2, 300)
    worker = worker_of(machines(place.temporary)[0])
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    result = ResultSet((place.home / "latest").resolve())
    assert result.manifest.digest == undisturbed.manifest.digest
    assert not list(place.temporary.iterdir())


@fault("results full in the middle of a run", "code 3; sealed trials are kept, the same command goes on")
def test_a_full_disk_keeps_what_was_sealed(place, undisturbed):
    small = place.results
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", small], check=True)
    try:
        process = place.start()
        _, err = process.communicate(timeout=900)
        assert process.returncode == EXIT_RUN_FAILED, err
        line = [text for text in err.splitlines() if text.startswith("krepro: ")][-1]
        kept = place.seals()
        assert kept
        assert "no space left" in line
        assert f"{len(kept)} of {TRIALS} trials are kept" in line
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        result, err = place.run()
        assert result is not None
        assert f"{len(kept)} of {TRIALS} trials are done" in err
        assert result.manifest.digest == undisturbed.manifest.digest
    finally:
        time.sleep(0.2)
        subprocess.run(["umount", "-l", small], check=True)


@fault("bytes that are no UTF-8 on stderr or in a file's name", "that trial fails, and says so")
def test_bytes_that_are_no_text_cost_their_own_trial(place):
    yaml = place.folder / "experiment.yaml"
    yaml.write_text(
        yaml.read_text()
        .replace("repetitions: {quick: 6}", "repetitions: {quick: 1}")
        .replace('"echo $KREPRO_OFFSET;', r'"echo $KREPRO_OFFSET; [ $KREPRO_OFFSET = 1 ] || BAD;')
    )
    for bad, says in (
        (r"{ printf 'caf\\351\\n' >&2; exit 3; }", "workload add: exit status 3: caf�"),
        (r"touch /run/krepro/out/add/$(printf 'caf\\351')", "whose name is not UTF-8"),
    ):
        text = yaml.read_text()
        yaml.write_text(text.replace("BAD", bad))
        _, err = place.run("--fresh", code=EXIT_RUN_FAILED)
        yaml.write_text(text)
        assert "bug of krepro" not in err
        stored = json.loads((place.home / "latest/manifest.json").read_text())["trials"]
        reasons = {trial["arm"]: trial["reason"] for trial in stored}
        assert reasons["one"] is None
        assert says in reasons["two"]
