"""The word that may be left out, and that `inv` hands the rest on as it is."""

from __future__ import annotations

import pytest

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
