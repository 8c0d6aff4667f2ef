# SPDX-License-Identifier: MIT
"""A set tells nothing of where on the host it was made, or by whom."""

from __future__ import annotations

import tempfile

import pytest

from harness.artefacts.neutral import neutral, neutral_words
from harness.artefacts.store import Store
from harness.paths import ROOT
from harness.sets.resultset import MANIFEST
from harness.sets.seal import verify_files
from tests.result_sets import REPOSITORY, experiment_folder, record, write_set

HOME = "/people/ada"
ABSENT = ("commit", "dirty", "diff_sha256")


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("KREPRO_STORE", f"{HOME}/.cache/krepro")


def test_folders_are_named_by_what_they_are():
    temporary = tempfile.gettempdir()
    assert neutral(f"file:{temporary}/.krepro-trial-takn12av/console.log") == "file:$SCRATCH/console.log"
    assert neutral(f"file={Store.default().root}/kernel/c7/bzImage,x") == "file=$STORE/kernel/c7/bzImage,x"
    assert neutral(f"{ROOT}: {ROOT}/x") == "$PROJECT: $PROJECT/x"
    assert neutral(f"'{temporary}/a' {HOME} {HOME}/b") == "'$TMP/a' ~ ~/b"


@pytest.mark.parametrize("text", ["/people/adam/x", "/people/ada2", "a/people/ada", "root=/dev/vda", "/home", ""])
def test_what_is_none_of_them_stays(text):
    assert neutral(text) == text


def test_of_other_paths_in_a_command_line_the_name_is_left():
    words = ["run", "experiment=/data/ada/waits", "/srv/ada/x", f"--results={HOME}/r", "a/b", "metric=x/y", "/"]
    assert neutral_words(words) == ["run", "experiment=…/waits", "…/x", "--results=~/r", "a/b", "metric=x/y", "…/"]


def test_a_sets_manifest_has_no_path_of_the_host(tmp_path):
    why = f"no git checkout: Command git -C {ROOT} failed"
    scratch = f"{tempfile.gettempdir()}/.krepro-trial-abc"
    trial = record("short", 0, "virtual").model_copy(
        update={"argv": ("-kernel", f"{Store.default().root}/b", "-serial", f"file:{scratch}/c"), "reason": f"{HOME}/x"}
    )
    made = write_set(
        tmp_path / "results",
        experiment_folder(tmp_path),
        {"short": [1.0]},
        trials=[trial],
        command_line=["inv", "--search-root", str(ROOT), "run", f"{HOME}/waits"],
        unanalysed=f"{HOME}/waits/analysis.py:3: no",
        repository=REPOSITORY.model_copy(update=dict.fromkeys(ABSENT) | {"absent": dict.fromkeys(ABSENT, why)}),
    )
    text = (made.path / MANIFEST).read_text()
    for word in ("/ada", str(ROOT), tempfile.gettempdir(), "/home"):
        assert word not in text
    assert made.manifest.trials[0].argv == ("-kernel", "$STORE/b", "-serial", "file:$SCRATCH/c")
    assert made.manifest.command_line == ["inv", "--search-root", "$PROJECT", "run", "~/waits"]
    verify_files(made.path)
