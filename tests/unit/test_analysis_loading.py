# SPDX-License-Identifier: MIT
"""Loading analysis.py: files beside it, nothing written beside it, hooks checked."""

from __future__ import annotations

import os
import py_compile
import sys

import pandas as pd
import pytest

from harness.errors import RunError, UsageError
from harness.measure.analysis import Analysis

ANSWER = "import pandas as pd\n\n\ndef answer():\n    return {{'{place}': pd.DataFrame({{'arm': ['{place}']}})}}\n"
PLACES = ("one", "two")
WITH_SIBLING = "from .part import answer\n\n\ndef tables(trials):\n    return answer()\n"


#: Behind the text, so that lines keep their numbers.
DECLARED = """\
from harness.measure.declared import ARM, Table

TABLES = [Table(name, "a row", (ARM,)) for name in ("one", "two")]
METRICS = []
"""


def analysis_in(folder, text, **siblings):
    folder.mkdir(parents=True)
    (folder / "analysis.py").write_text(f"{text}\n\n{DECLARED}")
    for name, content in siblings.items():
        (folder / f"{name}.py").write_text(content)
    return Analysis(folder)


def test_a_file_beside_it_is_its_own_also_where_folders_share_a_name(tmp_path):
    loaded = [
        analysis_in(
            tmp_path / place / "naps",
            WITH_SIBLING,
            part=ANSWER.format(place=place),
        )
        for place in PLACES
    ]
    assert [analysis.tables([])[place]["arm"].tolist() for analysis, place in zip(loaded, PLACES, strict=True)] == [
        ["one"],
        ["two"],
    ]
    assert not list(tmp_path.rglob("__pycache__")), "a finished result set gets no files"


@pytest.mark.parametrize("file", ["part.py", "part/__init__.py", "part/inner.py"])
def test_what_runs_is_the_source_and_no_bytecode_is_read_or_written(tmp_path, monkeypatch, file):
    """Of decoders too, also where they are imported only when a hook is called."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder, inner = tmp_path / "naps", "from .inner import answer\n"
    path = folder / file
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").write_text(inner)
    path.write_text(ANSWER.format(place="two"))
    before = path.stat()
    py_compile.compile(str(path))
    path.write_text(ANSWER.format(place="one"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    files = set(tmp_path.rglob("*.pyc"))
    (folder / "analysis.py").write_text(
        f"def tables(trials):\n    {WITH_SIBLING.splitlines()[0]}\n    return answer()\n\n\n{DECLARED}"
    )
    assert Analysis(folder).tables([])["one"]["arm"].tolist() == ["one"]
    assert set(tmp_path.rglob("*.pyc")) == files


def test_errors_in_a_file_beside_it_are_placed_there(tmp_path):
    broken = analysis_in(tmp_path / "a", WITH_SIBLING, part="def answer():\n    return 1 / 0\n")
    with pytest.raises(RunError, match=r"a/part\.py:2: tables\(\) failed: ZeroDivisionError"):
        broken.tables([])
    with pytest.raises(UsageError, match=r"b/part\.py:1: SyntaxError"):
        analysis_in(tmp_path / "b", WITH_SIBLING, part="def answer(:\n")


EMPTY = pd.DataFrame()
STACKS = "import pandas as pd\n\n\ndef profiles(tables):\n    return pd.DataFrame({columns})\n"


def test_hooks_are_optional_and_their_tables_are_checked(tmp_path):
    none = analysis_in(tmp_path / "none", "x = 1\n")
    assert none.timeline({}, EMPTY) is None
    assert none.profiles({}, EMPTY) is None
    assert none.views({}, EMPTY) == {}
    right = {"profile": ["p"], "unit": ["none"], "stack": ["a;b"], "weight": [1], "more": [2]}
    frame = analysis_in(tmp_path / "right", STACKS.format(columns=right)).profiles({}, EMPTY)
    assert isinstance(frame, pd.DataFrame)
    assert frame.to_dict("list") == {"profile": ["p"], "unit": ["none"], "stack": ["a;b"], "weight": [1.0]}
    with pytest.raises(UsageError, match="must return a table with profile, unit, stack, weight"):
        analysis_in(tmp_path / "less", STACKS.format(columns={"profile": ["p"]})).profiles({}, EMPTY)
    with pytest.raises(UsageError, match="a column has a wrong type"):
        analysis_in(tmp_path / "wrong", STACKS.format(columns=right | {"weight": ["heavy"]})).profiles({}, EMPTY)
