# SPDX-License-Identifier: MIT
"""Config fragments: every line is used, or an error that names it. Kconfig itself passes over what it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UsageError

#: A line of a fragment (scripts/kconfig/confdata.c); a text in quotes may hold anything but a quote that ends it.
SET = re.compile(r'(CONFIG_\w+)=([ymn]|-?\d+|0[xX][0-9a-fA-F]+|"(?:[^"\\]|\\.)*")')
UNSET = re.compile(r"# (CONFIG_\w+) is not set")
#: What is meant as one of these and is neither, to Kconfig: a comment, or nothing.
MEANT = re.compile(r"\s*#\s*(?:CONFIG_)?\w+\s+is\s+not\s+set\b|\s*[^#\s]")
HINT = 'whole lines CONFIG_NAME=y, CONFIG_NAME=5, CONFIG_NAME="text" or # CONFIG_NAME is not set'


def read_fragment(path: Path) -> dict[str, str]:
    """Option to value, "n" for `is not set`. UsageError with file and line for what is no option, or is there twice."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"is no text: {error.reason} at byte {error.start}", where=str(path)) from error
    options: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        given, left_out = SET.fullmatch(line), UNSET.fullmatch(line)
        if given is None and left_out is None:
            if MEANT.match(line):
                raise UsageError(f"is no config option: {line[:80]!r}", where=where, hint=HINT)
            continue
        name, value = (given[1], given[2]) if given is not None else (left_out[1], "n")  # type: ignore[index]
        if name in options:
            raise UsageError(f"{name} is there twice", where=where)
        options[name] = value
    return options


def requested_options(fragments: Iterable[Path]) -> dict[str, str]:
    """Option to wanted value ("n" for `is not set`), a later fragment winning over an earlier one."""
    wanted: dict[str, str] = {}
    for fragment in fragments:
        wanted.update(read_fragment(fragment))
    return wanted
