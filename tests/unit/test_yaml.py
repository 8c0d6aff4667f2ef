# SPDX-License-Identifier: MIT
"""YAML into models: what does not fit is named by file, line and field."""

from __future__ import annotations

import pickle
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from harness.errors import MOST_TOLD, UsageError
from harness.yamlfile import Strict, load_model


class Inner(Strict):
    count: int
    ratio: float = Field(default=1.0, ge=0)


class Outer(Strict):
    name: str
    inner: Inner | None = None
    items: list[Inner] = []
    named: dict[str, Inner] = {}


def load(folder: Path, content: str | bytes) -> Outer:
    path = folder / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_model(path, Outer)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: [1]\n", 1, "field name: Input should be a valid string, got [1]"),
        ("name: a\n\ninner:\n  ratio: 1\n  count: few\n", 5, "field inner.count: Input should be a valid integer"),
        ("name: a\ninner: {count: 1,\n  ratio: -1}\n", 3, "field inner.ratio: Input should be greater than or equal"),
        ("name: a\nitems:\n- count: 1\n- count: x\n", 4, "field items.1.count: Input should be a valid integer"),
        ("name: a\nitems:\n- count: 1\n- 7\n", 4, "field items.1: Input should be a valid dictionary"),
        ("name: a\nnamed:\n  k:\n    ratio: 2\n", 3, "field named.k.count: Field required"),
        ("# comment\ninner: {count: 1}\n", 1, "field name: Field required"),
        ("name: a\nnaem: b\n", 2, "field naem: Extra inputs are not permitted, got 'b'"),
        ("name: a\ninner:\n  count: 1\n  cuont: 2\n", 4, "field inner.cuont: Extra inputs are not permitted"),
        ("name: a\nname: b\n", 2, "not valid YAML: 'name' is given twice"),
        ("name: a\nnamed:\n  k: {count: 1}\n  k: {count: 2}\n", 4, "not valid YAML: 'k' is given twice"),
        ("name: a\ninner: {count: 1\n", 3, "not valid YAML: "),
        ("name: a\n\tinner: 1\n", 2, "not valid YAML: found character"),
        ("name: *nobody\n", 1, "not valid YAML: found undefined alias"),
        ("name: a\ninner: !!python/object:os.system x\n", 2, "not valid YAML: could not determine a constructor"),
        ("name: a\ninner: 2024-13-45\n", 2, "not valid YAML: month must be in 1..12"),
        ("name: a\n? [1]\n: 2\n", 2, "not valid YAML: found unhashable key"),
        ("name: a\n---\nname: b\n", 2, "not valid YAML: but found another document"),
        ("- name\n", 1, "must be a mapping of fields"),
        ("", 1, "must be a mapping of fields"),
        ("just words\n", 1, "must be a mapping of fields"),
        ("name: a\x01\n", None, "not valid YAML: unacceptable character"),
        ("name: " + "[" * 1500, None, "not valid YAML: "),
        (b"name: \xff\n", None, "cannot be read: is not UTF-8 text"),
    ],
)
def test_file_line_and_field_are_named(tmp_path, text, line, says):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    place = f"{tmp_path / 'file.yaml'}{f':{line}' if line else ''}"
    assert caught.value.where == place
    assert str(caught.value).startswith(f"{place}: {says}")


def test_all_errors_are_told_at_once_in_the_files_order_and_long_values_cut(tmp_path):
    text = f"x: 1\nname: [{'a' * 200}]\nitems:\n- count: 1\n- count: few\n  ratio: -1\n"
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    path = tmp_path / "file.yaml"
    assert [line.partition(", got")[0] for line in caught.value.lines] == [
        f"{path}:1: field x: Extra inputs are not permitted",
        f"{path}:2: field name: Input should be a valid string",
        f"{path}:5: field items.1.count: Input should be a valid integer, unable to parse string as an integer",
        f"{path}:6: field items.1.ratio: Input should be greater than or equal to 0",
    ]
    assert caught.value.lines[1].endswith("got ['a" + "a" * 54 + "...")


def test_of_very_many_errors_the_first_are_told_and_the_others_counted(tmp_path):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "name: a\n" + "".join(f"x{number}: 1\n" for number in range(50)))
    assert len(caught.value.lines) == MOST_TOLD + 1
    assert caught.value.lines[-1] == "and 30 more"


def test_errors_come_whole_out_of_another_process(tmp_path):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, "x: 1\n")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.lines) == (UsageError, caught.value.lines)
    assert len(copy.lines) == 2


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefghij", "bcdefghijk", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("name: a\ninner:\n  count: 1\n  ratio: .inf\n", 4, "field inner.ratio: must be a finite number, got inf"),
        ("name: a\nitems:\n- count: .nan\n", 3, "field items.0.count: must be a finite number, got nan"),
        ('name: "x\\ud800y"\n', 1, "field name: must be text, got half a surrogate pair in 'x\\ud800y'"),
        ('name: a\nnamed:\n  "\\udfff": {count: 1}\n', 3, "half a surrogate pair"),
        (BOMB, 1, "more than 100000 values"),
    ],
)
def test_what_json_cannot_hold_is_refused(tmp_path, text, line, says):
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        load(tmp_path, text)
    assert caught.value.where == f"{tmp_path / 'file.yaml'}:{line}"
    str(caught.value).encode()


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_what_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(UsageError, match=f"^{re.escape(str(tmp_path / name))}: cannot be read: [A-Z]"):
        load_model(tmp_path / name, Outer)


def test_merge_keys_and_anchors_work(tmp_path):
    text = "name: a\nnamed:\n  a: &base {count: 1, ratio: 2}\n  b: {<<: *base, count: 3}\n"
    assert load(tmp_path, text).named == {"a": Inner(count=1, ratio=2), "b": Inner(count=3, ratio=2)}


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.text("a:-[]{}&*?!|>'\"\n #0.,", max_size=30))
def test_any_bytes_are_a_model_or_a_usage_error(tmp_path, content):
    with suppress(UsageError):
        load(tmp_path, content)


MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}\n" for level in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MERGES, "more than 100000 fields"),
        ("name: &a [*a]\n", "field name: it is more than 64 levels deep"),
        ("name: !!timestamp x\n", "not valid YAML"),
        ("name: !!bool x\n", "not valid YAML"),
    ],
)
def test_yaml_that_has_no_end_or_no_value_is_refused(tmp_path, text, says):
    """The merges would make 31 thousand million fields: a test that ends has not made them."""
    with pytest.raises(UsageError, match=says):
        load(tmp_path, text)
