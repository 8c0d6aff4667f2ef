# SPDX-License-Identifier: MIT
"""What may happen in every stage of a run: it is ended by a signal, its file systems become full or read-only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from harness.artefacts.store import Store
from harness.errors import EXIT_OK, EXIT_RUN_FAILED, EXIT_USAGE
from harness.paths import ROOT
from tests.faults.rows import fault
from tests.faults.runs import Mounts, Place, come_to, members, seeded_store
from tests.processes import DEFAULT_SIGNALS, eventually, machines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

YAML = """\
name: faulty
paper: {authors: [Nobody], year: 2024, title: A run that is broken off}
workloads:
  work: {command: "echo well", timeout_s: 20}
arms:
  virtual: {kernel: classic, clock: virtual}
repetitions: {quick: 4}
"""
#: What ends a run; the last one cannot be seen by it.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
#: From a signal to the end of the command, on a machine that is busy.
MOST_S = 20.0
#: The same where nothing but connections is to be closed.
FETCH_MOST_S = 10.0
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


def place_for(root: Path, stage: str) -> Place:
    """A place whose runs come to the stage, with a store of its own where the stage makes something for it."""
    environment = {}
    if stage == "fetch":
        environment["KREPRO_STORE"] = str(root / "store")
    elif stage in ("image", "state"):
        environment["KREPRO_STORE"] = str(seeded_store(root / "store"))
    elif stage in ("analysis", "writing"):
        environment[f"FAULT_{stage.upper()}"] = str(root)
    return Place(root, YAML, environment)


def go_on(place: Place) -> None:
    """Let an analysis that waits go on, and the next one not wait."""
    (place.root / "go").touch()


def end(place: Place, process: subprocess.Popen[str], number: int, most_s: float = MOST_S) -> str:
    """Send a signal and see the command end as it must; what it told."""
    process.send_signal(number)
    sent = time.monotonic()
    _, err = process.communicate(timeout=60)
    took = time.monotonic() - sent
    assert process.returncode == (-number if number == signal.SIGKILL else 130), err
    assert took < most_s, number
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if line.startswith("krepro: ") and "warning" not in line]
    assert len(told) == (number != signal.SIGKILL), err
    assert eventually(lambda: not machines(place.temporary), 30), "no guest outlives its run"
    assert eventually(lambda: not members(process.pid), 30), members(process.pid)
    for path in place.sets():
        assert (path / "manifest.json").is_file(), "no half-written set"
    return err


@fault("SIGINT, SIGTERM or SIGHUP while `./inv run` starts", "ended by the signal, or code 130 and one line", MOST_S)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_before_it_has_begun_says_no_more_than_that(tmp_path, number):
    place = place_for(tmp_path, "start")
    command = [*DEFAULT_SIGNALS, sys.executable, "inv", "run", str(place.folder), "--results", str(place.results)]
    for tenths in range(12):
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, **place.environment},
        )  # fmt: skip
        time.sleep(0.05 + tenths / 10)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if number == signal.SIGINT and ("Python runtime state" in err or 'inv", line 0' in err):
            continue  # Python itself was starting, and had come to no line of ours
        assert process.returncode in (130, -number), err
        assert "Traceback" not in err, tenths
        assert len([line for line in err.splitlines() if line.startswith("krepro: ")]) == (process.returncode > 0), err
        assert not out
        place.check_nothing_is_left()


@fault("SIGINT, SIGTERM, SIGHUP or SIGKILL while an image is built, a state is saved, guests run, an analysis works "
       "or a set is written", "code 130, one line; the same command goes on", MOST_S)  # fmt: skip
@pytest.mark.parametrize("stage", ["image", "state", "trials", "analysis", "writing"])
def test_a_run_that_is_ended_in_any_stage_goes_on(tmp_path, stage):
    place = place_for(tmp_path, stage)
    for number in SIGNALS:
        process = place.start()
        come_to(place, process, stage)
        end(place, process, number)
        if number != signal.SIGKILL:
            place.check_nothing_is_left()
    go_on(place)
    ended = place.run()
    assert ended.status == EXIT_OK, ended.err
    assert ("4 of 4 trials are done" in ended.err) == (stage in ("analysis", "writing")), "sealed trials are kept"
    place.check_nothing_is_left()


def manifests(place: Place) -> set[tuple[str, int]]:
    """Of sets that are being sealed, and when each was written."""
    found = set()
    for path in (place.home / ".unfinished").glob("*/set/manifest.json"):
        with suppress(OSError):
            found.add((str(path), path.stat().st_mtime_ns))
    return found


@fault("SIGINT, SIGTERM or SIGKILL between the manifest and the set's name", "no half-written set")
def test_a_run_that_is_ended_while_its_set_is_sealed_leaves_none_or_a_whole_one(tmp_path):
    place = Place(tmp_path, YAML)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        left = manifests(place)  # by the run before
        process = place.start()
        deadline = time.monotonic() + 900
        while not manifests(place) - left and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[1]
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        assert process.returncode in (EXIT_OK, 130, -number)
        for path in place.sets():
            assert (path / "manifest.json").is_file()
        if process.returncode == -number != -signal.SIGKILL:
            assert place.sets(), "Python was ending, with all done"
    ended = place.run()
    assert ended.status == EXIT_OK, ended.err
    place.check_nothing_is_left()
    assert {path.name for path in place.home.iterdir()} == {"latest", *(path.name for path in place.sets())}


class _Slow(BaseHTTPRequestHandler):
    """Packages of the store, so slowly that none is ever whole; `stalled`: after its beginning nothing comes."""

    stalled = False
    asked: ClassVar[list[str | None]]

    def do_GET(self) -> None:
        files = Store.default().root / "packages"
        file = next(iter(files.glob(self.path.rpartition("/")[2])), None)
        begun = self.headers.get("Range")
        if file is None or file.suffix != ".deb":
            self.send_error(404)
            return
        self.asked.append(begun)
        data = file.read_bytes()[int(begun.removeprefix("bytes=").rstrip("-")) if begun else 0 :]
        self.send_response(206 if begun else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        for at in range(len(data)):
            try:
                self.wfile.write(data[at : at + 1])
                self.wfile.flush()
            except OSError:
                return
            time.sleep(1000 if self.stalled else 0.01)

    def log_message(self, *_: object) -> None:
        pass


@fault("SIGINT, SIGTERM or SIGKILL while packages are fetched from a mirror that drips or stalls",
       "code 130, one line; the next run goes on with the bytes that have come", FETCH_MOST_S)  # fmt: skip
@pytest.mark.parametrize("stalled", [False, True])
def test_a_fetch_that_is_ended_goes_on(tmp_path, stalled):
    handler = type("Handler", (_Slow,), {"stalled": stalled, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    place = place_for(tmp_path, "fetch")
    place.environment |= {"KREPRO_MIRRORS": f"http://127.0.0.1:{server.server_port}", "no_proxy": "127.0.0.1"}
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            handler.asked.clear()
            process = place.start()
            assert eventually(lambda: handler.asked or process.poll() is not None, 300)  # noqa: B023
            time.sleep(1)
            assert all((begun is None) == (number == signal.SIGINT) for begun in handler.asked)
            err = end(place, process, number, FETCH_MOST_S)
            assert "did not end in time" not in err
    finally:
        server.shutdown()
        server.server_close()
    assert list((tmp_path / "store/packages").glob("*.part"))
    assert not list((tmp_path / "store/packages").glob("*.deb")), "nothing that is not whole has the name"


@fault("SIGINT, SIGTERM or SIGKILL while the Python environment is made",
       "no process is left; the next command makes it anew", MOST_S)  # fmt: skip
def test_an_environment_that_is_half_made_is_made_anew(tmp_path):
    checkout = tmp_path / "krepro"
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    stamp = checkout / ".venv/krepro-lock.sha256"
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen(
                [*DEFAULT_SIGNALS, sys.executable, "inv", "--list"], cwd=checkout, start_new_session=True, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            assert eventually(lambda: (checkout / ".venv/bin/pip").exists() or process.poll() is not None, 120)  # noqa: B023
            assert process.poll() is None, process.communicate()[1]
            time.sleep(1)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            assert process.returncode == -number, err
            assert "Traceback" not in err
            assert eventually(lambda: not members(process.pid), 10), members(process.pid)  # noqa: B023
            assert not stamp.exists(), "what is not whole passes for nothing"
            (checkout / ".venv/bin/pip").unlink()
    finally:
        shutil.rmtree(checkout)


#: Which file system, in which stage.
PLACES = [
    *(("results", stage) for stage in ("image", "state", "trials", "analysis", "writing")),
    *(("temporary", stage) for stage in ("image", "state", "trials", "analysis", "writing")),
]
#: Bytes of the test's own file systems.
SIZES = {"results": "16m", "temporary": "64m"}


@fault("results or temporary files: no room any more, in the middle of any stage",
       "one line; the same command goes on when there is room")  # fmt: skip
@fault("the same file systems become read-only there", "one line; the same command goes on when it can")
@needs_root
@pytest.mark.parametrize("how", ["full", "read-only"])
@pytest.mark.parametrize(("where", "stage"), PLACES)
def test_a_file_system_that_takes_no_more(tmp_path, where, stage, how):
    place = place_for(tmp_path, stage)
    folder = {"results": place.results, "temporary": place.temporary}[where]
    with Mounts(f"mount -t tmpfs -o size={SIZES[where]} tmpfs {folder}") as mounts:
        place.mounts = mounts
        process = place.start()
        come_to(place, process, stage)
        mend = (mounts.fill if how == "full" else mounts.close)(folder)
        go_on(place)
        _, err = process.communicate(timeout=900)
        assert "Traceback" not in err
        assert "bug of krepro" not in err
        told = [line for line in err.splitlines() if line.startswith("krepro: ") and "warning" not in line]
        if where == "temporary" and process.returncode == EXIT_OK:
            assert not told, "nothing more was to be written there"
        else:
            assert process.returncode in (EXIT_RUN_FAILED, EXIT_USAGE), err
            assert len(told) == 1, err
            assert ("no space left" if how == "full" else "read-only file system") in err.lower()
        mend()
        ended = place.run()
        assert ended.status == EXIT_OK, ended.err
        place.check_nothing_is_left()


@fault("a store that is read-only, with all that a run needs", "nothing: it is read")
@needs_root
def test_a_warm_store_that_cannot_be_written_serves_a_run(tmp_path):
    place = Place(tmp_path, YAML)
    assert place.run("--repetitions", "1").status == EXIT_OK
    root = Store.default().root
    with Mounts(f"mount --bind {root} {root}", f"mount -o remount,bind,ro {root}") as mounts:
        place.mounts = mounts
        ended = place.run("--repetitions", "1", "--fresh")
        assert ended.status == EXIT_OK, ended.err
        place.check_nothing_is_left()
