# SPDX-License-Identifier: MIT
"""Who may import whom: a folder of harness/ imports only from those above it (the design's order)."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from harness.paths import EXPERIMENTS, ROOT

HARNESS = ROOT / "harness"
#: From the bottom up: each line may import itself and the lines before it.
ORDER = [
    {"errors", "harmless"},
    {"choices", "bootstrap", "debian", "paths", "progress", "scratch", "settings", "signals", "stagetimes", "yamlfile"},
    {"host"},
    {"build"},
    {"machine"},
    {"guest"},
    {"experiment"},
    {"measure"},
    {"oracle"},
    {"store"},
    {"capsule"},
    {"cluster"},
    {"report"},
    {"commands"},
    {"api"},
]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
FOR_ANALYSES = (
    "harness.errors",
    "harness.measure",
    "harness.oracle.reader",
    "harness.oracle.truth",
    "harness.report.figures",
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


def part(module: str) -> str | None:
    words = module.split(".")
    return words[1] if words[0] == "harness" and len(words) > 1 else None


def test_a_folder_imports_only_from_those_above_it():
    rank = {path: RANK.get(path.relative_to(HARNESS).parts[0].removesuffix(".py"), 0) for path in SOURCES}
    found = [(path, module) for path in SOURCES for module in imports(path)]
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path, module in found
        if (other := part(module)) and RANK[other] > rank[path]
    ]
    assert wrong == []
    assert len(found) > 1000


def test_the_order_knows_every_folder():
    assert {path.relative_to(HARNESS).parts[0].removesuffix(".py") for path in SOURCES} == RANK.keys() | {"__init__"}
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


@pytest.mark.parametrize("name", ["debian", "commands/catalogue", "commands/cli"])
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import harness.store.digest", ["harness.store.digest"]),
        ("from harness import debian, paths", ["harness.debian", "harness.paths"]),
        ("def f():\n    from harness.report import figures", ["harness.report"]),
        ("from . import store", ["harness.build"]),
        ("from ..report import figures", ["harness.report"]),
        ("from .. import report", ["harness.report"]),
    ],
)
def test_every_way_to_import_is_seen(tmp_path, monkeypatch, text, found):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "harness/build/module.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert imports(path) == found


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
