# SPDX-License-Identifier: MIT
"""The launcher pagetrace against a made-up device: what it writes, passes on, and says when something fails."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from experiments.page_trace.trace.maps import read_maps
from experiments.page_trace.trace.packed import blocks
from experiments.page_trace.trace.records import LOST, VISIT, Trace

from harness.image.programs import build_program, program_sources
from harness.paths import EXPERIMENTS, ROOT
from tests.conftest import needs_guest_packages
from tests.processes import DEFAULT_SIGNALS, PATIENCE_S, eventually

SOURCE = program_sources([EXPERIMENTS / "page-trace/guest"])["pagetrace"]
HEADER = np.dtype(
    {
        "names": ["magic", "version", "record_bytes", "window", "flags", "pid", "page_shift", "start_ns", "zeros"],
        "formats": ["S8", "u4", "u4", "u4", "u4", "i4", "u4", "u8", "V24"],
    }
)

pytestmark = needs_guest_packages


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    target: Path = tmp_path_factory.mktemp("pagetrace") / "pagetrace"
    fake = ROOT / "tests/fixtures/page-trace/fake_device.c"
    wrap = "-Wl,--wrap=open,--wrap=ioctl,--wrap=poll"
    build_program("x86_64", SOURCE, target, target.parent / "log", [wrap, fake])
    return target


@pytest.fixture
def launch(program, tmp_path):
    """Run the launcher with 1024 records of ring; its process, which has ended, and its statistics."""

    def run(*arguments: str, total: int = 10_000, step: int = 300, **fake: int):
        settings = {f"FAKE_{name.upper()}": str(value) for name, value in fake.items()}
        done = subprocess.run(
            [program, "-r", "1024", "-s", "stats", *arguments],
            env={**os.environ, "FAKE_TOTAL": str(total), "FAKE_STEP": str(step), **settings},
            cwd=tmp_path,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        stats = tmp_path / "stats"
        return done, json.loads(stats.read_text() or "{}") if stats.exists() else {}

    return run


def records(content: bytes) -> np.ndarray:
    """First words of the records behind the header."""
    assert (len(content) - HEADER.itemsize) % 24 == 0
    return np.frombuffer(content, "<u8", offset=HEADER.itemsize).reshape(-1, 3)[:, 0]


@pytest.fixture
def start(program, tmp_path):
    """Start the launcher, like `launch`, without waiting; what still runs at the test's end is killed."""
    started = []

    def run(*arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "FAKE_TOTAL": "10000", "FAKE_STEP": "300"}
        command = [*DEFAULT_SIGNALS, *prefix, program, "-r", "1024", "-s", "stats", "-o", "trace", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_every_record_is_written_in_order_through_many_turns_of_the_ring(launch, tmp_path):
    before = time.monotonic_ns()
    done, stats = launch("-w", "4", "-f", "-o", "trace", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"")
    content = (tmp_path / "trace").read_bytes()
    assert np.array_equal(records(content), np.arange(10_000))
    header = np.frombuffer(content, HEADER, 1)[0]
    assert (header["magic"], header["version"], header["record_bytes"]) == (b"KRPTRACE", 1, 24)
    assert (header["window"], header["flags"], header["page_shift"]) == (4, 1, 12)
    assert before < header["start_ns"] < time.monotonic_ns()
    assert bytes(header["zeros"]) == bytes(24)
    assert (stats["pid"], stats["exit_status"], stats["bytes"]) == (header["pid"], 3, len(content))
    assert (stats["records"], stats["window"], stats["follow"], stats["drains"]) == (10_000, 4, True, 34)
    assert (stats["exact"], stats["written"]) == (False, True)


def test_the_trace_can_go_to_standard_output(launch):
    done, stats = launch("-o", "-", "true", last=100)
    assert done.returncode == 0
    assert np.array_equal(records(done.stdout), np.arange(10_100))
    assert stats["exact"] is True


def test_a_reader_that_goes_away_ends_the_trace_and_not_the_command(start, tmp_path):
    process = start("-o", "-", "sh", "-c", "sleep 0.2; touch ran")
    process.stdout.read(1000)
    process.stdout.close()
    assert process.wait(60) == 125
    assert process.stderr.read().endswith(b" bytes: Broken pipe\n")
    assert (tmp_path / "ran").exists()


def first_words(path):
    """Of each record, of a packed trace too, whatever its type is."""
    if not Trace(path).packed:
        return np.frombuffer(path.read_bytes()[HEADER.itemsize :], "<u8")[::3]
    parts = []
    for block in blocks(path, HEADER.itemsize):
        times = block.times
        marks = block.marks.astype(np.uint64)
        parts.append(
            times.view(np.uint64) << np.uint64(12) | marks >> np.uint64(4) << np.uint64(8) | marks & np.uint64(15)
        )
    return np.concatenate(parts)


def last_page(path):
    """Of the last record."""
    if not Trace(path).packed:
        return int(np.frombuffer(path.read_bytes()[HEADER.itemsize :], "<u8")[-2]) >> 12
    *_, block = blocks(path, HEADER.itemsize)
    pages = block.pages(slice(None)).words()
    return int(pages[-1])


def test_a_packed_trace_has_every_record(launch, tmp_path):
    done, stats = launch("-z", "-o", "trace", "true", total=100_000)
    assert (done.returncode, done.stderr, stats["exact"], stats["left_out"]) == (0, b"", True, 0)
    trace = Trace(tmp_path / "trace")
    assert (trace.packed, trace.records) == (True, 100_000)
    heads = first_words(tmp_path / "trace")
    # The made-up records are numbers: bits 4 to 7 of a record's first word are nothing's, and are not kept.
    assert np.array_equal(heads, np.arange(100_000, dtype=np.uint64) & ~np.uint64(0xF0))
    assert stats["bytes"] == (tmp_path / "trace").stat().st_size < 100_000 * 6


@pytest.mark.parametrize("packed", [True, False])
def test_what_a_file_may_not_hold_is_left_out_and_counted(launch, tmp_path, packed):
    flags = ["-z"] if packed else []
    done, stats = launch(*flags, "-l", "400000", "-o", "trace", "true", total=100_000)
    assert (done.returncode, stats["exact"], stats["written"]) == (0, False, True)
    assert b"is as large as it may be" in done.stderr
    size = (tmp_path / "trace").stat().st_size
    assert stats["bytes"] == size <= 400_000
    types = np.arange(100_000) >> 8 & 0xF
    kept = first_words(tmp_path / "trace")
    assert kept[-1] >> np.uint64(8) & np.uint64(0xF) == LOST
    assert stats["left_out"] == np.count_nonzero(types[kept.size - 1 :] == VISIT) > 0
    assert last_page(tmp_path / "trace") == stats["left_out"]


def test_the_commands_mappings_are_those_at_its_end(launch, tmp_path):
    done, stats = launch("-m", "maps", "-o", "trace", "sh", "-c", "kill -USR1 $$; exit 9")
    assert (done.returncode, stats["exit_status"]) == (128 + signal.SIGUSR1,) * 2
    caught = "import signal, os\nsignal.signal(10, lambda *_: os.write(1, b'caught\\n'))\n"
    ends = "os.kill(os.getpid(), 10)\nos._exit(9)"
    done, stats = launch("-m", "maps", "-o", "trace", sys.executable, "-c", caught + ends)
    assert (done.returncode, done.stdout, stats["exit_status"]) == (9, b"caught\n", 9)
    maps = read_maps(tmp_path / "maps")
    assert any(mapping.name == "[stack]" for mapping in maps.mappings)
    assert any(mapping.executable and "python" in mapping.name for mapping in maps.mappings)


def test_losses_are_warned_of_and_are_not_exact(launch, tmp_path):
    done, stats = launch("-o", "trace", "true", step=1500)
    assert done.returncode == 0
    lost = 10_000 - len(records((tmp_path / "trace").read_bytes()))
    assert lost > 0
    assert (stats["lost"], stats["exact"]) == (lost, False)
    assert done.stderr.decode().startswith(f"pagetrace: warning: {lost} visits and 0 other records lost")
    assert done.stderr.count(b"\n") == 1


def test_a_task_given_up_is_warned_of_and_its_status_passed_on(launch):
    done, stats = launch("sh", "-c", "sleep 0.2; exit 5", unfit=1)
    assert (done.returncode, stats["exit_status"], stats["exact"]) == (5, 5, False)
    assert b"1 tasks not seen whole" in done.stderr


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV, b""),
        (["./no-such-program"], 127, b"pagetrace: ./no-such-program: No such file or directory\n"),
        (["/"], 126, b"pagetrace: /: Permission denied\n"),
    ],
)
def test_the_exit_status_is_that_of_a_shell(launch, command, status, said):
    done, stats = launch(*command)
    assert (done.returncode, done.stderr, stats["exit_status"]) == (status, said, status)


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EBUSY, b"the process is traced already"), (errno.ENODEV, b"no NX"), (errno.EIO, b"Input/output error")],
)
def test_a_trace_that_cannot_start_runs_nothing(launch, tmp_path, number, said):
    done, _ = launch("touch", "ran", errno=number)
    assert (done.returncode, done.stderr.count(b"\n")) == (125, 1)
    assert said in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_full_disk_at_the_start_runs_nothing(launch, tmp_path):
    done, _ = launch("-o", "/dev/full", "touch", "ran")
    assert (done.returncode, done.stderr) == (125, b"pagetrace: /dev/full: No space left on device\n")
    assert not (tmp_path / "ran").exists()


