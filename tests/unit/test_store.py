# SPDX-License-Identifier: MIT
"""The content-addressed store: built once, checked when read, whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.artefacts.store import SEAL, Artefact, Store, hash_of, hash_tree
from harness.artefacts.uses import release
from harness.errors import RunError, UsageError
from harness.paths import ROOT
from tests.processes import PATIENCE_S

INPUTS = {"source": "abc", "options": ["x", 1]}


class Recipe:
    """Builds two files and counts how often it was asked to."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, folder: Path) -> dict[str, object]:
        self.runs += 1
        assert not list(folder.iterdir())
        (folder / "sub").mkdir()
        (folder / "sub/data").write_bytes(b"payload")
        (folder / "tool").write_text("#!/bin/sh\n")
        return {"steps": 7}


@pytest.fixture
def recipe() -> Recipe:
    return Recipe()


def obtain(store: Store, recipe: Recipe, inputs: dict[str, object] = INPUTS) -> Artefact:
    return store.obtain("thing", "name", inputs, recipe)


def leftovers(store: Store) -> list[Path]:
    return [*(store.root / "tmp").glob("*"), *(store.root / "thing").glob("*")]


def test_built_once_and_found_by_its_inputs(tmp_store, recipe):
    assert tmp_store.all("thing") == []
    made = obtain(tmp_store, recipe)
    assert made.file("sub/data").read_bytes() == b"payload"
    assert set(made.files) == {"sub/data", "tool"}
    assert made.info["steps"] == 7
    assert obtain(tmp_store, recipe) == made == obtain(tmp_store, recipe, dict(reversed(INPUTS.items())))
    assert recipe.runs == 1
    assert obtain(tmp_store, recipe, {**INPUTS, "source": "abd"}).key != made.key
    assert recipe.runs == 2
    assert len(tmp_store.all("thing")) == 2
    assert not list((tmp_store.root / "tmp").iterdir())


def test_a_file_that_an_artefact_does_not_have_is_an_error(tmp_store, recipe):
    with pytest.raises(RunError, match="thing artefact has no bzImage"):
        obtain(tmp_store, recipe).file("bzImage")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def reseal(path: Path, **change: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda home: flip(home / "sub/data"), "sub/data differs from what was written"),
        (lambda home: (home / "tool").write_bytes(b""), "tool differs from what was written"),
        (lambda home: (home / "tool").unlink(), "tool is missing"),
        (lambda home: (home / "extra").touch(), "extra differs from what was written"),
        (lambda home: (home / SEAL).unlink(), f"{SEAL} cannot be read"),
        (lambda home: (home / SEAL).write_bytes(b"\xff{"), f"{SEAL} cannot be read"),
        (lambda home: (home / SEAL).write_text("[]"), f"{SEAL} cannot be read"),
        (lambda home: (home / SEAL).write_text('{"files": {}}'), f"{SEAL} cannot be read"),
        (lambda home: reseal(home / SEAL, inputs={"source": "other"}), f"{SEAL} differs from what was written"),
        (lambda home: reseal(home / SEAL, info=None), f"{SEAL} differs from what was written"),
    ],
)
def test_damage_is_noticed_told_and_built_again(tmp_store, recipe, capfd, damage, says):
    made = obtain(tmp_store, recipe)
    damage(made.path)
    again = obtain(tmp_store, recipe)
    assert recipe.runs == 2
    assert again.files == made.files
    assert {name for name in hash_tree(again.path) if name != SEAL} == {"sub/data", "tool"}
    warning = " ".join(capfd.readouterr().err.split())
    assert warning.startswith("krepro: warning: thing ")
    assert f"is damaged ({says})" in warning
    assert tmp_store.all("thing") == [again]


@pytest.mark.parametrize("error", [RunError("compiler said no"), KeyboardInterrupt()])
def test_a_failing_build_leaves_nothing_and_frees_the_lock(tmp_store, recipe, error):
    def fails(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise error

    with pytest.raises(type(error)):
        tmp_store.obtain("thing", "name", INPUTS, fails)
    assert not leftovers(tmp_store)
    assert obtain(tmp_store, recipe).info["steps"] == 7


BUILDER = """
import sys, time
from pathlib import Path
from harness.artefacts.store import Store

def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(0.4)
    (folder / "data").write_text("x")

print(Store(Path(sys.argv[1])).obtain("thing", sys.argv[3], {"a": 1}, build).key)
"""


@pytest.mark.parametrize("names", [("name", "name"), ("modern-6.1", "modern-6.1-bare")])
def test_two_processes_at_once_build_once_whatever_they_call_it(tmp_path, names):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, tmp_path / "store", tmp_path / "log", name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    keys = {process.communicate(timeout=PATIENCE_S)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert keys == {hash_of({"a": 1})[:32] + "\n"}
    assert (tmp_path / "log").read_text() == "built\n"


def test_who_waits_for_a_lock_says_so(tmp_store, recipe, capfd):
    holding, release = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        holding.set()
        release.wait(30)
        (folder / "data").touch()

    other = threading.Thread(target=lambda: tmp_store.obtain("thing", "name", INPUTS, slow))
    other.start()
    holding.wait(30)
    threading.Timer(1.3, release.set).start()
    assert set(obtain(tmp_store, recipe).files) == {"data"}
    other.join()
    assert recipe.runs == 0
    assert "waiting for another process that builds thing name" in " ".join(capfd.readouterr().err.split())


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KiB, where this user may mount one."""
    mounted = tmp_path / "tiny"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "krepro-test", mounted]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a tmpfs")
    yield mounted
    release(mounted / "store")
    subprocess.run(["umount", mounted], check=True)


def test_no_space_left_is_one_clear_error_and_leaves_nothing(tiny_disk, recipe):
    store = Store(tiny_disk / "store")

    def large(folder: Path) -> None:
        (folder / "data").write_bytes(bytes(1 << 20))

    with pytest.raises(RunError, match="no space left on the file system") as caught:
        store.obtain("thing", "name", INPUTS, large)
    assert caught.value.where == str(store.root)
    assert "\n" not in str(caught.value)
    assert not leftovers(store)
    assert obtain(store, recipe).info["steps"] == 7, "a small one still fits"


def test_a_store_that_cannot_be_written_is_a_usage_error(tmp_path, recipe):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write: .*KREPRO_STORE"):
        obtain(Store(tmp_path / "file/store"), recipe)
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o555)
        with pytest.raises(UsageError, match="cannot write: Permission denied"):
            obtain(Store(tmp_path / "closed/store"), recipe)


def test_other_errors_of_the_operating_system_are_not_disguised(tmp_store):

    def fails(folder: Path) -> None:
        (folder / "absent").read_text()

    with pytest.raises(FileNotFoundError):
        tmp_store.obtain("thing", "name", INPUTS, fails)


def test_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KREPRO_STORE", raising=False)
    assert Store.default().root == tmp_path / "cache/krepro"
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "mine"))
    assert Store.default().root == tmp_path / "mine"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_a_hash_survives_json_and_ignores_the_order_of_keys(value):
    assert hash_of(json.loads(json.dumps(value))) == hash_of(value)
    if isinstance(value, dict):
        assert hash_of(dict(reversed(value.items()))) == hash_of(value)
