# SPDX-License-Identifier: MIT
"""The plugin that keeps the virtual clock exact where a CPU goes idle, and QEMU's TLB; halt.c and tlb.c say why."""

from __future__ import annotations

from pathlib import Path

from harness.artefacts.store import Store
from harness.machine.board import Board
from harness.machine.plugin import build_plugin, plugin_api
from harness.machine.qemu import qemu_version

SOURCES = Path(__file__).resolve().parent


def halt_plugin(store: Store, board: Board) -> Path:
    """The compiled plugin in the store, for the instruction set of a kind of machine."""
    return build_plugin(store, "halt", SOURCES, plugin_api(qemu_version(board.qemu)), board.define).file("halt.so")
