# SPDX-License-Identifier: MIT
"""What a run takes from earlier sets, and what `--resume` may mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import RunError, UsageError
from harness.run.request import RunRequest
from harness.run.resuming import earlier_set, take_earlier, working_on
from harness.run.unfinished import Run, open_run
from harness.sets.resultset import ResultSet
from tests.result_sets import YAML, experiment_folder, record, write_set
from tests.unit.test_unfinished import WORDS, ended, spec

#: Two arms of one description, as a control of A against A has them: by trial, what was measured.
VALUES = {("one", 0): 10.0, ("one", 1): 11.0, ("two", 0): 20.0, ("two", 1): 21.0}
HASHES = {key: f"repetition {key[1]}" for key in VALUES}
ARMS = """\
arms:
  one: {kernel: classic, clock: CLOCK}
  two: {kernel: classic, clock: CLOCK}
"""


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[str], ResultSet]:
    """Writes a set with these trials, by the clock that is named."""

    def make(clock: str) -> ResultSet:
        yaml = YAML[: YAML.index("arms:")] + ARMS.replace("CLOCK", clock)
        trials = [record(*key, clock, failed=False).model_copy(update={"description": HASHES[key]}) for key in VALUES]
        values = {arm: [VALUES[arm, 0], VALUES[arm, 1]] for arm in ("one", "two")}
        return write_set(tmp_path / "results", experiment_folder(tmp_path, yaml), values, trials=trials)

    return make


def options(folder: Path, **given: object) -> RunRequest:
    return RunRequest("waits", results=folder / "results", **given)  # type: ignore[arg-type]


def taken(folder: Path, earlier: ResultSet | None, chosen: RunRequest) -> dict[tuple[str, int], float]:
    """What a new run takes: by trial, what its file says."""
    with open_run(folder / "results/waits", WORDS, 4, fresh=True) as run:
        run.keep(HASHES)
        trials = [
            spec(run, number, folder).model_copy(
                update={"arm": arm, "repetition": number, "folder": run.running / f"raw/{arm}/{number}"}
            )
            for arm, number in VALUES
        ]
        take_earlier(run, trials, chosen, earlier)
        values = {key: float((run.set / "raw" / key[0] / str(key[1]) / "wait").read_text()) for key in run.sealed}
        run.finished()
    return values


def test_trials_of_the_wall_clock_stand_for_themselves(tmp_path, measured):
    assert taken(tmp_path, measured("wall"), options(tmp_path)) == VALUES


def test_trials_of_the_virtual_clock_are_taken_by_what_they_are_of(tmp_path, measured, monkeypatch):
    earlier = measured("virtual")
    assert taken(tmp_path, earlier, options(tmp_path)) == VALUES
    monkeypatch.setitem(HASHES, ("two", 1), "repetition 0")
    assert taken(tmp_path, earlier, options(tmp_path))["two", 1] in {10.0, 20.0}


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("12.0")], ids=["absent", "changed"])
def test_a_damaged_trial_is_not_taken_and_the_others_are(tmp_path, measured, damage, capfd):
    earlier = measured("virtual")
    for arm in ("one", "two"):
        damage(earlier.path / "raw" / arm / "1" / "wait")
    assert set(taken(tmp_path, None, options(tmp_path, reuse=True))) == {("one", 0), ("two", 0)}
    assert "differs from what was written, not reused" in capfd.readouterr().err


def test_a_word_that_fits_a_set_and_a_run_is_refused(tmp_path, measured):
    home = tmp_path / "results/waits"
    earlier = measured("virtual")
    assert earlier_set(options(tmp_path, resume=earlier.path.name), home).path == earlier.path  # type: ignore[union-attr]
    assert earlier_set(options(tmp_path, resume="x"), home) is None
    with open_run(home, WORDS, 2) as run:
        run.keep({("short", 0): "a"})
        ended(run, 0, tmp_path)
        with pytest.raises(UsageError, match=rf"could be {earlier.path.name}, {run.path.name} \(unfinished\)"):
            earlier_set(options(tmp_path, resume="2"), home)
        assert earlier_set(options(tmp_path, resume=run.path.name), home) is None


def test_a_damaged_set_is_no_unfinished_run(tmp_path, measured):
    earlier = measured("virtual")
    (earlier.path / "manifest.json").write_text("{")
    with pytest.raises(UsageError, match=r"manifest\.json: is not JSON"):
        earlier_set(options(tmp_path, resume=earlier.path.name), tmp_path / "results/waits")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_note_says_how_to_go_on(tmp_path, fresh):
    def broken_off() -> Run:
        with working_on(options(tmp_path, fresh=fresh), tmp_path / "results/waits", 2, None) as run:
            run.keep({("short", 0): "a"})
            ended(run, 0, tmp_path)
            raise RunError(run.path.name)

    with pytest.raises(RunError) as caught:
        broken_off()
    how = f"--resume {caught.value.message} resumes the run" if fresh else "the same command resumes the run"
    assert caught.value.__notes__ == [f"1 of 2 trials are kept, and {how}"]
