# SPDX-License-Identifier: MIT
"""Every measured figure in a README is the one that its file has."""

from __future__ import annotations

import json
import re

import pytest

from harness.experiment.model import load_experiment
from harness.paths import EXPERIMENTS, ROOT
from harness.sets.reference import REFERENCES
from harness.sets.values import load_values
from tests.readme_figures import figures, rounded, unmarked, updated

PAGES = sorted(path for where in ("", "experiments/*/", "kernel-patches/*/") for path in ROOT.glob(f"{where}README.md"))
IDS = [path.relative_to(ROOT).parent.as_posix() for path in PAGES]
SHIM = EXPERIMENTS / "shim/README.md"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_figures_are_those_of_their_files(page, request):
    text = page.read_text()
    if request.config.getoption("--update"):
        page.write_text(updated(page, text))
        return
    assert [(printed, stored) for printed, stored in figures(page, text) if printed != stored] == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_no_figure_is_without_a_file(page):
    assert unmarked(page.read_text()) == []


def test_each_paper_has_figures():
    counts = {page.parent.name: len(list(figures(page, page.read_text()))) for page in EXPERIMENTS.glob("*/README.md")}
    assert min(counts.values()) >= 20, counts


def test_the_first_page_prints_what_the_reference_has():
    claims = {one.id: one for one in load_experiment(EXPERIMENTS / "irq-hotspot").claims if one.headline}
    values = load_values(REFERENCES / "irq-hotspot")
    assert values is not None
    excerpt = (ROOT / "README.md").read_text().partition("<!-- excerpt of a real run -->")[2]
    told = re.findall(r"^  [✓✗] (.+?)  +expected ", excerpt.partition("<!-- end of excerpt -->")[0], re.MULTILINE)
    assert len(told) == 5
    for line in told:
        ((claim, share, number),) = [
            found for one in claims.values() if (found := printed_by(one.id, one.headline, line))
        ]
        value = values.of(claim)
        assert value is not None
        assert value.measured is not None
        assert number == rounded(value.measured * (100 if share else 1), number), claim


def printed_by(claim: str, headline: str, line: str) -> tuple[str, bool, str] | None:
    """Claim, whether in percent, and the figure, where the line is its headline."""
    pattern = re.escape(headline).replace(r"\{%\}", r"(-?[\d.,]+) %").replace(r"\{\}", r"(-?[\d.,]+)")
    found = re.fullmatch(pattern, line)
    return (claim, "{%}" in headline, found[1]) if found else None


def test_a_wrong_figure_is_seen_and_mended():
    text = "99.1 %<!-- original-is-stale --> of 4,301,801<!-- slot_checks/virtual-original -->, <!-- given: x --> 7"
    claims = json.loads((ROOT / "results/reference/shim/values.json").read_text())["claims"]
    (stale,) = (claim["measured"] for claim in claims if claim["id"] == "original-is-stale")
    right = f"{stale * 100:.1f} %"
    good = f"{right}<!-- original-is-stale --> of 4,301,800<!-- slot_checks/virtual-original -->, <!-- given: x --> 7"
    assert [printed != stored for printed, stored in figures(SHIM, text)] == [True, True]
    assert updated(SHIM, text) == good
    there = "44 %<!-- irq-hotspot:larger-n-is-finer low --> to 44 %<!-- irq-hotspot:larger-n-is-finer high -->"
    assert updated(ROOT / "README.md", there) == there.replace("44", "39", 1).replace("44", "51", 1)


@pytest.mark.parametrize("name", ["no-such-claim", "no-such-metric/fast", "cost-at-1us", "idle high"])
def test_a_figure_that_no_file_has_is_refused(name):
    with pytest.raises(KeyError, match=f"shim: no file has {name}"):
        list(figures(SHIM, f"7<!-- {name} -->"))


def test_what_looks_measured_and_names_no_file_is_seen():
    seen = ["it takes 1.5 times as long", "| a | 1,234 |", "in 7 % of them", "5 %<!-- idle --> and 0.5", "-0.3 at 1 us"]
    not_seen = [
        "in 7 trials",
        "on Linux 6.1",
        "`1.5` and [a](b/1.5)",
        "9.9 <!-- given: the bound -->",
        "1.5<!-- idle -->",
    ]
    assert unmarked("\n".join([*seen, *not_seen, "```", "1.5", "```"])) == seen
    section = "# A\n<!-- given: the paper's -->\n1.5\n## B\n2.5\n# C\n3.5\n"
    assert unmarked(section) == ["3.5"]
