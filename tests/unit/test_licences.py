# SPDX-License-Identifier: MIT
"""Every source file names its licence in its first lines: the one of its place, with its text in LICENSES."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from harness.paths import ROOT

TAG = "SPDX-License-Identifier: "
#: The first pattern that fits decides. A header of the kernel's interface may be included by any program.
INTERFACE = "GPL-2.0-only WITH Linux-syscall-note"
RULES = (
    ("experiments/*/guest/modules/lockknown/lockknown.h", INTERFACE),
    ("experiments/*/guest/modules/*", "GPL-2.0-only"),
    ("experiments/*/layouts/*", "GPL-2.0-only"),
    ("tests/guest/*/modules/*", "GPL-2.0-only"),
    ("tests/kvmbox/guest/*.c", "GPL-2.0-only"),
    ("experiments/page-trace/guest/page_trace.h", INTERFACE),
    ("experiments/lock-trace/guest/lib/lock_trace.h", INTERFACE),
    ("harness/oracle/plugin/*.[ch]", "GPL-2.0-or-later"),
    ("harness/machine/halt/*.[ch]", "GPL-2.0-or-later"),
    ("harness/machine/stale/*.[ch]", "GPL-2.0-or-later"),
    ("harness/machine/include/*.h", "GPL-2.0-or-later"),
    ("tests/faults/deaf/*", "GPL-2.0-only"),
    ("tests/guest/broken_out/*", "GPL-2.0-or-later"),
    ("*", "MIT"),
)
#: How the line is written: by suffix, else by name.
HASH, LINE, BLOCK, TEMPLATE = "# {}", "// {}", "/* {} */", "{{#- {} -#}}"
STYLES = {
    **dict.fromkeys((".py", ".sh", ".yaml", ".yml", ".toml", ".config"), HASH),
    **dict.fromkeys((".h", ".S", ".css", ".js"), BLOCK),
    ".c": LINE,
    ".j2": TEMPLATE,
}
NAMED = {"inv": HASH, "init": HASH, "run": HASH, "Kbuild": HASH, "Makefile": HASH}
#: Files of the kernel are written as it writes them, see below.
LEFT_OUT = ("docs/figures/*", "results/*", "tests/fixtures/*", "kernel-patches/*/src/*")


def style_of(path: str) -> str | None:
    """How the licence is written in a file, or None for a file that is no source."""
    file = Path(path)
    if any(fnmatch(path, pattern) for pattern in LEFT_OUT):
        return None
    return STYLES.get(file.suffix) if file.suffix else NAMED.get(file.name)


def licence_of(path: str) -> str:
    return next(licence for pattern, licence in RULES if fnmatch(path, pattern))


def line_of(path: str) -> str:
    """The line that a source file has to have."""
    style = style_of(path)
    assert style is not None, path
    return style.format(TAG + licence_of(path))


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("no git checkout")
    return [path for path in done.stdout.splitlines() if (ROOT / path).is_file()]


def wrong_lines(paths: list[str]) -> dict[str, str]:
    """File to what stands where the licence should: in the first line, or the second of a script."""
    wrong = {}
    for path in paths:
        if style_of(path) is None:
            continue
        lines = (ROOT / path).read_text().splitlines()
        at = 1 if lines and lines[0].startswith("#!") else 0
        if lines[at : at + 1] != [line_of(path)]:
            wrong[path] = lines[at] if len(lines) > at else ""
    return wrong


def test_every_source_file_has_the_licence_of_its_place():
    paths = tracked()
    assert len([path for path in paths if style_of(path)]) > 300
    assert wrong_lines(paths) == {}


def test_the_kernels_new_files_have_its_own_line():
    fits = re.compile(r"(//|/\*|\.\.|#) SPDX-License-Identifier: GPL-2\.0(-only)?( WITH Linux-syscall-note)?( \*/)?")
    sources = [path for path in tracked() if fnmatch(path, "kernel-patches/*/src/*")]
    texts = {path: (ROOT / path).read_text().removeprefix("#!/bin/sh\n") for path in sources if "/ABI/" not in path}
    first = {path: text.partition("\n")[0] for path, text in texts.items()}
    assert len(first) > 20
    assert {path: line for path, line in first.items() if not fits.fullmatch(line)} == {}
    assert all(("Linux-syscall-note" in line) == ("/uapi/" in path) for path, line in first.items())


def test_each_licence_has_its_text_and_pyproject_names_it():
    identifiers = {word for _, licence in RULES for word in licence.split(" WITH ")}
    assert {path.stem for path in (ROOT / "LICENSES").iterdir()} == identifiers
    text = (ROOT / "pyproject.toml").read_text()
    (expression,) = re.findall(r'^license = \{text = "([^"]*)"\}$', text, re.MULTILINE)
    assert {word for part in expression.split(" AND ") for word in part.strip("()").split(" WITH ")} == identifiers
