# SPDX-License-Identifier: MIT
"""When each stage of a command began and how long it took, in whichever of its processes. Standard library only.

`./inv` makes .venv and begins to fetch before the command's own process is there: both leave what they took in a file.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

#: Environment variable with that file's path. It is of this command alone, and not of those that it starts.
EARLIER = "KREPRO_STAGES"


@dataclass(frozen=True)
class Stage:
    """`begun`: by time.monotonic(), which all processes of a host share; `waited_for`: what another process made."""

    name: str
    begun: float
    seconds: float
    waited_for: str = ""


_earlier = os.environ.pop(EARLIER, "")
_own: list[Stage] = []
_kept_in: list[Path] = []


def keep_in(file: Path) -> None:
    """From now on this process's stages are for the command's own process, which reads them in `file`."""
    _kept_in[:] = [file]


def ended(name: str, begun: float, waited_for: str = "") -> None:
    """A stage that began at `begun` (time.monotonic()) has ended."""
    stage = Stage(name, begun, time.monotonic() - begun, waited_for)
    _own.append(stage)
    for file in _kept_in:
        with suppress(OSError), file.open("a") as sink:
            sink.write(json.dumps(asdict(stage)) + "\n")


def taken() -> list[Stage]:
    """All stages of this command that have ended, in the order in which they began."""
    return sorted([*_read(), *_own], key=lambda stage: stage.begun)


def made_environment_since() -> float | None:
    """When this command began to make .venv, in seconds as time.time() has them; None where it was there."""
    begun = [stage.begun for stage in _read()]
    return time.time() - (time.monotonic() - min(begun)) if begun else None


def _read() -> list[Stage]:
    if not _earlier:
        return []
    with suppress(OSError, ValueError, TypeError):
        return [Stage(**json.loads(line)) for line in Path(_earlier).read_text().splitlines()]
    return []
