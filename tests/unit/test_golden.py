# SPDX-License-Identifier: MIT
"""The golden trials of every experiment decode to what they decoded to; see tests/golden.py."""

from __future__ import annotations

import json

import pytest

from tests.golden import GOLDEN, decoded, golden_names, text, unpack

#: All golden trials together, bytes.
MOST_BYTES = 9 << 18


@pytest.mark.parametrize("name", golden_names())
def test_golden_trials_decode_as_they_did(name, tmp_path, request):
    now = decoded(unpack(name, tmp_path))
    file = GOLDEN / name / "expected.json"
    if request.config.getoption("--update"):
        file.write_text(text(now))
    then = json.loads(file.read_text())
    assert now["tables"].keys() == then["tables"].keys()
    for table, told in now["tables"].items():
        assert told == then["tables"][table], table
    before = {tuple(row[:3]): row[3:] for row in then["metrics"]}
    after = {tuple(row[:3]): row[3:] for row in now["metrics"]}
    assert after.keys() == before.keys()
    for key, (value, unit, reason) in after.items():
        was, old_unit, old_reason = before[key]
        assert (unit, reason) == (old_unit, old_reason), key
        assert value == pytest.approx(was, rel=1e-9, abs=0) if value is not None else was is None, key


@pytest.mark.parametrize("name", golden_names())
def test_no_part_of_them_is_lost_for_what_a_table_declares(name, tmp_path):
    """Files may have been left out of them; rows that do not fit their own table are a fault of the decoder."""
    reasons = unpack(name, tmp_path).tables()["problems"]["reason"]
    assert [reason for reason in reasons if reason.startswith("table ")] == []


def test_golden_trials_are_small():
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) <= MOST_BYTES
