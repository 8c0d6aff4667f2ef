# SPDX-License-Identifier: MIT
"""What the store holds, which of it goes, and that nothing goes that a process uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.artefacts.holdings import Decision, Holding, decide, holdings, remove_holding
from harness.artefacts.store import SEAL, Store
from harness.artefacts.uses import USES, in_use, release
from harness.commands.prune import prune
from harness.commands.store import store as store_command
from harness.errors import UsageError
from harness.paths import ROOT
from harness.report.storelist import COLUMNS, decision_lines, holding_lines, kept_lines, kind_lines
from tests.result_sets import write_days

DAY_S = 86400.0
NOW, LONG_AGO = 1_800_000_000.0, 1_000_000_000.0
MIB = 1 << 20

USER = """
import sys
from pathlib import Path
from harness.artefacts.store import Store

made = Store(Path(sys.argv[1])).obtain("thing", "name", {"a": 1}, lambda folder: (folder / "data").touch())
print(made.key, flush=True)
sys.stdin.read()
"""


def make(store: Store, kind: str, number: int, size: int = 10) -> str:
    def build(folder: Path) -> None:
        (folder / "data").write_bytes(os.urandom(size))

    return store.obtain(kind, f"{kind}-{number}", {"number": number}, build).key


def thing(kind: str, key: str, size: int, days: float) -> Holding:
    return Holding(kind, key, f"name of {key}", size, NOW - 2 * days * DAY_S, NOW - days * DAY_S)


def test_what_is_held_is_told_with_its_size_age_and_last_use(tmp_store):
    key = make(tmp_store, "thing", 1, size=100_000)
    home = tmp_store.root / "thing" / key
    for path in (home / SEAL, home):
        os.utime(path, (LONG_AGO, LONG_AGO))
    (tmp_store.root / "logs").mkdir()
    (tmp_store.root / "logs/log").write_text("x")
    held = {one.kind: one for one in holdings(tmp_store)}
    one = held["thing"]
    assert (one.key, one.name, one.made, one.used) == (key, "thing-1", LONG_AGO, LONG_AGO)
    assert 100_000 <= one.size <= 150_000
    assert held["logs"].key == ""
    make(tmp_store, "thing", 1)
    again = next(one for one in holdings(tmp_store) if one.kind == "thing")
    assert again.made == LONG_AGO
    assert again.used > LONG_AGO, "found is used"


def test_an_empty_store_and_one_with_something_half_removed_are_listed(tmp_store):
    assert holdings(tmp_store) == []
    (tmp_store.root / "thing" / ("0" * 32)).mkdir(parents=True)
    assert [one.name for one in holdings(tmp_store)] == [""]


def test_nothing_is_removed_that_another_process_uses(tmp_store):
    command = [sys.executable, "-c", USER, str(tmp_store.root)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        key = process.stdout.readline().strip()
        try:
            assert in_use(tmp_store.root) == {f"thing/{key}"}
            assert not remove_holding(tmp_store, "thing", key)
            assert (tmp_store.root / "thing" / key / "data").exists()
        finally:
            process.kill()
    assert in_use(tmp_store.root) == set(), "however it ended"
    assert not list((tmp_store.root / USES).iterdir())
    assert remove_holding(tmp_store, "thing", key)
    assert not (tmp_store.root / "thing" / key).exists()
    assert not list((tmp_store.root / "tmp").iterdir())


def test_nor_what_another_process_builds(tmp_store):
    key = make(tmp_store, "thing", 1)
    release(tmp_store.root)
    with tmp_store.lock("thing", key, "name"):
        assert not remove_holding(Store(tmp_store.root), "thing", key)
    assert remove_holding(tmp_store, "thing", key)


def test_this_process_too_keeps_what_it_uses_until_it_gives_it_up(tmp_store):
    key = make(tmp_store, "thing", 1)
    assert not remove_holding(tmp_store, "thing", key)
    release(tmp_store.root)
    assert remove_holding(tmp_store, "thing", key)
    assert make(tmp_store, "thing", 1) == key, "and it is built again"


HELD = [
    thing("state", "old", 4 * MIB, days=40),
    thing("state", "new", 4 * MIB, days=1),
    thing("kernel", "needed", 2 * MIB, days=50),
    thing("image", "used", 1 * MIB, days=60),
    Holding("ccache", "", "", 8 * MIB, NOW, NOW),
]
NEEDED = {("kernel", "needed"): "experiment x needs it"}


@pytest.mark.parametrize(
    ("options", "goes"),
    [
        ({}, ["old", "new"]),
        ({"below": 19 * MIB}, []),
        ({"below": 18 * MIB}, ["old"]),
        ({"below": 14 * MIB}, ["old", "new"]),
        ({"below": 11 * MIB}, ["old", "new"]),
        ({"below": 0}, ["old", "new", "needed"]),
    ],
)
def test_what_goes_by_size_and_need_least_recently_used_first(options, goes):
    decisions = decide(HELD, NEEDED, {"image/used"}, **options)
    assert [one.holding.key for one in decisions if one.goes] == goes
    assert len(decisions) == 4, "what has no key is never removed"


def test_every_decision_has_its_reason():
    why = {one.holding.key: one.why for one in decide(HELD, NEEDED, {"image/used"})}
    assert why == {
        "old": "nothing needs it",
        "new": "nothing needs it",
        "needed": "experiment x needs it",
        "used": "in use",
    }


def test_lists_fit_80_columns_are_sorted_and_totalled():
    long = [thing("a-kind-of-some-length", f"{number:032x}", number << 20, days=number) for number in range(1, 40)]
    long = [Holding(one.kind, one.key, "n" * 200, one.size, one.made, one.used) for one in long]
    decisions = [Decision(one, goes=True, why="w" * 200) for one in long]
    for lines in (
        kind_lines([*HELD, *long], NOW),
        holding_lines(long, NOW),
        decision_lines(decisions, NOW),
        kept_lines([Decision(one, goes=False, why="w" * 200) for one in long]),
    ):
        assert lines
        assert max(map(len, lines)) <= COLUMNS
    assert holding_lines(long, NOW)[-1] == "39 things, 780 MiB"
    kinds = [line.split()[0] for line in kind_lines(HELD, NOW)]
    assert set(kinds[1:3]) == {"state", "ccache"}, "of one size"
    assert kinds[3:] == ["kernel", "image", "all"]
    assert kind_lines(HELD, NOW)[-1].split()[:4] == ["all", "4", "19", "MiB"]
    assert [line.split()[1] for line in holding_lines(HELD[:4], NOW)[1:3]] == ["old", "new"]


def test_the_command_tells_kinds_and_refuses_an_unknown_one(tmp_store, monkeypatch, capsys):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_store.root))
    make(tmp_store, "thing", 1)
    assert store_command() is None
    assert "thing       1" in capsys.readouterr().out
    store_command(kind="thing")
    assert "thing-1" in capsys.readouterr().out
    with pytest.raises(UsageError, match=r"the store has no 'nothing'.*it has thing"):
        store_command(kind="nothing")


@pytest.fixture
def pruned(tmp_store, tmp_path, monkeypatch):
    """Two things that nothing needs, and `prune store` of them with some options: how many are there then."""
    monkeypatch.setenv("KREPRO_STORE", str(tmp_store.root))
    monkeypatch.setattr("harness.run.pruning.ready", lambda: True)
    for number in (1, 2):
        make(tmp_store, "thing", number)
    release(tmp_store.root)

    def call(**options: object) -> int:
        assert prune(kind="store", results=tmp_path / "results", **options) == 0
        return len(tmp_store.all("thing"))

    return call


def test_prune_of_the_store_asks_tries_and_removes(pruned, capsys):
    with pytest.raises(UsageError, match=r"2 things, .*there is no terminal for confirmation.*--force"):
        pruned()
    assert capsys.readouterr().out.count("nothing needs it") == 2
    assert pruned(below=1, force=True) == 2
    assert "the store is small enough" in capsys.readouterr().out
    assert pruned(force=True) == 0
    assert "2 things" in capsys.readouterr().out
    assert pruned(force=True) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_what_is_needed_is_not_guessed_without_the_tools(pruned, monkeypatch):
    monkeypatch.setattr("harness.run.pruning.ready", lambda: False)
    with pytest.raises(UsageError, match="what is needed of the store cannot be told"):
        pruned(force=True)
    assert pruned(below=0, force=True) == 0


def test_what_came_into_use_after_the_question_stays(pruned, tmp_store, monkeypatch, capsys):
    monkeypatch.setattr("harness.commands.prune._confirmed", lambda _what: bool(make(tmp_store, "thing", 1)))
    assert pruned() == 1
    assert "1 stay: they came into use" in capsys.readouterr().out


def test_an_option_of_the_store_without_it_is_an_error():
    with pytest.raises(UsageError, match="--below is about the store"):
        prune(below=1)


def test_sets_are_told_and_stay_where_nobody_can_be_asked(tmp_path, capsys):
    home = write_days(tmp_path)
    before = sorted(home.iterdir())
    with pytest.raises(UsageError, match=r"sets, .* would be removed, and there is no terminal"):
        prune(keep=1, results=home.parent)
    assert str(before[0]) in capsys.readouterr().out
    assert sorted(home.iterdir()) == before
