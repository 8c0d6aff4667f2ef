# SPDX-License-Identifier: MIT
"""How a command declares its options: once, in its function's signature.

    @command()
    def show(result: SetName, results: ResultsFolder = RESULTS) -> int:
        '''Print a finished set's tables.'''

A parameter is an option, or a word of its own: its name, type and default are the signature's, everything else stands
in the `Option` of its annotation. The Invoke task, the checks of values and the tables of docs/commands.md follow.

Standard library only: `inv` asks the declarations what to install before the virtual environment exists.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from harness.errors import UsageError
from harness.paths import RESULTS

P = ParamSpec("P")
T = TypeVar("T")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """What an annotation says of an option beside its type."""

    help: str  #: Markdown, with links as from docs/
    word: bool = False  #: also given as a word without a name; without a default it is required
    path: bool = False  #: the text may be a path: `~` is expanded
    writes: Written | None = None  #: the path is written: what cannot be is told before anything else is done
    least: int = 0  #: smallest number; of a list, how many parts it has at least
    most: int | None = None  #: largest number
    none: str = "none"  #: how the default None is told
    spares_guests: bool = False  #: with this switch, the command needs no guest
    needs_guests: bool = False  #: the command needs guests with this one alone
    rest: bool = False  #: also given as the words after `--`
    repeated: bool = False  #: may be given several times; each text stands as it is
    words: bool = False  #: a list, given as all words without a name
    bare: str = ""  #: the value that it has where none is given


@dataclass(frozen=True)
class Parameter:
    """One option of one command, as its signature declares it."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """What stands on the command line."""
        name = self.name.strip("_")  # with_ is --with, which Python has for a word of its own
        return f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}"

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def takes_path(self) -> bool:
        return self.option.path or _plain(self.type) is Path

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed words of the value, or of each part of a list; empty where anything goes."""
        plain = _plain(self.type)
        if get_origin(plain) is tuple:
            plain = get_args(plain)[0]
        return get_args(plain) if get_origin(plain) is Literal else ()

    def value(self, given: str | bool | list[str] | None) -> Any:
        """The typed value of what Invoke gives: a word, several, a switch, or None. UsageError naming the option."""
        if isinstance(given, list):
            return tuple(given) or self.default
        if given is None:
            if self.required:
                raise UsageError(f"{self.flag} is needed", hint=", ".join(self.choices) or None)
            return self.default
        if isinstance(given, bool):
            return given
        text = value_of(self.name, given) if self.option.word else given
        if not text:
            raise UsageError(f"{self.flag} needs a value")
        if self.option.words:
            return tuple(self._converted(str, word) for word in unquoted(self.flag, text))
        return self._converted(_plain(self.type), text)

    def _converted(self, kind: Any, text: str) -> Any:
        if get_origin(kind) is tuple:
            return self._parts(get_args(kind), text)
        if get_origin(kind) is Literal:
            if text not in get_args(kind):
                raise UsageError(f"{self.flag} {text}: must be one of {', '.join(get_args(kind))}")
            return text
        if kind is int:
            return self._number(text)
        if kind is Path:
            path = Path(expanded(text)).absolute()
            if self.option.writes:
                check_writable(self.flag, path, self.option.writes)
            return path
        return expanded(text) if self.option.path else text

    def _parts(self, kinds: tuple[Any, ...], text: str) -> tuple[Any, ...]:
        parts = tuple(self._converted(kinds[0], word) for word in text.split(",") if word)
        if kinds[-1] is not Ellipsis and len(parts) != len(kinds):
            raise UsageError(f"{self.flag} {text}: must be {len(kinds)} {self.name}, comma-separated")
        if len(parts) < self.option.least:
            raise UsageError(f"{self.flag} {text}: names no {self.name.removesuffix('s')}")
        return parts

    def _number(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{self.flag} {text}: must be a whole number") from None
        if number < 0:
            raise UsageError(f"{self.flag} {text}: must not be negative")
        if number < self.option.least:
            raise UsageError(f"{self.flag} {text}: must be {self.option.least} or more")
        if self.option.most is not None and number > self.option.most:
            raise UsageError(f"{self.flag} {text}: must be {self.option.most} or less")
        return number

    @property
    def value_kind(self) -> str:
        """What kind of value it takes, in one word; nothing for a switch."""
        plain = _plain(self.type)
        return {bool: "", int: "number", str: "text", Path: "path"}.get(plain, "list")

    @property
    def metavar(self) -> str:
        """What stands for its value where the command line is told."""
        if self.option.word or self.option.words:
            return self.name.strip("_").upper()
        if get_origin(_plain(self.type)) is Literal:
            return "WORD"
        return {"number": "N", "list": "LIST", "path": "PATH"}.get(self.value_kind, "TEXT")

    @property
    def default_text(self) -> str:
        """The default in Markdown."""
        if self.required:
            return "required"
        if self.default is None:
            return self.option.none
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        if isinstance(self.default, Path):
            return f"`{self.default.relative_to(RESULTS.parent)}/`"
        return f"`{self.default}`"

    @property
    def help(self) -> str:
        """One line for a terminal: meaning, allowed words, default."""
        text = re.sub(r"\[[^\]]+\]\(([\w-]+\.md)\)", r"docs/\1", self.option.help).replace("`", "")
        if self.choices:
            text += f" [{', '.join(self.choices)}]"
        told = "" if self.required or isinstance(self.default, bool) else self.default_text.replace("`", "")
        return f"{text} (default: {told})" if told else text


#: What a user wants to do, in the order of `--list`.
Group = Literal["Run a paper", "Look at results", "Your own work", "Upkeep"]

#: The only option that no command's function sees.
DEBUG = Parameter("debug", bool, False, Option("tell what is done, line by line, and show the traceback of an error"))


@dataclass(frozen=True)
class Command(Generic[P]):
    """A command of `./inv`: a function and what its signature declares. Calling it calls the function."""

    function: Callable[P, int | None]
    group: Group = "Upkeep"
    guests: bool = False  #: it builds or boots guests, with the tools tree or the host's tools
    tests: bool = False  #: it needs the packages of the tests

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> int | None:
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first paragraph of the function's docstring, in one line."""
        return " ".join((inspect.getdoc(self.function) or "").partition("\n\n")[0].split())

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All that may stand on its command line, in the order of the signature, then DEBUG.

        Where the signature has one dataclass, these are the fields of that.
        """
        return (*_declared(self._options_class or self.function), DEBUG)

    @cached_property
    def _options_class(self) -> Any:
        kinds = [kind for name, kind in get_type_hints(self.function).items() if name != "return"]
        return kinds[0] if len(kinds) == 1 and is_dataclass(kinds[0]) else None

    @property
    def words(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.option.word)

    def with_guests(self, given: Mapping[str, Any]) -> bool:
        """Whether it needs guests, called with these options."""
        spared = any(given.get(parameter.name) for parameter in self.parameters if parameter.option.spares_guests)
        needing = [parameter.name for parameter in self.parameters if parameter.option.needs_guests]
        return self.guests and not spared and (not needing or any(given.get(name) for name in needing))

    def values(self, given: Mapping[str, str | bool | list[str] | None]) -> dict[str, Any]:
        """Option to typed value, of what was given on the command line; UsageError for the first wrong one."""
        values = {}
        for parameter in self.parameters:
            if parameter is not DEBUG:
                told = given.get(parameter.name)
                bare = told is True and parameter.option.bare  # of plain `invoke`, which does not spell it out
                values[parameter.name] = parameter.value(bare or told)
        return values

    def run(self, values: Mapping[str, Any]) -> int | None:
        """Call the function with `values`."""
        call: Callable[..., int | None] = self.function
        return call(self._options_class(**values)) if self._options_class else call(**values)


def command(
    group: Group, *, guests: bool = False, tests: bool = False
) -> Callable[[Callable[P, int | None]], Command[P]]:
    """Make a command of a function. Its module has its name, and imports what is heavy in the function's body."""

    def declare(function: Callable[P, int | None]) -> Command[P]:
        return Command(function, group, guests, tests)

    return declare


def value_of(name: str, text: str) -> str:
    """The value in `NAME=value` or plain `value`; UsageError when another name is given or nothing."""
    key, separator, value = text.partition("=")
    if separator and key != name and "/" not in key:
        raise UsageError(f"{text!r}: expected {name}=… or just its value")
    chosen = value if separator and key == name else text
    if not chosen:
        raise UsageError(f"{name}= needs a value")
    return chosen


def expanded(text: str) -> str:
    """The text with `~` and `~USER` as a home folder; unknown users stay as they are."""
    return os.path.expanduser(text)  # noqa: PTH111  (Path's own raises for an unknown user)


def spelled_out(arguments: Sequence[str], commands: Mapping[str, Command[Any]]) -> list[str]:
    """`report ID …` as `report --result ID …`, `merge A B …` as `merge --result "A B" …`, `--trust` as
    `--trust=sandboxed`; everything else as it is.

    Words without a default are left to Invoke, which has no positional words that may be left out, or be many.
    """
    words = list(arguments)
    place = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    chosen = commands.get(words[place]) if place < len(words) else None
    bare = {option.flag: option.option.bare for option in chosen.parameters if option.option.bare} if chosen else {}
    words = [f"{word}={bare[word]}" if word in bare else word for word in words]
    gathers = next((option for option in chosen.parameters if option.option.words), None) if chosen else None
    if chosen is not None and gathers is not None:
        own, others = _told_apart(chosen, words[place + 1 :])
        return [*words[: place + 1], *([gathers.flag, shlex.join(own)] if own else []), *others]
    flag = next((word.flag for word in chosen.words if not word.required), None) if chosen else None
    if flag is not None and place + 1 < len(words) and not words[place + 1].startswith("-"):
        words.insert(place + 1, flag)
    return words


def _told_apart(chosen: Command[Any], words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without a name, and the others: options, each with its value."""
    takes_value = {option.flag for option in chosen.parameters if _plain(option.type) is not bool}
    own: list[str] = []
    others: list[str] = []
    value = False
    for word in words:
        (others if value or word.startswith("-") else own).append(word)
        value = not value and word in takes_value
    return own, others


def unquoted(flag: str, text: str) -> list[str]:
    """The words of a shell text; UsageError naming `flag` where its quotes do not match."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from None


def rest_as_option(arguments: Sequence[str], commands: Mapping[str, Command[Any]]) -> list[str]:
    """`kvmhost … -- ls 'a b'` as `kvmhost … --exec "ls 'a b'"`; everything else as it is.

    Invoke joins the words after `--` by blanks and so forgets where each ended.
    """
    words = list(arguments)
    if "--" not in words:
        return words
    before, after = words[: words.index("--")], words[words.index("--") + 1 :]
    name = next((word for word in before if word in commands), None)
    flag = next((option.flag for option in commands[name].parameters if option.option.rest), None) if name else None
    return [*before, flag, shlex.join(after)] if flag else words


def _declared(declares: Callable[..., Any]) -> list[Parameter]:
    hints = get_type_hints(declares, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(declares).parameters.items():
        hint = hints[name]
        options = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Option)]
        if get_origin(hint) is not Annotated or len(options) != 1:
            raise TypeError(f"{declares.__name__}: {name} has no Option")
        parameters.append(Parameter(name, get_args(hint)[0], parameter.default, options[0]))
    return parameters


def _plain(kind: Any) -> Any:
    """The type without `| None`."""
    if get_origin(kind) in {Union, types.UnionType}:
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


Written = Literal["file", "folder", "either"]


def check_writable(flag: str, path: Path, written: Written) -> None:
    """UsageError naming `flag` where no such file or folder can be made at `path`. Nothing is left there.

    Tried, for not everything that has the rights takes a file: /proc, a full disk, a read-only mount.
    """
    if written == "folder" and path.exists() and not path.is_dir():
        raise UsageError(f"{flag} {path}: is no folder")
    if path.is_file():
        if not os.access(path, os.W_OK):
            raise UsageError(f"{flag} {path}: cannot be written: Permission denied")
        return
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise UsageError(f"{flag} {path}: {there} is no folder")
    try:
        tempfile.TemporaryDirectory(dir=there, prefix=".krepro-").cleanup()
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot write in {there}: {error.strerror}") from error
