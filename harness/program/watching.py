# SPDX-License-Identifier: MIT
"""`locks --verbose`: what a tracer says of its guest's stream while the program runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.errors import KreproError
from harness.measure.tracer import TracerFile
from harness.progress import warn

LOOK_S = 0.2
#: A part is some hundred lines: what is longer is none.
MOST_PART = 64 << 20
END = b"\n\n"


@contextmanager
def watching(tracer: TracerFile, console: Console, path: Path) -> Iterator[None]:
    """Print the tracer's lines about each part of the growing file, until the block ends."""
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(tracer, console, path, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(tracer: TracerFile, console: Console, path: Path, ended: threading.Event) -> None:
    done, rest, before = 0, b"", None
    last = False
    while not last:
        last = ended.wait(LOOK_S)
        try:
            with path.open("rb") as stream:
                stream.seek(done)
                new = stream.read()
        except FileNotFoundError:
            continue
        done += len(new)
        *parts, rest = (rest + new).split(END)
        if len(rest) > MOST_PART:
            rest = b""
        for part in parts:
            text = part.decode(errors="replace") + "\n"
            try:
                lines = tracer.watched(text, before)
            except KreproError as error:
                warn(str(error))
                return
            for line in lines:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            before = text
