# SPDX-License-Identifier: MIT
"""What the commands declare, and that tasks, values, help and the page of docs follow from it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest
from invoke import Exit

from harness.cli.declaration import DEBUG, Command, Option, command, rest_as_option, spelled_out
from harness.commands import optiontables
from harness.commands.catalogue import COMMANDS
from harness.commands.tasks import collection, task_of
from harness.errors import EXIT_USAGE, UsageError
from harness.paths import ROOT

OPTIONS = [(name, option) for name, one in COMMANDS.items() for option in one.parameters]
PATHS = [(name, option) for name, option in OPTIONS if option.takes_path]


@command("Upkeep")
def weigh(
    name: Annotated[str, Option("what, see [here](scales.md)", word=True)],
    unit: Annotated[Literal["g", "kg"], Option("a `unit`")] = "g",
    times: Annotated[int | None, Option("how often", least=2, none="once")] = None,
    parts: Annotated[tuple[Literal["top", "end"], ...] | None, Option("which", least=1)] = None,
    pair: Annotated[tuple[str, str] | None, Option("two")] = None,
    into: Annotated[Path | None, Option("file")] = None,
    like: Annotated[str | None, Option("another", path=True)] = None,
    dry: Annotated[bool, Option("no water", spares_guests=True)] = False,
) -> int:
    """Weigh something,
    and say it.

    Raises nothing.
    """
    return len(name)


# -- values ---------------------------------------------------------------------------------------------------


def test_without_options_the_defaults_of_the_signature_hold():
    given = dict.fromkeys(("unit", "times", "parts", "pair", "into", "like"))
    values = weigh.values({"name": "name=stone", **given, "dry": False, "debug": False})
    assert values == {"name": "stone", "unit": "g", **dict.fromkeys([*given][1:]), "dry": False}
    assert weigh.run(values) == weigh("stone") == 5


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("unit", "kg", "kg"),
        ("times", "2", 2),
        ("parts", "top,end,,", ("top", "end")),
        ("pair", "a,b", ("a", "b")),
        ("into", "/x/../y", Path("/x/../y")),
        ("into", "y", Path.cwd() / "y"),
        ("like", "y", "y"),
        ("dry", True, True),
    ],
)
def test_values_have_the_type_of_the_signature(option, text, value):
    assert weigh.values({"name": "x", option: text})[option] == value


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("name", None, "--name is needed"),
        ("name", "", "name= needs a value"),
        ("name", "unit=g", "'unit=g': expected name=… or just its value"),
        ("unit", "lb", "--unit lb: must be one of g, kg"),
        ("unit", "", "--unit needs a value"),
        ("times", "", "--times needs a value"),
        ("times", "x", "--times x: must be a whole number"),
        ("times", "1.5", "--times 1.5: must be a whole number"),
        ("times", "-1", "--times -1: must not be negative"),
        ("times", "1", "--times 1: must be 2 or more"),
        ("parts", "top,mid", "--parts mid: must be one of top, end"),
        ("parts", ",", "--parts ,: names no part"),
        ("pair", "a", "--pair a: must be 2 pair, comma-separated"),
        ("pair", "a,b,c", "--pair a,b,c: must be 2 pair, comma-separated"),
    ],
)
def test_wrong_values_name_the_option_and_what_may_stand_there(option, text, says):
    with pytest.raises(UsageError) as caught:
        weigh.values({"name": "x", option: text})
    assert str(caught.value) == says


def test_a_needed_option_says_what_may_stand_there():
    with pytest.raises(UsageError, match=r"--to is needed \(csv, parquet"):
        COMMANDS["export"].values({"result": "latest"})


def test_the_fields_of_one_dataclass_are_the_options():
    @dataclass(frozen=True)
    class Size:
        width: Annotated[int, Option("how wide")]
        height: Annotated[int, Option("how high")] = 1

    def area(size: Size) -> int:
        return size.width * size.height

    area.__annotations__ = {"size": Size}
    Size.__annotations__ = {"width": Annotated[int, Option("")], "height": Annotated[int, Option("")]}
    made = Command(area)
    assert [option.name for option in made.parameters] == ["width", "height", "debug"]
    assert made.run(made.values({"width": "6", "height": "7"})) == 42


def test_a_parameter_without_an_option_is_a_mistake():
    def bad(name: str, other: Annotated[str, Option("")]) -> None: ...

    bad.__annotations__ = {"name": str, "other": Annotated[str, Option("")]}
    with pytest.raises(TypeError, match="bad: name has no Option"):
        _ = Command(bad).parameters


# -- paths ----------------------------------------------------------------------------------------------------


def test_a_tilde_is_ones_home_in_every_path_of_every_command(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = (f"{tmp_path}/a b/c", tmp_path / "a b/c", (f"{tmp_path}/a b/c",))
    for name, option in PATHS:
        for text in ("~/a b/c", f"{option.name}=~/a b/c" if option.option.word else "~/a b/c"):
            words = {word.name: "x" for word in COMMANDS[name].words}
            given = shlex.quote(text) if option.option.words else text
            words |= {one.name: one.choices[0] for one in COMMANDS[name].parameters if one.choices}
            value = COMMANDS[name].values({**words, "result": "x", option.name: given})
            assert value[option.name] in home, (name, option.flag)


def test_no_option_that_tells_of_a_path_was_forgotten():
    told = {
        (name, option.name)
        for name, option in OPTIONS
        if any(word in option.option.help.lower() for word in ("path", "folder", " file", "result set"))
    }
    unlike = {  # they tell of such a thing and are none
        ("boot", "out"),  # the guest's; the host's, behind the colon, is expanded where it is taken apart
        ("compare", "force"),
        ("prune", "kind"),
        ("run", "resume"),
        ("run", "reuse"),
    }
    assert told - unlike <= {(name, option.name) for name, option in PATHS}
    with_paths = "run results show verify compare figures predict prune nightly report export replay reference"
    assert set(with_paths.split()) <= {name for name, _ in PATHS}


# -- declarations ---------------------------------------------------------------------------------------------


# -- tasks ----------------------------------------------------------------------------------------------------


def test_there_is_a_task_for_every_command_with_its_options():
    tasks = {context.name: context for context in collection().to_contexts()}
    assert tasks.keys() == COMMANDS.keys()
    for name, one in COMMANDS.items():
        assert set(tasks[name].args) >= {option.name.strip("_").replace("_", "-") for option in one.parameters}
        assert [word.name for word in tasks[name].positional_args] == [w.name for w in one.words if w.required]
        assert "-h" not in tasks[name].flags, "./inv COMMAND -h is a call for help"
        for option in one.parameters:
            assert tasks[name].flags[option.flag].help == option.help
            assert (tasks[name].flags[option.flag].kind is bool) == (option.type is bool)


def test_a_task_calls_the_function_with_values_and_ends_with_its_code(capsys):
    with pytest.raises(Exit) as ended:
        task_of(weigh).body(None, name="name=stone", times="3", debug=False)
    assert ended.value.code == 5
    with pytest.raises(Exit) as ended:
        task_of(weigh).body(None, name="x", times="0", debug=False)
    assert ended.value.code == EXIT_USAGE
    assert capsys.readouterr().err == "krepro: --times 0: must be 2 or more\n"
    with pytest.raises(UsageError):
        task_of(weigh).body(None, name="x", times="0", debug=True)


def test_packages_are_seen_to_where_guests_are_needed_and_words_are_right(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr("harness.debian.ensure_guest_packages", lambda: asked.append("packages"))
    monkeypatch.delenv("KREPRO_HOST_TOOLS", raising=False)
    task = task_of(Command(weigh.function, guests=True))
    with pytest.raises(Exit):
        task.body(None, name="x", debug=False)
    assert asked == []
    monkeypatch.setenv("KREPRO_HOST_TOOLS", "1")
    for given in ({"name": ""}, {"name": "x", "dry": True}):
        with pytest.raises(Exit):
            task.body(None, **given, debug=False)
        assert asked == []
    with pytest.raises(Exit):
        task.body(None, name="x", debug=False)
    assert asked == ["packages"]


def test_help_for_a_terminal_is_plain():
    options = {option.name: option for option in weigh.parameters}
    assert options["name"].help == "what, see docs/scales.md"
    assert options["unit"].help == "a unit [g, kg] (default: g)"
    assert options["times"].help == "how often (default: once)"
    assert options["parts"].help == "which [top, end] (default: none)"
    assert options["dry"].help == "no water"
    assert weigh.summary == "Weigh something, and say it."


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        (["report", "latest"], ["report", "--result", "latest"]),
        (["report", "latest", "--out", "x"], ["report", "--result", "latest", "--out", "x"]),
        (["--echo", "report", "a/b"], ["--echo", "report", "--result", "a/b"]),
        (["report"], ["report"]),
        (["report", "--out", "x"], ["report", "--out", "x"]),
        (["export", "latest", "--to", "csv"], ["export", "latest", "--to", "csv"]),
        (["nonsense", "x"], ["nonsense", "x"]),
        (["--list"], ["--list"]),
        (
            ["merge", "a", "b c", "--results", "r", "--trust", "d"],
            ["merge", "--result", "a 'b c' d", "--results", "r", "--trust=sandboxed"],
        ),
        (["merge", "--results=r", "a"], ["merge", "--result", "a", "--results=r"]),
        (["merge", "--result", "a b"], ["merge", "--result", "a b"]),
        ([], []),
    ],
)
def test_only_an_optional_first_word_is_spelled_out(words, becomes):
    assert spelled_out(words, COMMANDS) == becomes


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        (["kvmhost", "--", "ls", "a b"], ["kvmhost", "--exec", "ls 'a b'"]),
        (["--root", "/x", "kvmhost", "--", "ls", "--"], ["--root", "/x", "kvmhost", "--exec", "ls --"]),
        (["kvmhost", "--cpus", "1"], ["kvmhost", "--cpus", "1"]),
        (["show", "latest", "--", "x"], ["show", "latest", "--", "x"]),
        (["--", "kvmhost"], ["--", "kvmhost"]),
        ([], []),
    ],
)
def test_what_stands_after_two_dashes_stays_the_words_it_was(words, becomes):
    assert rest_as_option(words, COMMANDS) == becomes


# -- docs -----------------------------------------------------------------------------------------------------


def test_the_page_has_a_place_for_the_options_of_each_command():
    text = (ROOT / "docs/commands.md").read_text()
    assert optiontables.with_tables(text).count("| option |") == len(COMMANDS)
    without = optiontables.with_tables(text.replace("<!-- options of bench -->", ""))
    assert without.endswith("\n".join(optiontables.table_lines(COMMANDS["bench"])) + "\n")
    assert f"## bench\n\n{COMMANDS['bench'].summary}" in without
    with pytest.raises(ValueError, match="<!-- options of bench --> stands 2 times"):
        optiontables.with_tables(f"{text}\n<!-- options of bench -->\n")


def test_the_page_names_the_commands_with_guests():
    (sentence,) = re.findall(r"^([^.]*) use QEMU and a compiler", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", sentence) == [name for name, one in COMMANDS.items() if one.guests]


def test_rows_tell_value_default_and_meaning():
    lines = optiontables.table_lines(weigh)
    assert (
        lines[2]
        == "| `--name` | text | required | also as the first argument, or as `name=…`: what, see [here](scales.md) |"
    )
    assert lines[3] == "| `--unit` | `g`, `kg` | `g` | a `unit` |"
    assert lines[4] == "| `--times` | number, at least 2 | once | how often |"
    assert lines[-2:] == ["| `--dry` | | off | no water |", f"| `--debug` | | off | {DEBUG.option.help} |"]
    assert get_args(weigh.parameters[1].type) == ("g", "kg")


def test_there_are_few_options():
    """Of all commands together; a setting of the machine is none of them."""
    assert len({option.flag for _, option in OPTIONS}) <= 50
