# SPDX-License-Identifier: MIT
"""Code of a stranger's set, executed with --trust: in a sandbox, which it cannot see or reach anything from."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis import trust, verification
from harness.artefacts.store import hash_file
from harness.commands.figures import figures
from harness.errors import RunError, UsageError
from harness.machine.sandbox import Sandbox, sandbox_of_analyses
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.seal import content_hash, manifest_pieces
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set
from tests.unit.test_export import HOOKS

#: Executed at import, so by whatever command executes code of the set. `{found}` is below the set's own folder.
SPY = """
import os as _os, socket as _socket

def _try(what):
    try:
        return repr(what())
    except OSError as error:
        return error.strerror

def _saw():
    return "; ".join([
        "secret " + _try(lambda: open({secret!r}).read()),
        "set " + _try(lambda: open(__file__ + ".planted", "w")),
        "port " + _try(lambda: _socket.create_connection(("127.0.0.1", {port}), 3).close()),
        "user " + str(_os.environ.get("KREPRO_SECRET")),
    ])

def tables(trials):
    _try(lambda: open({written!r}, "w"))
    raise RuntimeError(_saw())

def figures(tables):
    raise RuntimeError(_saw())
"""
NOTHING = "secret {}; set {}; port Operation not permitted; user None"
SEES = {True: ("No such file or directory", "Read-only file system"), False: ("Permission denied",) * 2}

#: What this host has, before tests have stores of their own, without tools; and what it has without them.
BOXES = [
    box for box in (sandbox_of_analyses(), Sandbox((), filtered=True, why="a test", landlock=True)) if box.keeps_in
]
NONE = Sandbox((), filtered=False, why="a test")


@pytest.fixture(
    params=[pytest.param(box, marks=[pytest.mark.deep] * (box != BOXES[0])) for box in BOXES], ids=lambda box: box.told
)
def box(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """What analyses of strangers are shut in."""
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: request.param)
    return request.param


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A set that another host made, whose analysis.py is `more` longer."""

    def make(more: str = "") -> ResultSet:
        folder = experiment_folder(tmp_path / "theirs", YAML, ANALYSIS + HOOKS)
        monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "their-store"))
        made = write_set(tmp_path / "results", folder, {"short": [100.0, 101.0]})
        monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
        return made if not more else resealed(made, more)

    return make


def resealed(made: ResultSet, more: str) -> ResultSet:
    """The set with a longer analysis.py, all hashes as they must be."""
    file = made.path / "experiment/analysis.py"
    file.write_text(file.read_text() + more)
    values = json.loads((made.path / MANIFEST).read_text())
    values["files"]["experiment/analysis.py"] = hash_file(file)
    values["experiment_files"]["analysis.py"] = hash_file(file)
    values["id"] = f"{made.path.name.partition('-')[0]}-{content_hash(values)[:8]}"
    (made.path / MANIFEST).write_text("".join(manifest_pieces(values)))
    return ResultSet(made.path.rename(made.path.with_name(values["id"])))


@pytest.fixture
def spied(tmp_path: Path, strange, monkeypatch: pytest.MonkeyPatch):
    """A stranger's set whose analysis tells what it could do."""
    (tmp_path / "secret").write_text("mine")
    monkeypatch.setenv("KREPRO_SECRET", "mine")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = {"secret": str(tmp_path / "secret"), "written": str(tmp_path / "written")}
        yield strange(SPY.format(**where, port=listener.getsockname()[1]))


def test_verify_and_figures_come_out_in_a_sandbox_as_without(strange, box, tmp_path, monkeypatch, capsys):
    made = strange()
    results, console = made.path.parent.parent, Console(width=200)
    with pytest.raises(UsageError, match="executes code that is in it, in a sandbox"):
        verification.verify(results, str(made.path), console)
    capsys.readouterr()
    verification.verify(results, str(made.path), console, trust=True)
    figures(str(made.path), "svg", tmp_path / "inside", results, trust=True)
    boxed = capsys.readouterr().out
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: NONE)
    verification.verify(results, str(made.path), console, trust="unsandboxed")
    figures(str(made.path), "svg", tmp_path / "outside", results, trust="unsandboxed")
    assert capsys.readouterr().out.replace("outside", "inside") == boxed
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "inside").iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in (tmp_path / "outside").iterdir()}
    assert drawn


@pytest.mark.deep
def test_code_of_a_stranger_sees_and_reaches_nothing(spied, box, tmp_path, monkeypatch):
    results = spied.path.parent.parent
    ways = {
        "verify": lambda: verification.verify(results, str(spied.path), Console(quiet=True), trust=True),
        "figures": lambda: figures(str(spied.path), "svg", tmp_path / "drawn", results, trust=True),
    }
    for way in ways.values():
        with pytest.raises(RunError) as caught:
            way()
        assert NOTHING.format(*SEES[bool(box.program)]) in str(caught.value)
    assert not (tmp_path / "written").exists(), "what it wrote was a file in memory"
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: NONE)
    with pytest.raises(UsageError, match=r"there is no sandbox for it: a test \(--trust=unsandboxed executes"):
        ways["verify"]()
    with pytest.raises(RunError, match="planted: is not of this set: it came after it was written"):
        verification.verify(results, str(spied.path), Console(quiet=True), trust="unsandboxed")
    assert (tmp_path / "written").exists()
