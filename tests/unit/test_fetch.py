# SPDX-License-Identifier: MIT
"""Fetching locked packages from real HTTP servers on this host: moved on, broken off, other bits, offline."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.packages import fetch as fetching
from harness.packages.fetch import fetch
from harness.packages.lock import Entry
from tests.packages import MOMENT, entry_of, make_deb


class Handler(SimpleHTTPRequestHandler):
    """Serves files, and parts of them; breaks off after `whole` bytes of a body where that is set, or stalls there."""

    whole: dict[str, int]
    stalled: threading.Event
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        begun = self.headers.get("Range")
        self.asked.append((self.path, begun))
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        first = int(begun.removeprefix("bytes=").rstrip("-")) if begun else 0
        self.send_response(206 if begun else 200)
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        cut = file.name in self.whole
        self.wfile.write(data[first : self.whole.pop(file.name, len(data))])
        if cut:
            self.wfile.flush()
            self.stalled.wait()
        self.close_connection = True

    def log_message(self, *_words: object) -> None:
        pass


class Server:
    """An HTTP server of a folder; what it was asked for, and files that it breaks off once after so many bytes.

    It says nothing more there until `goes_on` is set.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.breaks = folder, [], {}
        self.goes_on = threading.Event()
        self.goes_on.set()
        folder.mkdir(parents=True)
        kind = type("Own", (Handler,), {"asked": self.asked, "whole": self.breaks, "stalled": self.goes_on})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(kind, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def has(self, deb: Path, path: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(deb.read_bytes())

    def close(self) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    made: list[Server] = []

    def go(name: str) -> Server:
        made.append(Server(tmp_path / "servers" / name))
        return made[-1]

    yield go
    for one in made:
        one.close()


@pytest.fixture
def deb(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"bits" * 100)
    (tmp_path / "made").mkdir()
    return make_deb(tmp_path / "made", "tool", tree)


@pytest.fixture
def entry(deb: Path) -> Entry:
    return entry_of(deb)


@pytest.fixture(autouse=True)
def mirrors(server, monkeypatch) -> tuple[Server, Server]:
    """The distribution's mirror and its archive, empty."""
    mirror, archive = server("mirror"), server("archive")
    monkeypatch.setattr(fetching, "MIRROR", mirror.url)
    monkeypatch.setattr(fetching, "SNAPSHOT", archive.url)
    monkeypatch.delenv("KREPRO_MIRRORS", raising=False)
    monkeypatch.delenv("KREPRO_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return mirror, archive


NAME = "mirror.example"
PATH = "pool/main/t/tool/tool_2-3_amd64.deb"


def test_from_the_mirror_once(tmp_store, mirrors, deb, entry):
    mirror, archive = mirrors
    mirror.has(deb, f"debian/{PATH}")
    assert fetch(tmp_store, [entry, entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert mirror.asked == [(f"/debian/{PATH}", None)]
    assert archive.asked == []


def test_the_mirrors_name_is_looked_up_once_for_all(tmp_store, mirrors, monkeypatch, tmp_path):
    mirror, _ = mirrors
    entries = []
    for number in range(20):
        folder = tmp_path / f"{number}"
        (folder / "tree").mkdir(parents=True)
        (folder / "tree/file").write_bytes(b"%d" % number)
        made = make_deb(folder, f"tool{number}", folder / "tree")
        entries.append(entry_of(made))
        mirror.has(made, f"debian/{entries[-1].path}")
    asked: list[str] = []
    ask = socket.getaddrinfo

    def answer(host: str, *words: Any, **more: Any) -> Any:
        asked.append(host)
        return ask("127.0.0.1" if host == NAME else host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(fetching, "MIRROR", mirror.url.replace("127.0.0.1", NAME))
    monkeypatch.setenv("no_proxy", NAME)
    fetch(tmp_store, entries)
    assert len(mirror.asked) == 20
    assert asked.count(NAME) == 1


def test_a_mirror_that_has_moved_on_is_followed_by_the_archive(tmp_store, mirrors, deb, entry):
    mirror, archive = mirrors
    mirror.has(deb, "debian/pool/main/t/tool/tool_2-4_amd64.deb")
    archive.has(deb, f"debian/{MOMENT}/{PATH}")
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert [path for path, _ in archive.asked] == [f"/debian/{MOMENT}/{PATH}"]


def test_nowhere_is_one_line_that_says_how_to_go_on(tmp_store, mirrors, entry):
    mirror, archive = mirrors
    with pytest.raises(RunError) as caught:
        fetch(tmp_store, [entry])
    assert str(caught.value) == (
        f"package tool 1:2-3 (amd64) is nowhere to be had: {mirror.url}: does not have it; "
        f"{archive.url}: does not have it (point KREPRO_MIRRORS at a folder or a mirror that has "
        "tool_2-3_amd64.deb, or take other versions, and so other bits: ./inv lock --update)"
    )
    assert list((tmp_store.root / "packages").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [f"debian/{PATH}", PATH, "tool_2-3_amd64.deb", "tool_1+2-3_amd64.deb", "SHA.deb", "SHA"],
)
@pytest.mark.parametrize("kind", ["folder", "url", "file"])
def test_own_places_come_first_and_in_any_layout(tmp_store, server, mirrors, monkeypatch, deb, entry, name, kind):
    own = server("own")
    own.has(deb, name.replace("SHA", entry.sha256))
    word = {"folder": str(own.folder), "url": own.url, "file": f"file://{own.folder}/"}[kind]
    monkeypatch.setenv("KREPRO_MIRRORS", f"{word} {own.folder.parent}")
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert mirrors[0].asked == mirrors[1].asked == []


def test_other_bits_under_the_name_are_not_taken(tmp_store, mirrors, monkeypatch, capsys, deb, entry):
    mirror, archive = mirrors
    other = deb.with_name("other")
    other.write_bytes(deb.read_bytes()[:-1] + b"?")
    mirror.has(other, f"debian/{PATH}")
    with pytest.raises(RunError, match="has other bits under its name"):
        fetch(tmp_store, [entry])
    assert f"{mirror.url}/debian/{PATH} is not what tool 1:2-3 was" in capsys.readouterr().err
    archive.has(deb, f"debian/{MOMENT}/{PATH}")
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()


def test_what_changes_in_the_store_is_fetched_again(tmp_store, mirrors, deb, entry):
    mirrors[0].has(deb, f"debian/{PATH}")
    path = fetch(tmp_store, [entry])[entry.sha256]
    path.write_bytes(deb.read_bytes()[:-1] + b"?")
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()


def test_a_download_that_broke_off_goes_on_where_it_was(tmp_store, mirrors, deb, entry):
    mirror = mirrors[0]
    mirror.has(deb, f"debian/{PATH}")
    mirror.breaks[PATH.rpartition("/")[2]] = 100
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert [begun for _, begun in mirror.asked] == [None, "bytes=100-"]


def test_what_an_earlier_run_left_is_gone_on_with_even_if_it_is_wrong(tmp_store, mirrors, deb, entry):
    mirror, archive = mirrors
    mirror.has(deb, f"debian/{PATH}")
    archive.has(deb, f"debian/{MOMENT}/{PATH}")
    (tmp_store.root / "packages").mkdir(parents=True)
    (tmp_store.root / "packages" / f"{entry.sha256}.part").write_bytes(b"?" * 50)
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert mirror.asked[0][1] == "bytes=50-"


def test_offline_asks_no_network(tmp_store, server, mirrors, monkeypatch, deb, entry):
    mirrors[0].has(deb, f"debian/{PATH}")
    own = server("own")
    own.has(deb, "tool_2-3_amd64.deb")
    monkeypatch.setenv("KREPRO_MIRRORS", own.url)
    with pytest.raises(RunError, match="nowhere to be had: offline, and KREPRO_MIRRORS names no folder"):
        fetch(tmp_store, [entry], offline=True)
    monkeypatch.setenv("KREPRO_OFFLINE", "1")
    with pytest.raises(RunError, match="nowhere to be had: offline"):
        fetch(tmp_store, [entry])
    monkeypatch.setenv("KREPRO_MIRRORS", str(own.folder))
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert own.asked == mirrors[0].asked == []


def test_a_mirror_that_does_not_answer_is_asked_once(tmp_store, server, mirrors, monkeypatch, deb, entry, tmp_path):
    gone = server("gone")
    gone.close()
    tree = tmp_path / "tree"
    (tree / "more").touch()
    second = make_deb(tmp_path / "made", "more", tree)
    for file, one in ((deb, entry), (second, entry_of(second))):
        mirrors[0].has(file, f"debian/{one.path}")
    monkeypatch.setenv("KREPRO_MIRRORS", gone.url)
    assert len(fetch(tmp_store, [entry, entry_of(second)])) == 2


def test_a_place_that_is_none_is_told(tmp_store, monkeypatch, entry, tmp_path):
    monkeypatch.setenv("KREPRO_MIRRORS", str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match=r"KREPRO_MIRRORS: .*/nothing is neither a folder nor an http address"):
        fetch(tmp_store, [entry])


def test_one_failure_ends_the_others(tmp_store, mirrors, deb, entry):
    mirrors[0].has(deb, f"debian/{PATH}")
    absent = entry.model_copy(update={"package": "absent", "sha256": "0" * 64, "path": "pool/main/a/a_1_amd64.deb"})
    with pytest.raises(RunError, match="package absent 1:2-3"):
        fetch(tmp_store, [absent, entry])
    assert isinstance(tmp_store, Store)


@pytest.mark.parametrize("starting", [False, True], ids=["while-it-waits", "while-a-thread-starts"])
def test_an_interrupted_download_waits_for_no_mirror_and_keeps_what_has_come(
    starting, tmp_store, mirrors, monkeypatch, deb, entry
):
    mirror, part = mirrors[0], tmp_store.root / "packages" / f"{entry.sha256}.part"
    mirror.has(deb, f"debian/{PATH}")
    mirror.breaks[PATH.rpartition("/")[2]] = 100
    mirror.goes_on.clear()

    came, add = threading.Event(), fetching._Count.add

    def counted(count: fetching._Count, amount: int, name: str) -> None:
        add(count, amount, name)
        came.set()

    def interrupt() -> None:
        came.wait()
        os.kill(os.getpid(), signal.SIGUSR1)

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def start(thread: threading.Thread) -> None:
        begin(thread)
        while thread.name.startswith("ThreadPoolExecutor"):  # a pool knows no thread whose start does not return
            time.sleep(0.01)

    begin, before = threading.Thread.start, signal.signal(signal.SIGUSR1, end)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with monkeypatch.context() as patched:
            patched.setattr(fetching._Count, "add", counted)
            if starting:
                patched.setattr(threading.Thread, "start", start)
            with pytest.raises(KeyboardInterrupt):
                fetch(tmp_store, [entry])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not mirror.goes_on.is_set(), "it does not wait for the mirror's next byte"
    assert part.read_bytes() == deb.read_bytes()[:100]
    assert fetch(tmp_store, [entry])[entry.sha256].read_bytes() == deb.read_bytes()
    assert mirror.asked[-1][1] == "bytes=100-"
