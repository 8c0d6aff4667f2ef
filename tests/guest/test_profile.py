# SPDX-License-Identifier: MIT
"""`./inv profile` on Debian's own kernels: a program whose instructions and system calls a person can count."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from harness.kernel.packaged import find_packaged
from harness.paths import ROOT
from tests.compiling import run
from tests.newcomer import inv, report_of

PAGE = ROOT / "docs/profiling.md"
PRINTED = [
    # --verbose fetches 320 MB, every build of 6.1 another 300
    command if re.fullmatch(r"profile -- .*", command) else pytest.param(command, marks=pytest.mark.deep)
    for command in re.findall(r"^\./inv ((?:profile|history) .*)$", PAGE.read_text(), re.MULTILINE)
]
#: LOOPS rounds of two instructions, and CALLS system calls. (strtol takes two instructions more for a digit above 5.)
COUNTED = """\
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	long loops = strtol(argv[1], 0, 10), calls = strtol(argv[2], 0, 10);
	__asm__ volatile("1: dec %0\\n\\tjnz 1b" : "+r"(loops) : : "cc");
	while (calls--)
		syscall(SYS_getppid);
	return 3;
}
"""
#: A server and its client, which opens a file when they have met.
LOOPBACK = """\
import pathlib, socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hi")).start()
client = socket.create_connection(server.getsockname())
print(client.recv(2).decode())
print(pathlib.Path("after").read_text())
"""
#: Functions whose instructions are 2 n + 1, below known callers, in three threads of two processes.
CALLING = """\
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __i386__
#define REGISTER "eax"
__attribute__((regparm(1)))
#else
#define REGISTER "rdi"
#endif
void turns(long n);
__asm__("turns: 1: dec %" REGISTER "\\n jnz 1b\\n ret\\n.type turns, @function\\n.size turns, .-turns");
__attribute__((noinline)) int two(long n) { turns(n); turns(2 * n); return getppid() != 1; }
__attribute__((noinline)) void *worker(void *n) { two((long)n); return 0; }
__attribute__((noinline)) int down(int n) { return n ? down(n - 1) + 1 : two(50); }
int main(void)
{
	pthread_t thread;
	if (two(1000) + down(5) < 0)
		return 1;
	pthread_create(&thread, 0, worker, (void *)3000);
	pthread_join(thread, 0);
	if (!fork()) {
		worker((void *)200);
		_exit(0);
	}
	wait(0);
	return 3;
}
"""
KERNELS = (
    "6.12",
    # `selftest --kernel debian:newest`, which nightly runs, counts on one of each version and flavour.
    *(pytest.param(text, marks=pytest.mark.deep) for text in ("6.1-686-pae", "7.3")),
)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    (folder / "counted.c").write_text(COUNTED)
    for bits in (32, 64):
        run("gcc", f"-m{bits}", "-static", "-O1", "-o", f"counted{bits}", "counted.c", cwd=folder)
    return folder


def profiled(folder, kernel, program, loops, calls, out):
    done = inv(folder, "profile", "--kernel", kernel, "--out", out, "--", str(program), loops, calls)
    report = report_of(done)
    assert "The program ended with exit status 3." in done.stdout
    return (report / "functions.csv").read_bytes()


def table(text):
    return pd.read_csv(io.BytesIO(text)).set_index("function")


@pytest.mark.parametrize("text", KERNELS)
def test_counts_are_those_that_a_person_counts_and_the_same_each_time(text, counted, tmp_path):
    kernel, program = f"debian:{text}", counted / f"counted{32 if '686' in text else 64}"
    first, again, longer = (
        profiled(tmp_path, kernel, program, loops, calls, out)
        for loops, calls, out in (("1000", "7", "a"), ("1000", "7", "b"), ("5000", "7", "c"))
    )
    assert first == again
    counts, more = table(first), table(longer)
    calls = counts[counts.index.str.endswith("sys_getppid")]  # one function with two names, of which one is told
    assert calls["entries"].tolist() == [7]
    assert more.loc["main"]["instructions"] - counts.loc["main"]["instructions"] == 2 * 4000


@pytest.mark.parametrize("text", KERNELS)
def test_call_paths_threads_and_system_calls_are_those_of_the_program(text, tmp_path):
    bits = "32" if "686" in text else "64"
    (tmp_path / "calling.c").write_text(CALLING)
    options = [f"-m{bits}", "-g", "-static", "-O1", "-fno-optimize-sibling-calls", "-fno-ipa-sra", "-fno-ipa-cp"]
    run("gcc", *options, "-o", "calling", "calling.c", "-lpthread", cwd=tmp_path)
    words = ["--kernel", f"debian:{text}", "--to", "perfetto", "--out", "p"]
    report = report_of(inv(tmp_path, "profile", *words, "--", "./calling"))
    functions = pd.read_csv(report / "functions.csv").set_index("function")
    turns = [1000, 2000, 50, 100, 3000, 6000, 200, 400]
    assert functions.loc["turns"][["instructions", "entries"]].tolist() == [sum(2 * n + 1 for n in turns), len(turns)]
    assert functions.loc["two"]["entries"] == 4
    line = 1 + CALLING[: CALLING.index("two(")].count("\n")
    assert re.fullmatch(rf"calling\.c:({line}|{line + 1})", functions.loc["two"]["source"])
    assert functions.loc["down"]["entries"] == 6
    assert functions.loc["down"]["total"] > functions.loc["down"]["instructions"] + 300
    paths: dict[str, int] = {}
    for line in (report / "stacks.folded").read_text().splitlines():
        path, _, count = line.rpartition(" ")
        if path.endswith(";turns"):
            paths[path[path.index(";main;") :]] = int(count)
    down = ";down" * 6
    assert paths.pop(";main;two;turns") == 2 * 3000 + 2
    assert paths.pop(f";main{down};two;turns") == 2 * 150 + 2
    assert paths.pop(";main;worker;two;turns") == 2 * 600 + 2
    ((created, count),) = paths.items()
    assert created.startswith(";main;")
    assert created.endswith(";worker;two;turns")
    assert count == 2 * 9000 + 2
    threads = pd.read_csv(report / "threads.csv").set_index("thread")
    ours = threads[threads["of the program"]]
    assert ours["name"].tolist() == ["./calling"] * 3
    assert sorted(ours["made by"].isin(ours.index)) == [False, True, True]
    slices = [one for one in json.loads((report / "perfetto.json").read_text())["traceEvents"] if one["ph"] == "X"]
    lengths = {one["tid"]: round(one["dur"] * 1000) for one in reversed(slices)}  # the first one of each is all of it
    assert lengths == threads["instructions"].to_dict()
    assert sum(one["args"].get("own", 0) for one in slices) == threads["instructions"].sum()
    twos = [round(one["dur"] * 1000) for one in slices if one["name"] == "two" and one["pid"] == 1]
    assert sum(twos) == functions.loc["two"]["total"]
    system_calls = pd.read_csv(report / "syscalls.csv").set_index("system call")["calls"]
    assert system_calls["getppid"] == 4
    assert system_calls["exit_group"] == 2


def test_the_kernels_samples_lie_beside_the_exact_shares(counted, tmp_path):
    words = ["--with", "perf", "--out", "p", "--", str(counted / "counted64"), "20000000", "7"]
    done = inv(tmp_path, "profile", *words)
    report_of(done)
    table = pd.read_csv(tmp_path / "p/sampled.csv").set_index("function")
    main = table.loc["main"]
    assert main["instructions"] - 40_000_000 in range(1000)
    assert main["share"] > 0.9
    assert abs(main["off"]) < 2
    assert table["samples"].sum() > 100
    assert re.search(r"^perf record -F 4000 takes [\d,]+ samples of it", done.stdout, re.MULTILINE)


def test_a_program_of_this_host_finds_its_files_and_its_status_is_passed_on(tmp_path):
    (tmp_path / "job.sh").write_text(
        "#!/usr/bin/env bash\nls /usr/share/zoneinfo | wc -l\ncat <data | sort\nkill -9 $$\n"
    )
    (tmp_path / "job.sh").chmod(0o755)
    (tmp_path / "data").write_text("b\na\n")
    done = inv(tmp_path, "profile", "--exit-code", "--to", "json", "--out", "p", "--", "./job.sh")
    assert done.returncode == 128 + 9, done.stderr
    told = json.loads(done.stdout)
    assert told["exit_status"] == 137
    assert "exit status 137: SIGKILL" in told["said"][-1]
    names = len(list(Path("/usr/share/zoneinfo").iterdir()))
    assert (tmp_path / "p/stdout").read_text().split() == [str(names), "a", "b"]
    assert {row["function"] for row in told["functions"]} >= {"main", "begin_new_exec"}
    assert {row["name"] for row in told["threads"] if row["of the program"]} >= {"ls", "wc", "cat", "sort"}


#: Two builds between which Debian's 6.1 got two instructions dearer on every system call (cases/history).
STEP = "debian:6.1.0-47", "debian:6.1.0-50"


def test_a_server_and_its_client_meet_on_the_loopback_here_and_in_the_guest(tmp_path):
    """The program is run here first, where it writes to a file that is lost: its last file is opened after they met."""
    (tmp_path / "met.py").write_text(LOOPBACK)
    (tmp_path / "after").write_text("the client has read this")
    report = report_of(inv(tmp_path, "profile", "--", "/usr/bin/python3", "met.py"))
    assert (report / "stdout").read_text() == "hi\nthe client has read this\n"


def test_against_another_kernel_the_step_is_found_in_the_code_that_changed(counted, tmp_path):
    words = ["--kernel", STEP[0], "--against", STEP[1], "--repetitions", "2", "--to", "json", "--out", "p"]
    done = inv(tmp_path, "profile", *words, "--below", "5", "--", str(counted / "counted64"), "9", "20000")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (getppid,) = (row for row in told["syscalls"] if row["system call"] == "getppid")
    # So many calls, that the few which a tick interrupts do not show in a tenth of an instruction.
    assert (getppid["change"], getppid["by code"]) == (2.0, 2.0)
    rows = {row["function"]: row for row in told["functions"]}
    for name in ("do_syscall_64", "exit_to_user_mode_prepare"):
        assert rows[name]["why"] == "code"
        # One a system call; whatever else the tick made it do on its way out depends on where the program's files lie.
        assert 19_900 < rows[name]["change"] < 20_500


def test_against_another_program_the_bound_decides(counted, tmp_path):
    program = str(counted / "counted64")
    words = ["--against", f"{program} 200000 7", "--repetitions", "1", "--below", "1%", "--out", "p", "--to", "junit"]
    done = inv(tmp_path, "profile", *words, "--", program, "1000", "7")
    assert done.returncode == 1, done.stderr
    main = pd.read_csv(tmp_path / "p/functions.csv").set_index("function").loc["main"]
    assert (main["change"], main["why"]) == (2 * 199_000, "data")
    (failure,) = ElementTree.fromstring(done.stdout).iter("failure")
    assert "too much: it costs at least +" in failure.attrib["message"]


def test_the_fixture_bounds_a_program_in_tests_of_others(tmp_path):
    (text,) = re.findall(r"```python\n(def test_.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "test_fits.py").write_text(text)
    (tmp_path / "test_grown.py").write_text(re.sub(r"< [\d_]+", "< 1000", text))
    words = [sys.executable, "-m", "pytest", "-p", "harness.api.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert not list(tmp_path.glob("gzip.profile*"))


@pytest.mark.deep
def test_a_history_tells_the_step_and_the_entries_between(counted, tmp_path):
    done = inv(tmp_path, "history", ",".join(STEP), "--out", "h", "--", str(counted / "counted64"), "9", "500")
    report = report_of(done)
    assert re.search(r"^  \+2 for each .*getppid", done.stdout, re.MULTILINE)
    steps = pd.read_csv(report / "steps.csv").set_index("function")
    assert steps.loc["do_syscall_64"]["why"] == "code"
    assert (report / "changes.txt").read_text().count("\n") > 100


@pytest.mark.parametrize("command", PRINTED)
def test_the_commands_of_its_page_are_run_as_they_stand_there(command, counted, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    for name in ("gzip-old", "gzip-new"):
        shutil.copy("/bin/gzip", tmp_path / name)
    shutil.copy(counted / "counted64", tmp_path / "loop")
    done = inv(tmp_path, *shlex.split(command))
    report = Path(done.stdout.splitlines()[-1])
    assert report.is_file(), done.stderr
    assert done.returncode == ("--below" in command and "too much" in done.stdout)
    assert list(report.parent.glob("*.csv"))


@pytest.mark.deep
def test_lines_of_source_are_those_of_debians_debug_information(tmp_path):
    report = report_of(inv(tmp_path, "profile", "--verbose", "--", "true"))
    source = pd.read_csv(report / "functions.csv").groupby("function")["source"].first()
    assert re.fullmatch(r"fs/exec\.c:\d+", source["begin_new_exec"])
    assert re.fullmatch(r"arch/x86/mm/fault\.c:\d+", source["exc_page_fault"])


def test_the_kernel_is_debians_own(tmp_path):
    done = inv(tmp_path, "boot", "--kernel", "debian:6.12", "--exec", "uname -r; id -u")
    assert done.stdout.split() == [find_packaged("6.12").release, "0"]


def test_a_tracer_that_needs_patches_says_that_debians_own_have_none(tmp_path):
    done = inv(tmp_path, "locks", "--kernel", "debian:6.12", "--", "true")
    assert done.returncode == 2
    assert "--kernel debian:6.12: has none of the patches that the tracer needs" in done.stderr
