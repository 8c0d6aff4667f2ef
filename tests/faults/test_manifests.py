# SPDX-License-Identifier: MIT
"""100,000 mutated manifests through all that reads one, or KREPRO_MUTATIONS."""

from __future__ import annotations

import os

import pytest

from tests.faults.rows import fault
from tests.hostile.manifests import MOST_S, fuzz

pytestmark = [pytest.mark.soak, pytest.mark.timeout(36000)]
MUTATIONS = int(os.environ.get("KREPRO_MUTATIONS", "100000"))
SHARDS = 10


@fault("a set's manifest is mutated, and sealed as a forger would", "an error in one line, or a value", MOST_S)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_many_mutated_manifests_are_errors_or_values_to_all(tmp_path, shard):
    outcome = fuzz(tmp_path, MUTATIONS // SHARDS, seed=101 + shard)
    assert not outcome.failures, "\n".join(outcome.failures)
    assert outcome.tried == MUTATIONS // SHARDS
    assert outcome.opened > outcome.tried // 20, "readers of nothing but damage read nothing"
