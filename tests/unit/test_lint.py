# SPDX-License-Identifier: MIT
"""Linters and types run as tests; no file tells of the machine that it was written on; none is too long."""

from __future__ import annotations

import configparser
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.paths import ROOT
from tests.typecheck import typecheck

MAX_LINES = 450
PUBLIC = ("pypi.org", "pythonhosted.org", "debian.org", "github.com", "ubuntu.com")
PLACES = re.compile(r"(?<![\w.$}~-])/(?:home|work|Users)/\w+")
PIP_CONFIGS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")


def tool(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("words", [("ruff", "check", "--no-cache"), ("ruff", "format", "--no-cache", "--check")])
def test_ruff(words):
    assert tool(*words, "--quiet", ".") == ""


def test_types():
    """Strict (pyproject.toml), of harness/ and of the experiments."""
    status, said = typecheck()
    assert status == 0, said


def tracked() -> dict[str, str]:
    """Text of every file that is, or would be, in the repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    return {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in paths if path.is_file()}


def registry_hosts() -> set[str]:
    """Hosts of package registries that this machine is set up with, but for the public ones."""
    urls = [value for name, value in os.environ.items() if "INDEX_URL" in name or name.lower().endswith("_proxy")]
    for name in PIP_CONFIGS:
        config = configparser.RawConfigParser()
        config.read(Path(name).expanduser())
        urls += [word for section in config.sections() for _, value in config.items(section) for word in value.split()]
    for path in Path("/etc/apt").glob("sources.list*"):
        for file in [path] if path.is_file() else path.iterdir():
            urls += re.findall(r"https?://\S+", file.read_text(errors="replace"))
    hosts = {host for url in urls if (host := urlsplit(url).hostname)}
    return {host for host in hosts if not host.endswith(PUBLIC) and host not in {"localhost", "127.0.0.1"}}


def test_no_file_tells_where_it_was_written():
    secrets = {str(ROOT), *registry_hosts()}
    if len(socket.gethostname()) > 8:
        secrets.add(socket.gethostname())
    told_of = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(secrets)))})(?![\w-])")
    found = [
        (name, told) for name, text in tracked().items() for told in [*PLACES.findall(text), *told_of.findall(text)]
    ]
    assert not found


def test_modules_can_be_read_in_one_sitting():
    sources = [*(ROOT / "harness").rglob("*.py"), ROOT / "tasks.py", ROOT / "inv"]
    long = {path.name: count for path in sources if (count := len(path.read_text().splitlines())) > MAX_LINES}
    assert not long


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dask.lock", "requirements-docs.lock"])
def test_locked_requirements_have_hashes_and_no_registry(name):
    text = (ROOT / name).read_text()
    entries = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert entries
    assert all(re.match(r"[\w.\[\]-]+==\S+", entry) for entry in entries), "no option, no index, no loose version"
    assert text.count("--hash=sha256:") >= len(entries)
