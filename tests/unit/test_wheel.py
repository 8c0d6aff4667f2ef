# SPDX-License-Identifier: MIT
"""The package that `pip install .` makes: it has what a run reads, and its command works in any folder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import harness
from harness.paths import ROOT

SHIPPED = ("experiments", "images", "kernel-patches", "results/reference", "tools.lock", "kernels.lock")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this checkout, built by pip as for an installation."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip")
    folder = tmp_path_factory.mktemp("wheel")
    words = [*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("no package index is in reach")
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel) -> Path:
    """A folder that it is installed in, without what it depends on."""
    target = wheel.parent / "installed"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)], check=True)
    return target


def krepro(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed command, called in a folder that has nothing of the project."""
    env = {**os.environ, "PYTHONPATH": str(installed), "KREPRO_STORE": str(folder / "store")}
    program = [sys.executable, str(installed / "bin/krepro"), *words]
    return subprocess.run(program, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_all_that_a_run_reads_is_in_it(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "harness", *SHIPPED], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("no git checkout")
    names = [name for name in tracked.stdout.splitlines() if (ROOT / name).is_file()]
    wanted = {name if name.startswith("harness/") else f"harness/project/{name}" for name in names}
    there = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert len(wanted) > 500
    assert sorted(wanted - there) == []
    assert [name for name in there if "__pycache__" in name or not name.startswith("harness/")] == []


@pytest.mark.deep
def test_its_command_is_that_of_the_checkout_in_any_folder(installed, tmp_path):
    listed = krepro(installed, tmp_path, "--list")
    own = subprocess.run(
        [sys.executable, "-m", "harness.commands.program"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (listed.stdout, listed.returncode) == (own.stdout.replace("./inv", "krepro"), 0)
    assert krepro(installed, tmp_path, "--version").stdout == f"krepro {harness.__version__}\n"
    assert "(default: results/)" in " ".join(krepro(installed, tmp_path, "results", "--help").stdout.split())
    assert not list(tmp_path.iterdir())


def test_it_reads_its_own_experiments_and_knows_its_own_commands(installed, tmp_path):
    done = krepro(installed, tmp_path, "run", "irq-hotspot", "--arms", "no-such-arm")
    assert done.returncode == 2
    assert "no-such-arm" in done.stderr
    assert "tick" in done.stderr
    done = krepro(installed, tmp_path, "no-such-command")
    assert (done.returncode, done.stderr.endswith("(krepro --list)\n")) == (2, True)


@pytest.mark.parametrize("command", ["test", "docs", "kvmhost", "reference x", "lock --update"])
@pytest.mark.deep
def test_what_needs_a_checkout_says_so_in_one_line(installed, tmp_path, command):
    done = krepro(installed, tmp_path, *command.split())
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs a checkout" in done.stderr
