# SPDX-License-Identifier: MIT
"""The library of all guest programs, images/guest/lib: how a program fails, whole arguments, commands that it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.image.programs import build_program
from tests.conftest import needs_guest_packages
from tests.processes import PATIENCE_S

pytestmark = needs_guest_packages
DRIVER = Path(__file__).with_name("library_driver.c")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("library")
    build_program("x86_64", DRIVER, folder / "driver", folder / "log")
    return folder / "driver"


def run(driver: Path, *words: object, **environment: str) -> tuple[int, str, str]:
    command = [str(word) for word in (driver, *words)]
    environment = {"PATH": "/usr/bin:/bin", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_program_that_cannot_do_its_work_ends_with_125_and_one_line(driver):
    assert run(driver, "die", "device") == (125, "", "driver: no device\n")
    assert run(driver, "die-errno", "/no/such") == (125, "", "driver: /no/such: No such file or directory\n")


def test_wrong_arguments_are_2_but_where_that_may_be_the_commands_own(driver):
    assert run(driver, "usage", "this way") == (2, "", "driver: usage: this way\n")
    assert run(driver, "launcher", "this way") == (125, "", "driver: usage: this way\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("0012", 12), (str(1 << 40), 1 << 40)),
        *((text, None) for text in ("2", str((1 << 40) + 1), "", "-4", "+4", " 4", "4 ", "4x", "0x10", "9" * 30)),
    ],
)
def test_an_argument_is_a_whole_number_within_its_bounds(driver, text, value):
    status, out, err = run(driver, "argument", text)
    if value is None:
        assert (status, out) == (2, "")
        assert err == f"driver: -n: {text} is not a number from 3 to {1 << 40}\n"
    else:
        assert (status, out, err) == (0, f"{value}\n", "")


def test_words_and_seeds(driver):
    assert run(driver, "choice", "two") == (0, "1\n", "")
    assert run(driver, "choice", "four") == (2, "", "driver: -k: four is none of one to three\n")
    assert run(driver, "seed") == (0, "1\n", "")
    assert run(driver, "seed", KREPRO_SEED=str(2**32 - 1)) == (0, f"{2**32 - 1}\n", "")
    assert run(driver, "seed", KREPRO_SEED="x")[0] == 2


def test_files_of_one_value(driver, tmp_path):
    file = tmp_path / "file"
    assert run(driver, "put", file, "41") == (125, "", f"driver: writing 41 to {file}: No such file or directory\n")
    file.write_text("")
    assert run(driver, "put", file, "41") == (0, "", "")
    assert run(driver, "count", file) == (0, "", "")
    assert file.read_text() == "42\n"
    assert run(driver, "get", file) == (0, "3 42\n\n", "")
    file.write_text("longer than the buffer")
    assert run(driver, "get", file) == (0, "7 longer \n", "")
    assert run(driver, "get", tmp_path) == (0, "-1 \n", "")
    assert run(driver, "count", file) == (125, "", f"driver: {file}: not a number\n")
    assert run(driver, "put", "/dev/full", "x")[2] == "driver: writing x to /dev/full: No space left on device\n"


@pytest.mark.parametrize("how", ["start", "hold"])
@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 7", 7), ("kill -9 $$", 137), ("exec /no/such", 127), ("exit 0", 0)],
)
def test_a_commands_status_is_as_a_shell_has_it(driver, how, command, status):
    answer = run(driver, how, "sh", "-c", command)
    assert answer[:2] == (status, "held\n" if how == "hold" else "")


@pytest.mark.parametrize("how", ["start", "hold"])
def test_a_command_that_cannot_be_run_or_found(driver, how, tmp_path):
    first = "held\n" if how == "hold" else ""
    text = tmp_path / "text"
    text.write_text("no program")
    assert run(driver, how, "/no/such") == (127, first, "driver: /no/such: No such file or directory\n")
    assert run(driver, how, text) == (126, first, f"driver: {text}: Permission denied\n")
