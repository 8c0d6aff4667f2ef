# SPDX-License-Identifier: MIT
"""Unfinished runs: what is sealed counts, what is not is thrown away, and nothing passes for what it is not."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import RunError, UsageError
from harness.guest.job import WorkloadCommand
from harness.kernel.spec import Hardware
from harness.machine.spec import BootFiles, MachineSpec, Plugin
from harness.run import description, unfinished
from harness.run.description import describe_trial
from harness.run.unfinished import Run, Words, open_run
from harness.scratch import try_lock
from harness.sets import provenance
from harness.sets.listing import UNFINISHED, set_paths, unfinished_runs
from harness.sets.prune import remove
from harness.trial.execution import failed_record
from harness.trial.model import SavedState, TrialRecord, TrialSpec
from tests.result_sets import record

WORDS = Words(profile="quick", repetitions=None, arms=None, seed=1, accel="auto", oracle=None)
HASHES = {("short", 0): "a", ("short", 1): "b"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "results/waits"


def spec(run: Run, repetition: int, folder: Path) -> TrialSpec:
    files = BootFiles(kernel=folder / "kernel", initrds=(folder / "image",))
    for file in (files.kernel, *files.initrds):
        file.write_text(file.name)
    return TrialSpec(
        arm="short",
        repetition=repetition,
        seed=7,
        kernel="classic",
        machine=MachineSpec(
            hardware=Hardware(type="pc", cpu="pentium2", nic="e1000", disk="ide", smp=False, memory_mib=64),
            accelerator="tcg",
            clock="virtual",
            session="mailbox",
        ),
        files=files,
        keys=None,
        state=None,
        params={},
        cmdline={},
        workloads=(WorkloadCommand("wait", "sleep 1", 60.0, ()),),
        folder=run.running / "raw/short" / str(repetition),
    )


def ended(run: Run, repetition: int, folder: Path, *, failed: bool = False) -> TrialRecord:
    trial = spec(run, repetition, folder)
    trial.folder.mkdir(parents=True)
    (trial.folder / "wait").write_text(f"{repetition}")
    made = failed_record(trial, "it failed") if failed else record("short", repetition, "virtual", failed=False)
    run.seal(trial, made)
    return made


def begun(home: Path, folder: Path, *repetitions: int, failed: int | None = None) -> Path:
    """A run with these trials sealed, whose process has ended."""
    run = open_run(home, WORDS, 2)
    run.keep(HASHES)
    for repetition in repetitions:
        ended(run, repetition, folder, failed=repetition == failed)
    os.close(run._lock)
    return run.path


def test_sealed_trials_are_there_when_the_run_is_gone_on_with(home, tmp_path, capfd):
    path = begun(home, tmp_path, 0)
    (path / "running/half").mkdir(parents=True)
    (path / "set/raw/short/1").mkdir()  # renamed, and then the power failed
    (path / "set/tables").mkdir()
    with open_run(home, WORDS, 2) as run:
        assert run.path == path
        run.keep(HASHES)
        assert list(run.sealed) == [("short", 0)]
        assert run.sealed["short", 0].description == "a"
        assert (run.set / "raw/short/0/wait").read_text() == "0"
        assert {file.name for file in run.set.rglob("*")} == {"raw", "short", "0", "wait"}
        assert not list(run.running.iterdir())
        assert len(run.resumed) == 1
    assert f"resuming {path.name}: 1 of 2 trials are done" in capfd.readouterr().err
    assert path.is_dir(), "it is not done"


def test_a_run_without_a_sealed_trial_leaves_nothing(home):
    with open_run(home, WORDS, 2) as run:
        run.keep(HASHES)
        assert run.path.is_dir()
    assert not list(home.iterdir())


def test_what_was_sealed_survives_a_failure_before_it_is_looked_at(home, tmp_path):
    path = begun(home, tmp_path, 0)
    with pytest.raises(RunError, match="no compiler"), open_run(home, WORDS, 2):
        raise RunError("no compiler")
    with open_run(home, WORDS, 2) as run:
        run.keep(HASHES)
        assert (run.path, list(run.sealed)) == (path, [("short", 0)])


def test_a_run_that_was_killed_before_a_trial_had_ended_leaves_nothing_to_the_next(home, tmp_path):
    empty = begun(home, tmp_path)
    with open_run(home, WORDS, 2, fresh=True) as run:
        assert run.path != empty
        assert not empty.exists()


def test_where_there_are_no_locks_a_run_goes_on_and_says_so(home, tmp_path, monkeypatch, capfd):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    path = begun(home, tmp_path, 0)
    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(unfinished, "LOCK_PAUSE_S", 0)
    with open_run(home, WORDS, 2) as run:
        assert run.path == path
    assert "has no locks (flock); do not run an experiment here twice at once" in capfd.readouterr().err
    with open_run(home, WORDS, 2, fresh=True) as run:
        assert run.path != path


def test_who_lists_runs_does_not_take_one_away(home, tmp_path):
    path = begun(home, tmp_path, 0)
    lock = try_lock(path)
    assert lock is not None
    threading.Timer(0.1, os.close, [lock]).start()
    with open_run(home, WORDS, 2) as run:
        assert run.path == path


def test_a_run_that_is_done_leaves_nothing(home, tmp_path):
    begun(home, tmp_path, 0)
    with open_run(home, WORDS, 2) as run:
        run.keep(HASHES)
        run.finished()
    assert not list(home.iterdir())


def truncate(path: Path) -> None:
    os.truncate(path, 0)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "another description": (lambda path: reseal(path, description="z"), "its description has changed"),
    "no such trial": (lambda path: reseal(path, record={"repetition": 7}), "no such trial any more"),
    "a raw file changed": (lambda path: truncate(path / "set/raw/short/0/wait"), "differ from what was written"),
    "a raw file more": (lambda path: (path / "set/raw/short/0/x").touch(), "differ from what was written"),
    "no raw files": (lambda path: shutil.rmtree(path / "set/raw/short/0"), "differ from what was written"),
    "half a seal": (lambda path: truncate(path / "trials/short/0.json"), "seal cannot be read"),
}


def reseal(path: Path, **fields: object) -> None:
    file = path / "trials/short/0.json"
    values = json.loads(file.read_text())
    for name, value in fields.items():
        values[name] = values[name] | value if isinstance(value, dict) else value
    file.write_text(json.dumps(values))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_is_not_this_trial_any_more_is_not_used_and_that_is_said(home, tmp_path, capfd, damage):
    spoil, says = damage
    path = begun(home, tmp_path, 0, 1)
    spoil(path)
    with open_run(home, WORDS, 2) as run:
        run.keep(HASHES)
        assert list(run.sealed) == [("short", 1)]
        assert not (run.set / "raw/short/0").exists()
        again = ended(run, 0, tmp_path)
        assert run.sealed["short", 0].arm == again.arm
    err = capfd.readouterr().err
    assert "1 finished trials are not used, the first short 0: " in err
    assert says in err


def test_a_failed_trial_is_run_again(home, tmp_path, capfd):
    begun(home, tmp_path, 0, 1, failed=1)
    with open_run(home, WORDS, 2) as run:
        run.keep(HASHES)
        assert list(run.sealed) == [("short", 0)]
    assert "not used" not in capfd.readouterr().err


def test_only_equal_words_mean_the_same_run(home, tmp_path):
    path = begun(home, tmp_path, 0)
    other = WORDS.model_copy(update={"seed": 2})
    with open_run(home, other, 2) as run:
        assert run.path != path
    with open_run(home, WORDS, 2, fresh=True) as run:
        assert run.path != path
    with pytest.raises(UsageError, match="was started with other arguments: seed was 1, is 2"):
        open_run(home, other, 2, resume="latest")
    for name in (path.name, path.name[-8:], path.name[:10], "latest"):
        with open_run(home, WORDS, 2, resume=name) as run:
            run.keep(HASHES)
            assert run.path == path
    with pytest.raises(UsageError, match="no unfinished run 'x'"):
        open_run(home, WORDS, 2, resume="x")


def test_a_run_that_is_going_on_is_left_alone(home, tmp_path):
    path = begun(home, tmp_path, 0)
    with open_run(home, WORDS, 2) as run, open_run(home, WORDS, 2) as second:
        run.keep(HASHES)
        assert (run.path == path, second.path != path) == (True, True)
        assert [one.running for one in unfinished_runs(home.parent)] == [True, True]
        with pytest.raises(UsageError, match="another process works on this run"):
            open_run(home, WORDS, 2, resume=path.name)
        with pytest.raises(RunError, match="another process works on it"):
            remove(path)
    assert path.is_dir()
    remove(path)
    assert not list((home / UNFINISHED).iterdir())


def test_it_is_listed_and_is_no_set(home, tmp_path):
    path = begun(home, tmp_path, 0, 1, failed=1)
    (one,) = unfinished_runs(home.parent)
    assert (one.path, one.experiment, one.trials, one.done, one.running) == (path, "waits", 2, 1, False)
    assert not set_paths(home.parent)


def test_what_a_finished_run_has_left_is_cleared_away(home, tmp_path):
    path = begun(home, tmp_path, 0)
    shutil.rmtree(path / "set")  # it has become the set, and then the power failed
    with open_run(home, WORDS, 2) as run:
        assert run.path != path
    assert not path.exists()


# -- what a trial is a function of ------------------------------------------------------------------------------


@pytest.fixture
def trial(home, tmp_path) -> TrialSpec:
    with open_run(home, WORDS, 2) as run:
        return spec(run, 0, tmp_path)


def test_names_and_places_decide_nothing(trial, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    files = BootFiles(kernel=elsewhere / "k", initrds=(elsewhere / "i",))
    shutil.copy(trial.files.kernel, files.kernel)
    shutil.copy(trial.files.initrds[0], files.initrds[0])
    same = {"arm": "x", "repetition": 5, "folder": elsewhere, "files": files, "kernel": "renamed"}
    assert describe_trial(trial.model_copy(update=same)) == describe_trial(trial)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"params": {"x": 1}},
        {"workloads": (WorkloadCommand("wait", "sleep 2", 60.0, ()),)},
        {"workloads": (WorkloadCommand("wait", "sleep 1", 61.0, ()),)},
        {"workloads": (WorkloadCommand("wait", "sleep 1", 60.0, ("irq",)),)},
        {"state": SavedState(path=Path(__file__), key="of another boot")},
        {"plugin": Plugin(path=Path(__file__), arguments={"modes": "pages"})},
    ],
)
def test_what_decides_a_trial_is_in_its_description(trial, change):
    assert describe_trial(trial.model_copy(update=change)) != describe_trial(trial)


@pytest.mark.parametrize("field", ["cmdline", "icount_shift", "devices"])
def test_the_machine_is_in_it(trial, field):
    value = {"cmdline": ("quiet",), "icount_shift": 5, "devices": ("edu",)}[field]
    machine = trial.machine.model_copy(update={field: value})
    assert describe_trial(trial.model_copy(update={"machine": machine})) != describe_trial(trial)


def test_the_content_of_files_is_in_it(trial, tmp_path):
    for field in ("kernel", "initrds"):
        other = tmp_path / f"other-{field}"
        other.write_text("other")
        files = trial.files.model_copy(update={field: other if field == "kernel" else (other,)})
        assert describe_trial(trial.model_copy(update={"files": files})) != describe_trial(trial)


def test_under_the_wall_clock_the_host_is_in_it(trial, monkeypatch):
    wall = trial.model_copy(update={"machine": trial.machine.model_copy(update={"clock": "wall", "session": "ssh"})})
    here = {one.machine.clock: describe_trial(one) for one in (trial, wall)}
    monkeypatch.setattr(description, "cpu_model", lambda: "another CPU")
    assert describe_trial(wall) != here["wall"]
    assert describe_trial(trial) == here["virtual"]


def test_another_state_of_what_runs_trials_is_another_trial(trial, monkeypatch):
    before = describe_trial(trial)
    monkeypatch.setattr(description, "source_hash", lambda folders: f"other {folders}")
    assert describe_trial(trial) != before


def test_the_hash_of_what_runs_trials_covers_its_sources_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "CODE", tmp_path)
    sources = [tmp_path / "harness" / folder / "part.py" for folder in (*provenance.MEASURING, "report")]
    for path in sources:
        path.parent.mkdir(parents=True)
        path.write_text("a")

    def now() -> str:
        return provenance.source_hash.__wrapped__(provenance.MEASURING)

    hashes = [now()]
    for path in sources:
        path.write_text("b")
        hashes.append(now())
    assert len(set(hashes)) == len(provenance.MEASURING) + 1
    assert hashes[-1] == hashes[-2]


CODE = """\
#!/usr/bin/python3
'''What it is: a; b.'''
import os


class Thing:
    "One; of them."

    size = 3  # bytes; at most

    def weigh(self):
        '''Grams;

        "twice" # each
        '''; return "# 3 ä" + str(self.size)  # ä
"""


def test_what_is_said_of_code_is_not_in_its_hash():
    bare = provenance.code_of(CODE)
    assert bare == [
        *("import os", "class Thing:", "    size = 3", "    def weigh(self):"),
        '        ; return "# 3 ä" + str(self.size)',
    ]
    said = CODE.replace("; a", ", a").replace("Grams;", "Grams").replace("at most", "least").replace("\n\n", "\n")
    assert said != CODE
    assert provenance.code_of(said) == bare
    for old, new in (("3 ä", "4 ä"), ("size = 3", "size = 2"), ("import os", "import io")):
        assert provenance.code_of(CODE.replace(old, new)) != bare
