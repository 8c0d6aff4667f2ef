# SPDX-License-Identifier: MIT
"""Tables of guests' programs: whole ones, and every way in which one can be damaged."""

from __future__ import annotations

import pytest

from harness.errors import RunError
from harness.measure.raw import (
    Answer,
    read_answer_lines,
    read_csv,
    read_json_lines,
    read_last_json_line,
    read_lines,
    read_tsv,
)

COLUMNS = {"name": "str", "count": "int64", "address": "uint64"}
WHOLE = "name\tcount\taddress\tmore\na b\t-3\t0xffffffff82000000\tx\n\t4\t7\t\n"


def test_a_table_is_read_by_its_names(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text(WHOLE)
    table = read_tsv(path, COLUMNS)
    assert table.dtypes.astype(str).tolist()[1:] == ["int64", "uint64"]
    assert table.to_numpy().tolist() == [["a b", -3, 0xFFFFFFFF82000000], ["", 4, 7]]
    path.write_text(WHOLE.splitlines(keepends=True)[0])
    assert read_tsv(path, COLUMNS).empty


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (WHOLE[:-4].encode(), "its last line has no end"),
        (b"\xff\xfe\n", "is no text"),
        (b"", "has no column name"),
        (WHOLE.replace("count", "counts").encode(), "has no column count"),
        (WHOLE.replace("\tx", "").encode(), "table.tsv:2: has 3 fields, not 4"),
        (WHOLE.replace("-3", "three").encode(), "column count"),
        (WHOLE.replace("\t7", "\t-7").encode(), "column address"),
        (WHOLE.replace("0xffff", "0xffffff").encode(), "column address"),
    ],
)
def test_a_damaged_table_names_its_file(tmp_path, content, said):
    path = tmp_path / "table.tsv"
    path.write_bytes(content)
    with pytest.raises(RunError, match=said):
        read_tsv(path, COLUMNS)


def test_lines_are_those_between_line_ends(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\x0bb\n\nc\n")
    assert read_lines(path) == ["a\x0bb", "", "c"]


@pytest.mark.parametrize("rows", ["1,100,200\n", "1,100\n2,3,4\n", "1\n"], ids=["all", "one", "too few"])
def test_rows_of_another_length_than_their_names_are_no_table(tmp_path, rows):
    path = tmp_path / "table.csv"
    path.write_text("begin,end\n" + rows)
    with pytest.raises(RunError, match=str(path)):
        read_csv(path, ("begin", "end"))
    path.write_text("begin,end\n1,100\n")
    assert read_csv(path, ("begin", "end")).to_numpy().tolist() == [[1, 100]]


class Named(Answer):
    name: str


def test_an_entry_of_several_lines_is_told_of_in_one(tmp_path):
    path = tmp_path / "spans.csv"
    path.write_text('begin,end\n1,"' + "2\n3\n" * 100 + '"\n')
    with pytest.raises(RunError) as raised:
        read_csv(path, ("begin", "end"))
    (line,) = raised.value.lines
    assert line.startswith(f"{path}, line 2: end is no whole number: 2 3 2 3")
    assert "\n" not in line
    assert len(line) < len(str(path)) + 200


def test_a_line_of_json_ends_at_a_line_feed_only(tmp_path):
    path = tmp_path / "answers"
    name = "a\u2028b\u0085c"
    path.write_text(f'{{"name": "{name}"}}\n' * 2)
    assert [one.name for one in read_answer_lines(path, Named)] == [name, name]
    assert read_json_lines(path) == [{"name": name}] * 2
    assert read_last_json_line(path) == {"name": name}
