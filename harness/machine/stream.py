# SPDX-License-Identifier: MIT
"""A saved state between its file and QEMU: QEMU sees one end of a pipe, and starts no program to read or write it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

BLOCK_BYTES = 1 << 20


class Outgoing:
    """The state in `file` on its way to QEMU, which reads `descriptor`. OSError when the file cannot be opened."""

    def __init__(self, file: Path) -> None:
        self._source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        self.descriptor, self._sink = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """QEMU has `descriptor`: close it here, and begin."""
        self._close_reader()
        self._thread.start()

    def close(self) -> None:
        """Wait until QEMU has read all or ended."""
        self._close_reader()
        if self._thread.ident is None:
            os.close(self._sink)
            os.close(self._source)
        else:
            self._thread.join()

    def _close_reader(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _run(self) -> None:
        try:
            with suppress(OSError):  # QEMU ended before it had read all, and is asked why elsewhere
                while os.sendfile(self._sink, self._source, None, BLOCK_BYTES):
                    pass
        finally:
            os.close(self._sink)
            os.close(self._source)


class Incoming:
    """The state that QEMU writes into `descriptor`, on its way to `file`. OSError when the file cannot be made."""

    def __init__(self, file: Path) -> None:
        self._sink = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._source, self.descriptor = os.pipe()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """QEMU has `descriptor`: close it here, and begin."""
        os.close(self.descriptor)
        self._thread.start()

    def finish(self) -> None:
        """Wait until QEMU has written all. OSError when the file did not take it."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while block := os.read(self._source, BLOCK_BYTES):
                left = memoryview(block)
                while left:
                    left = left[os.write(self._sink, left) :]
        except OSError as error:
            self._error = error
        finally:
            os.close(self._source)
            os.close(self._sink)
