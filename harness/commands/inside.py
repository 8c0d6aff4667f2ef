# SPDX-License-Identifier: MIT
"""Code of a stranger's set, executed in a sandbox: it sees Python, this project and the set, and nothing of the user's.

    python -m harness.commands.inside TASK SET [WORD...]

is what runs inside. Its answer is JSON on standard output: lines of text, or an error. It is not trusted either.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

from harness.build.tree import Tools, bubblewraps, ready, tools
from harness.errors import KreproError, RunError, UsageError
from harness.machine.sandbox import ALONE, hosts_programs, limits, started
from harness.machine.tail import read_tail
from harness.paths import CODE, PACKAGE
from harness.scratch import discard, scratch_folder

#: For one analysis: it has no network and no terminal, and ends.
MOST_S = 3600.0
MEMORY_MIB = 16 << 10
FILE_BYTES = 4 << 30
TRY_S = 30
#: In the sandbox, in memory.
HOME = "/tmp/home"  # noqa: S108
#: Of an answer that is read.
ANSWER_BYTES = 1 << 20
#: Text and settings that programs look up.
ETC = ("/etc/localtime", "/etc/fonts", "/etc/mime.types")


def run_inside(task: str, root: Path, words: Sequence[str] = (), out: Path | None = None) -> list[str]:
    """The lines that `task` gives for the set at `root`; it writes only below `out`. Its own errors are raised here."""
    scratch = scratch_folder(Path(tempfile.gettempdir()), "inside")
    try:
        command = [*_view(root.absolute(), out), sys.executable, "-m", __name__, task, str(root.absolute()), *words]
        with (scratch / "answer").open("wb") as answer, (scratch / "stderr").open("wb") as stderr:
            done = subprocess.run(
                started([*limits(MEMORY_MIB, FILE_BYTES), *command]),
                stdin=subprocess.DEVNULL, stdout=answer, stderr=stderr, timeout=MOST_S, check=False,
            )  # fmt: skip
        said = read_tail(scratch / "stderr").strip().splitlines()[-1:]
        return _answer(read_tail(scratch / "answer", ANSWER_BYTES), done.returncode, said)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"its analysis did not end within {MOST_S:.0f} s", where=str(root)) from error
    finally:
        discard(scratch)


def redraw_inside(root: Path, form: str, target: Path) -> list[str]:
    """`redraw` in a sandbox; of what it leaves, plain files of that form are taken over."""
    scratch = scratch_folder(Path(tempfile.gettempdir()), "figures")
    try:
        run_inside("figures", root, [form, str(scratch)], out=scratch)
        drawn = [entry for entry in os.scandir(scratch) if entry.is_file(follow_symlinks=False)]
        target.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in drawn if entry.name.endswith(f".{form}"))
        return [str(shutil.copyfile(scratch / name, target / name)) for name in names]
    finally:
        discard(scratch)


@cache
def bubblewrap() -> tuple[str, ...] | None:
    """The words of the first bubblewrap that works here; None where none does. Nothing is fetched for it."""
    for words in bubblewraps(tools() if ready() else Tools()):
        try:
            tried = [*words, *ALONE, "--ro-bind", "/", "/", "--", "true"]
            done = subprocess.run(tried, capture_output=True, check=False, timeout=TRY_S)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return words
    return None


def _view(root: Path, out: Path | None) -> list[str]:
    """The words that start a program which sees Python, the project and the set."""
    program = bubblewrap()
    assert program is not None
    words = [*program, *ALONE, *hosts_programs()]
    for name in ETC:
        words += ["--ro-bind-try", name, name]
    words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--dir", HOME]  # noqa: S108
    pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)}
    for path in sorted(pythons, key=len):
        words += [] if Path(path).is_relative_to("/usr") else ["--ro-bind", path, path]
    words += ["--ro-bind", str(PACKAGE), str(PACKAGE), "--ro-bind", str(root), str(root)]
    if out is not None:
        words += ["--bind", str(out), str(out)]
    words += ["--clearenv", "--setenv", "PATH", os.defpath, "--setenv", "HOME", HOME, "--setenv", "LC_ALL", "C"]
    return [*words, "--setenv", "PYTHONDONTWRITEBYTECODE", "1", "--chdir", str(CODE), "--"]


def _answer(text: str, status: int, said: Sequence[str]) -> list[str]:
    try:
        answer = json.loads(text)
        lines = [str(line) for line in answer["lines"]]
        error = answer.get("error")
        if error is None:
            return lines
        kind = UsageError if error["exit_code"] == UsageError.exit_code else RunError
        message, hint, where = (error[name] and str(error[name]) for name in ("message", "hint", "where"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        last = f": {said[0]}" if said else ""
        raise RunError(f"its analysis ended with status {status} and gave no answer{last}") from broken
    raise kind(message, hint=hint, where=where)


def main() -> None:
    """Run one task and print its answer; what the code of the set prints goes to standard error."""
    from harness.commands.analysis import redraw
    from harness.commands.verification import analysed_again

    tasks: dict[str, Callable[..., list[str]]] = {"verify": analysed_again, "figures": redraw}
    lines: list[str] = []
    error: dict[str, str | int | None] | None = None
    name, root, *words = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        try:
            lines = tasks[name](Path(root), *words)
        except KreproError as raised:
            error = {key: getattr(raised, key) for key in ("message", "hint", "where", "exit_code")}
    print(json.dumps({"lines": lines, "error": error}))


if __name__ == "__main__":
    main()
