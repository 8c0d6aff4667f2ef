# SPDX-License-Identifier: MIT
"""Scripts that are to be predicted: which words are one, how often they fire, and what bpftrace says of them."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from harness.errors import UsageError
from harness.program import bpftrace, live
from harness.program.prescript import Wanted, is_script, readable

COUNT = "kprobe:vfs_read { @[comm] = count(); }"
needs_bpftrace = pytest.mark.skipif(
    shutil.which("bpftrace") is None or os.geteuid() != 0, reason="needs bpftrace, and root"
)


def test_a_script_is_told_from_a_set_and_a_document():
    assert all(map(is_script, (COUNT, "opensnoop.bt", "my-trace.yaml")))
    assert not any(map(is_script, ("probe-cost/latest", "model.json", "20261122T")))


def test_probes_have_their_long_names():
    assert bpftrace.split("k:vfs_read, kr:f,BEGIN") == ["kprobe:vfs_read", "kretprobe:f", "BEGIN"]


@pytest.mark.parametrize("text", ["", "two", "0", "100%", "-3"])
def test_a_budget_is_a_per_cent_of_a_cpu(text, monkeypatch):
    monkeypatch.setattr(bpftrace, "compiled", lambda script, name: bpftrace.Compiled("bpftrace", (("k:f", b""),), ()))
    with pytest.raises(UsageError, match="must be a number of per cent"), readable(COUNT, Wanted(below=text)):
        pass


def test_rates_are_those_of_the_file_and_what_is_counted_comes_before(tmp_path, monkeypatch):
    monkeypatch.setattr(bpftrace, "compiled", lambda script, name: bpftrace.Compiled("bpftrace", (("k:f", b""),), ()))
    counted = live.Counted({"tracepoint:raw_syscalls:sys_enter": 90, "kprobe:f": 7}, {})
    monkeypatch.setattr(live, "count", lambda probes, seconds: counted)
    rates = tmp_path / "rates.yaml"
    rates.write_text("seconds: 5\ncpus: 3\nfirings: {kprobe:f: 1, kprobe:g: 2}\npasses: {kprobe:f: 0.5}\n")
    with readable(COUNT, Wanted(rates=rates)) as file:
        told = json.loads(file.read_text())
    assert (told["seconds"], told["cpus"], told["firings"]) == (5, 3, {"kprobe:f": 1, "kprobe:g": 2})
    assert told["programs"] == [{"probe": "kprobe:f", "code": ""}]
    counted = live.Counted({"tracepoint:raw_syscalls:sys_enter": 90, "kprobe:f": 7}, {})
    with readable(COUNT, Wanted(rates=rates, live=2, below="2%")) as file:
        told = json.loads(file.read_text())
    assert (told["seconds"], told["firings"], told["syscalls"], told["budget"]) == (
        2,
        {"kprobe:f": 7, "kprobe:g": 2 * 2 / 5},
        90,
        0.02,
    )
    assert not file.exists()


def test_what_cannot_be_counted_has_a_reason(monkeypatch):
    if os.geteuid() == 0:
        found = live.count(["tracepoint:no:such", "software:faults:1"], 1)
        assert found.firings == {}
        assert found.absent["tracepoint:no:such"] == "this kernel has no trace point no:such"
        assert found.absent["software:faults:1"] == "nothing counts a software"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="which is for root"):
        live.count(["kprobe:f"], 1)


@needs_bpftrace
def test_bpftrace_compiles_and_refuses():
    made = bpftrace.compiled(COUNT)
    assert [probe for probe, _ in made.programs] == ["kprobe:vfs_read"]
    assert made.maps == (("@", "percpu", 16), ("", "perf", 4))
    with pytest.raises(UsageError, match="syntax error"):
        bpftrace.compiled("kprobe:vfs_read {")
