# SPDX-License-Identifier: MIT
"""Raw files of trials, changed in place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def said(path: Path) -> dict[str, Any]:
    """What is in a JSON file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def edit(path: Path, **fields: Any) -> None:
    """Some fields of a JSON file."""
    path.write_text(json.dumps(said(path) | fields) + "\n")


def change_json(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Fields of a JSON file get what `change` says of them."""
    edit(path, **change(said(path)))


@contextmanager
def records(path: Path, dtype: npt.DTypeLike, columns: int = 0) -> Iterator[npt.NDArray[Any]]:
    """A file's records, in rows of so many columns if there are some, to be changed."""
    found = np.fromfile(path, dtype=dtype)
    yield found.reshape(-1, columns) if columns else found
    found.tofile(path)
