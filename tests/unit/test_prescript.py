# SPDX-License-Identifier: MIT
"""Scripts that are to be predicted: which words are one, how often they fire, and what bpftrace says of them."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.program import bpftrace, live, prescript
from harness.program.firings import place_of, why_not
from harness.program.prescript import Wanted, is_script, readable
from harness.program.subject import TraceRequest
from tests.compiling import run

QUIET = Console(quiet=True)
COUNT = "kprobe:vfs_read { @[comm] = count(); }"
needs_bpftrace = pytest.mark.skipif(
    shutil.which("bpftrace") is None or os.geteuid() != 0, reason="needs bpftrace, and root"
)


def test_a_script_is_told_from_a_set_and_a_document():
    assert all(map(is_script, (COUNT, "opensnoop.bt", "my-trace.yaml", "it.bpf.o")))
    assert all(map(is_script, ("perf record -e a:b", "sudo perf stat ls", "trace-cmd record -e a:b")))
    assert not any(map(is_script, ("probe-cost/latest", "model.json", "20261122T", "perf", "performance a b")))


def test_a_folder_with_events_is_tracefs(tmp_path):
    (tmp_path / "events").mkdir()
    assert is_script(str(tmp_path))
    assert not is_script(str(tmp_path / "events"))


def test_probes_have_their_long_names():
    assert bpftrace.split("k:vfs_read, kr:f,BEGIN") == ["kprobe:vfs_read", "kretprobe:f", "BEGIN"]


@pytest.mark.parametrize("text", ["", "two", "0", "100%", "-3"])
def test_a_budget_is_a_per_cent_of_a_cpu(text, monkeypatch):
    monkeypatch.setattr(bpftrace, "compiled", lambda script, *name: bpftrace.Compiled("bpftrace", (("k:f", b""),), ()))
    with pytest.raises(UsageError, match="must be a number of per cent"), readable(COUNT, Wanted(below=text), QUIET):
        pass


def test_rates_are_those_of_the_file_and_what_is_counted_comes_before(tmp_path, monkeypatch):
    monkeypatch.setattr(bpftrace, "compiled", lambda script, *name: bpftrace.Compiled("bpftrace", (("k:f", b""),), ()))
    counted = live.Counted({"tracepoint:raw_syscalls:sys_enter": 90, "kprobe:f": 7}, {}, seconds=2.0, cpus=4)
    monkeypatch.setattr(live, "count", lambda probes, seconds: counted)
    rates = tmp_path / "rates.yaml"
    rates.write_text("seconds: 5\ncpus: 3\nfirings: {kprobe:f: 1, kprobe:g: 2}\npasses: {kprobe:f: 0.5}\n")
    with readable(COUNT, Wanted(rates=rates), QUIET) as file:
        told = json.loads(file.read_text())
    assert (told["seconds"], told["cpus"], told["firings"]) == (5, 3, {"kprobe:f": 1, "kprobe:g": 2})
    assert told["programs"] == [{"probe": "kprobe:f", "code": ""}]
    with readable(COUNT, Wanted(rates=rates, live=2, below="2%"), QUIET) as file:
        told = json.loads(file.read_text())
    assert (told["seconds"], told["cpus"], told["syscalls"], told["budget"]) == (2, 4, 90, 0.02)
    assert told["firings"] == {"kprobe:f": 7, "kprobe:g": 2 * 2 / 5, prescript.ALL_CALLS: 90}
    assert "base" not in told  # a model that was fitted before there were any knows no such field
    assert not file.exists()


def test_what_other_tools_record_is_counted_as_scripts_are(tmp_path, monkeypatch):
    asked = []
    counted = live.Counted({"tracepoint:sched:sched_switch": 9}, {}, seconds=1.0, cpus=2)
    monkeypatch.setattr(live, "count", lambda probes, seconds: asked.append(probes) or counted)
    with readable("perf record -e sched:sched_switch -p 7", Wanted(live=1), QUIET) as file:
        told = json.loads(file.read_text())
    assert asked == [["tracepoint:sched:sched_switch", prescript.ALL_CALLS]]
    assert (told["tool"], told["firings"]) == ("perf", {"tracepoint:sched:sched_switch": 9})
    assert [one["probe"] for one in told["events"]] == ["tracepoint:sched:sched_switch"]
    assert "programs" not in told
    with pytest.raises(UsageError, match="option --foo not recognized"), readable("perf record --foo", Wanted(), QUIET):
        pass


def test_a_pattern_of_trace_points_is_counted_at_each_of_them(tmp_path, monkeypatch):
    for place, name in enumerate(("sys_enter", "sys_exit")):
        (tmp_path / "events" / "raw_syscalls" / name).mkdir(parents=True)
        (tmp_path / "events" / "raw_syscalls" / name / "id").write_text(f"{7 + place}\n")
    opened: list[int] = []
    monkeypatch.setattr(live, "TRACEFS", tmp_path)
    monkeypatch.setattr(live, "_per_cpu", lambda attributes: opened.append(attributes[8]) or [attributes[8]])
    assert live._opened("tracepoint:raw_syscalls:*") == [7, 8]
    assert live._opened("t:*:sys_exit") == [8]
    assert live._opened("rawtracepoint:sys_enter") == [7]
    assert live._opened("tracepoint:raw_syscalls:../x") == "this kernel has no trace point raw_syscalls:../x"
    assert live._opened("tracepoint:sched:*") == "at sched:sched_stat_wait perf counts nanoseconds, and no firings"


def test_what_cannot_be_counted_has_a_reason(monkeypatch):
    if os.geteuid() == 0:
        found = live.count(["tracepoint:no:such", "software:faults:1"], 1)
        assert found.firings == {}
        assert found.absent["tracepoint:no:such"] == "this kernel has no trace point no:such"
        assert found.absent["software:faults:1"] == "nothing counts a software"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="which is for root"):
        live.count(["kprobe:f"], 1)


def test_a_program_in_a_guest_is_counted_in_place_of_this_host(monkeypatch):
    monkeypatch.setattr(bpftrace, "compiled", lambda script, *name: bpftrace.Compiled("bpftrace", (("k:f", b""),), ()))
    asked = []
    counted = live.Counted({"kprobe:f": 7}, {}, seconds=0.5, cpus=1, base=1000, kernel="debian:6.12")
    monkeypatch.setattr(prescript, "count_in_guest", lambda store, *words: asked.append(words) or counted)
    program = TraceRequest(traces="functions", program="true")
    with readable(COUNT, Wanted(program=program), QUIET) as file:
        told = json.loads(file.read_text())
    assert asked == [(program, ["kprobe:f", prescript.ALL_CALLS], QUIET)]
    assert (told["base"], told["counted_on"], told["seconds"], told["syscalls"]) == (1000, "debian:6.12", 0.5, None)


def test_a_programs_function_is_counted_at_its_place_in_its_file(tmp_path):
    (tmp_path / "bin").mkdir()
    run("gcc", "-o", tmp_path / "bin/it", "-xc", "-", text="int f(void) { return 1; } int main(void) { return f(); }")
    file, _, offset = (place_of("it:f", tmp_path) or "").rpartition(":")
    assert file == "/bin/it"
    assert place_of("/bin/it:f+0x4", tmp_path) == f"/bin/it:{int(offset, 0) + 4:#x}"
    assert place_of("/bin/it:g", tmp_path) is None
    assert place_of("/bin/absent:f", tmp_path) is None


def test_why_a_guest_counts_nothing():
    assert why_not(errno.ENOENT, "tracepoint:a:b") == "this kernel has no tracepoint a:b"
    assert why_not(errno.EOPNOTSUPP, "usdt:a:b") == "nothing counts a usdt"
    assert why_not(errno.EMFILE, "kprobe:f") == "perf_event_open: Too many open files"


@needs_bpftrace
def test_bpftrace_compiles_and_refuses():
    made = bpftrace.compiled(COUNT)
    assert [probe for probe, _ in made.programs] == ["kprobe:vfs_read"]
    assert made.maps == (("@", "percpu", 16), ("", "perf", 4))
    with pytest.raises(UsageError, match="syntax error"):
        bpftrace.compiled("kprobe:vfs_read {")
