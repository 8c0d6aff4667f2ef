# SPDX-License-Identifier: MIT
"""Text of others on a terminal: nothing that steers it gets through, wherever it is printed."""

from __future__ import annotations

import io
import sys

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke import Exit
from rich.table import Table
from rich.text import Text

from harness.cli import terminal
from harness.cli.terminal import print_lines
from harness.commands.show import show
from harness.errors import RunError
from harness.harmless import harmless
from harness.progress import harmless_console, step
from harness.report.terminal import frame_table
from tests.small_sets import EXPERIMENT, small_experiment, small_set

STEERS = {
    "ESC": ("\x1b", r"\x1b"),
    "CSI": ("\x1b[2J", r"\x1b[2J"),
    "OSC": ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
    "OSC 8": ("\x1b]8;;http://e\x1b\\x", r"\x1b]8;;http://e\x1b\x"),
    "C1 CSI": ("\x9b2J", r"\x9b2J"),
    "C1 OSC": ("\x9d0;t\x9c", r"\x9d0;t\x9c"),
    "backspace": ("a\x08b", r"a\x08b"),
    "return": ("a\rb", r"a\x0db"),
    "DEL": ("\x7f", r"\x7f"),
    "bidi override": ("\u202etxt", r"\u202etxt"),
    "bidi isolate": ("\u2066a\u2069", r"\u2066a\u2069"),
    "zero width": ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
    "line separator": ("a\u2028b", r"a\u2028b"),
    "surrogate": ("\ud800", r"\ud800"),
    "tag": ("\U000e0041", r"\U000e0041"),
}
STYLES_OFF = {"force_terminal": False, "color_system": None, "width": 200}


@pytest.mark.parametrize(("text", "seen"), STEERS.values(), ids=STEERS)
def test_what_steers_is_shown_as_its_code(text, seen):
    assert harmless(text) == seen
    assert harmless(f"é — 1\u00a0000 {text}") == f"é — 1\u00a0000 {seen}"


@given(st.text())
def test_what_comes_out_is_to_be_seen_and_stays_as_it_is(text):
    shown = harmless(text)
    assert all(char.isprintable() or char in "\n\t\u00a0" or char.isspace() for char in shown)
    assert not set(shown) & set("\x1b\x9b\x9d\r\u2028\u2029\x85\u202e")
    assert harmless(shown) == shown


@pytest.mark.parametrize("text", [text for text, _ in STEERS.values()], ids=STEERS)
def test_no_way_of_printing_sends_it(text):
    file = io.StringIO()
    console = harmless_console(file=file, **STYLES_OFF)
    table = Table(title=text)
    table.add_column(text)
    table.add_row(Text(text))
    frame = pd.DataFrame({ascii(text) if text == "\ud800" else text: ["x"]})  # pandas has no half pairs
    for thing in (text, Text(text), table, frame_table(text, frame)):
        console.print(thing)
        console.print(thing, style="bold", soft_wrap=True)
    assert not {char for char in file.getvalue() if not char.isprintable()} - {"\n"}


def test_our_own_styles_do_get_through():
    file = io.StringIO()
    console = harmless_console(file=file, force_terminal=True, color_system="standard", width=80)
    console.print(Text("a\x1bb", style="bold"))
    assert file.getvalue() == "\x1b[1ma\\x1bb\x1b[0m\n"


def test_markup_in_a_strangers_words_is_text():
    file = io.StringIO()
    frame = pd.DataFrame({"[/b]": ["[red]x"], "[link=http://e]y": ["z"]})
    console = harmless_console(file=file, **STYLES_OFF)
    console.print(frame_table("[bold]t[/]", frame))
    print_lines(console, "rcu:lock:[i]held")
    for word in ("[bold]t[/]", "[/b]", "[red]x", "[link=http://e]y", "rcu:lock:[i]held"):
        assert word in file.getvalue()


def test_errors_and_bars(capsys, monkeypatch):
    with pytest.raises(Exit):
        terminal.guarded(lambda: (_ for _ in ()).throw(RunError("a\x1b[2Jb\x9bc", where="d\u202ee")))
    assert capsys.readouterr().err == "krepro: d\\u202ee: a\\x1b[2Jb\\x9bc\n"
    file = io.StringIO()
    monkeypatch.setattr("harness.progress.console", harmless_console(file=file, force_terminal=True, width=80))
    with step("a\x1b]0;t\x07b", 2) as bar:
        bar.advance(1, "c\x9bd")
    assert r"a\x1b]0;t\x07b c\x9bd" in file.getvalue()
    assert "\x1b]" not in file.getvalue()
    assert "\x9b" not in file.getvalue()


def test_a_set_with_escapes_everywhere_shows_none(tmp_path, monkeypatch):
    evil = "\\e[2J\\x9b2J\\u202E"
    folder = small_experiment(tmp_path / "small")
    text = EXPERIMENT.format(version=1).replace("it says so", f'"{evil}"').replace("it <b>adds</b>", evil)
    (folder / "experiment.yaml").write_text(text.replace("stays low", f'"{evil}"').replace("Nowhere", f'"{evil}"'))
    made = small_set(tmp_path / "results", folder, failed={"left": "\x1b[2J"})
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    assert show(str(made.path), tmp_path / "results", verbose=True) == 0
    assert "\\x1b[2J\\x9b2J\\u202e" in file.getvalue()
    assert not set(file.getvalue()) & set("\x1b\x9b\u202e")
