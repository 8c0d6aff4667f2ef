# SPDX-License-Identifier: MIT
"""Merging: parts of a plan come out as the run that nobody split, and nothing else passes for it."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis.verification import verify
from harness.errors import KreproError, RunError, UsageError
from harness.report.history import experiments
from harness.report.reproduce import reproduction
from harness.report.setlist import list_lines
from harness.run.merging import merge
from harness.run.reanalysis import reanalyse
from harness.sets.digest import HOST_TIMED
from harness.sets.listing import describe, find_set, latest_of, set_paths
from harness.sets.manifest import Planned
from harness.sets.reference import write_reference
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files
from tests.parts import milliseconds, write_part
from tests.result_sets import ANALYSIS, HOST, KERNEL, YAML, experiment_folder

THREE = YAML + "repetitions: {quick: 3}\n"
VIRTUAL = THREE.replace("  wall: {kernel: classic, clock: wall}\n", "")
REPETITIONS = 15
ELSEWHERE = HOST.model_copy(update={"cpu": "another CPU"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment_folder(tmp_path, VIRTUAL)


def merged(results: Path, *sets: ResultSet, code: int = 0) -> tuple[ResultSet, str]:
    out = io.StringIO()
    assert merge(results, [str(one.path) for one in sets], Console(file=out, width=200), verbose=False) == code
    text = out.getvalue()
    return ResultSet(Path(text.strip().splitlines()[-1])), text


def refused(results: Path, *sets: ResultSet) -> KreproError:
    before = set_paths(results)
    with pytest.raises(KreproError) as caught:
        merged(results, *sets)
    assert set_paths(results) == before
    assert not list(results.glob("waits/.krepro*"))
    assert "\n" not in str(caught.value)
    return caught.value


def verified(result: ResultSet) -> str:
    out = io.StringIO()
    assert verify(result.path.parent.parent, str(result.path), Console(file=out, width=200)) == 0
    return out.getvalue()


def test_ten_shards_are_the_run_on_one_machine(tmp_path, folder, results):
    """Byte for byte: raw files but those with host times, tables, metrics, claims and figures."""
    alone = write_part(tmp_path / "alone", folder, repetitions=REPETITIONS)
    shards = [
        write_part(tmp_path / f"machine-{number}", folder, repetitions=REPETITIONS, shard=f"{number}/10",
                   fields={"host": ELSEWHERE} if number > 5 else None)
        for number in range(1, 11)
    ]  # fmt: skip
    random.Random(3).shuffle(shards)
    union, text = merged(results, *shards)
    assert union.manifest.digest == alone.manifest.digest
    assert union.manifest.deterministic == alone.manifest.deterministic
    bits = [
        {name: value for name, value in one.manifest.files.items() if Path(name).name not in HOST_TIMED}
        for one in (union, alone)
    ]
    assert bits[0] == bits[1]
    assert [claim.verdict for claim in union.claims] == ["reproduced", "reproduced"]
    assert "merged from 10 sets; trials ran on 2 hosts" in text
    keys = [(trial.arm, trial.repetition, trial.seed) for trial in union.manifest.trials]
    assert keys == [(trial.arm, trial.repetition, trial.seed) for trial in alone.manifest.trials]
    cpus = {one.path.name: one.manifest.host.cpu for one in shards}
    assert {part.id for part in union.manifest.merged_from} == set(cpus)
    assert sum(part.trials for part in union.manifest.merged_from) == len(keys)
    told = {(t.arm, t.repetition): union.manifest.hosts[t.host].cpu for t in union.manifest.trials}
    assert told == {(t.arm, t.repetition): cpus[one.path.name] for one in shards for t in one.manifest.trials}
    assert latest_of(results / "waits") == union.path
    verify_files(union.path)
    assert "merged from 10 sets, of which 10 are not here" in verified(union)
    commands = [str(reproduction(one).command).replace(str(one.path), "SET") for one in (union, alone)]
    assert commands[0] == commands[1]
    assert "--repetitions 15 --check-digest" in commands[0]


@pytest.mark.deep
def test_a_shard_is_never_taken_for_the_whole(folder, results, tmp_path):
    shard = write_part(results, folder, repetitions=REPETITIONS, shard="3/10")
    assert {claim.verdict for claim in shard.claims} == {"not-measurable"}
    why = "the set has 3 of the 30 trials of its plan (--shard 3/10); ./inv merge judges the union"
    assert {claim.reason for claim in shard.claims} == {why}
    assert shard.claims[0].measured is not None
    assert latest_of(results / "waits") is None
    with pytest.raises(UsageError, match="no whole result set"):
        find_set(results, "latest")
    assert "3 of 30" in list_lines([describe(shard.path)])[1]
    assert "follow from the raw files" in verified(shard)
    with pytest.raises(UsageError, match="cannot be a reference: it has 3 of the 30 trials"):
        write_reference(shard, tmp_path / "references")
    (entry,) = experiments(results)["waits"]
    assert (entry.claims, entry.metrics, entry.trials) == ((), None, 3)
    command = reproduction(shard).command
    assert command is not None
    assert "--repetitions 15 --shard 3/10" in command
    out = io.StringIO()
    assert reanalyse(results, str(shard.path), None, Console(file=out, width=200), verbose=False) == 0
    again = ResultSet(Path(out.getvalue().strip().splitlines()[-1]))
    assert {claim.reason for claim in again.claims} == {why}
    assert latest_of(results / "waits") is None


def test_missing_trials_are_named(folder, results, capfd):
    parts = [write_part(results, folder, repetitions=f"{first}:{first + 1}/4") for first in (0, 1, 3)]
    union, text = merged(results, *parts)
    assert union.manifest.part == "6 of the 8 trials of its plan"
    assert {claim.verdict for claim in union.claims} == {"not-measurable"}
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "missing" in line]
    assert sorted(line.partition("missing: ")[2].split(", ")) == ["long 2", "short 2"]
    assert "a part: 6 of the 8 trials" in text
    assert latest_of(results / "waits") is None
    assert reproduction(union).command is None
    assert "merged from 3 sets: every raw file is one of theirs" in verified(union)
    whole, _ = merged(results, union, write_part(results, folder, repetitions="2:3/4"))
    assert whole.manifest.part == ""
    assert whole.manifest.digest == write_part(results, folder, repetitions=4).manifest.digest


def test_equal_duplicates_are_one_and_others_a_conflict(folder, results):
    one = write_part(results, folder, repetitions="0:2")
    whole, _ = merged(results, one, write_part(results, folder, repetitions="1:3"))
    assert len(whole.manifest.trials) == 6
    wrong = write_part(results, folder, repetitions="1:3", wait=lambda trial: milliseconds(trial) + trial.repetition)
    error = refused(results, one, wrong)
    assert isinstance(error, RunError)
    assert "1 has other bits in" in str(error)
    assert "/1/wait differs" in str(error)


@pytest.mark.deep
def test_a_failed_trial_yields_to_a_good_one(folder, results):
    bad = write_part(results, folder, repetitions="0:2", wait=lambda t: None if t.repetition else milliseconds(t))
    for order in (1, -1):
        sets = [bad, write_part(results, folder, repetitions="1:3")][::order]
        whole, _ = merged(results, *sets)
        assert {trial.status for trial in whole.manifest.trials} == {"ok"}
    with pytest.raises(RunError, match="2 of 4 trials failed"):
        merged(results, bad, write_part(results, folder, repetitions="0:1"))


@pytest.mark.deep
def test_two_measurements_by_the_wall_clock_are_two(tmp_path, results):
    folder = experiment_folder(tmp_path, THREE)
    one = write_part(results, folder, repetitions="0:2")
    other = write_part(results, folder, repetitions="1:3", wait=lambda t: milliseconds(t) + (t.arm == "wall"))
    assert "trial wall 1 was measured by the wall clock in" in str(refused(results, one, other))
    same, _ = merged(results, one, write_part(results, folder, repetitions="2:3"))
    again, _ = merged(results, same, one)
    assert again.manifest.deterministic == same.manifest.deterministic


OTHERS = {
    "seed": ({"seed": 2}, "seed: 1 there, 2 here"),
    "repetitions": ({"repetitions": "1:2/4"}, "repetitions · long: 3 there, 4 here"),
    "kernel": (
        {"fields": {"kernels": {"classic": KERNEL.model_copy(update={"bzimage_sha256": "9"})}}},
        "kernel classic · bzImage: 3 there, 9 here",
    ),
    "QEMU": ({"fields": {"qemu": "QEMU 8"}}, "qemu: QEMU 7.2 there, QEMU 8 here"),
    "accelerator": ({"fields": {"fidelity": {"short": "kvm"}}}, "fidelity of short: virtual there, kvm here"),
}


@pytest.mark.parametrize(("options", "says"), OTHERS.values(), ids=OTHERS)
def test_sets_of_other_plans_are_refused(folder, results, options, says):
    one = write_part(results, folder, repetitions="0:1")
    other = write_part(results, folder, **{"repetitions": "1:2", **options})
    error = refused(results, one, other)
    assert isinstance(error, UsageError)
    assert error.where == str(other.path)
    assert f"is of another plan than {one.path.name}: " in str(error)
    assert says in str(error)


def test_another_state_of_the_experiment_is_refused(folder, results):
    one = write_part(results, folder, repetitions="0:1")
    (folder / "analysis.py").write_text(ANALYSIS + "\n")
    assert "experiment's file · analysis.py: " in str(
        refused(results, one, write_part(results, folder, repetitions="1:2"))
    )


def test_what_cannot_be_merged(folder, results):
    one, other = (write_part(results, folder, repetitions=part) for part in ("0:1", "1:2"))
    assert "name two or more" in str(refused(results, one, one))
    old = write_part(results, folder, fields={"plan": Planned()})
    assert f"{old.path.name} does not tell its plan" in str(refused(results, one, old))
    (other.path / "raw/short/1/wait").write_text("1.0")
    assert "differs from what was written" in str(refused(results, one, other))


def test_a_part_whose_words_no_shell_takes_has_no_command(folder, results):
    part = write_part(results, folder, repetitions="0:1/4")
    assert "--repetitions 0:1/4" in str(reproduction(part).command)
    file = part.path / "manifest.json"
    text = file.read_text()
    assert text.count('"part": "--repetitions 0:1/4"') == 1
    file.write_text(text.replace('"part": "--repetitions 0:1/4"', '"part": "--repetitions \'0:1/4"'))
    said = reproduction(ResultSet(part.path))
    assert said.command is None
    assert "No choice of arms and repetitions" in said.notes[-1]
