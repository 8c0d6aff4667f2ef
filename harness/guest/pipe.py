# SPDX-License-Identifier: MIT
"""The ends of a command's streams on the host: what feeds its input, and where its output goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import BinaryIO

import paramiko

from harness.machine.tail import Kept

#: Gives the next bytes of an input; nothing at its end.
Source = Callable[[], bytes]


class Sink(Kept):
    """A stream that is passed on as it comes, and not kept."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(0)
        self._file = file

    def add(self, block: bytes) -> None:
        self._file.write(block)
        self._file.flush()


class Feed:
    """An input on its way to a command; `error` is what reading it failed with."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.error: Exception | None = None

    def start(self, channel: paramiko.Channel) -> None:
        """Feed `channel` in a thread of its own: reading may wait for ever, and the command may end meanwhile."""
        threading.Thread(target=self._run, args=(channel,), daemon=True).start()

    def _run(self, channel: paramiko.Channel) -> None:
        try:
            while block := self._read():
                channel.sendall(block)
            channel.shutdown_write()
        except (OSError, EOFError, paramiko.SSHException):  # the command has ended without reading all of it
            pass

    def _read(self) -> bytes:
        try:
            return self._source()
        except Exception as error:
            self.error = error
            return b""
