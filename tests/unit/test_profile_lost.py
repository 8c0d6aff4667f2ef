# SPDX-License-Identifier: MIT
"""A profile of more code than the plugin keeps apart: what is in no path is counted, and nothing else is missed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from harness.errors import RunError
from harness.oracle import paths
from harness.program.profile.calls import KERNEL, Calls, check_counts
from harness.program.profile.code import Place

COUNTED = pd.DataFrame(
    [("f", "task", 100), ("(outside)", "task", 30), ("(user)", "user", 500)],
    columns=["function", "context", "instructions"],
)


def calls(in_f: int, outside: int, user: int, lost: int) -> Calls:
    found = {(Place("f", KERNEL), "task"): in_f, (Place("(outside)", KERNEL), "task"): outside}
    return Calls([], Counter({**found, (Place("main", "/prog"), "user"): user}), 0, lost)


@pytest.mark.parametrize("found", [(100, 30, 500, 0), (90, 30, 500, 10), (90, 25, 480, 35)])
def test_what_is_in_no_path_may_be_lacking(found):
    check_counts(calls(*found), COUNTED, "here")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((99, 30, 500, 0), "f"),
        ((90, 30, 500, 9), "f"),
        ((90, 40, 500, 0), r"\(outside\)"),  # as many in all, and in another function
        ((90, 31, 500, 9), r"\(outside\)"),
        ((100, 30, 500, 1), "all"),
    ],
)
def test_nothing_else_may(found, said):
    with pytest.raises(RunError, match=f"here: {said} "):
        check_counts(calls(*found), COUNTED, "here")


def test_leaves_without_a_node_are_lost(tmp_path):
    nodes = np.zeros(2, dtype=paths._NODE)
    leaves = np.array([(0, 7, 0, 0), (0x1000, 5, 1, 5), (0, 3, 1, 0)], dtype=paths._LEAF)
    for name, data in (("nodes", nodes), ("leaves", leaves), ("code", np.zeros(0, dtype=paths._CODE))):
        (tmp_path / f"paths.{name}").write_bytes(data.tobytes())
    report = SimpleNamespace(paths=SimpleNamespace(images=[], program=0, threads=[]))
    oracle = SimpleNamespace(need=lambda mode: None, report=report, folder=tmp_path)
    read = paths.Paths(oracle)
    assert (read.lost, read.leaves["instructions"].tolist()) == (7, [5, 3])
