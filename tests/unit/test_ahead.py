# SPDX-License-Identifier: MIT
"""What a first command fetches and unpacks while .venv is made."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from harness import bootstrap
from harness.artefacts.store import Store
from harness.commands import ahead
from harness.errors import UsageError
from harness.paths import ROOT

LOADED = "import sys, harness.commands.ahead; print(*{name.split('.')[0] for name in sys.modules})"


def test_it_needs_only_what_is_installed_first():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    owners = packages_distributions()
    found = {owner.lower().replace("_", "-") for name in done.stdout.split() for owner in owners.get(name, [])}
    needed = found - {"setuptools"}
    assert needed <= set(bootstrap.EARLY)


def test_the_lock_is_split_with_its_hashes():
    text = bootstrap.LOCK.read_text()
    early, rest = bootstrap.split_lock(text)
    names = [line.partition("=")[0] for line in early.splitlines() if line[:1].isalnum()]
    assert sorted(names) == sorted(bootstrap.EARLY)
    assert sorted((early + rest).splitlines()) == sorted(text.splitlines())
    assert early.count("--hash=") >= len(names)


@pytest.mark.parametrize(
    ("words", "kernel"),
    [
        (["run", "experiment=irq-hotspot"], "classic"),
        (["run", "irq-hotspot", "--verbose"], "classic"),
        (["boot", "kernel=modern-6.1"], "modern-6.1"),
        (["doctor"], None),
        (["--list"], None),
    ],
)
def test_a_command_line_names_its_first_kernel(words, kernel):
    found = ahead.first_kernel(words)
    assert (found.spec.name if found else None) == kernel


def test_what_cannot_be_or_runs_no_guest_fetches_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "tools", lambda: pytest.fail("asked for the tools"))
    store = Store(tmp_path)
    with pytest.raises(UsageError, match="unknown experiment"):
        ahead.get(store, ["run", "experiment=nosuch"])
    ahead.get(store, ["results"])
    assert list(tmp_path.iterdir()) == []
