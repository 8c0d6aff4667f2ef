# SPDX-License-Identifier: MIT
"""How often probes fire while a program runs in a guest: a program whose calls a person counts."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from harness.artefacts.store import Store
from harness.program.firings import count_in_guest
from harness.program.subject import TraceRequest
from tests.compiling import run
from tests.experiments.probe_cost.test_cost_model import MODEL
from tests.newcomer import inv

PROGRAM = """\
#include <sys/syscall.h>
#include <unistd.h>
__attribute__((noinline)) void work(int n)
{
	__asm__ volatile("" : : "r"(n));
}
int main(void)
{
	for (int i = 0; i < 25; i++)
		work(i);
	for (int i = 0; i < 300; i++)
		syscall(SYS_getppid);
	return 3;
}
"""
GETPPID = ("kprobe:__do_sys_getppid", "kretprobe:__do_sys_getppid", "kfunc:vmlinux:__do_sys_getppid")
ABSENT = {
    "tracepoint:no:such": "this kernel has no tracepoint no:such",
    "kprobe:no_such": "this kernel has no kprobe no_such",
    "uprobe:{0}:no_such": "the program's files have no such function: {0}:no_such",
    "software:faults:1": "nothing counts a software",
}


@pytest.mark.parametrize("kernel", ["debian:6.12", pytest.param("debian:7.3", marks=pytest.mark.deep)])
def test_probes_fire_as_often_as_a_person_counts(kernel, tmp_path):
    (tmp_path / "known.c").write_text(PROGRAM)
    run("gcc", "-static", "-O1", "-o", "known", "known.c", cwd=tmp_path)
    program = tmp_path / "known"
    enter, leave = (f"tracepoint:syscalls:sys_{way}_getppid" for way in ("enter", "exit"))
    work = [f"{kind}:{program}:work" for kind in ("uprobe", "uretprobe")]
    patterns = ["kprobe:__do_sys_getpp*", "tracepoint:syscalls:sys_enter_*", "tracepoint:syscalls:*"]
    calls = ["tracepoint:raw_syscalls:sys_enter", "rawtracepoint:sys_enter"]
    absent = {name.format(program): why.format(program) for name, why in ABSENT.items()}
    request = TraceRequest(traces="functions", program=str(program), kernel=kernel)
    wanted = [*GETPPID, enter, leave, *work, *patterns, *calls, *absent, "profile:hz:99"]
    counted = count_in_guest(Store.default(), request, wanted, Console())
    assert {counted.firings[name] for name in (*GETPPID, enter, leave, "kprobe:__do_sys_getpp*")} == {300}
    assert {counted.firings[name] for name in work} == {25}
    every = counted.firings[calls[0]]
    # Beside those in the loop, how a program begins and ends, and others in the guest: hundreds of counters make none.
    assert 300 < every < 400
    assert counted.firings[calls[1]] == every
    # A thousand counters begin one after the other, and others in the guest go on meanwhile.
    named = counted.firings["tracepoint:syscalls:sys_enter_*"]
    assert named == pytest.approx(every, rel=0.1)
    assert counted.firings["tracepoint:syscalls:*"] == pytest.approx(2 * named, rel=0.1)
    assert counted.absent == absent
    assert "profile:hz:99" not in counted.firings
    assert (counted.kernel, counted.cpus) == (kernel, 1)
    assert 300 * 60 < counted.base < 5_000_000


def test_a_trace_of_a_program_is_priced_before_it_runs(tmp_path):
    """What perf would record of 300 calls, by a model in which a firing and its record cost what a person adds up."""
    (tmp_path / "known.c").write_text(PROGRAM)
    run("gcc", "-static", "-O1", "-o", "known", "known.c", cwd=tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    wanted = "perf record -a -e syscalls:sys_enter_getppid"
    done = inv(tmp_path, "predict", "model.json", wanted, "--kernel", "debian:6.12", "--to", "json", "--", "./known")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (row,) = told["tables"]["Each firing"]
    assert (row["as"], row["firings"]) == ("syscall", "300")
    each, whole = (float(row[name].replace(",", "")) for name in ("each, instr", "in all, instr"))
    assert whole == pytest.approx(300 * each, rel=0.01)
    assert "the program ended with exit status 3" in done.stderr
    said = "\n".join(told["said"])
    assert "instructions on debian:6.12" in said
    assert "slowdown: " in said
