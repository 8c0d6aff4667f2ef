# SPDX-License-Identifier: MIT
"""What the kernel's own checkpatch.pl --strict says of the series as one would send them: nothing but what is named."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.kernel.load import load_kernel
from harness.kernel.series import mailbox, read_series
from harness.kernel.source import fetch_source, patched_tree, source_identity
from harness.paths import ROOT

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("perl") is None, reason="checkpatch.pl needs a whole perl"),
]

PATCHES = ROOT / "kernel-patches"
SERIES = sorted(str(path.relative_to(PATCHES)) for path in PATCHES.glob("*/[0-9]*"))
#: Nobody maintains files that are not in the kernel.
EVERYWHERE = {"FILE_PATH_CHANGES"}
#: One source for all versions; sysctl tables of 6.1 are not constant, which is told with the same words.
SHARED_SOURCES = {"LINUX_VERSION_CODE", "CONSTANT_COMPARISON"}
#: By feature: what is as in the code around it.
NAMED = {
    "irq-hotspot": SHARED_SOURCES,
    "profile-jitter": SHARED_SOURCES,
    "page-trace": SHARED_SOURCES | {
        "LINE_SPACING",  # a macro that declares stands among declarations
        "COMMIT_LOG_LONG_LINE",  # a file's name that a message quotes
        "VOLATILE",  # a kselftest touches memory that nobody else looks at
    },
    "lock-trace": {
        # Macros that make functions, and those that take a function and a lock, as the kernel's own beside them.
        *("MACRO_ARG_PRECEDENCE", "MACRO_ARG_REUSE", "MACRO_ARG_UNUSED", "SPACING", "EXPORT_SYMBOL"),
        *("LINE_SPACING", "PARENTHESIS_ALIGNMENT"),
        "UNDOCUMENTED_SETUP",  # it is, in the patch behind
    },
}  # fmt: skip
SAID = re.compile(r"^\S+: (?:ERROR|WARNING|CHECK):([A-Z_]+): ", re.MULTILINE)


@pytest.fixture(scope="module")
def checkpatch() -> Path:
    store, recipe = Store.default(), load_kernel("modern-6.12-bare")
    archive = fetch_source(store, recipe.spec.source)
    assert archive is not None
    tree = patched_tree(store, recipe, archive, source_identity(recipe.spec.source, archive))
    return tree / "scripts/checkpatch.pl"


@pytest.mark.parametrize("series", SERIES)
def test_checkpatch_says_what_is_named_and_no_more(checkpatch, tmp_path, series):
    folder = PATCHES / series
    box = tmp_path / "series.mbox"
    box.write_text(mailbox(read_series(folder, folder)))
    subprocess.run(["git", "mailsplit", f"-o{tmp_path}", str(box)], check=True, capture_output=True)
    words = ["perl", str(checkpatch), "--strict", "--no-tree", "--show-types", "--terse"]
    done = subprocess.run([*words, *sorted(map(str, tmp_path.glob("0*")))], text=True, capture_output=True, check=False)
    assert "lines checked" in done.stdout, done.stderr
    said = set(SAID.findall(done.stdout))
    assert said - EVERYWHERE - NAMED.get(folder.parent.name, set()) == set(), done.stdout