def test_a_trace_that_cannot_be_written_any_more_ends_and_the_command_does_not(start, tmp_path):
    # The limit is on files; SIGXFSZ is ignored, so that a write says EFBIG.
    limited = "import resource as r, signal as s, os, sys; s.signal(s.SIGXFSZ, s.SIG_IGN); "
    limited += "r.setrlimit(r.RLIMIT_FSIZE, (50_000, 50_000)); os.execv(sys.argv[1], sys.argv[1:])"
    process = start("sh", "-c", "sleep 0.2; touch ran; exit 4", prefix=[sys.executable, "-c", limited])
    whole = (50_000 - HEADER.itemsize) // 24
    said = f"pagetrace: trace: the trace ends after {24 * whole} bytes: File too large\n"
    assert (process.wait(60), process.stderr.read().decode()) == (125, said)
    stats = json.loads((tmp_path / "stats").read_text())
    assert np.array_equal(records((tmp_path / "trace").read_bytes()), np.arange(whole))
    assert (stats["exit_status"], stats["written"], stats["exact"]) == (4, False, False)
    assert stats["bytes"] == (tmp_path / "trace").stat().st_size
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_go_to_the_command_and_the_trace_is_drained(start, tmp_path, number):
    script = f"trap 'exit 7' {number}; touch ready; while :; do sleep 0.05; done"
    process = start("sh", "-c", script)
    assert eventually((tmp_path / "ready").exists)
    process.send_signal(number)
    assert (process.wait(60), process.stderr.read()) == (7, b"")
    assert len(records((tmp_path / "trace").read_bytes())) == 10_000


