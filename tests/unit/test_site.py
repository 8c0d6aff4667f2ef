# SPDX-License-Identifier: MIT
"""The docs as a site: every page has a place, and the site is whole where its generator is installed."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.experiment.model import experiment_names
from harness.paths import ROOT
from tests.chromium import Chromium
from tests.processes import eventually

CONF = runpy.run_path(str(ROOT / "docs/site/conf.py"))
FIRST = ROOT / "docs/README.md"


def test_every_page_has_one_place_in_the_list_of_pages():
    pages = {page for pattern in CONF["PAGES"] for page in ROOT.glob(pattern)} - {FIRST}
    pages |= {FIRST.parent / place for place in CONF["MADE"] if place.endswith(".md")}
    groups = CONF["pages_of"](FIRST.read_text())
    places = Counter((FIRST.parent / target).resolve() for links in groups.values() for _, target, _ in links)
    assert set(places) == pages
    assert set(places.values()) == {1}
    assert all(says for head, links in groups.items() if head != "Kernel patches" for *_, says in links)


def test_every_paper_has_a_figure():
    assert sorted(CONF["FIGURES"]) == experiment_names()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason="./inv docs installs the site's generator")
    folder = tmp_path_factory.mktemp("site") / "site"
    words = [sys.executable, "-m", "harness.commands.program", "docs", "--out", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{folder}/index.html\n", 0), done.stderr
    return folder


def test_the_site_is_whole_and_asks_nobody_else(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//', text), page
        assert not re.findall(r'<link[^>]*rel="(?:stylesheet|preload|icon)"[^>]*href="(?:https?:)?//', text), page
        for target in re.findall(r'(?:href|src)="([^"#?]+)', text):
            assert re.match(r"[a-z]+:", target) or (page.parent / target).exists(), (page, target)
    style = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style)


def test_the_first_page_leads_everywhere_and_has_the_gallery(site):
    text = (site / "docs/README.html").read_text()
    for name in experiment_names():
        assert f'src="../_static/figures/{name}.svg"' in text
        assert "<svg" in (site / f"_static/figures/{name}.svg").read_text()
        assert f'src="../../_static/figures/{name}.svg"' in (site / f"experiments/{name}/README.html").read_text()
    assert 'href="docs/README.html"' in (site / "index.html").read_text()
    captions = re.findall(r'class="caption-text">([^<]+)<', text)
    assert list(dict.fromkeys(captions)) == list(CONF["pages_of"](FIRST.read_text()))


def test_a_browser_reads_it_from_files_and_finds_what_is_searched(site):
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium here; ./inv test installs it as root")
    with Chromium() as browser:
        for width in (1280, 420):
            browser.open(site / "docs/README.html", width=width)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert browser.run("[...document.images].every(image => image.naturalWidth > 0)")
        asked = '<a id="asked" href="../search.html?q=oracle" style="position: fixed; top: 0; z-index: 99">search</a>'
        browser.run(f"document.body.insertAdjacentHTML('beforeend', {asked!r})")
        browser.follow("#asked")
        assert eventually(lambda: browser.run("document.querySelectorAll('#search-results li').length") > 5, 30)
        assert browser.problems == []
        assert {url.partition(":")[0] for url in browser.requests} == {"file", "data"}
