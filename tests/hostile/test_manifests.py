# SPDX-License-Identifier: MIT
"""Mutated manifests through all that reads one; tests/faults/test_manifests.py tries very many."""

from __future__ import annotations

import json
import random

import pytest

from harness.capsule.crate import capsule_crate
from harness.sets.listing import MANIFEST
from harness.sets.resultset import ResultSet
from tests.hostile import manifests
from tests.hostile.made import forged
from tests.hostile.manifests import fuzz, good_sets, mutated, readers

QUICK = 120


def test_a_mutated_manifest_is_an_error_or_a_value_to_all(tmp_path):
    outcome = fuzz(tmp_path, QUICK, seed=1)
    assert not outcome.failures, "\n".join(outcome.failures)
    assert outcome.tried == QUICK
    assert 0 < outcome.opened < QUICK


@pytest.mark.parametrize("name", [name for name in readers(None) if name != "replay"])  # type: ignore[arg-type]
def test_a_good_manifest_is_read(tmp_path, name):
    first, other = good_sets(tmp_path)
    if name in ("reference, values", "capsule"):
        with pytest.raises(Exception, match=r"cannot be a reference: it has|is not in the tools\.lock"):
            readers(other)[name](first)
    else:
        readers(other)[name](first)


@pytest.mark.parametrize("name", ["run", "paper", "software QEMU"])
def test_an_author_is_no_other_part_of_the_crate(tmp_path, name):
    """One called run was given what the run has, and a capsule ended in a KeyError."""
    result = good_sets(tmp_path)[0]
    path = forged(result, lambda values: values["experiment"]["paper"].update(authors=[name]))
    graph = capsule_crate(ResultSet(path), [], "results/x")["@graph"]
    ids = [entity["@id"] for entity in graph]
    assert len(ids) == len(set(ids))
    assert [entity["name"] for entity in graph if entity["@type"] == "Person"] == [name]


def test_a_reader_that_fails_is_told(tmp_path, monkeypatch):
    def careless(result):
        raise KeyError("x")

    monkeypatch.setattr(manifests, "readers", lambda other: {"careless": careless})
    failures = fuzz(tmp_path, 200, seed=1).failures
    assert len(failures) == 5
    assert all("careless: KeyError: 'x'" in failure for failure in failures)


@pytest.mark.deep
def test_mutations_are_of_all_of_it(tmp_path):
    values = json.loads((good_sets(tmp_path)[0].path / MANIFEST).read_text())
    chance = random.Random(1)
    touched = {name for _ in range(3000) for name in values if mutated(values, chance).get(name) != values[name]}
    assert touched == values.keys()
