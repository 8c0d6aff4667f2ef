# SPDX-License-Identifier: MIT
"""What `--debug` tells while a command works: Python's `logging`, one line each, to standard error.

A module that has something to tell has `log = logging.getLogger(__name__)`. Standard library only.
"""

from __future__ import annotations

import logging
import sys

from harness.harmless import harmless

ROOT_LOGGER = logging.getLogger("harness")


class _OneLine(logging.Formatter):
    """What others wrote stands in it, too: it reaches no terminal's controls."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record)).replace("\n", "\\n")


def tell() -> None:
    """From now on this process tells all of it."""
    if ROOT_LOGGER.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("%(asctime)s.%(msecs)03d %(process)d %(name)s: %(message)s", "%H:%M:%S"))
    ROOT_LOGGER.addHandler(handler)
    ROOT_LOGGER.setLevel(logging.DEBUG)
    ROOT_LOGGER.propagate = False


def telling() -> bool:
    """Whether it does; a process that it starts then should, too."""
    return ROOT_LOGGER.isEnabledFor(logging.DEBUG)
