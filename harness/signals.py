# SPDX-License-Identifier: MIT
"""The signals that end a command. Standard library only."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: Ctrl-C, a polite kill, a terminal that is closed.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def unsignalled() -> Iterator[None]:
    """Put off what ends a command, and the end of a night's budget (SIGALRM), until the block is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, signal.SIGALRM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
