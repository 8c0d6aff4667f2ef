# SPDX-License-Identifier: MIT
"""A kernel that patches itself for long while two CPUs run at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shim_guests import check_storm

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def test_no_cpu_runs_for_ever_what_another_has_patched(tmp_path: Path):
    check_storm(tmp_path, 50)