def test_a_signal_ends_the_trace_of_a_running_process_but_not_the_process(start, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as traced:
        process = start("-p", str(traced.pid))
        assert eventually(lambda: (tmp_path / "trace").exists() and (tmp_path / "trace").stat().st_size > 200_000)
        process.send_signal(signal.SIGTERM)
        assert (process.wait(60), process.stderr.read()) == (0, b"")
        assert traced.poll() is None
        traced.kill()
    stats = json.loads((tmp_path / "stats").read_text())
    assert (stats["pid"], stats["exit_status"], stats["exact"]) == (traced.pid, None, True)


def test_a_file_that_cannot_be_made_runs_nothing(program, tmp_path):
    done = subprocess.run([program, "-o", tmp_path, "touch", tmp_path / "ran"], capture_output=True, check=False)
    assert done.returncode == 125
    assert b"Is a directory" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["-w", "65", "true"], ["-w", "0", "true"], ["-r", "3000", "true"], ["-p", "1", "true"], ["-x"]]
)
def test_bad_arguments_are_one_line(launch, arguments):
    done, _ = launch(*arguments)
    assert (done.returncode, done.stderr[:11], done.stderr.count(b"\n")) == (125, b"pagetrace: ", 1)


def test_without_the_device_it_says_what_is_missing(tmp_path):
    real = tmp_path / "pagetrace"
    build_program("x86_64", SOURCE, real, tmp_path / "log")
    done = subprocess.run([real, "true"], capture_output=True, text=True, cwd=tmp_path, check=False)
    said = "pagetrace: /dev/page_trace: No such file or directory: is the kernel built with KREPRO_PAGE_TRACE?\n"
    assert (done.returncode, done.stderr) == (125, said)
