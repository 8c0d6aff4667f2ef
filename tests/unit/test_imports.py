# SPDX-License-Identifier: MIT
"""Who may import whom: the contracts in pyproject.toml hold, and the drawing of docs/architecture.md is true."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

from harness.commands.catalogue import COMMANDS
from harness.paths import EXPERIMENTS, ROOT

HARNESS = ROOT / "harness"
FOR_ANALYSES = (
    "harness.errors",
    "harness.measure",
    "harness.oracle.reader",
    "harness.oracle.truth",
    "harness.report.figures",
    "harness.report.html",
    "harness.report.panels",
    "harness.yamlfile",
)
SOURCES = sorted(HARNESS.rglob("*.py"))


def imports(path: Path) -> list[str]:
    """Every module that a file imports, wherever in it; relative imports made absolute."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], node.module or ""] if node.level else [])
            home = (base or node.module or "").rstrip(".")
            # "from harness import debian" imports harness.debian
            found += [f"{home}.{alias.name}" for alias in node.names] if home == "harness" else [home]
    return found


@pytest.fixture(scope="module")
def lint(tmp_path_factory):
    """`lint-imports` over a copy of the rooms, with `more` behind a file; its exit code and what it says."""
    home = tmp_path_factory.mktemp("house")
    shutil.copytree(HARNESS, home / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", home)

    def run(file: str = "", more: str = "") -> tuple[int, str]:
        text = (home / file).read_text() if file else ""
        try:
            if file:
                (home / file).write_text(text + more)
            words = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
            done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)
        finally:
            if file:
                (home / file).write_text(text)
        return done.returncode, done.stdout

    return run


def test_a_room_imports_only_from_those_below_it_and_no_module_in_a_circle(lint):
    code, said = lint()
    assert (code, "Contracts: 2 kept, 0 broken." in said) == (0, True), said


@pytest.mark.parametrize(
    ("file", "more", "broken"),
    [
        ("harness/sets/seal.py", "from harness.report import html\n", "rooms BROKEN"),
        ("harness/sets/seal.py", "def f():\n    from harness.report import html\n", "rooms BROKEN"),
        ("harness/errors.py", "def f():\n    from harness import paths\n", "rooms BROKEN"),
        ("harness/sets/seal.py", "def f():\n    from harness.sets import resultset\n", "no circles BROKEN"),
        ("harness/trial/plan.py", "if TYPE_CHECKING:\n    from harness.trial import part\n", "no circles BROKEN"),
    ],
)
def test_a_late_import_upwards_and_a_circle_are_seen(lint, file, more, broken):
    code, said = lint(file, more)
    assert (code, broken in said) == (1, True), said


def test_the_drawing_has_the_rooms_and_their_imports():
    page = (ROOT / "docs/architecture.md").read_text()
    chains = re.findall(r"^    (\w+(?: --> \w+)+)$", page, re.MULTILINE)
    drawn = [edge for chain in chains for edge in pairwise(chain.split(" --> "))]
    graph = grimp.build_graph("harness", cache_dir=None)
    rooms = {path.parent.name for path in HARNESS.glob("*/__init__.py")}
    needs = {room: {other for other in rooms - {room} if _imports(graph, room, other)} for room in rooms}
    below = {room: _all_below(needs, room) for room in rooms}
    direct = {(a, b) for a in rooms for b in needs[a] if not any(b in below[other] for other in needs[a])}
    assert sorted(drawn) == sorted(direct)
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == rooms


def _imports(graph: grimp.ImportGraph, room: str, other: str) -> bool:
    return graph.direct_import_exists(importer=f"harness.{room}", imported=f"harness.{other}", as_packages=True)


def _all_below(needs: dict[str, set[str]], room: str) -> set[str]:
    return needs[room].union(*(_all_below(needs, other) for other in needs[room]))


def test_no_room_knows_a_paper():
    assert "experiments" not in {module.split(".")[0] for path in SOURCES for module in imports(path)}


def at_once(path: Path) -> set[str]:
    """Every module that is imported when this file is, by itself and by those of harness/ that it imports."""
    seen: set[str] = set()
    waiting = [path]
    while waiting:
        top = ast.parse(waiting.pop().read_text()).body
        for node in top:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module), *(f"{node.module}.{name}" for name in names)]
            files = {ROOT.joinpath(*name.split(".")).with_suffix(".py"): name for name in names}
            waiting += [file for file, name in files.items() if name not in seen and file.is_file()]
            seen |= {name for file, name in files.items() if file.is_file() or not name.startswith("harness")}
    return {name for name in seen if name.split(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize(
    "name", ["debian", "commands/catalogue", "cli/terminal", *(f"commands/{name}" for name in COMMANDS)]
)
def test_what_runs_before_the_environment_exists_needs_the_standard_library_only(name):
    """So `./inv --list` is quick, too: a command imports what is heavy when it is called."""
    assert {module for module in at_once(HARNESS / f"{name}.py") if module.split(".")[0] != "harness"} == set()


def test_inv_imports_nothing_else():
    own = {module for module in imports(ROOT / "inv") if module.split(".")[0] not in sys.stdlib_module_names}
    own_modules = ("bootstrap", "debian", "errors", "settings", "stagetimes", "commands")
    assert own == {f"harness.{name}" for name in own_modules}


def test_an_analysis_uses_the_measuring_part_and_files_beside_it_only():
    found = [
        (path, module)
        for path in sorted(EXPERIMENTS.rglob("*.py"))
        for module in imports(path)
        if module.split(".")[0] in {"harness", "tests", "experiments"}
    ]
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path, module in found
        if not module.startswith((*FOR_ANALYSES, f"experiments.{path.relative_to(EXPERIMENTS).parts[0]}."))
    ]
    assert wrong == []
    assert len(found) > 500


def test_no_file_of_the_harness_names_an_experiment():
    """What one paper needs lives with that paper."""
    names = [folder.parent.name for folder in EXPERIMENTS.glob("*/analysis.py")]
    words = [re.escape(name).replace("\\-", "[-_ ]?") for name in names]
    pattern = re.compile(rf"(?<![\w/-])(?:{'|'.join(words)})(?![\w-])", re.IGNORECASE)
    files = [
        path for path in HARNESS.rglob("*") if path.is_file() and path.suffix in {".py", ".c", ".h", ".j2", ".css"}
    ]
    told = {
        path.relative_to(ROOT).as_posix(): match[0] for path in files if (match := pattern.search(path.read_text()))
    }
    assert len(names) == 5
    assert not told
