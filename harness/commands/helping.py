# SPDX-License-Identifier: MIT
"""What `--list` and `--help` print: plain text, as wide as the terminal allows, 80 columns where there is none."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

from harness.cli.declaration import Command, Parameter
from harness.commands.catalogue import GROUPS
from harness.paths import PROGRAM

#: Longer lines are hard to read.
MOST_COLUMNS = 100
#: A longer name has its meaning on the next line.
NAME_COLUMNS = 22


def list_lines() -> list[str]:
    """All commands, in their groups, each with its sentence."""
    lines = [
        f"Usage: {PROGRAM} COMMAND [words and options]",
        f"{PROGRAM} COMMAND --help tells of one, docs/commands.md of all",
    ]
    longest = max(len(command.name) for commands in GROUPS.values() for command in commands)
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *_columns(((command.name, command.summary) for command in commands), longest)]
    return lines


def command_lines(command: Command[Any]) -> list[str]:
    """A command's words, sentence and options."""
    words = " ".join(word.metavar if word.required else f"[{word.metavar}]" for word in command.words)
    gathered = " ".join(f"{one.metavar}…" for one in command.parameters if one.option.words)
    rest = " [-- COMMAND…]" if any(one.option.rest for one in command.parameters) else ""
    usage = " ".join(filter(None, [PROGRAM, command.name, words, gathered, "[options]"]))
    lines = [f"Usage: {usage}{rest}", "", *textwrap.wrap(command.summary, _width()), "", "Options:"]
    return [*lines, *_columns(((_written(option), option.help) for option in command.parameters), NAME_COLUMNS)]


def _written(option: Parameter) -> str:
    if option.option.word or option.option.words:
        return option.metavar
    return f"{option.flag} {option.metavar}" if option.value_kind else option.flag


def _columns(rows: Iterable[tuple[str, str]], longest: int) -> list[str]:
    lines = []
    indent = " " * (longest + 4)
    for name, text in rows:
        wrapped = textwrap.wrap(text, _width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        if len(name) <= longest:
            wrapped[0] = f"  {name:<{longest}}  {wrapped[0].strip()}"
        else:
            wrapped.insert(0, f"  {name}")
        lines += wrapped
    return lines


def _width() -> int:
    return min(MOST_COLUMNS, shutil.get_terminal_size((80, 24)).columns)
