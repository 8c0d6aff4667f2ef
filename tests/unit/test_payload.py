# SPDX-License-Identifier: MIT
"""What is sent to another machine and back: files by their content, damage told, nothing forgotten."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.errors import RunError
from harness.guest.ssh import Keys
from harness.machine.spec import BootFiles, Plugin
from harness.run.cluster.payload import Content, Ran, files_of, packed, relocated, unpack
from harness.run.cluster.worker import find, keep
from harness.run.unfinished import open_run
from harness.trial.model import SavedState, TrialSpec
from tests.result_sets import HOST, record
from tests.unit.test_unfinished import WORDS, spec

DATA = b"what a guest boots from"
CONTENT = Content(hashlib.sha256(DATA).hexdigest(), "kernel/k/bzImage")


@pytest.fixture
def trial(tmp_path: Path) -> TrialSpec:
    """One with every kind of file."""
    with open_run(tmp_path / "results/waits", WORDS, 1) as run:
        made = spec(run, 0, tmp_path)
    root = Path("/store")
    return made.model_copy(
        update={
            "files": BootFiles(kernel=root / "k", initrds=(root / "i", root / "j"), halt=root / "h", stale=root / "s"),
            "keys": Keys(client=root / "c", host=root / "p"),
            "state": SavedState(path=root / "state", key="key"),
            "recording": root / "rr.log",
            "plugin": Plugin(path=root / "o.so", arguments={"places": "/store/places", "modes": "functions"}),
        }
    )


def test_every_file_of_a_trial_is_sent_and_found_again(trial):
    names = {"k", "i", "j", "h", "s", "c", "p", "state", "rr.log", "o.so", "places"}
    assert {path.name for path in files_of(trial)} == names
    there = relocated(trial, lambda path: Path("/elsewhere", path.name), Path("/out"))
    assert "/store" not in there.model_dump_json()
    assert {path.name for path in files_of(there)} == names
    assert there.plugin is not None
    assert there.plugin.arguments["modes"] == "functions"
    assert relocated(there, lambda path: Path("/store", path.name), trial.folder) == trial


def ran(folder: Path) -> Ran:
    (folder / "add").mkdir(parents=True)
    (folder / "add/stdout").write_text("2\n")
    (folder / "empty").mkdir()
    data, files = packed(folder)
    return Ran("tcp://there", "there", HOST, record("short", 0, "virtual"), files, data)


def test_what_a_trial_left_comes_back(tmp_path):
    unpack(ran(tmp_path / "there"), tmp_path / "here")
    names = {path.relative_to(tmp_path / "here").as_posix() for path in (tmp_path / "here").rglob("*")}
    assert names == {"add", "add/stdout", "empty"}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda one: replace(one, data=one.data.replace(b"2\n", b"3\n")), "is not what it sent"),
        (lambda one: replace(one, data=one.data[:100]), "cannot be unpacked"),
        (lambda one: replace(one, files={**one.files, "more": "0"}), "is not what it sent"),
    ],
)
def test_damage_on_the_way_back_is_told(tmp_path, damage, says):
    with pytest.raises(RunError, match=f"tcp://there.*{says}|{says}"):
        unpack(damage(ran(tmp_path / "there")), tmp_path / "here")


def test_content_is_found_where_it_was_built_or_sent_and_damage_is_replaced(tmp_path):
    store = Store(tmp_path / "store")
    assert find(store, CONTENT) is None
    keep(store, CONTENT.sha256, DATA)
    sent = find(store, CONTENT)
    assert sent is not None
    assert sent.read_bytes() == DATA
    sent.write_bytes(DATA.swapcase())
    assert find(store, CONTENT) is None, "a hash that was known is of the file as it was"
    keep(store, CONTENT.sha256, DATA)
    assert find(store, CONTENT) == sent
    built = store.root / CONTENT.place
    built.parent.mkdir(parents=True)
    built.write_bytes(DATA)
    assert find(store, CONTENT) == built
    built.write_bytes(b"another kernel with the same inputs")
    assert find(store, CONTENT) == sent
