# SPDX-License-Identifier: MIT
"""Lists of result sets: at once, newest first, broken ones with their reason; and what a word means."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.paths import ROOT
from harness.report.setlist import list_lines
from harness.sets import listing
from harness.sets.listing import CLAIMS, MANIFEST, describe, find_set, latest_of, set_paths
from harness.sets.manifest import SCHEMA_VERSION
from harness.sets.resultset import ResultSet
from tests.result_sets import experiment_folder, write_set


@pytest.fixture
def made(tmp_path: Path, results: Path) -> ResultSet:
    return write_set(results, experiment_folder(tmp_path), {"short": [100.0, None], "wall": [5.0]})


def copies(source: ResultSet, names: list[str], experiment: str = "waits") -> list[Path]:
    """Sets of other names: what a list reads is in them as it is in `source`."""
    home = source.path.parent.parent / experiment
    home.mkdir(exist_ok=True)
    return [Path(shutil.copytree(source.path, home / name)) for name in names]


EARLY, LATE = "20200101T000000.00Z-aaaa0001", "20990101T000000.00Z-aaaa0002"


def test_sets_are_listed_newest_first_over_all_experiments(made, results):
    early, late = copies(made, [EARLY])[0], copies(made, [LATE], "other")[0]
    assert set_paths(results) == [late, made.path, early]
    assert set_paths(results, "waits") == [made.path, early]
    assert set_paths(results, "nonsense") == []
    assert set_paths(results / "absent") == []


def test_what_is_no_finished_set_is_not_listed(made, results):
    home = made.path.parent
    for name in (".krepro-1-writing-x", "notes", f"{LATE}.old", f".{LATE}"):
        shutil.copytree(made.path, home / name)
    (home / LATE).symlink_to(made.path.name)
    shutil.copytree(made.path, results / ".krepro-1-removing-x" / LATE)
    copies(made, [LATE], "reference")
    (results / "file").touch()
    assert set_paths(results) == [made.path]
    for text in ("notes", ".krepro", "2099", "20990101T"):
        with pytest.raises(UsageError, match="no result set"):
            find_set(results, text)


def test_a_set_is_described(made):
    listed = describe(made.path)
    assert (listed.schema_version, listed.created, listed.profile) == (SCHEMA_VERSION, "2024-01-01T00:00:00Z", "quick")
    assert (listed.trials, listed.failed, listed.broken) == (3, 1, None)
    assert listed.verdicts == {"reproduced": 2}


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("manifest.json", None, "manifest.json: No such file or directory"),
        ("manifest.json", b"", "manifest.json: Invalid JSON"),
        ("manifest.json", b"\xff", "manifest.json: Invalid JSON"),
        ("manifest.json", b"{}", "manifest.json: field schema_version: Field required"),
        ("claims.json", None, "claims.json: No such file or directory"),
        ("claims.json", b'[{"verdict": "true"}]', "claims.json: field 0.verdict: Input should be"),
    ],
)
def test_a_broken_set_is_listed_with_its_reason(made, results, file, content, reason):
    (broken,) = copies(made, [LATE])
    (broken / file).unlink()
    if content is not None:
        (broken / file).write_bytes(content)
    lines = list_lines([describe(path) for path in set_paths(results)])
    assert f"{LATE}  waits       broken: {reason}" in lines[1]
    assert lines[2].split() == [
        made.path.name,
        "waits",
        "2024-01-01T00:00:00Z",
        "quick",
        "2",
        "0",
        "0",
        "0",
        "0",
        "3",
        "1",
    ]
    assert lines[0].split() == [
        *("id", "experiment", "created", "profile"),
        *("reproduced", "contradicted", "confirmed", "refuted", "not-measurable", "trials", "failed"),
    ]


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "invoke", "--search-root", str(ROOT), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_a_list_reads_two_files_of_a_set_and_each_once(made, results, monkeypatch):
    """A list of a thousand takes as long as reading them does; how long that is, `./inv bench` says."""
    paths = [made.path, *copies(made, [EARLY])]
    read: list[Path] = []
    plain = listing.read_plain
    monkeypatch.setattr(listing, "read_plain", lambda path: read.append(path) or plain(path))
    lines = list_lines([describe(path) for path in set_paths(results)])
    assert len(lines) == 1 + len(paths)
    assert sorted(read) == sorted(path / name for path in paths for name in (MANIFEST, CLAIMS))


def test_a_list_loads_none_of_the_heavy_libraries(made, results):
    code = f"""
import sys
from pathlib import Path
from harness.commands.results import results
results(None, Path({str(results)!r}))
print(*sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert made.path.name in done.stdout
    heavy = {"pandas", "scipy", "matplotlib", "pyarrow", "paramiko", "harness.sets.manifest"}
    assert not heavy & set(done.stdout.split())


def test_no_sets_are_an_error_that_says_what_to_do(results):
    done = command("results", "--results", str(results), "--experiment", "waits")
    assert done.returncode == 2
    assert done.stderr == f"krepro: {results}: no result sets of 'waits' (./inv run experiment=NAME)\n"


# -- what a word means ----------------------------------------------------------------------------------------


def test_ids_may_be_shortened_from_either_part(made, results):
    early = copies(made, [EARLY])[0]
    for text in (EARLY, EARLY[:4], "aaaa", "aaaa0001", f"waits/{EARLY[:9]}", "waits/aaaa", str(early)):
        assert find_set(results, text) == early, text
    other = copies(made, [LATE], "other")[0]
    assert find_set(results, "waits/aaaa") == early
    assert find_set(results, "other/aaaa") == other
    with pytest.raises(
        UsageError, match=rf"'aaaa' could be 2 result sets: .*waits/{EARLY}.*give a longer prefix of the ID"
    ):
        find_set(results, "aaaa")


def test_many_that_fit_are_counted(made, results):
    copies(made, [f"2020010{day}T000000.00Z-aaaa0001" for day in range(1, 8)])
    with pytest.raises(UsageError, match=r"could be 7 result sets: .* and 3 more"):
        find_set(results, "2020")


def test_latest_is_that_of_the_experiment_or_of_all(tmp_path, made, results):
    late = copies(made, [LATE], "other")[0]
    assert find_set(results, "latest") == late
    assert find_set(results, "waits/latest") == made.path
    assert find_set(results, "other/latest") == late, "a copy without the link has a latest too"
    for text in (str(made.path.parent / "latest"), os.path.relpath(made.path)):
        assert find_set(results, text) == made.path


def test_latest_is_what_the_link_says_and_not_where_it_led(made):
    home = made.path.parent
    early = copies(made, [EARLY])[0]
    (home / "latest").unlink()
    (home / "latest").symlink_to(EARLY)
    assert latest_of(home) == early
    (home / "latest").unlink()
    (home / "latest").symlink_to("gone")
    assert latest_of(home) == made.path
