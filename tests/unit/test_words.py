"""The word that may be left out, and that `inv` hands the rest on as it is."""

from __future__ import annotations

import os
import runpy
import sys

import pytest

from harness import debian
from harness.paths import ROOT
from harness.words import spelled_out


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        (["report", "latest"], ["report", "--result", "latest"]),
        (["report", "latest", "--out", "x"], ["report", "--result", "latest", "--out", "x"]),
        (["--echo", "report", "a/b"], ["--echo", "report", "--result", "a/b"]),
        (["report"], ["report"]),
        (["report", "--out", "x"], ["report", "--out", "x"]),
        (["export", "latest", "--to", "csv"], ["export", "latest", "--to", "csv"]),
        (["--list"], ["--list"]),
        ([], []),
    ],
)
def test_only_an_optional_first_word_is_spelled_out(words, becomes):
    assert spelled_out(words) == becomes


def test_inv_spells_it_out(monkeypatch):
    main = runpy.run_path(str(ROOT / "inv"))["main"]
    started = []
    monkeypatch.setitem(main.__globals__, "make_environment", lambda: None)
    monkeypatch.setattr(debian, "install", lambda packages: None)
    monkeypatch.setattr(os, "execv", lambda program, words: started.append(words))
    monkeypatch.setattr(sys, "argv", ["inv", "report", "latest"])
    main()
    assert started[0][-3:] == ["report", "--result", "latest"]
