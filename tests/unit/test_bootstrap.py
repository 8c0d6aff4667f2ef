# SPDX-License-Identifier: MIT
"""The bootstrap's own way to pip, for a Python that comes without."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import bootstrap
from harness.bootstrap import fetch_pip

WHEEL = b"a wheel"
NAME = "pip-1-py3-none-any.whl"


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "CAPSULE", None)
    monkeypatch.setattr(bootstrap, "PIP", (NAME, hashlib.sha256(WHEEL).hexdigest()))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def index(tmp_path, monkeypatch) -> Iterator[Path]:
    """A package index, as the folder that it serves."""
    folder = tmp_path / "index"
    (folder / "simple/pip").mkdir(parents=True)
    (folder / "simple/pip/index.html").write_text(f'<a href="../../files/{NAME}#sha256=x">pip</a>')
    (folder / "files").mkdir()
    (folder / "files" / NAME).write_bytes(WHEEL)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    yield folder
    server.shutdown()
    server.server_close()


def test_pip_comes_from_the_index_by_its_hash(index):
    assert fetch_pip().read_bytes() == WHEEL
    (index / "files" / NAME).write_bytes(b"another")
    with pytest.raises(SystemExit, match="is not the file that was meant"):
        fetch_pip()
    (index / "files" / NAME).unlink()
    with pytest.raises(SystemExit, match="pip cannot be fetched from"):
        fetch_pip()
    (index / "simple/pip/index.html").write_text("")
    with pytest.raises(SystemExit, match=f"has no {NAME}"):
        fetch_pip()


def test_a_folder_of_wheels_needs_no_network(monkeypatch, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / NAME).write_bytes(WHEEL)
    monkeypatch.setenv("PIP_FIND_LINKS", f"/nonexistent {tmp_path}/wheels")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    assert fetch_pip().read_bytes() == WHEEL


def test_a_capsule_has_pip(monkeypatch, tmp_path):
    (tmp_path / "capsule/wheels").mkdir(parents=True)
    (tmp_path / "capsule/wheels" / NAME).write_bytes(WHEEL)
    monkeypatch.setattr(bootstrap, "CAPSULE", tmp_path / "capsule")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    assert fetch_pip().read_bytes() == WHEEL
