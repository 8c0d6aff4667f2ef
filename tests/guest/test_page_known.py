# SPDX-License-Identifier: MIT
"""pageknown's expectations against the oracle, which sees every access: what a tracer of pages is held to is true."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.image.programs import build_program, program_sources
from harness.oracle.reader import Oracle
from tests.experiments.page_trace.known import ALL_CASES, CASES, GUEST, Known, known_of, visits
from tests.trials import run_one

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def watch(version: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Oracle, Path]]:
    """Runs a command in a guest with the oracle: that, and the folder with the command's output."""

    def go(command: str, *packages: str) -> tuple[Oracle, Path]:
        target: Path = tmp_path_factory.mktemp("watched")
        arm = {"kernel": f"modern-{version}", "clock": "virtual", "oracle": ["pages"]}
        known = {"command": command, "timeout_s": 300}
        folder = run_one({"known": known}, arm, GUEST.parent, target, packages=packages)
        return Oracle(folder), folder / "known"

    return go


@pytest.fixture(scope="module")
def answers(watch: Callable[..., tuple[Oracle, Path]]) -> tuple[Oracle, list[Known], str]:
    """All cases in one guest: the oracle, what they said in order, and their complaints."""
    oracle, folder = watch(ALL_CASES)
    known = [known_of(json.loads(line)) for line in (folder / "stdout").read_text().splitlines()]
    return oracle, known, (folder / "stderr").read_text()


def test_every_case_ran_and_found_nothing_wrong(answers):
    _, known, complaints = answers
    assert [case.name for case in known] == CASES
    assert len(CASES) >= 16
    assert complaints == ""
    assert not any(case.failed for case in known)


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_sees_what_the_case_states(answers, name):
    oracle, known, _ = answers
    span = CASES.index(name)
    runs = oracle.pages(span).runs()
    assert known[span].wrong(runs["page"], runs["write"], by_iteration=True) is None


def test_a_process_is_selected_by_its_next_exec_and_until_it_ends(watch):
    stream = "roi-exec pagework stream --pages 32 --rounds 2"
    oracle, _ = watch(f"{stream}; roi-exec /nowhere; roi-exec sh -c 'kill -9 $$'; pagework sort; {stream}")
    assert oracle.report.pages is not None
    assert len(oracle.report.pages.spans) == 3
    for span in (0, 2):
        runs = oracle.pages(span).runs()
        assert runs["kernel"].iloc[0], "the kernel fills the new address space first"
        pages = runs.loc[~runs["kernel"], "page"].to_numpy().astype(np.int64)
        (first,) = (page for page in set(pages) if set(range(page, page + 32)) <= set(pages) and page - 1 not in pages)
        seen = pages[(pages >= first) & (pages < first + 32)]
        assert seen[np.flatnonzero(np.diff(seen, prepend=-1))].tolist() == [*range(first, first + 32)] * 2
    assert len(oracle.pages(1).runs())


def test_rivals_see_first_visits_and_what_was_written(watch):
    """Every page of a walk faults once; at each look, those are dirty that were written to since the one before."""
    walk = "pagework stride --pages 64 --bytes 4096 --rounds 30000"
    _, folder = watch(
        f"cd /run/krepro/out/known; faultrec -o faults.bin faults.json {walk};"
        f"dirtyscan -i 2000 -o written.bin written.json {walk} --store;"
        f"dirtyscan -i 2000 -o read.bin read.json {walk}"
    )
    said = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("faults", "written", "read")}
    faults = samples((folder / "faults.bin").read_bytes())
    assert (len(faults), said["faults"]["bytes"]) == (said["faults"]["records"], 40 * len(faults))
    walked = longest(sorted(set(faults)))
    assert len(walked) >= 64
    assert max(Counter(faults)[page] for page in walked) == 1
    assert max(Counter(faults).values()) == 2, "a page of a file is read, then copied"
    written, read = (looks((folder / f"{name}.bin").read_bytes()) for name in ("written", "read"))
    for name, found in (("written", written), ("read", read)):
        assert (len(found), sum(map(len, found))) == (said[name]["looks"], said[name]["records"])
    # The first looks find what is new, too: mappings of code, the heap.
    assert len(written) > 50 < len(read)
    assert all(len(longest(look)) == 64 for look in written[2:-1])
    assert all(len(look) <= 2 for look in read[2:]), "what is only read is not dirty"


