# SPDX-License-Identifier: MIT
"""The plugin's parts: who may use whom. Modes use the shared parts, main.c wires, and nothing is a circle."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from typing import get_args

import pytest

from harness.build.plugin import CFLAGS, INCLUDE
from harness.experiment.model import OracleMode
from harness.oracle.attach import SOURCES
from tests.compiling import run

MODES = set(get_args(OracleMode))


@pytest.fixture(scope="module")
def users(tmp_path_factory) -> dict[str, set[str]]:
    """By C file, the C files whose functions or data it uses: as the linker sees it."""
    folder = tmp_path_factory.mktemp("objects")
    defined: dict[str, str] = {}
    wanted: dict[str, set[str]] = {}
    for source in SOURCES.glob("*.c"):
        target = folder / f"{source.stem}.o"
        flags = [flag for flag in CFLAGS if flag != "-shared"]
        run("gcc", *flags, "-O0", f"-I{INCLUDE}", "-c", source, "-o", target)
        listing = run("nm", "-P", target)
        wanted[source.stem] = set()
        for line in listing.splitlines():
            symbol, kind, *_ = line.split()
            if kind == "U":
                wanted[source.stem].add(symbol)
            elif kind.isupper():
                defined[symbol] = source.stem
    return {name: {defined[symbol] for symbol in symbols & defined.keys()} for name, symbols in wanted.items()}


def test_each_mode_has_a_file_that_nobody_but_main_uses(users):
    assert users.keys() >= MODES
    for name, used in users.items():
        assert "main" not in used
        assert not used & MODES or name == "main", name
    assert users["main"] >= MODES


def test_no_part_uses_itself_in_a_circle(users):
    TopologicalSorter(users).prepare()
    headers = {
        path.name: set(re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)) for path in SOURCES.glob("*.h")
    }
    TopologicalSorter(headers).prepare()
