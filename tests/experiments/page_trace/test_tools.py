# SPDX-License-Identifier: MIT
"""What runs beside the launcher: plain timing, valgrind's lackey, the neighbour."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from harness.image.programs import build_program, build_programs, program_sources
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages
from tests.processes import PATIENCE_S

GUEST = EXPERIMENTS / "page-trace/guest"
LACKEY = Path("/usr/libexec/valgrind/lackey-amd64-linux")
needs_valgrind = pytest.mark.skipif(not LACKEY.exists(), reason="valgrind is not installed")

pytestmark = needs_guest_packages


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("programs")
    names = ("timed", "lackey", "neighbour", "damonrec", "faultrec", "dirtyscan")
    build_programs("x86_64", {name: program_sources([GUEST])[name] for name in names}, folder, folder / "log")
    return folder


def run(programs: Path, folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [programs / name, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("sleep 0.2", 0)])
def test_timed_passes_the_status_on(programs, tmp_path, script, status):
    begin = time.monotonic_ns()
    assert run(programs, tmp_path, "timed", "stats", "sh", "-c", script).returncode == status
    whole = time.monotonic_ns() - begin
    stats = json.loads((tmp_path / "stats").read_text())
    assert stats["exit_status"] == status
    assert (200_000_000 if script.startswith("sleep") else 0) < stats["elapsed_ns"] < whole


@pytest.mark.parametrize("name", ["timed", "lackey", "damonrec", "neighbour", "faultrec", "dirtyscan"])
def test_bad_arguments_are_one_line(programs, tmp_path, name):
    done = run(programs, tmp_path, name, "-?")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert done.stderr.startswith(f"{name}: usage: {name} ")


def packed_size(lines: list[bytes]) -> int:
    """Of accesses as differences of addresses, zigzag, in LEB128; a byte more where kind and size are others."""
    size, before, last = 0, 0, None
    for line in lines:
        address = int(line[3:].split(b",")[0], 16)
        what = line[1:2], line.split(b",")[1]
        number = (2 * (address - before) if address >= before else 2 * (before - address) - 1) * 2
        size += (what != last) + max(1, -(-number.bit_length() // 7))
        before, last = address, what
    return size


@needs_valgrind
def test_lackey_counts_what_it_keeps(programs, tmp_path):
    done = run(programs, tmp_path, "lackey", "-k", "-o", "trace", "stats", programs / "timed", "inner", "/no")
    assert done.returncode == 127
    stats = json.loads((tmp_path / "stats").read_text())
    lines = (tmp_path / "trace").read_bytes().splitlines(keepends=True)
    code = [line for line in lines if line.startswith(b"I")]
    data = [line for line in lines if line.startswith((b" L", b" S", b" M"))]
    assert len(data) > 1000
    assert (stats["code_lines"], stats["code_bytes"]) == (len(code), sum(map(len, code)))
    assert (stats["data_lines"], stats["data_bytes"]) == (len(data), sum(map(len, data)))
    assert stats["bytes"] == sum(map(len, lines))
    assert (stats["binary_bytes"], stats["packed_bytes"]) == (8 * len(data), packed_size(data))


@needs_valgrind
def test_lackey_counts_lines_that_come_in_pieces(programs, tmp_path):
    pieces = tmp_path / "pieces.c"
    pieces.write_text(
        "#include <unistd.h>\nssize_t __real_read(int, void *, size_t);\n"
        "ssize_t __wrap_read(int fd, void *to, size_t n) { return __real_read(fd, to, n < 7 ? n : 7); }\n"
    )
    source = program_sources([GUEST])["lackey"]
    build_program("x86_64", source, tmp_path / "lackey", tmp_path / "log", ["-Wl,--wrap=read", pieces])
    run(tmp_path, tmp_path, "lackey", "-k", "-o", "trace", "stats", programs / "timed", "inner", "/no")
    stats = json.loads((tmp_path / "stats").read_text())
    lines = (tmp_path / "trace").read_bytes().splitlines(keepends=True)
    assert stats["code_lines"] == sum(line.startswith(b"I") for line in lines)
    data = [line for line in lines if line.startswith(b" ")]
    assert (stats["data_bytes"], stats["packed_bytes"]) == (sum(map(len, data)), packed_size(data))


@needs_valgrind
def test_lackey_without_k_knows_only_the_size(programs, tmp_path):
    assert run(programs, tmp_path, "lackey", "stats", programs / "timed", "inner", "true").returncode == 0
    stats = json.loads((tmp_path / "stats").read_text())
    assert stats["bytes"] > 100_000
    assert (stats["code_lines"], stats["data_bytes"], stats["packed_bytes"]) == (None, None, None)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU")
def test_the_neighbour_alternates_and_leaves_nothing_running(programs, tmp_path):
    mark = f"3{os.getpid()}.5"
    command = f"sleep {mark} & sleep {mark}; :"
    few = ["-n", "4", "-k", "7", "-m", "100", "-w", "200"]
    done = run(programs, tmp_path, "neighbour", *few, "-a", command, "-b", "exit 3")
    assert (done.returncode, done.stderr) == (0, "")
    head, *segments = map(json.loads, done.stdout.splitlines())
    assert (head["pairs"], head["chunks"], head["own_cpu"]) == (4, 7, 1)
    assert "".join(segment["arm"] for segment in segments) == "abbabaab"
    begun = [segment["begin_ns"] for segment in segments]
    assert begun == sorted(begun)
    for segment in segments:
        assert len(segment["chunk_ns"]) == 7
        assert sum(segment["chunk_ns"]) == segment["wall_ns"]
    told = [(segment["arm"], segment["ran_through"], segment["exit_status"]) for segment in segments]
    # On a busy host a shell may take longer than the warm-up to end.
    assert ("b", False, -1) in told
    assert set(told) <= {("a", True, 143), ("b", False, -1), ("b", True, 143)}
    assert mark not in subprocess.run(["ps", "ax", "-o", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU")
def test_the_neighbour_waits_for_a_command_that_takes_its_time_to_end(programs, tmp_path):
    command = "trap 'sleep 0.3; exit 9' TERM; while :; do sleep 0.01; done"
    done = run(programs, tmp_path, "neighbour", "-n", "1", "-k", "2", "-m", "100", "-w", "200", "-b", command)
    assert [json.loads(line).get("exit_status") for line in done.stdout.splitlines()] == [None, 0, 9]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU")
def test_the_neighbour_waits_for_what_its_command_left_behind(programs, tmp_path):
    slow = "trap 'sleep 0.3; touch late; exit' TERM; while :; do sleep 0.01; done"
    command = f'sh -c "{slow}" >/dev/null 2>&1 & wait'  # with its pipes open, run() itself would wait
    run(programs, tmp_path, "neighbour", "-n", "1", "-k", "2", "-m", "100", "-w", "200", "-b", command)
    assert (tmp_path / "late").exists()
