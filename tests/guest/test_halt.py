# SPDX-License-Identifier: MIT
"""A CPU goes idle at an exact moment of its virtual clock, however the host's threads meet."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.errors import RunError
from harness.machine import machine
from harness.machine.sandbox import View
from harness.machine.spec import view
from harness.trial.prepare import boot_files
from tests.halting import booted_memory, slow_halts


@pytest.mark.deep
def test_a_slow_host_does_not_move_the_clock(store, classic, machine_spec, tmp_path):
    spec = machine_spec(classic, "virtual", "mailbox")
    files, _ = boot_files(store, classic, spec)
    quiet = booted_memory(spec, files, tmp_path / "quiet")
    with slow_halts(tmp_path):
        assert booted_memory(spec, files, tmp_path / "slow") == quiet


def test_the_size_of_the_tlb_is_no_matter_of_the_hosts_clock(store, classic, machine_spec, tmp_path, monkeypatch):
    """A plugin that is loaded but not preloaded says so: then the host's clock would be asked."""
    spec = machine_spec(classic, "virtual", "mailbox")
    files, _ = boot_files(store, classic, spec)

    def seen(*words: Any) -> View:
        return dataclasses.replace(view(*words), preload=())

    monkeypatch.setattr(machine, "view", seen)
    with pytest.raises(RunError, match=r"QEMU did not start: .*halt\.so: .*error code -1"):
        booted_memory(spec, files, tmp_path / "loaded")
    assert "this plugin is not preloaded" in "".join(p.read_text() for p in tmp_path.rglob("qemu.stderr"))
