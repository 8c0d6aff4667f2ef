# SPDX-License-Identifier: MIT
"""Reference values: written from a set, read again, and refused where they would say nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiment.model import load_experiment
from harness.paths import EXPERIMENTS, ROOT
from harness.sets.reference import REFERENCES, load_reference, reference_file, write_reference
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.values import VALUES, load_values

SET = ROOT / "tests/fixtures/20261121T061822.78Z-d26ba662"

NONE = {"digest": "there is none", "accelerator_asked": "nobody asked"}


def changed(folder: Path, **manifest: object) -> ResultSet:
    """A copy of the set with other fields in its manifest."""
    copy = folder / "set"
    shutil.copytree(SET, copy)
    stored = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps(stored | manifest))
    return ResultSet(copy)


def test_a_set_becomes_a_reference_and_is_read_again(tmp_path):
    result = ResultSet(SET)
    written = write_reference(result, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [f"example/{n}" for n in FILES]
    found = load_values(tmp_path / "example")
    assert found is not None
    assert (found.experiment, found.version, found.result) == ("example", 1, SET.name)
    assert [(one.id, one.measured, one.interval, one.trials) for one in found.claims] == [
        (claim.id, claim.measured, claim.interval, claim.trials) for claim in result.claims if claim.metric
    ]
    assert load_reference(written[0]).digest == result.manifest.digest
    lines = (tmp_path / "example" / VALUES).read_text().splitlines()
    assert sum(line.startswith("  {") for line in lines) == len(found.claims), "small diffs"


FILES = ("digest.json", "values.json")


OTHER = "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)"


def test_another_qemu_s_bits_are_put_beside_the_reference(tmp_path):
    main, values = write_reference(ResultSet(SET), tmp_path)
    kept = [main.read_bytes(), values.read_bytes()]
    other = changed(tmp_path, qemu=OTHER, digest="1" * 64)
    (own,) = write_reference(other, tmp_path)
    assert own.name == "digest-qemu-10.0.json"
    assert load_reference(own).digest == "1" * 64
    assert [main.read_bytes(), values.read_bytes()] == kept
    assert reference_file(main.parent, OTHER.replace("10.0.13", "10.0.2")) == own, "another of the same version"
    assert reference_file(main.parent, ResultSet(SET).manifest.qemu) == main
    assert reference_file(main.parent, OTHER.replace("10.0.13", "11.0.1")) == main, "which then says what differs"
    assert [path.name for path in write_reference(ResultSet(SET), tmp_path)] == list(FILES), "of its own QEMU: both"


def test_the_bits_of_another_linux_are_put_beside_the_reference_if_its_verdicts_are_known(tmp_path):
    main, values = write_reference(ResultSet(SET), tmp_path)
    kept = [main.read_bytes(), values.read_bytes()]
    other = changed(tmp_path, chosen={"kernel": ["7.3"]}, digest="1" * 64)
    claims = json.loads((other.path / "claims.json").read_text())
    unknown = [claim | {"known": "contradicted" if claim["kind"] == "paper" else "refuted"} for claim in claims]
    (other.path / "claims.json").write_text(json.dumps(unknown))
    with pytest.raises(UsageError, match=r"in Linux 7.3 .* is (reproduced|confirmed), known as (contradicted|refuted)"):
        write_reference(ResultSet(other.path), tmp_path)
    (other.path / "claims.json").write_text(json.dumps([claim | {"known": None} for claim in claims]))
    (own,) = write_reference(ResultSet(other.path), tmp_path)
    assert own.name == "digest-linux-7.3.json"
    assert [main.read_bytes(), values.read_bytes()] == kept
    assert reference_file(main.parent, OTHER, "7.3") == own
    assert load_reference(reference_file(main.parent, OTHER, "7.3")).digest == "1" * 64


def test_a_failed_set_of_another_qemu_is_no_reference_either(tmp_path):
    write_reference(ResultSet(SET), tmp_path)
    trials = json.loads((SET / MANIFEST).read_text())["trials"]
    trials[1] |= {"status": "failed", "reason": "hung"}
    with pytest.raises(UsageError):
        write_reference(changed(tmp_path, qemu=OTHER, trials=trials), tmp_path)
    assert not list((tmp_path / "example").glob("digest-qemu-*"))


def test_without_a_digest_the_old_one_does_not_stay(tmp_path):
    write_reference(ResultSet(SET), tmp_path)
    (path,) = write_reference(changed(tmp_path, digest=None, deterministic={}, absent=NONE), tmp_path)
    assert path.name == VALUES
    assert not (tmp_path / "example/digest.json").exists()


def test_what_failed_is_no_reference(tmp_path):
    trials = json.loads((SET / MANIFEST).read_text())["trials"]
    trials[1] |= {"status": "failed", "reason": "hung"}
    result = changed(tmp_path, trials=trials)
    with pytest.raises(UsageError, match="cannot be a reference: trial left/1 failed"):
        write_reference(result, tmp_path)
    assert not (tmp_path / "example").exists()


def test_what_was_not_judged_is_no_reference(tmp_path):
    result = changed(tmp_path)
    (result.path / "claims.json").write_text("[]")
    with pytest.raises(UsageError, match="cannot be a reference: its claims were not judged"):
        write_reference(result, tmp_path)


def test_no_reference_is_none_and_a_damaged_one_is_named(tmp_path):
    assert load_values(tmp_path) is None
    (tmp_path / VALUES).write_text('{"experiment": "x"}')
    with pytest.raises(UsageError, match=r"values\.json: not reference values: field version: .*inv reference"):
        load_values(tmp_path)
    (tmp_path / VALUES).write_text("{")
    with pytest.raises(UsageError, match=r"not reference values: field \(whole file\): Invalid JSON"):
        load_values(tmp_path)


@pytest.mark.parametrize("folder", sorted(REFERENCES.iterdir()), ids=lambda path: path.name)
def test_the_committed_references_can_be_used_and_are_small(folder):
    found = load_values(folder)
    assert found is not None
    assert found.experiment == folder.name
    experiment = load_experiment(EXPERIMENTS / folder.name)
    versions = experiment.elsewhere.versions if experiment.elsewhere else ()
    assert {path.name for path in folder.glob("*linux*")} == {f"digest-linux-{version}.json" for version in versions}
    declared = {claim.id: claim.metric for claim in experiment.claims}
    stale = [one.id for one in found.claims if declared.get(one.id) != one.metric]
    assert not stale, "figures of claims that are gone or have another metric"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 250_000
