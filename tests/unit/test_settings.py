# SPDX-License-Identifier: MIT
"""Settings of the machine: defaults, the file, the environment above it, and what is said of a wrong one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness import settings
from harness.errors import EXIT_USAGE, UsageError
from harness.host.examine import settings_table
from harness.paths import ROOT


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file's place, empty, and none of the variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for setting in settings.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    return tmp_path / "krepro.toml"


def test_without_file_and_environment_the_defaults_hold(file):
    assert settings.path() == file
    for setting in settings.SETTINGS:
        assert settings.value(setting) == (setting.default, "default")
        assert bool(setting.shown) != isinstance(setting.default, bool)


def test_the_environment_wins_over_the_file(file, monkeypatch):
    file.write_text('store = "/big"\noffline = true\noutput_mib = 7\n')
    assert settings.value(settings.STORE) == ("/big", str(file))
    assert settings.switch(settings.OFFLINE)
    monkeypatch.setenv("KREPRO_STORE", "/other")
    monkeypatch.setenv("KREPRO_OFFLINE", "0")
    monkeypatch.setenv("KREPRO_OUTPUT_MIB", "")  # as if it were not there
    assert settings.value(settings.STORE) == ("/other", "$KREPRO_STORE")
    assert not settings.switch(settings.OFFLINE)
    assert settings.number(settings.OUTPUT_MIB) == 7


def test_an_edited_file_is_read_again(file):
    file.write_text("output_mib = 7\n")
    assert settings.number(settings.OUTPUT_MIB) == 7
    file.unlink()
    assert settings.number(settings.OUTPUT_MIB) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stroe = '/x'", "stroe: is no setting (known: store, mirrors, offline, host_tools, output_mib, signing_key)"),
        ("offline = 1", "offline: must be true or false"),
        ("output_mib = true", "output_mib: must be a whole number, 1 or more"),
        ("output_mib = 0", "output_mib: must be a whole number, 1 or more"),
        ("store = 3", "store: must be a text"),
        ("= 3", "cannot be read: Invalid statement (at line 1, column 1)"),
    ],
)
def test_a_wrong_file_is_one_line_with_file_and_key(file, text, says):
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        settings.check()
    assert str(caught.value) == f"{file}: {says}"


@pytest.mark.parametrize("given", ["x", "-1", "0", "1.5"])
def test_a_wrong_number_in_the_environment_names_the_variable(file, monkeypatch, given):
    monkeypatch.setenv("KREPRO_OUTPUT_MIB", given)
    with pytest.raises(UsageError, match=f"^KREPRO_OUTPUT_MIB={given}: must be a whole number"):
        settings.check()


def test_a_command_ends_with_the_line(file):
    file.write_text("verbose = true\n")
    done = subprocess.run(
        [sys.executable, "-m", "harness.commands.program", "results"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (EXIT_USAGE, "")
    assert done.stderr.startswith(f"krepro: {file}: verbose: is no setting (known: ")
    assert done.stderr.count("\n") == 1


def test_what_is_in_force_says_where_it_is_from(file, monkeypatch):
    file.write_text("host_tools = true\n")
    monkeypatch.setenv("KREPRO_MIRRORS", "/a http://b")
    columns = settings_table().columns
    shown = {key: (value, source) for key, value, source in zip(*(column.cells for column in columns), strict=True)}
    assert shown["mirrors"] == ("/a http://b", "$KREPRO_MIRRORS")
    assert shown["host_tools"] == ("on", str(file))
    assert shown["offline"] == ("off", "default")
    assert shown["store"] == ("$XDG_CACHE_HOME/krepro, else ~/.cache/krepro", "default")
