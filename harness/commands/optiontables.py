# SPDX-License-Identifier: MIT
"""The tables of options in docs/commands.md: `python -m harness.commands.optiontables` writes them into it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.commands.catalogue import COMMANDS
from harness.commands.declaration import Command, Parameter
from harness.paths import ROOT
from harness.settings import SETTINGS

PAGE = ROOT / "docs/commands.md"
#: Between these two lines of a command stands its table.
BEGIN, END = "<!-- options of {} -->", "<!-- end of options -->"
SETTINGS_BEGIN, SETTINGS_END = "<!-- settings -->", "<!-- end of settings -->"


def with_tables(text: str) -> str:
    """The page with the table of every command as it is declared; ValueError when one has no place."""
    for command in COMMANDS.values():
        begin = BEGIN.format(command.name)
        pattern = re.compile(f"^{re.escape(begin)}\n.*?^{re.escape(END)}$", re.MULTILINE | re.DOTALL)
        places = list(pattern.finditer(text))
        if len(places) != 1:
            raise ValueError(f"{begin} … {END} stands {len(places)} times in the page")
        text = text.replace(places[0][0], "\n".join([begin, *table_lines(command), END]))
    before, _, rest = text.partition(SETTINGS_BEGIN)
    after = rest.partition(SETTINGS_END)[2]
    return "\n".join([f"{before}{SETTINGS_BEGIN}", *settings_lines(), f"{SETTINGS_END}{after}"])


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


def main(page: Path = PAGE) -> None:
    """Write the tables into the page."""
    page.write_text(with_tables(page.read_text()))


if __name__ == "__main__":
    main()