def samples(data: bytes) -> list[int]:
    """Pages of perf's samples of ip, tid, time and address; there are no other records."""
    records = np.frombuffer(data, dtype="<u8").reshape(-1, 5)
    assert (records[:, 0] & 0xFFFFFFFF == 9).all()
    assert (records[:, 0] >> 48 == 40).all()
    return [int(address) >> 12 for address in records[:, 4]]


def looks(data: bytes) -> list[list[int]]:
    words, at, found = np.frombuffer(data, dtype="<u8"), 0, []
    while at < len(words):
        end = at + 2 + int(words[at + 1])
        found.append(words[at + 2 : end].astype(int).tolist())
        at = end
    return found


def longest(pages: list[int]) -> list[int]:
    """The longest run of consecutive ones."""
    runs = np.split(np.array(pages), np.flatnonzero(np.diff(pages) != 1) + 1)
    run: list[int] = max(runs, key=len).tolist()
    return run


def test_each_thread_makes_its_walk_and_no_written_page_is_lost(watch):
    oracle, folder = watch("pagethreads --threads 4; pagethreads --threads 3 --shared; page-swap; pagewrites")
    own, _, written = [json.loads(line) for line in (folder / "stdout").read_text().splitlines()]
    runs = oracle.pages(0).runs()
    first = int(own["arena"], 16) >> 12
    assert len({walk["tid"] for walk in own["threads"]}) == 4
    together = runs["page"].to_numpy().astype(np.int64) - first
    for i, walk in enumerate(own["threads"]):
        mine, begins = visits(together - 8 * i, runs["write"].to_numpy(), 8)
        assert [page + 8 * i for page in mine] == walk["expected"]
        assert begins == [bool(write) for write in walk["writes"]]
    inside = together[(together >= 0) & (together < 32)]
    assert (np.diff(inside // 8) != 0).sum() > 20, "the walks interleave"
    for kind in ("shared", "freed"):
        assert written[kind]["lost"] == 0
        assert written[kind]["evicted"] > written["pages"] / 2


def test_debian_programs_do_the_same_when_they_are_watched_from_their_exec(watch, tmp_path):
    command = "for work in gzip sort sqlite; do work-$work; work-$work roi-exec; done"
    oracle, folder = watch(f"export KREPRO_LINES=300 KREPRO_ROWS=300; {command}", "gzip", "sqlite3")
    assert (folder / "stderr").read_text() == ""
    lines = (folder / "stdout").read_text().splitlines()
    assert lines[::2] == lines[1::2]
    gzip, sort, sqlite = (json.loads(line) for line in lines[::2])
    build_program("x86_64", program_sources([GUEST])["pagetext"], tmp_path / "pagetext", tmp_path / "log")
    text = subprocess.run([tmp_path / "pagetext", "300", "5"], stdout=subprocess.PIPE, check=True).stdout
    ordered = b"".join(sorted(text.splitlines(keepends=True)))
    assert sort["checksum"] == hashlib.sha256(ordered).hexdigest()
    assert sqlite["checksum"] == hashlib.sha256(run_sql(300, 5).encode()).hexdigest()
    assert gzip["bytes"] < len(text) / 2  # the script unpacked it again
    assert oracle.report.pages is not None
    assert len(oracle.report.pages.spans) == 3
    assert all(len(oracle.pages(span).runs()) > 10_000 for span in range(3))


def run_sql(rows: int, seed: int) -> str:
    """What work-sqlite's statements give here."""
    text = (GUEST / "work-sqlite.sh").read_text().split("<<SQL\n")[1].split("SQL\n")[0]
    database = sqlite3.connect(":memory:", isolation_level=None)
    result = ""
    for statement in text.replace("$rows", str(rows)).replace("$seed", str(seed)).split(";"):
        for row in database.execute(statement):
            result += "|".join(map(str, row)) + "\n"
    return result
