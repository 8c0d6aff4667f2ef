# SPDX-License-Identifier: MIT
"""Commands on finished sets as a user starts them: in a process of their own, at a terminal, without QEMU."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.sets.listing import set_paths
from tests.processes import PATIENCE_S
from tests.result_sets import DAYS, experiment_folder, write_days, write_set


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return write_days(tmp_path)


@pytest.mark.parametrize(
    "task",
    [
        "results",
        "show latest",
        "verify latest --trust",
        "figures latest --trust",
        "compare latest latest",
        "report",
        "export latest --to csv",
    ],
)
def test_none_of_it_needs_qemu_or_a_compiler(tmp_path, task):
    values = {"short": [100.0, 101.0, 103.0], "wall": [7.5, None]}
    write_set(tmp_path / "results", experiment_folder(tmp_path), values)
    (tmp_path / "bin").mkdir()
    own = {"PATH": str(tmp_path / "bin"), "KREPRO_STORE": str(tmp_path / "store"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "invoke", "--search-root", str(ROOT), *task.split()]
    done = subprocess.run(
        [*command, "--results", str(tmp_path / "results")],
        env={**os.environ, **own},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout != "") == (0, True), done.stderr
    assert not (tmp_path / "store").exists()


def left_at_once(*words: str | Path, errors: bool = False) -> subprocess.CompletedProcess[str]:
    """A process of Python whose output nobody reads any more when it begins; `errors`: nor its errors."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, *words],
            stdout=writer,
            stderr=writer if errors else subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
            text=True,
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("task", ["verify latest", "results"])
def test_a_set_is_verified_and_listed_whether_anybody_reads_it_or_not(tmp_path, task):
    write_set(tmp_path / "results", experiment_folder(tmp_path), {"short": [100.0, 101.0, 103.0]})
    command = ("-m", "invoke", "--search-root", ROOT, *task.split(), "--results", tmp_path / "results")
    assert left_at_once(*command, errors=True).returncode == 0


@pytest.mark.parametrize("written", ["terminal.output().print('x')", "print('x')", "print('x' * 100_000)"])
def test_the_exit_code_is_the_commands_own_whether_anybody_reads_it_or_not(written):
    code = (
        f"import sys\nfrom harness.cli import terminal\ndef action():\n    {written}\n    return 7\n"
        "try:\n    terminal.guarded(action)\nexcept BaseException as ended:\n    sys.exit(ended.code)"
    )
    done = left_at_once("-c", code)
    cut_short = "*" in written  # a plain list is the last that its command does
    assert (done.returncode, done.stderr) == (0 if cut_short else 7, "")


@pytest.mark.parametrize("words", [["run", "--help"], ["--list"], ["--version"]])
def test_helps_and_lists_end_well_whether_anybody_reads_them_or_not(words):
    done = left_at_once("-m", "harness.commands.program", *words)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("words", "status"), [(["results"], 0), (["show", "latest"], 0), (["show", "other"], 2)])
def test_a_command_ends_as_it_would_without_any_output(tmp_path, words, status):
    write_set(tmp_path / "results", experiment_folder(tmp_path), {"short": [100.0, 101.0, 103.0]})
    program = [sys.executable, "-m", "harness.commands.program", *words]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *program, "--results", str(tmp_path / "results")]
    done = subprocess.run(closed, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("" if status == 0 else "no result set 'other'") in done.stderr
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr


def test_another_pipe_that_breaks_is_an_error():
    code = (
        "import sys\nfrom harness.cli import terminal\ndef action():\n    raise BrokenPipeError(32, 'Broken pipe')\n"
        "try:\n    terminal.guarded(action)\nexcept BaseException as ended:\n    sys.exit(ended.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("krepro: unexpected BrokenPipeError: ")


def test_inv_spells_it_out(tmp_path):
    command = [sys.executable, str(ROOT / "inv"), "report", "no-such-set", "--results", str(tmp_path)]
    environment = {**os.environ, "KREPRO_ENVIRONMENT_READY": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no result set 'no-such-set'" in done.stderr


def command(home: Path, *words: str) -> list[str]:
    return [
        *(sys.executable, "-m", "invoke", "--search-root", str(ROOT), "prune", "--results", str(home.parent)),
        *words,
    ]


def test_without_a_terminal_and_without_yes_nothing_is_removed(home):
    done = subprocess.run(
        command(home, "--keep", "2"), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 2
    assert done.stderr.startswith("krepro: 4 sets, ")
    assert done.stderr.endswith("would be removed, and there is no terminal for confirmation (--force removes them)\n")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == [str(home / name) for name in DAYS[:4]]
    assert len(set_paths(home.parent)) == 6


def test_with_yes_they_are_removed(home):
    done = subprocess.run(command(home, "--keep", "2", "--force"), capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1].startswith("4 sets, ")
    assert [path.name for path in set_paths(home.parent)] == DAYS[:3:-1]
    done = subprocess.run(command(home), capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "nothing to remove\n"


@pytest.mark.parametrize(("answer", "left"), [("y", 2), ("yes", 2), ("n", 6), ("", 6), ("quatsch", 6)])
def test_at_a_terminal_it_asks(home, answer, left):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(home, "--keep", "2"), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    out, err = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert process.returncode == 0, err
    assert "Remove 4 sets, " in out
    assert len(set_paths(home.parent)) == left
