# SPDX-License-Identifier: MIT
"""Reports in a real browser: links, sorting, filter, narrow and dark; no console errors, nothing from a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.report.site import write_site
from harness.sets.provenance import Repository
from tests.chromium import Chromium
from tests.small_sets import small_experiment, small_set

TABLE = "document.querySelector('#tables table')"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A site of three sets, one of them broken; the index."""
    root = tmp_path_factory.mktemp("site")
    experiment = small_experiment(root / "experiments/small")
    frame = pd.DataFrame(
        {
            "arm": ["left", "right", "left", "right", "left"],
            "value": [np.nan, 123456.78, 1e-9, -5.0, 123456.75],
            "text": [None, "item 9", "item 10", "<b>bold</b>", "item 1"],
        }
    )
    state = Repository(commit="c" * 40, dirty=True, diff_sha256="d" * 64)
    for left in (42.0, 7.0):
        values = {"left": [left] * 3}
        small_set(root / "results", experiment, values=values, tables={"sums": frame}, repository=state)
    (root / "results/small/20240101T000000.00Z-deadbeef").mkdir()
    return write_site(root / "results", None, 5)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium here; ./inv test installs it as root")
    with Chromium() as browser:
        yield browser


@pytest.fixture
def browser(chromium) -> Iterator[Chromium]:
    """The browser; whatever a test does, the page must not complain and must ask for nothing but files."""
    chromium.problems.clear()
    chromium.requests.clear()
    yield chromium
    assert not chromium.problems
    assert not [url for url in chromium.requests if not url.startswith(("file:", "data:"))]
    assert any(url.startswith("file:") for url in chromium.requests), "requests are seen at all"


def pages(site: Path) -> list[Path]:
    return [site, *sorted(site.parent.glob("small/*.html"))]


def test_every_link_resolves(browser, site):
    assert len(pages(site)) == 3
    for page in pages(site):
        browser.open(page)
        links = browser.run("[...document.links].map(a => [a.protocol, a.pathname, a.hash])")
        assert len(links) > 3
        for protocol, path, anchor in links:
            assert protocol == "file:"
            assert Path(path).is_file()
            if Path(path) == page and anchor:
                assert browser.run(f"document.getElementById('{anchor[1:]}') !== null"), anchor
    browser.open(site)
    browser.follow("table.sets a")
    assert browser.run("document.querySelector('h1').textContent") == "small"
    browser.follow("nav .home a")
    assert browser.run("document.querySelector('h1').textContent") == "Result sets"


def column(browser: Chromium, number: int) -> list[str]:
    return browser.run(f"[...{TABLE}.tBodies[0].rows].map(r => r.cells[{number}].textContent)")


def test_a_click_on_a_heading_sorts(browser, site):
    browser.open(pages(site)[1])
    heading = "#tables th:nth-child({}) button"
    browser.click(heading.format(2))
    assert column(browser, 1) == ["-5", "1e-09", "123457", "123457", "—"]
    assert column(browser, 0) == ["right", "left", "left", "right", "left"], "by value, not by what is shown"
    assert browser.run(f"{TABLE}.querySelector('th:nth-child(2)').getAttribute('aria-sort')") == "ascending"
    browser.click(heading.format(2))
    assert column(browser, 1) == ["123457", "123457", "1e-09", "-5", "—"], "absent stays last"
    browser.click(heading.format(3))
    assert column(browser, 2) == ["<b>bold</b>", "item 1", "item 9", "item 10", "—"]
    assert browser.run(f"{TABLE}.querySelectorAll('[aria-sort]').length") == 1


def test_every_table_sorts_by_every_heading(browser, site):
    """Broken sets and drawings among the cells must not stop it."""
    for page in pages(site):
        browser.open(page)
        count = "document.querySelectorAll('table.sortable tbody tr').length"
        before = browser.run(count)
        clicked = browser.run(
            "(() => { const all = document.querySelectorAll('table.sortable th > button');"
            " for (const b of all) { b.click(); b.click(); } return all.length; })()"
        )
        assert clicked > 10
        assert browser.run(count) == before


def test_the_filter_hides_rows(browser, site):
    browser.open(site)
    shown = "[...document.querySelectorAll('#m1 tbody tr')].filter(r => !r.hidden).map(r => r.cells[1].textContent)"
    assert browser.run(shown) == ["left", "right"]
    browser.click("#m1 input")
    browser.type("RIGHT total")
    assert browser.run(shown) == ["right"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 420])
def test_pages_fit_and_can_be_read(browser, site, width, dark):
    for page in pages(site):
        browser.open(page, width=width, dark=dark)
        assert browser.run("document.documentElement.scrollWidth") <= width, "no sideways scrolling of the page"
        ink, paper = browser.run(
            "(() => { const s = getComputedStyle(document.body);"
            " return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).slice(0, 3).map(Number)); })()"
        )
        assert (sum(ink) > sum(paper)) == dark
        assert abs(sum(ink) - sum(paper)) > 3 * 150


def test_figures_are_drawn(browser, site):
    browser.open(pages(site)[1])
    assert (
        browser.run("[...document.images].every(i => i.complete && i.naturalWidth > 0) && document.images.length") == 1
    )


def test_a_page_that_breaks_the_rules_is_caught(chromium, tmp_path):
    """The checks of these tests can fail: a script error, a console message and a request are seen."""
    page = tmp_path / "bad.html"
    page.write_text("<script>console.log('x'); nonsense()</script><img src='http://krepro.example/a.png'>")
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.open(page)
    assert any("Uncaught" in problem for problem in chromium.problems)
    assert any("'x'" in problem for problem in chromium.problems)
    assert "http://krepro.example/a.png" in chromium.requests


def test_what_a_set_brings_does_not_run(chromium, site, tmp_path):
    """Were a set's text ever not escaped, the page's own rule would still stop it."""
    page = tmp_path / "evil.html"
    evil = "<script>document.title = 'ran'</script><img src='http://krepro.example/a.png'></main>"
    page.write_text(pages(site)[1].read_text().replace("</main>", evil))
    chromium.open(page)
    assert chromium.run("document.title") != "ran"
    assert any("Content Security Policy" in problem for problem in chromium.problems)
