# SPDX-License-Identifier: MIT
"""Reports without a browser: what a page says, what it does not run, the command that reproduces a set, histories."""

from __future__ import annotations

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from invoke import Collection, Program
from invoke.parser import Parser

import tasks
from harness.commands.run import run
from harness.errors import RunError, UsageError
from harness.report.history import ENOUGH, MetricHistory, experiments, metric_histories, verdict_histories
from harness.report.html import table_view
from harness.report.page import MAX_ROWS, set_page
from harness.report.reproduce import reproduction
from harness.report.site import write_report, write_site
from harness.report.sparkline import sparkline, verdict_strip
from harness.report.summary import closing_lines
from harness.run.request import RunRequest
from harness.sets.provenance import Repository
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.seal import verify_files
from harness.trial.part import parse_part
from harness.trial.plan import make_plan
from tests.result_sets import TIMED, experiment_folder, write_set
from tests.small_sets import PAPER_YAML, small_experiment, small_set


class Text(HTMLParser):
    """What a reader sees, the links, and what is loaded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self._silent = 0
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = dict(attrs)
        self._silent += tag in ("script", "style")
        if tag == "a":
            self.links.append(str(about["href"]))
        elif "src" in about or "href" in about:
            self.loaded.append(str(about.get("src") or about.get("href")))
        if about.get("id"):
            assert about["id"] not in self.ids, "ids are unique"
            self.ids.add(str(about["id"]))

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)


@pytest.fixture
def experiment(tmp_path):
    return small_experiment(tmp_path / "experiments/small")


# -- one set -----------------------------------------------------------------------------------------------


def test_a_page_says_what_was_claimed_measured_and_where_it_comes_from(results, experiment):
    result = small_set(results, experiment, failed={"right": "guest <lost>"})
    page = Text(set_page(result))
    for said in (
        *("Ada Nobody, Bob Else", "On <small> things & others", "Nowhere", "2024"),
        *("adds", "total/left", "§ 2.1", "Paper: it <b>adds</b>", "= 42", "42 units", "3 trials", "✓ reproduced"),
        *("bounded", "us", "stays low", "≤ 50", "11.75 units", "2 trials of the 5 that it takes to tell"),
        *("? not-measurable", "arm rare took no part in this run", "1 failed"),
        *("right 0 : guest <lost>", "Sums by arm", "figures/sums.svg", "tables/sums.parquet"),
        *("QEMU emulator version 7.2", "a CPU", "c" * 40, "linux.tar", "busybox 1.35", "numpy", "gcc 12"),
        str(result.manifest.digest),
        *(str(trial.seed) for trial in result.manifest.trials),
    ):
        assert said in page.text, said
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert all(url.startswith("data:") for url in page.loaded)
    verify_files(result.path)


def test_a_page_has_the_paper_sentence_by_sentence(tmp_path, results):
    made = small_set(results, small_experiment(tmp_path / "small", paper=PAPER_YAML))
    page = Text(set_page(ResultSet(made.path)))
    _, _, told = page.text.partition("The paper, sentence by sentence 3 sentences")
    assert told.startswith(
        ": 1 judged, 1 in part, 1 not. Read: half of <it> where the paper says judged by "
        "2.1 it <b>adds</b> all adds ✓ reproduced bounded ? not-measurable not judged: subtraction "
        "2.2 seldom one seldom ? not-measurable "
        "7 it is green not judged: nothing here has a colour"
    )
    assert {"#sentences", "#claim-adds"} <= set(page.links)
    assert {link.removeprefix("#") for link in page.links} <= page.ids


def test_a_page_of_a_set_without_it_has_no_such_section(results, experiment):
    made = small_set(results, experiment)
    stored = json.loads((made.path / MANIFEST).read_text())
    del stored["experiment"]["reading"]  # as sets were before there was any
    (made.path / MANIFEST).write_text(json.dumps(stored))
    page = Text(set_page(ResultSet(made.path)))
    assert "sentence by sentence" not in page.text
    assert "sentences" not in page.ids


def test_a_page_says_where_trials_come_from_and_what_its_figures_are_without(tmp_path):
    folder = experiment_folder(tmp_path, analysis=TIMED)
    spoilt = [("wall", trial) for trial in range(1, 8)]
    made = write_set(tmp_path / "results", folder, {"wall": [5.0] * 8}, disturbed=spoilt, resumed=["2026-01-02T03"])
    text = Text(set_page(made)).text
    assert "resumed at 2026-01-02T03" in text
    assert "timing of 7 of 8 trials is left out: the host disturbed them" in text
    lines = closing_lines(made, made.claims)
    told = "timing of wall 4 is left out: the host descheduled vCPU 0 for 50.0 %, more than 3 % of its time"
    assert told in lines
    assert sum("is left out" in line for line in lines) == 7


def test_a_set_made_with_the_hosts_own_tools_says_so(results, experiment):
    made = small_set(results, experiment)
    for told, says in (("host", True), ("tree 0123", False), ("", False)):
        result = ResultSet(made.path, made.manifest.model_copy(update={"tools": told}))
        lines = closing_lines(result, made.claims)
        assert (f"QEMU and compiler were the host's own: {made.manifest.qemu}" in lines) == says
        assert (told or "not recorded") in Text(set_page(result)).text


def test_a_page_of_a_set_that_was_not_analysed_says_why(results, experiment):
    why = "analysis.py:7: tables() failed"
    made = small_set(results, experiment, values={"left": [], "right": [], "rare": []}, unanalysed=why)
    (made.path / "claims.json").write_text("[]")
    text = Text(set_page(made)).text
    assert f"not analysed: {why} (./inv analyse small/{made.manifest.id} --with FOLDER)" in text
    assert "makes no claims" not in text


def test_nothing_of_a_set_becomes_markup(results, experiment):
    evil = "<script>alert(1)</script>"
    frame = pd.DataFrame({"arm": [evil], "value": [1.0], evil: [evil]})
    result = small_set(results, experiment, tables={"sums": frame}, figures={"bad": f"<svg>{evil}</svg>"}, qemu=evil)
    html = set_page(result)
    assert evil not in html
    assert html.count("<script>") == 1
    assert evil in Text(html).text


def test_a_large_table_is_capped_and_says_so(results, experiment):
    frame = pd.DataFrame({"arm": "left", "value": np.arange(MAX_ROWS + 50.0)})
    text = Text(set_page(small_set(results, experiment, tables={"sums": frame}))).text
    assert f"The first {MAX_ROWS} of {MAX_ROWS + 50} rows; all are in tables/sums.parquet" in text
    assert str(MAX_ROWS - 1) in text.split()
    assert str(MAX_ROWS) not in text.split("The first")[1].split("rows")[1].split()


def test_a_set_without_a_good_trial_has_a_page(results, experiment):
    dead = small_set(
        results, experiment, failed={"left": "dead"}, plan={"arms": ["left"], "repetitions": 1}, figures={}
    )
    text = Text(set_page(dead)).text
    assert "No trial succeeded, so no claim was judged." in text
    assert "left 0 : dead" in text


def test_damage_is_named(results, experiment):
    result = small_set(results, experiment)
    (result.path / "tables/sums.parquet").write_bytes(b"no parquet")
    with pytest.raises(RunError, match=r"tables/sums\.parquet: cannot be read"):
        set_page(result)


def test_cells_sort_by_value_and_show_what_is_absent():
    frame = pd.DataFrame(
        {"a": [1.0, 123456.789, float("nan"), float("inf")], "b": ["x", None, "y", "z"], "c": [True, False, True, True]}
    )
    view = table_view(frame, 3)
    assert view.columns == (("a", True), ("b", False), ("c", False))
    assert [(row[0].text, row[0].key) for row in view.rows] == [("1", None), ("123457", "123456.789"), ("—", None)]
    assert [row[1].text for row in view.rows] == ["x", "—", "y"]
    assert view.total == 4
    assert table_view(frame, 4).rows[3][0].text == "inf"


# -- the command that reproduces it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, []),
        ({"profile": "full", "seed": 7}, []),
        ({"repetitions": 2}, ["--repetitions", "2"]),
        ({"arms": ["left"]}, ["--arms", "left"]),
        ({"arms": ["rare", "left"], "repetitions": 2}, ["--arms", "left,rare", "--repetitions", "2"]),
        ({"arms": ["left", "right", "rare"], "profile": "full"}, []),
    ],
)
def test_the_command_plans_the_same_trials(results, experiment, plan, words):
    result = small_set(results, experiment, values={"left": [42.0] * 6, "right": [1.0] * 6}, plan=plan)
    said = reproduction(result)
    assert said.command is not None
    argv = shlex.split(said.command)
    assert [word for word in argv if word in ("--arms", "--repetitions")] == words[::2]
    assert set(words) <= set(argv)
    contexts = Collection.from_module(tasks).to_contexts()
    given = Parser(initial=Program().initial_context, contexts=contexts).parse_argv(argv[1:])[-1].as_kwargs
    options = RunRequest(**run.values(given))
    again = make_plan(
        result.manifest.experiment,
        profile=options.profile,
        seed=options.seed,
        arms=options.arms,
        repetitions=parse_part(options.repetitions, None).count,
    )
    assert {(t.arm, t.repetition, t.seed) for t in again} == {
        (t.arm, t.repetition, t.seed) for t in result.manifest.trials
    }
    assert options.check_digest == result.manifest.digest
    assert options.experiment == str(result.path / "experiment"), "no built-in experiment: the set's copy"
    wall = any(trial.clock == "wall" for trial in result.manifest.trials)
    assert options.accel == ("tcg" if wall else "auto")


def test_trials_that_no_run_gives_have_no_command(results, experiment):
    result = small_set(results, experiment)
    some = result.manifest.trials[:-1]
    ninth = {"repetition": 9, "path": Path("raw", some[0].arm, "9")}
    odd = small_set(results, experiment, trials=[*some, some[0].model_copy(update=ninth)])
    assert reproduction(odd).command is None
    assert "No choice of arms and repetitions" in " ".join(reproduction(odd).notes)


@pytest.mark.parametrize(
    ("repository", "says"),
    [
        (Repository(commit="a1", dirty=False, diff_sha256=None, absent={"diff_sha256": "-"}), "git checkout a1"),
        (Repository(commit="a1", dirty=True, diff_sha256="d1ff"), "sha256 of the difference: d1ff"),
        (
            Repository(
                commit=None,
                dirty=None,
                diff_sha256=None,
                absent=dict.fromkeys(("commit", "dirty", "diff_sha256"), "no git"),
            ),
            "is not known: no git",
        ),
    ],
)
def test_the_state_of_the_project_is_told(results, experiment, repository, says):
    assert says in reproduction(small_set(results, experiment, repository=repository)).notes[0]


def test_an_oracle_of_the_command_line_is_repeated(results, experiment):
    plain = small_set(results, experiment).manifest.experiment
    arms = {name: arm.model_copy(update={"oracle": ["functions", "sampler"]}) for name, arm in plain.arms.items()}
    with_oracle = plain.model_copy(update={"arms": arms})
    result = small_set(results, experiment, experiment=with_oracle)
    assert "--oracle functions,sampler" in str(reproduction(result).command)


# -- histories ---------------------------------------------------------------------------------------------


def write_history(results: Path, experiment: Path, lefts: list[float]) -> list[ResultSet]:
    return [small_set(results, experiment, values={"left": [left] * 3}) for left in lefts]


def test_histories_of_verdicts_and_metrics(results, experiment):
    sets = write_history(results, experiment, [42, 42, 7, 42])
    entries = experiments(results)["small"]
    assert [entry.id for entry in entries] == [result.path.name for result in sets]
    adds, bounded, seldom = verdict_histories(entries)
    assert adds.verdicts == ("reproduced", "reproduced", "contradicted", "reproduced")
    assert adds.changes == (
        (sets[2].path.name, "reproduced", "contradicted"),
        (sets[3].path.name, "contradicted", "reproduced"),
    )
    assert bounded.changes == ()
    assert seldom.verdicts == (None,) * 4, "its arm took no part"
    left, right = metric_histories(entries)
    assert (left.metric, left.arm, left.fidelity, left.unit) == ("total", "left", "virtual", "units")
    assert left.values.tolist() == [42, 42, 7, 42]
    assert (right.arm, right.fidelity, right.values.tolist()) == ("right", "emulated", [11.0] * 4)


def test_fidelities_and_versions_are_kept_apart(results, tmp_path):
    first = small_experiment(tmp_path / "1/small")
    second = small_experiment(tmp_path / "2/small", version=2)
    small_set(results, first)
    small_set(results, first, fidelity={"left": "virtual", "right": "kvm"})
    small_set(results, second)
    left, emulated, kvm = metric_histories(experiments(results)["small"])
    assert left.breaks == (2,)
    assert (emulated.fidelity, kvm.fidelity) == ("emulated", "kvm")
    assert np.isfinite(emulated.values).tolist() == [True, False, True]
    assert np.isfinite(kvm.values).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("values", "breaks", "says"),
    [
        ([5, 5, 5, 5, 5, 6], (), "higher than all before"),
        ([5, 6, 5, 6, 5, 4], (), "lower than all before"),
        ([5, 6, 5, 6, 5, 6], (), None),
        ([5] * (ENOUGH - 1) + [9], (), None),
        ([5, 5, 5, 5, 5, 6], (3,), None),
        ([5, 5, 5, 5, 5, 6, np.nan], (), None),
    ],
)
def test_what_is_news(values, breaks, says):
    assert MetricHistory("m", "a", "virtual", "u", np.array(values, dtype=float), breaks).news == says


def test_sparklines_break_where_nothing_was_measured_or_the_version_changed():
    def polylines(values: list[float], breaks: tuple[int, ...] = ()) -> list[int]:
        drawn = sparkline(np.array(values, dtype=float), breaks, "<t>")
        assert "<title>&lt;t&gt;</title>" in drawn
        return [len(points.split()) for points in re.findall(r'points="([^"]+)"', drawn)]

    nan = float("nan")
    assert polylines([1, 2, 3, 4]) == [4]
    assert polylines([1, 2, nan, 3, 4]) == [2, 2]
    assert polylines([1, 2, 3, 4], (2,)) == [2, 2]
    assert polylines([1, nan, 3]) == []
    assert polylines([]) == polylines([nan]) == []
    flat, steep = (sparkline(np.array(values, dtype=float), (), "t") for values in ([5, 5], [5, 6]))
    assert len(set(re.findall(r",([\d.]+)", flat))) == 1
    assert len(set(re.findall(r",([\d.]+)", steep))) == 2


def test_a_strip_marks_changes():
    strip = verdict_strip(["reproduced", None, "reproduced", "contradicted", "not-measurable"], "t")
    heights = re.findall(r'<rect class="([a-z-]+)".*?height="(\d+)"', strip)
    assert [name for name, _ in heights] == ["reproduced", "reproduced", "contradicted", "not-measurable"]
    assert len({height for _, height in heights}) == 3, "told apart without colour"
    assert strip.count("<path") == 2


# -- the site ----------------------------------------------------------------------------------------------


def test_a_site_links_pages_and_shows_broken_sets(results, experiment):
    sets = write_history(results, experiment, [42, 42, 7])
    (sets[0].path / "metrics.parquet").write_bytes(b"")
    (sets[1].path / "manifest.json").write_text("{")
    (results / "small/20240101T000000.00Z-deadbeef").mkdir()
    (results / "small/.krepro-1-writing").mkdir()
    index = write_site(results, None, 5)
    page = Text(index.read_text())
    assert index == results / "reports/index.html"
    links = [link for link in page.links if not link.startswith("#")]
    assert links == [f"small/{sets[2].path.name}.html"]
    assert (index.parent / links[0]).is_file()
    assert page.text.count("! broken") == 3
    for says in ("metrics.parquet: differs from what was written", "manifest.json: ", "is no result set: No such file"):
        assert says in page.text
    assert "4 sets of 1 experiment" in page.text
    back = Text((index.parent / links[0]).read_text()).links[0]
    assert (index.parent / "small" / back).resolve() == index


def test_a_site_makes_pages_of_the_newest_and_links_what_is_there(results, experiment):
    sets = write_history(results, experiment, [42, 42, 42])
    first = write_report(sets[0], results, None)
    index = write_site(results, None, 1)
    names = [result.path.name for result in sets]
    links = [link for link in Text(index.read_text()).links if not link.startswith("#")]
    assert links == [f"small/{names[2]}.html", f"small/{names[0]}.html"], "newest first; none of the second"
    assert "../index.html" not in Text(first.read_text()).links
    write_site(results, None, 3)
    assert "../index.html" in Text(first.read_text()).links, "there was no index when it was written"
    before = first.stat().st_mtime_ns
    write_site(results, None, 3)
    assert first.stat().st_mtime_ns == before, "a set never changes, so its page is not written again"
    assert (index.parent / f"small/{names[1]}.html").is_file()


def test_changes_of_the_newest_set_are_news(results, experiment):
    write_history(results, experiment, [42, 7])
    text = Text(write_site(results, None, 0).read_text()).text
    news = text[text.index("News") : text.index("Sets", text.index("The newest set"))]
    assert "claim adds : ✓ reproduced → ✗ contradicted" in news
    assert "bounded" not in news


def test_where_reports_go(results, experiment, tmp_path):
    result = small_set(results, experiment)
    assert write_report(result, results, tmp_path / "one.html") == tmp_path / "one.html"
    assert write_site(results, tmp_path / "site", 1) == tmp_path / "site/index.html"
    with pytest.raises(UsageError, match="is a folder"):
        write_report(result, results, tmp_path / "site")
    with pytest.raises(UsageError, match="is a file"):
        write_site(results, tmp_path / "one.html", 1)
    with pytest.raises(UsageError, match="there is no result set yet"):
        write_site(tmp_path / "nothing", None, 1)
    assert not [path for path in result.path.rglob("*") if path.suffix in (".html", ".pyc")]
    verify_files(result.path)
