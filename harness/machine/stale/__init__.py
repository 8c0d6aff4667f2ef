# SPDX-License-Identifier: MIT
"""The plugin that keeps translations true where several CPUs run and patch code; stale.c says why."""

from __future__ import annotations

from pathlib import Path

from harness.artefacts.store import Store
from harness.machine.board import Board
from harness.machine.plugin import build_plugin, plugin_api
from harness.machine.qemu import qemu_version

SOURCES = Path(__file__).resolve().parent


def stale_plugin(store: Store, board: Board) -> Path:
    """The compiled plugin in the store, for a kind of machine."""
    return build_plugin(store, "stale", SOURCES, plugin_api(qemu_version(board.qemu))).file("stale.so")
