# SPDX-License-Identifier: MIT
"""A CPU goes idle at an exact moment of its virtual clock, however the host's threads meet."""

from __future__ import annotations

import pytest

from harness.experiment.prepare import boot_files
from tests.halting import booted_memory, slow_halts

pytestmark = pytest.mark.timeout(900)


def test_a_slow_host_does_not_move_the_clock(store, classic, machine_spec, tmp_path):
    spec = machine_spec(classic, "virtual", "mailbox")
    files, _ = boot_files(store, classic, spec)
    quiet = booted_memory(spec, files, tmp_path / "quiet")
    with slow_halts(tmp_path):
        assert booted_memory(spec, files, tmp_path / "slow") == quiet
