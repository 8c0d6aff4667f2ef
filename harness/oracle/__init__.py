# SPDX-License-Identifier: MIT
"""The oracle: exact ground truth for a trial, taken from outside the guest by a QEMU TCG plugin."""

from pathlib import Path

#: Sources of the plugin.
SOURCES = Path(__file__).resolve().parent / "plugin"
