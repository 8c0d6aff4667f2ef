# SPDX-License-Identifier: MIT
"""Build tools: their output is kept, their first error told, their environment clean, their processes ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import RunError
from harness.packages.buildtool import HOST, tool
from harness.packages.tree import PATH
from tests.processes import eventually


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo one; echo 'file.c:3: error: bad'; echo 'another error'; exit 2", r"file\.c:3: error: bad"),
        ("echo fine; echo 'fatal: not a repository' >&2; exit 1", "fatal: not a repository"),
        ("echo first; echo last; exit 1", "last"),
    ],
)
def test_a_failure_is_told_by_its_first_error_line_and_its_log(tmp_path, script, says):
    lines: list[str] = []
    with pytest.raises(RunError, match=rf"^making it failed: {says} \(log: {tmp_path}/log\)$"):
        tool(["sh", "-c", script], log=tmp_path / "log", on_line=lines.append, what="making it")
    log = (tmp_path / "log").read_text()
    assert log.startswith("$ sh -c ")
    assert log.endswith("".join(lines))


def test_tools_inherit_no_flags_and_no_repository(tmp_path, monkeypatch):
    for variable in ("CFLAGS", "MAKEFLAGS", "GIT_DIR", "LC_ALL"):
        monkeypatch.setenv(variable, "krepro-test")
    tool(["env"], log=tmp_path / "log", env={"ADDED": "yes"}, what="env")
    said = (tmp_path / "log").read_text().splitlines()
    assert {"ADDED=yes", "LC_ALL=C", "TZ=UTC", f"PATH={PATH}"} <= set(said)
    tool(["env"], log=tmp_path / "log", what="env", among=HOST)
    assert f"PATH={os.environ['PATH']}" in (tmp_path / "log").read_text().splitlines()
    assert not any("krepro-test" in line for line in said)


def test_ctrl_c_ends_a_tool_and_its_children(tmp_path):
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    script = f"sleep 3600 & echo $! >{tmp_path}/child; echo started; wait"
    with pytest.raises(KeyboardInterrupt):
        tool(["sh", "-c", script], log=tmp_path / "log", on_line=interrupt, what="waiting")
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "cmdline"
    assert eventually(lambda: not (child.exists() and child.read_bytes()))
