# SPDX-License-Identifier: MIT
"""Every reader of what others wrote, on mutations of true files; tests/faults/test_fuzz.py tries very many."""

from __future__ import annotations

import pytest

from tests.fuzzing import fuzz, readers

READERS = readers()
QUICK = 40


@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_an_error_or_a_value(name, tmp_path):
    outcome = fuzz(READERS[name], tmp_path, QUICK)
    assert not outcome.failures, "\n".join(outcome.failures)
    assert outcome.tried == QUICK


@pytest.mark.parametrize("name", READERS)
def test_a_true_file_is_read(name, tmp_path):
    reader = READERS[name]
    for path, data in {**reader.beside, reader.name: reader.corpus[0]}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    reader.read(tmp_path)
