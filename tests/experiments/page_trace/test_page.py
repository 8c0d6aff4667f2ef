# SPDX-License-Identifier: MIT
"""The page about a traced program, in a browser, with tiles in files beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from experiments.page_trace.report import page
from experiments.page_trace.report.program import report
from experiments.page_trace.trace.records import EXEC

from harness.measure.tracer import REPORT, Traced
from tests.chromium import Chromium
from tests.experiments.page_trace.pictures import drawn
from tests.experiments.page_trace.traces import record, visits_of, words_of, write_stats, write_trace

MAPS = """\
00400000-00402000 r-xp 00000000 00:02 100 /bin/x
10000000-10200000 rw-p 00000000 00:00 0 [heap]
"""


def written(folder: Path, visits: int) -> Path:
    """The page about a random walk over 500 pages, in a folder of its own."""
    left, out = folder / "left", folder / "out"
    for one in (left, out, folder / "root"):
        one.mkdir()
    pages = np.random.default_rng(1).integers(0x10000, 0x10000 + 500, visits)
    write_trace(folder / "trace", np.concatenate([words_of([record(0, 1, kind=EXEC)]), visits_of(pages.tolist())]))
    write_stats(left / "trace.json", records=visits)
    (left / "maps").write_text(MAPS)
    program = Traced(raw=folder, left=left, root=folder / "root", words=("x",), folder="/", system_map=folder / "map")
    report(program, folder / "trace", out)
    return out / REPORT


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here; ./inv test installs it")
def test_tiles_in_files_are_opened_where_one_looks(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_INSIDE", 1)
    monkeypatch.setattr(page, "PER_FILE", 4)
    path = written(tmp_path, 100_000)
    files = {one.name for one in (path.parent / page.TILES).iterdir()}
    deepest = max(int(name.partition("-")[0]) for name in files)
    with Chromium() as browser:
        browser.open(path)
        seen = [drawn(browser)]
        for _ in range(deepest + 1):
            browser.click("#in")
            seen.append(drawn(browser))
        opened = {url.rpartition("/")[2] for url in browser.requests if f"/{page.TILES}/" in url}
        assert not [text for text in browser.problems if "willReadFrequently" not in text]
    assert int(seen[-1].level) == deepest
    assert all(one.inked > 100 for one in seen)
    # Of each level some, and not all: what is not looked at is not read.
    assert {name.partition("-")[0] for name in opened} == {name.partition("-")[0] for name in files}
    assert opened < files


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here; ./inv test installs it")
def test_a_file_of_tiles_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_INSIDE", 1)
    path = written(tmp_path, 20_000)
    shutil.rmtree(path.parent / page.TILES)
    with Chromium() as browser:
        browser.open(path)
        browser.click("#in")
        told = "document.getElementById('told').textContent"
        see = f"const see = () => {told}.includes('missing') ? done({told}) : setTimeout(see, 50); see();"
        assert "move the folder as a whole" in browser.run(f"new Promise(done => {{ {see} }})")
