# SPDX-License-Identifier: MIT
"""The Invoke tasks of the commands: parse, check, call, and end with the exit code."""

from __future__ import annotations

import inspect
from typing import Any

from invoke import Collection, Context, Task

from harness import debian, settings
from harness.artefacts.store import Store
from harness.cli import terminal
from harness.cli.declaration import Command, Parameter
from harness.commands.catalogue import COMMANDS
from harness.host.examine import check_room
from harness.packages.tree import tree_home


def collection() -> Collection:
    """A task for every command."""
    return Collection(*(task_of(command) for command in COMMANDS.values()))


def task_of(command: Command[Any]) -> Task[Any]:
    """The task of a command: its options are texts or switches, which the declarations make values of."""

    def body(_context: Context, **given: Any) -> None:
        def action() -> int | None:
            values = command.values(given)
            settings.check()
            if command.with_guests(values):
                prepare_host()
            return command.run(values)

        terminal.guarded(action, debug=given["debug"])

    options = [_option(parameter) for parameter in command.parameters]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    body.__signature__ = inspect.Signature([context, *options])  # type: ignore[attr-defined]
    body.__name__, body.__doc__ = command.name, command.summary
    return Task(
        body,
        positional=[word.name for word in command.words if word.required],
        optional=[parameter.name for parameter in command.parameters if parameter.option.bare],
        iterable=[parameter.name for parameter in command.parameters if parameter.option.repeated],
        help={parameter.name: parameter.help for parameter in command.parameters},
        auto_shortflags=False,  # a letter that changes its meaning with the next option is none to get used to
    )


def prepare_host() -> None:
    """What a command with guests needs before all else; UsageError where it is not to be had."""
    if debian.host_tools():
        debian.ensure_guest_packages()
        return
    root = Store.default().root
    if not tree_home(root).is_dir():
        check_room(root)


def _option(parameter: Parameter) -> inspect.Parameter:
    """A switch, a word that Invoke requires, or a text that may be left out; its default is the declaration's."""
    default: Any = parameter.default if isinstance(parameter.default, bool) else None
    if parameter.option.word and parameter.required:
        default = inspect.Parameter.empty
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default)
