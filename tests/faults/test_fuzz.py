# SPDX-License-Identifier: MIT
"""100,000 mutations for each reader of what others wrote, or KREPRO_MUTATIONS."""

from __future__ import annotations

import os

import pytest

from tests.faults.rows import fault
from tests.fuzzing import MOST_S, fuzz, readers

pytestmark = [pytest.mark.soak, pytest.mark.timeout(36000)]
READERS = readers()
MUTATIONS = int(os.environ.get("KREPRO_MUTATIONS", "100000"))


@fault(f"any of {len(READERS)} kinds of foreign files is mutated", "an error in one line, or a value", MOST_S)
@pytest.mark.parametrize("name", READERS)
def test_many_mutated_files_are_errors_or_values(name, tmp_path):
    outcome = fuzz(READERS[name], tmp_path, MUTATIONS, seed=2)
    assert not outcome.failures, "\n".join(outcome.failures)
    assert outcome.tried == MUTATIONS
    assert READERS[name].takes_all or outcome.refused > MUTATIONS // 100, "a reader that takes anything reads nothing"
