# SPDX-License-Identifier: MIT
"""The tables of options and settings, which `./inv docs` puts into docs/commands.md where that names them."""

from __future__ import annotations

import inspect
from typing import Any

from harness.cli.declaration import Command, Parameter
from harness.commands.catalogue import COMMANDS
from harness.settings import SETTINGS

#: The line that a table takes the place of.
OPTIONS_OF, SETTINGS_HERE = "<!-- options of {} -->", "<!-- settings -->"


def with_tables(text: str) -> str:
    """The page with the table of every command as it is declared; one without a place has a section at the end.

    ValueError for a place that is there twice.
    """
    for name, command in COMMANDS.items():
        if f"\n{OPTIONS_OF.format(name)}\n" not in text:
            text += f"\n## {name}\n\n{inspect.getdoc(command.function)}\n\n{OPTIONS_OF.format(name)}\n"
    tables = {OPTIONS_OF.format(name): table_lines(command) for name, command in COMMANDS.items()}
    for line, table in {**tables, SETTINGS_HERE: settings_lines()}.items():
        before, *after = text.split(f"\n{line}\n")
        if len(after) != 1:
            raise ValueError(f"{line} stands {len(after)} times in the page")
        text = "\n".join([before, *table, after[0]])
    return text


def settings_lines() -> list[str]:
    """The settings of a machine as a Markdown table."""
    lines = ["| key | in the environment | default | meaning |", "|---|---|---|---|"]
    for one in SETTINGS:
        default = one.shown or ("on" if one.default else "off")
        lines.append(f"| `{one.key}` | `{one.variable}` | {default} | {one.help} |")
    return lines


def table_lines(command: Command[Any]) -> list[str]:
    """The options of a command as a Markdown table."""
    lines = ["| option | value | default | meaning |", "|---|---|---|---|"]
    for option in command.parameters:
        cells = (f"`{option.flag}`", _values(option), option.default_text, _meaning(command, option))
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return lines


def _values(option: Parameter) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.value_kind != "number":
        return option.value_kind
    bounds = ["at least", option.option.least or None], ["at most", option.option.most]
    return ", ".join(["number", *(f"{word} {bound}" for word, bound in bounds if bound is not None)])


def _meaning(command: Command[Any], option: Parameter) -> str:
    if option.option.words:
        return f"also as the words without a name: {option.option.help}"
    if not option.option.word:
        return option.option.help
    place = ("first", "second")[command.words.index(option)]
    return f"also as the {place} argument, or as `{option.name}=…`: {option.option.help}"
