# SPDX-License-Identifier: MIT
"""Every raw file of a golden trial of every arm: deleted, truncated or filled with noise; in a soak each of them."""

from __future__ import annotations

import pytest

from tests.faults.rows import fault
from tests.unit.test_damage import check_damage, pairs


@fault("a raw file is missing, cut or noise", "it costs what it tells, with a reason; all else stands")
@pytest.mark.parametrize(
    "every_state", [pytest.param(True, marks=pytest.mark.soak, id="each"), pytest.param(False, id="one")]
)
@pytest.mark.parametrize(("name", "arm"), pairs(chosen=False))
def test_a_damaged_file_costs_what_it_tells_and_nothing_else(name, arm, every_state, tmp_path):
    check_damage(name, arm, tmp_path, every_state)
