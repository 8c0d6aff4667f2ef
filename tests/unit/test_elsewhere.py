# SPDX-License-Identifier: MIT
"""versions.yaml: each slip is named by line and field, and a run on such a version knows its verdicts."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from harness.errors import UsageError
from harness.experiment.model import Experiment, experiment_names, find_experiment, load_experiment
from harness.paths import ROOT

#: For the experiment of tests.conftest, whose claims of the paper are adds and bounded.
VERSIONS = """\
versions:
  "6.12":
    adds: {known: contradicted, because: it subtracts there}
  "7.3": {}
"""


@pytest.fixture
def versions(example):
    path = example / "versions.yaml"
    path.write_text(VERSIONS)
    return path


def known(experiment):
    return {claim.id: claim.known for claim in experiment.claims if claim.id in ("adds", "bounded")}


def test_a_claim_is_known_otherwise_in_that_version_alone(versions):
    own, other, newest = (
        load_experiment(versions.parent, {"kernel": [version]} if version else None) for version in ("", "6.12", "7.3")
    )
    assert known(own) == known(newest) == {"adds": None, "bounded": None}
    assert known(other) == {"adds": "contradicted", "bounded": None}
    assert Experiment.model_validate(json.loads(other.model_dump_json())) == other


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("adds:", "add:", 3, "field versions.6.12.add: there is no claim add in experiment.yaml"),
        ("contradicted", "holds", 3, "field versions.6.12.adds.known: adds is known as holds in every version"),
        ("contradicted", "refuted", 3, "field versions.6.12.adds.known: a claim of kind paper is never refuted"),
        ("contradicted", "wrong", 3, "field versions.6.12.adds.known: Input should be 'contradicted'"),
        (", because: it subtracts there", "", 3, "field versions.6.12.adds.because: Field required"),
        ("it subtracts there", "' '", 3, "field versions.6.12.adds.because: String should have at least 1 character"),
        ('"7.3"', '"7"', 4, "field versions.7"),
    ],
)
def test_slips_are_named_by_line_and_field(versions, old, new, line, says):
    assert old in VERSIONS
    versions.write_text(VERSIONS.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_experiment(versions.parent)
    assert str(caught.value).startswith(f"{versions}:{line}: {says}")


def test_it_stands_in_its_own_file_alone(example):
    path = example / "experiment.yaml"
    path.write_text(path.read_text() + 'elsewhere: {versions: {"7.3": {}}}\n')
    with pytest.raises(UsageError, match=r"field elsewhere: write it in versions\.yaml"):
        load_experiment(example)


def test_the_first_page_counts_what_comes_out_otherwise():
    counted = Counter[str]()
    for name in experiment_names():
        elsewhere = load_experiment(find_experiment(name)).elsewhere
        assert elsewhere is not None, name
        counted.update({version: len(claims) for version, claims in elsewhere.versions.items()})
    text = re.sub(r"\s*<!--.*?-->\s*", " ", (ROOT / "README.md").read_text())
    (told,) = re.findall(r"(\d+) claims on 6\.12, (\d+) on 7\.3", text)
    assert counted == {"6.12": int(told[0]), "7.3": int(told[1])}
