# SPDX-License-Identifier: MIT
"""What a person sees of a set: news first, sentences with their figures, one screen, whatever the set has."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.experiment.claim import Claim
from harness.experiment.model import find_experiment, load_experiment
from harness.measure.claims import ClaimResult
from harness.measure.known import expected
from harness.report.page import set_page
from harness.report.short import first_table, short
from harness.report.telling import tell
from harness.report.view import MOST_LINES, WIDTH, print_set
from harness.sets.reference import REFERENCES
from harness.sets.resultset import ResultSet
from harness.sets.shown import Shown, ShownTable
from harness.sets.values import load_values
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set

VALUES = {"short": [100.0, 101.0, 103.0], "long": [200.0, 210.0, 190.0], "wall": [7.5]}
HEADLINE = 'id: short-enough, headline: "The short one waits {} long"'
BUILT_IN = ("irq-hotspot", "lock-trace", "page-trace", "probe-cost", "shim")


def seen(made: ResultSet, width: int = 80, **options: bool) -> list[str]:
    console = Console(file=StringIO(), width=width)
    print_set(console, made, None, **options)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def made(folder: Path, yaml: str, analysis: str = ANALYSIS) -> ResultSet:
    return write_set(folder / "results", experiment_folder(folder, yaml, analysis), VALUES)


def result(claim: Claim, **fields: object) -> ClaimResult:
    """As of a run in which it came out as known."""
    given = {name: getattr(claim, name) for name in ("id", "kind", "section", "source", "paper", "statement", "metric")}
    given |= {"expected": str(claim.expect or ""), "unit": "1", "measured": 1.0, "interval": None, "trials": 5}
    return ClaimResult(**(given | {"known": claim.known, "verdict": expected(claim), "reason": None} | fields))


@pytest.mark.parametrize("width", [WIDTH, 200])
def test_whatever_a_set_has_fits_one_screen(tmp_path, width):
    claims = [
        f"  - {{id: claim-{place}, metric: wait_ms/{'wall' if place % 3 else 'long'}, because: it is so,\n"
        f"     paper: a statement of many words that no line of a terminal has room for if {place} stands behind it,\n"
        f"     expect: {{at_most: {8 if place % 3 else 100}}}, kind: {'paper' if place % 2 else 'finding'}}}\n"
        for place in range(60)
    ]
    yaml = YAML.partition("claims:")[0].replace("title: Waiting}", f"title: Waiting, says: {'words ' * 40}}}")
    analysis = ANALYSIS.replace('["ms"].median()}', '["ms"].median().sample(99, replace=True, random_state=1)}')
    lines = seen(made(tmp_path, f"{yaml}claims:\n{''.join(claims)}", analysis), width)
    ways = lines[-3:]  # a path is as long as it is
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines[:-3])) <= WIDTH
    assert [line.partition(":")[0] for line in ways[:2]] == ["Report", "Next"]
    told = [line.partition(":")[0] for line in lines]
    assert told.index("News") < told.index("Does not hold") < told.index("Findings of ours")


def test_a_table_is_as_long_as_there_is_room_for(tmp_path):
    analysis = ANALYSIS.replace('["ms"].median()}', '["ms"].median().sample(99, replace=True, random_state=1)}')
    lines = seen(made(tmp_path, YAML, analysis))
    assert any(line.startswith("and ") and line.endswith(" more rows") for line in lines)
    assert len(lines) <= MOST_LINES


def test_a_sentence_has_its_figure_and_what_was_expected(tmp_path):
    lines = seen(made(tmp_path, YAML.replace("id: short-enough", HEADLINE)))
    assert "  ✓ The short one waits 101 ms long".ljust(66) + "expected ≤ 200" in lines
    share = YAML.replace("id: short-enough", HEADLINE.replace("{}", "{%}"))
    lines = seen(made(tmp_path / "share", share))
    assert "  ✓ The short one waits 10100 % long".ljust(62) + "expected ≤ 20000 %" in lines


def test_news_is_first(tmp_path):
    yaml = YAML.replace("id: counted", "id: counted, known: contradicted")
    lines = seen(made(tmp_path, yaml))
    assert lines[:2] == [
        "News: counted: 1 of 2 verdicts other than known",
        "  counted is reproduced, known as contradicted: 1 where = 1 is expected",
    ]
    assert seen(made(tmp_path / "known", YAML))[0] == "All 2 verdicts are as known"
    says = yaml.replace("title: Waiting}", "title: Waiting, says: It waits.}")
    assert [line for line in seen(made(tmp_path / "says", says)) if line][:3:2] == [
        lines[0],
        "The paper says: It waits.",
    ]


def test_what_could_not_be_measured_is_counted(tmp_path):
    yaml = YAML.replace("id: counted, metric: waits/short", "id: counted, metric: misses/long")
    lines = seen(made(tmp_path, yaml))
    assert "Not measured in this run: 1 claim (1 with a known verdict)" in lines
    known = yaml.replace("id: counted", "id: counted, known: not-measurable")
    assert "Not measured in this run: 1 claim" in seen(made(tmp_path / "known", known))


def test_all_is_there_with_verbose(tmp_path):
    one = made(tmp_path, YAML)
    text = "\n".join(seen(one, verbose=True))
    for said in ("Claims of the paper", "Median wait", f"digest: {one.manifest.digest}", "more repetitions"):
        assert said in text
        assert said == "Median wait" or said not in "\n".join(seen(one))


def test_a_set_that_is_made_gets_its_report(tmp_path):
    one, console = made(tmp_path, YAML), Console(file=StringIO(), width=80)
    tell(console, one, verbose=False)
    *_, url, _, path = console.file.getvalue().splitlines()
    assert path == str(one.path)
    assert url == (tmp_path / f"results/reports/waits/{one.manifest.id}.html").as_uri()
    assert Path(url.removeprefix("file://")).read_text() == set_page(one)


def test_a_report_that_cannot_be_written_costs_no_set(tmp_path, capsys):
    one, console = made(tmp_path, YAML), Console(file=StringIO(), width=80)
    (tmp_path / "results/reports").write_text("in the way")
    tell(console, one, verbose=False)
    assert console.file.getvalue().splitlines()[-1] == str(one.path)
    assert "the report is not written" in capsys.readouterr().err


def test_the_figure_that_is_named_is_first(tmp_path):
    analysis = ANALYSIS.replace('{"waits": figure}', '{"another": figure, "waits": figure}')
    yaml = YAML.replace("title: Waiting}", "title: Waiting, figure: waits}")
    page = set_page(made(tmp_path, yaml, analysis))
    assert page.index("figures/waits.svg") < page.index('id="claims"')
    assert page.index("figures/waits.svg") < page.index("figures/another.svg")


def test_the_table_that_is_named_is_shown():
    tables = [ShownTable(title=title, columns=["a"], rows=[[1]]) for title in ("One: of all", "Two: of some")]
    experiment = load_experiment(find_experiment("irq-hotspot"))
    for title, shown in (("Two", "Two: of some"), ("Three", "One: of all"), (None, "One: of all")):
        paper = experiment.paper.model_copy(update={"table": title})
        found = first_table(experiment.model_copy(update={"paper": paper}), Shown(paper=tables[:1], summary=tables[1:]))
        assert found is not None
        assert found.title == shown


@pytest.mark.parametrize("text", ["no figure", "{} and {}", "{} and {%}", "{}" + "x" * 53])
def test_a_headline_has_one_figure_and_fits_a_line(tmp_path, text):
    yaml = YAML.replace("id: short-enough", f"id: short-enough, headline: {json.dumps(text)}")
    with pytest.raises(UsageError, match="headline"):
        load_experiment(experiment_folder(tmp_path, yaml))


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_headlines_of_a_built_in_experiment_fit_with_their_figures(name):
    experiment, values = load_experiment(find_experiment(name)), load_values(REFERENCES / name)
    assert values is not None
    of = {one.id: one for one in values.claims}
    claims = [
        result(claim, measured=of[claim.id].measured or 0.12345, unit=of[claim.id].unit)
        for claim in experiment.claims
        if claim.headline
    ]
    told = [one for group in short(experiment, claims).groups for one in group.sentences]
    assert 4 <= len(told) <= 10
    for one in told:
        assert len(f"  ✓ {one.text} expected {one.expected}") <= WIDTH, one.text
