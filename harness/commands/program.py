# SPDX-License-Identifier: MIT
"""The command line of `./inv` and of `krepro`: Invoke, with our exit code for words that it does not know."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from invoke import Exit, ParseError, Program

import harness
from harness.cli import terminal
from harness.cli.declaration import rest_as_option, spelled_out
from harness.commands import helping
from harness.commands.catalogue import COMMANDS
from harness.commands.tasks import collection
from harness.errors import EXIT_USAGE
from harness.paths import PROGRAM


class Krepro(Program):
    """Invoke's program; an unknown task or option is one line and exit code 2, where Invoke's own is 1.

    1 says here that a claim is contradicted. Plain `invoke` does not come by this class and keeps its 1.
    """

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:
        """Invoke ends with 1, and without a word, when it is interrupted before a task has begun."""
        try:
            super().run(argv, exit)
        except SystemExit as error:
            if isinstance(error.__context__, KeyboardInterrupt) and error.code == 1:
                raise error.__context__ from None
            raise

    def parse_core(self, argv: list[str] | None) -> None:
        with _usage():
            super().parse_core(rest_as_option(sys.argv if argv is None else argv, COMMANDS))

    def parse_tasks(self) -> None:
        words = self.core.unparsed
        if words and words[0] in COMMANDS and not {"--help", "-h"}.isdisjoint(words):
            self.args.help.value = words[0]  # Invoke would take --help for a word that the command misses
            words.clear()
        words[:] = spelled_out(words, COMMANDS)
        with _usage():
            super().parse_tasks()

    def list_tasks(self) -> None:
        print("\n".join(helping.list_lines()))

    print_help = list_tasks

    def print_task_help(self, name: str) -> None:
        print("\n".join(helping.command_lines(COMMANDS[name])))


@contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except ParseError as error:
        raise Exit(f"krepro: {_plain(str(error))} ({PROGRAM} --list)", EXIT_USAGE) from error


def _plain(message: str) -> str:
    """In one line, with options called as a user calls them: Python has the word `with` for itself."""
    return re.sub(r"'(\w+)_'", r"'\1'", " ".join(message.split()))


_name = Path(PROGRAM).name
program = Krepro(name="krepro", binary=_name, binary_names=[_name], version=harness.__version__, namespace=collection())


def main() -> None:
    """All of it, of a process that runs nothing else."""
    sys.argv[1:] = sys.argv[1:] or ["--list"]
    terminal.end_in_order()
    try:
        with terminal.read_or_not():
            program.run()
    except KeyboardInterrupt as error:  # before the command began, or after it was done
        sys.exit(terminal.interrupted(error))
    except Exception as error:
        if not terminal.asked_to_end():
            raise
        sys.exit(terminal.interrupted(error))


if __name__ == "__main__":
    main()
