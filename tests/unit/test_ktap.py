# SPDX-License-Identifier: MIT
"""What is told of a kernel's own tests: each way in which they can fail."""

from __future__ import annotations

import pytest

from tests.ktap import complaints

GOOD = """\
[    1.17] KTAP version 1
[    1.17] 1..2
[    1.17]     # Subtest: ring
[    1.17]     1..2
[    1.18]     ok 1 is_full
[    1.18]     ok 2 wraps
[    1.19] ok 1 ring
[    1.19]     1..1
[    1.19]     ok 1 counts
[    1.20] ok 2 - words
"""


def told(text: str) -> list[str]:
    return list(complaints(text, ["ring", "words"]))


def test_what_is_as_planned_is_not_told():
    assert told(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("ok 2 wraps", "not ok 2 wraps", ["not ok 2 wraps"]),
        ("ok 2 wraps", "ok 2 wraps # SKIP no memory", ["ok 2 wraps # SKIP no memory"]),
        ("[    1.18]     ok 2 wraps\n", "", ["1 of 2 ran"]),
        ("[    1.18]     ok 1 is_full\n", "", ["wraps is number 2, behind 0"]),
        (GOOD[GOOD.index("[    1.20]") :], "", ["1 of 2 ran", "words did not run"]),
        (GOOD[GOOD.index("[    1.19]     1..1") :], "", ["1 of 2 ran", "words did not run"]),
        (GOOD, "", ["ring did not run", "words did not run"]),
    ],
)
def test_what_is_not_is(old: str, new: str, wanted: list[str]):
    assert told(GOOD.replace(old, new)) == wanted
