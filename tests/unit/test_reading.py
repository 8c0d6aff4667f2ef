# SPDX-License-Identifier: MIT
"""paper.yaml: each slip is named by line and field, each paper is read whole, and a set carries it."""

from __future__ import annotations

import json

import pytest

from harness.errors import UsageError
from harness.experiment.model import Experiment, experiment_names, load_experiment
from harness.paths import EXPERIMENTS

#: For the experiment of tests.conftest, whose claims of the paper are adds and bounded.
PAPER = """\
copy_read: the whole paper
sentences:
  - {section: "1", says: it adds, claims: [adds, bounded], left: large numbers}
  - {section: "2", says: it is green, not_judged: nothing here has a colour}
"""


@pytest.fixture
def paper(example):
    path = example / "paper.yaml"
    path.write_text(PAPER)
    return path


def test_it_is_read_with_the_experiment_and_goes_into_the_manifest(paper):
    experiment = load_experiment(paper.parent)
    assert experiment.reading is not None
    assert [sentence.claims for sentence in experiment.reading.sentences] == [["adds", "bounded"], []]
    assert experiment.reading.counted == "2 sentences: 0 judged, 1 in part, 1 not"
    assert Experiment.model_validate(json.loads(experiment.model_dump_json())) == experiment


def test_an_experiment_without_one_is_whole(example):
    assert load_experiment(example).reading is None


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("adds, bounded", "adds, bounded, add", 3, "field sentences.0.claims.2: there is no claim add in exp"),
        ("[adds, bounded]", "[bounded]", 2, "field sentences: none names adds, of kind paper in experiment.yaml"),
        (", left: large numbers", ", not_judged: x", 3, "field sentences.0: claims and not_judged: give one of them"),
        (", not_judged: nothing here has a colour", "", 4, "field sentences.1: claims and not_judged: give one"),
        (", not_judged: nothing", ", left: all, not_judged: nothing", 4, "field sentences.1: left: only a sentence"),
        ("says: it adds, ", "", 3, "field sentences.0.says: Field required"),
        ('section: "2"', 'section: " "', 4, "field sentences.1.section: String should have at least 1 character"),
        ("section: ", "sections: ", 3, "field sentences.0.section: Field required"),
        ("copy_read: the whole paper\n", "", 1, "field copy_read: Field required"),
    ],
)
def test_slips_are_named_by_line_and_field(paper, old, new, line, says):
    assert old in PAPER
    paper.write_text(PAPER.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_experiment(paper.parent)
    assert str(caught.value).startswith(f"{paper}:{line}: {says}")


def test_it_stands_in_its_own_file_alone(example):
    path = example / "experiment.yaml"
    lines = path.read_text()
    reading = '{copy_read: all, sentences: [{section: "1", says: it adds, claims: [adds, bounded]}]}'
    path.write_text(f"{lines}reading: {reading}\n")
    with pytest.raises(UsageError) as caught:
        load_experiment(example)
    where = f"{path}:{len(lines.splitlines()) + 1}"
    assert str(caught.value) == f"{where}: field reading: write it in paper.yaml"


def test_a_manifest_that_names_no_claim_is_refused(paper):
    stored = json.loads(load_experiment(paper.parent).model_dump_json())
    stored["reading"]["sentences"][0]["claims"] = ["add", "adds", "bounded"]
    with pytest.raises(ValueError, match="there is no claim add"):
        Experiment.model_validate(stored)


@pytest.mark.parametrize("name", experiment_names())
def test_each_paper_is_read_whole(name):
    """Every claim of the paper stands beside a sentence, and its section is one of those that the sentences have."""
    experiment = load_experiment(EXPERIMENTS / name)
    assert experiment.reading is not None
    assert len(experiment.reading.sentences) >= 25
    sections = {claim.id: claim.section for claim in experiment.claims if claim.kind == "paper"}
    for sentence in experiment.reading.sentences:
        for claim in sections.keys() & set(sentence.claims):
            cited = [part.split(",")[0].strip() for part in str(sections[claim]).split(";")]
            if any(sentence.section.startswith(part) or part in sentence.section for part in cited):
                sections[claim] = None
    assert {claim: section for claim, section in sections.items() if section is not None} == {}
