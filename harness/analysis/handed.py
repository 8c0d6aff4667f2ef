# SPDX-License-Identifier: MIT
"""What a process hands out that is not trusted: lines of JSON, files, text, and errors. All of it has a size."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.errors import KreproError, RunError, UsageError

#: Bytes of all files that it hands out, of one line, and of what it prints; characters of one message.
MOST_FILES_BYTES, MOST_LINE, MOST_PRINTED, MOST_MESSAGE = 8 << 30, 8 << 20, 16 << 20, 4000
MOST_FILES = 10_000
#: Lines of what it prints that are shown, and characters of each.
MOST_SHOWN_LINES, MOST_WIDTH = 1000, 500


class _Trace(Exception):
    """The traceback of an error in the other process, for --debug."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Refused(Exception):
    """What came is not what may come."""


class Taken:
    """What a process hands out: lines of JSON and files, of names that are `allowed`, which are put into `target`."""

    def __init__(self, target: Path, allowed: re.Pattern[str]) -> None:
        self.files: list[Path] = []
        self._target = target
        self._allowed = allowed
        self._held = b""
        self._open: IO[bytes] | None = None
        self._left = 0
        self._bytes = 0

    def take(self, data: bytes) -> list[Any]:
        """The lines that are whole with `data`, but those of files. Refused when it is not what may come."""
        told: list[Any] = []
        self._held += data
        while self._held:
            if self._open is not None:
                part, self._held = self._held[: self._left], self._held[self._left :]
                self._open.write(part)
                self._left -= len(part)
                if not self._left:
                    self._open.close()
                    self._open = None
                continue
            line, end, rest = self._held.partition(b"\n")
            if not end:
                if len(line) > MOST_LINE:
                    raise Refused("gave a line without an end")
                break
            self._held = rest
            try:
                one = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise Refused("gave an answer that is none") from error
            if isinstance(one, dict) and "file" in one:
                self._begin(one["file"], one.get("size"))
            else:
                told.append(one)
        return told

    def _begin(self, name: object, size: object) -> None:
        if not isinstance(name, str) or self._allowed.fullmatch(name) is None:
            raise Refused(f"hands out {name!a}, which is nothing of what it makes")
        if not isinstance(size, int) or size < 0 or len(self.files) >= MOST_FILES:
            raise Refused("hands out more files than it may")
        self._bytes += size
        if self._bytes > MOST_FILES_BYTES:
            raise Refused(f"hands out more than {MOST_FILES_BYTES >> 30} GiB")
        path = self._target / name
        if path in self.files:
            raise Refused(f"hands out {name} twice")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files.append(path)
        self._open, self._left = path.open("wb"), size
        if not size:
            self._open.close()
            self._open = None

    def close(self) -> None:
        """What is not whole is removed."""
        if self._open is not None:
            self._open.close()
            self._open = None
            self.files.pop().unlink()


class Printed:
    """What a process prints: shown line by line, or not; the last line is kept."""

    def __init__(self, show: Callable[[str], object] | None) -> None:
        self.last = ""
        self._show = show
        self._held = b""
        self._bytes = 0
        self._lines = 0

    def take(self, data: bytes) -> bool:
        """Whether it may go on."""
        self._bytes += len(data)
        *whole, self._held = (self._held + data).split(b"\n")
        self._held = self._held[-MOST_WIDTH:]
        for line in whole if data else [self._held]:
            text = line[:MOST_WIDTH].decode(errors="replace").rstrip()
            self.last = text.strip() or self.last
            if self._show is not None and text and self._lines < MOST_SHOWN_LINES:
                self._lines += 1
                self._show(text)
        return self._bytes <= MOST_PRINTED


def error_of(told: Any) -> KreproError:
    """The error that another process tells of."""
    kind = UsageError if told["usage"] is True else RunError
    message, hint, where = (
        told[name] and " ".join(str(told[name]).split())[:MOST_MESSAGE] for name in ("message", "hint", "where")
    )
    made = kind(message, hint=hint, where=where, also=[error_of(one) for one in told["also"][:MOST_SHOWN_LINES]])
    made.__cause__ = _Trace(str(told["trace"]))
    return made
