# SPDX-License-Identifier: MIT
"""Scripts that bpftrace has compiled: what a firing executes, by hand; what has a price and what has none; advice."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from typing import Any

import pytest
from experiments.probe_cost.foreign import Foreign, read
from experiments.probe_cost.model.compiled import Map, Program
from experiments.probe_cost.model.cost import CostModel, Fields, Script
from experiments.probe_cost.model.prediction import predict as by_model
from experiments.probe_cost.predict import predict
from experiments.probe_cost.pricing import price
from experiments.probe_cost.runs import words

from harness.errors import UsageError
from harness.image.programs import build_program
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages
from tests.experiments.probe_cost.printed import printed
from tests.experiments.probe_cost.test_cost_model import MODEL, SYSCALL, cost

GUEST = EXPERIMENTS / "probe-cost" / "guest"
#: bpftrace 0.17 of `kprobe:vfs_read { @[comm] = count(); }`.
COUNT = (
    "b7010000000000007b1af0ff000000007b1ae8ff00000000bfa600000000000007060000e8ffffffbf61000000000000b7020000100000008500"
    "00001000000018110000000000000000000000000000bf620000000000008500000001000000b701000001000000150002000000000079010000"
    "0000000007010000010000007b1af8ff0000000018110000000000000000000000000000bfa200000000000007020000e8ffffffbfa300000000"
    "000007030000f8ffffffb7040000000000008500000002000000b7000000000000009500000000000000"
)
#: And of `kprobe:vfs_read /pid == 7/ { @[comm] = count(); printf("%d", pid); }`.
FILTER = (
    "bf16000000000000850000000e000000180100000000000000000000ffffffff5f10000000000000180100000000000000000000070000001d10"
    "020000000000b7000000000000009500000000000000b7080000000000007b8af8ff000000007b8af0ff00000000bfa700000000000007070000"
    "f0ffffffbf71000000000000b702000010000000850000001000000018110000000000000000000000000000bf72000000000000850000000100"
    "0000b7010000010000001500020000000000790100000000000007010000010000007b1ae8ff0000000018110000000000000000000000000000"
    "bfa200000000000007020000f0ffffffbfa300000000000007030000e8ffffffb70400000000000085000000020000007b8af0ff000000008500"
    "00000e00000077000000200000007b0af8ff0000000018120000010000000000000000000000bfa400000000000007040000f0ffffffbf610000"
    "0000000018030000ffffffff0000000000000000b70500001000000085000000190000000500d7ff00000000"
)
#: The same that tells its event by BPF's ring: another helper, which has the length in another register.
RING = FILTER.replace("18030000f", "18050000f").replace("b70500001", "b70300001").replace("8500000019", "8500000082")
MAPS = [{"name": "@", "kind": "percpu", "key": 16}, {"name": "", "kind": "perf", "key": 4}]
FTRACE = {**MODEL["providers"]["kprobe-int3"]["stages"]}
WITH_FTRACE: dict[str, Any] = {
    **MODEL,
    "providers": {
        **MODEL["providers"],
        "kprobe-ftrace": {"stages": {**FTRACE, "programs": cost(80)}},
        "sample": {"stages": {**MODEL["providers"]["sample"]["stages"], "programs": cost(900)}},
    },
}
COPIES_NOTHING = {**MODEL, "providers": {**MODEL["providers"], "syscall": {"stages": SYSCALL}}}


def foreign(*programs: tuple[str, str], **fields: Any) -> Foreign:
    listed = [{"probe": probe, "code": code} for probe, code in programs]
    return Foreign.model_validate({"tool": "bpftrace", "programs": listed, "maps": MAPS, **fields})


def test_a_counter_executes_what_its_code_has():
    program = Program(bytes.fromhex(COUNT), {0: Map("percpu", 16)})
    found = program.accepted
    # 25 instructions of 27 words, for a map's number takes two; a comparison has its jump; one register is saved.
    assert found.instructions == 25 + 1 + 2
    assert found.calls == {("comm", 0.0): 1, ("look", 16.0): 1, ("put", 16.0): 1}
    assert not program.filters
    assert program.bounds(lambda one: one.instructions) == (found.instructions - 2, found.instructions)


def test_a_filter_is_told_from_what_it_lets_pass():
    program = Program(bytes.fromhex(FILTER), {0: Map("percpu", 16)})
    assert program.accepted.calls[("perf", 16.0)] == 1
    assert program.filters
    assert program.rejected.calls == {("pid", 0.0): 1}
    assert program.rejected.instructions < program.accepted.instructions / 3


def test_hash_maps_are_others_than_those_of_each_cpu():
    assert ("hlook", 16.0) in Program(bytes.fromhex(COUNT), {0: Map("hash", 16)}).accepted.calls


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("", "1 to 4096 instructions"),
        ("b700", "not 2 bytes"),
        ("b700000000000000", "leads behind its end"),
        ("85000000010000000500feff000000009500000000000000", "a loop"),
    ],
)
def test_what_is_no_program_without_loops_is_refused(code, says):
    with pytest.raises(UsageError, match=says):
        _ = Program(bytes.fromhex(code), {}).accepted


def test_each_probe_has_a_price_or_a_reason():
    model = CostModel.model_validate(WITH_FTRACE)
    odd = "85000000ff0000009500000000000000"
    found = read(
        foreign(
            ("kprobe:f,kprobe:g+4", COUNT), ("BEGIN", COUNT), ("interval:s:1", COUNT), ("kretfunc:f", COUNT),
            ("kprobe:h", odd), ("profile:hz:99", COUNT), ("tracepoint:syscalls:sys_enter_x", FILTER), cpus=3,
        ),
        model,
    )  # fmt: skip
    assert [(one.probe, one.provider) for one in found.priced] == [
        ("kprobe:f", "kprobe-ftrace"),
        ("kprobe:g+4", "kprobe-int3"),
        ("profile:hz:99", "sample"),
        ("tracepoint:syscalls:sys_enter_x", "syscall"),
    ]
    assert found.priced[2].firings == pytest.approx(3 * 99)
    assert "least is never" in found.priced[3].notes[0]
    assert dict(found.unpriced)["kprobe:h"] == "it calls helper 255, which has no price"
    assert dict(found.unpriced)["kretfunc:f"] == "the model has no provider for kretfunc"
    assert len(found.unpriced) == 4


def test_the_hook_adds_up_what_was_counted_and_advises(tmp_path):
    script = tmp_path / "script.json"
    fields = {
        "firings": {"kprobe:vfs_read": 30_000, "kprobe:x*": 1000}, "passes": {"kprobe:xyz": 0.5}, "budget": 0.02,
    }  # fmt: skip
    made = foreign(("kprobe:vfs_read", COUNT), ("kprobe:xyz", FILTER), ("kprobe:other", COUNT), **fields)
    script.write_text(made.model_dump_json())
    tables, lines = predict(WITH_FTRACE, script)
    each = tables["Each firing"].set_index("probe")
    # trap, dispatch, programs, program and its own instructions; comm, a look and a put of a key of 16 bytes.
    comm = WITH_FTRACE["calls"]["comm"]["each"]["value"]
    by_hand = 100 + 50 + 80 + 20 + (28 - 3)
    look, put = (WITH_FTRACE["calls"][name] for name in ("look", "put"))
    by_hand += comm + sum(one["each"]["value"] + 16 * one["byte"]["value"] for one in (look, put))
    assert float(each.loc["kprobe:vfs_read", each.columns[2]].replace(",", "")) == pytest.approx(by_hand, abs=1)
    assert any(line.startswith("not in the sum: kprobe:other: how often it fires is not known") for line in lines)
    assert "kfunc (as dear as an fprobe, at most)" in set(tables["Cheaper, one at a time"]["instead"])
    assert lines[0].startswith("as it is: ")
    calm = json.loads(script.read_text()) | {"budget": 0.9}
    script.write_text(json.dumps(calm))
    assert "which is below 90.00%" in predict(WITH_FTRACE, script)[1][0]


def triples(script: str) -> set[tuple[str, str, str]]:
    """(provider, point, workload) of every probe of a script of probecost's."""
    found, work = set(), ""
    for line in script.splitlines():
        if line.startswith("run "):
            work = words(line)["work"]
        elif line.startswith("probe ") and line.split()[1] != "sample":
            found.add((line.split()[1], line.split()[2], work))
    return found


@needs_guest_packages
def test_what_is_drawn_was_never_fitted(tmp_path):
    program = tmp_path / "probedraw"
    build_program("x86_64", GUEST / "probedraw.c", program, tmp_path / "log")

    def drawn(seed: int, scripts: int) -> str:
        done = subprocess.run([program, str(scripts)], env={"KREPRO_SEED": str(seed)}, capture_output=True, check=True)
        return done.stdout.decode()

    text = drawn(7, 1000)
    assert text == drawn(7, 1000) != drawn(8, 1000)
    assert len(re.findall(r"^run ", text, re.MULTILINE)) == 1000
    assert len({provider for provider, _, _ in triples(text)}) >= 11
    # The kernel optimises all kprobes or none.
    assert [run for run in text.split("\nrun ") if "kprobe-int3" in run and "kprobe-optimised" in run] == []
    fitted = triples(printed("fit", tmp_path))
    assert fitted
    assert not triples(text) & fitted


def test_a_program_is_told_what_it_will_take():
    """300 firings of 640 instructions each beside 1,000,000 of its own; not per second, and not of a CPU."""
    model = CostModel.model_validate(WITH_FTRACE)
    counted = {"firings": {"kprobe:f": 300}, "seconds": 0.5, "base": 1_000_000, "counted_on": "debian:7.3"}
    tables, lines = price(model, foreign(("kprobe:f", COUNT), **counted, budget=0.01))
    (row,) = tables["Each firing"].to_dict("records")
    each = int(row["each, instr"].replace(",", ""))
    assert row["firings"] == "300"
    assert int(row["in all, instr"].replace(",", "")) == pytest.approx(300 * each, rel=0.01)
    told = "\n".join(lines)
    assert f"slowdown: {1 + 300 * each / 1e6:.2f}x" in told
    assert "untraced: 1,000,000 instructions on debian:7.3" in told
    assert f"counted on debian:7.3, and what a firing costs was measured on {model.kernel}" in told
    assert "of what the program takes; below 1.00% is wanted" in told


def recorded(*events: dict[str, Any], **fields: Any) -> Foreign:
    return Foreign.model_validate({"tool": "perf", "events": list(events), **fields})


def test_what_is_recorded_has_the_prices_of_tracefs():
    """By hand, from the stages of the model above: 100 + 50 of delivery, and what each consumer takes."""
    model = CostModel.model_validate(WITH_FTRACE)
    stages = {name: one["value"] for name, one in (MODEL["general"] | FTRACE).items()}
    filtered = {"record": True, "predicate": {"terms": 2}}
    stacked = {"record": True, "stack_frames": 0}
    made = recorded(
        {"probe": "kprobe:a", "consumers": [filtered], "fields": {"registers": 2}},
        {"probe": "kprobe:b", "consumers": [stacked], "notes": ["as it is"]},
        {"probe": "kprobe:c", "consumers": [{"program": {}}]},
        {"probe": "kretfunc:d", "consumers": [{"record": True}]},
        {"probe": "profile:hz:100", "consumers": [{"record": True}]},
        passes={"kprobe:a": 0.25}, frames={"kprobe:b": 4}, firings={"kprobe:a": 10},
        unpriced=[{"probe": "the tracer", "why": "none"}], cpus=2, notes=["of all"],
    )  # fmt: skip
    tables, lines = price(model, made)
    each = {
        row["probe"]: float(row["each, instr"].replace(",", "")) for row in tables["Each firing"].to_dict("records")
    }
    delivery = stages["trap"] + stages["dispatch"]
    a = delivery + stages["consumer"] + 2 * stages["register"]
    a += 0.25 * (stages["predicate"] + stages["term"]) + 0.75 * stages["predicate-false"]
    assert each["kprobe:a"] == pytest.approx(a, abs=0.5)
    assert each["kprobe:b"] == pytest.approx(
        delivery + stages["consumer"] + stages["stack"] + 4 * stages["frame"], abs=0.5
    )
    assert each["kprobe:c"] == delivery + 80 + stages["program"]
    assert each["profile:hz:100"] == MODEL["providers"]["sample"]["stages"]["sample"]["value"]
    assert tables["Without a price"].to_dict("records") == [
        {"probe": "the tracer", "why": "none"},
        {"probe": "kretfunc:d", "why": "the model has no provider for kretfunc"},
    ]
    told = "\n".join(lines)
    assert "note: kprobe:b: as it is" in told
    assert "note: of all" in told
    assert "recorded as by perf; by " in told


def test_what_is_not_told_of_what_is_recorded_is_bounded():
    model = CostModel.model_validate(WITH_FTRACE)
    both = {"record": True, "stack_frames": 0, "predicate": {"terms": 1}}
    found = read(recorded({"probe": "kprobe:a", "consumers": [both], "fields": {"strings": 1}}), model)
    (one,) = found.priced
    ends = [
        (probe.consumers[0].predicate.passes, probe.consumers[0].stack_frames, probe.fields.characters)
        for probe in (one.least, one.likely, one.most)
        if probe.consumers[0].predicate
    ]
    assert ends == [(0.0, 1.0, 1.0), (1.0, 10.0, 16.0), (1.0, 127.0, 4096.0)]
    assert len(one.notes) == 3


@pytest.mark.parametrize(
    ("call", "ends"),
    [
        ("openat", [(1, 1, 0, 0), (1, 16, 0, 0), (1, 63, 0, 0)]),
        ("rename", [(2, 2, 0, 0), (2, 32, 0, 0), (2, 126, 0, 0)]),
        ("write", [(0, 0, 1, 1), (0, 0, 1, 16), (0, 0, 1, 63)]),
        ("getppid", [(0, 0, 0, 0)] * 3),
        ("open*", [(0, 0, 0, 0), (0, 0, 0, 0), (1, 63, 0, 0)]),
        ("writ*", [(0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 1, 63)]),
    ],
)
def test_what_an_event_copies_of_the_user_s_is_bounded_where_the_kernel_copies(call, ends):
    probe = f"tracepoint:syscalls:sys_enter_{call}"
    for made in (recorded({"probe": probe, "consumers": [{"record": True}]}), foreign((probe, COUNT))):
        (one,) = read(made, CostModel.model_validate(MODEL)).priced
        fields = [probe.fields for probe in (one.least, one.likely, one.most)]
        assert [(f.strings, f.characters, f.data, f.bytes) for f in fields] == ends
        assert any("of the user's" in note for note in one.notes) == any(map(any, ends))
        (one,) = read(made, CostModel.model_validate(COPIES_NOTHING)).priced  # as kernels did until 6.12
        assert one.most.fields == Fields()


def test_counting_what_is_recorded_is_advised():
    model = CostModel.model_validate(WITH_FTRACE)
    made = recorded({"probe": "kprobe:a", "consumers": [{"record": True}]}, firings={"kprobe:a": 1e6}, budget=0.01)
    tables, _ = price(model, made)
    assert ["count by one key, in a hist: trigger" in one for one in tables["Cheaper, one at a time"]["instead"]] == [
        True
    ]


def test_a_script_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a script without a probe"):
        recorded()
    with pytest.raises(UsageError, match="nothing of the script has a price: x: y"):
        price(CostModel.model_validate(WITH_FTRACE), recorded(unpriced=[{"probe": "x", "why": "y"}]))


def test_a_stack_at_a_system_call_has_its_own_price():
    calls = {**MODEL["calls"], "syscall-stack": {"each": cost(4000), "byte": None}}
    providers = {**WITH_FTRACE["providers"], "syscall": WITH_FTRACE["providers"]["kprobe-ftrace"]}
    model = CostModel.model_validate({**WITH_FTRACE, "calls": calls, "providers": providers})
    program = {"instructions": 0, "calls": [{"name": "stack", "bytes": 10}]}

    def added(provider: str) -> float:
        probe = {"provider": provider, "firings": 1, "consumers": [{"program": program}]}
        without = {"provider": provider, "firings": 1, "consumers": [{"program": {"instructions": 0}}]}
        both = [
            by_model(model, Script.model_validate({"workload": {"cost": 1e9, "syscalls": 1}, "probes": [one]})).added
            for one in (probe, without)
        ]
        return both[0] - both[1]

    assert added("syscall") == 4000
    assert added("kprobe-ftrace") == 200 + 10 * 400


@pytest.mark.parametrize(("kind", "wake", "woken"), [("perf", "wake", "woken"), ("ring", "ring-wake", "ring-woken")])
def test_an_event_wakes_the_tool_up(kind, wake, woken):
    calls = {**MODEL["calls"], kind: {"each": cost(500), "byte": cost(1)}}
    waking = {**calls, wake: {"each": cost(3000)}, woken: {"each": cost(700)}}
    script = foreign(
        ("kprobe:f", FILTER if kind == "perf" else RING),
        firings={"kprobe:f": 40},
        passes={"kprobe:f": 0.25},
        base=1e6,
        counted_on="modern-6.1",
    )
    told = {}
    for name, known in (("silent", calls), ("waking", waking)):
        lines = "\n".join(price(CostModel.model_validate({**WITH_FTRACE, "calls": known}), script)[1])
        ends = re.findall(r"added: +([\d,]+) instructions \[([\d,]+), ([\d,]+)\]", lines)[0]
        added, least, most = (int(end.replace(",", "")) for end in ends)
        told[name] = added, lines, least, most
    # Ten of the forty pass the filter.
    assert told["waking"][0] - told["silent"][0] == 10 * 3000
    assert told["waking"][3] - told["silent"][3] >= 10 * 3000
    assert told["waking"][2] == told["silent"][2], "a tool that still prints is awake"
    assert "events is not in the sum: at least 7,000 instructions more, on one CPU" in told["waking"][1]
    assert "is not in the sum: at least" not in told["silent"][1]


def test_perf_goes_on_behind_a_program_at_a_trace_point_that_returns_1():
    one, none = (f"b7000000{value}0000009500000000000000" for value in ("01", "00"))
    model = CostModel.model_validate({**WITH_FTRACE, "calls": {**MODEL["calls"], "kept": {"each": cost(600)}}})

    def kept(probe: str, code: str) -> float:
        (priced,) = read(foreign((probe, code)), model).priced
        return sum(call.times for call in priced.calls() if call.name == "kept")

    point = "tracepoint:syscalls:sys_enter_x"
    assert [kept(point, one), kept(point, none), kept("kprobe:f", one)] == [1, 0, 0]


def test_a_helper_that_may_fail_is_taken_to_have_done_its_work():
    """bpftrace 0.23 of printf: where the ring has no room, it counts what is lost."""
    code = [
        (0xB7, 0x06, 0, 0), (0x7B, 0x6A, -24, 0), (0x85, 0, 0, 14), (0x77, 0x00, 0, 32), (0x7B, 0x0A, -16, 0),
        (0xBF, 0xA2, 0, 0), (0x07, 0x02, 0, -24), (0x18, 0x11, 0, 0), (0, 0, 0, 0), (0xB7, 0x03, 0, 16),
        (0xB7, 0x04, 0, 0), (0x85, 0, 0, 130), (0x65, 0x00, 9, -1), (0x63, 0x6A, -4, 0),
        (0xBF, 0xA2, 0, 0), (0x07, 0x02, 0, -4),
        (0x18, 0x11, 0, 1), (0, 0, 0, 0), (0x85, 0, 0, 1), (0x15, 0x00, 2, 0), (0xB7, 0x01, 0, 1), (0xDB, 0x10, 0, 0),
        (0xB7, 0x00, 0, 0), (0x95, 0, 0, 0),
    ]  # fmt: skip
    words = b"".join(struct.pack("<BBhi", *one) for one in code)
    program = Program(words, {0: Map("ring", 0), 1: Map("array", 4)})
    assert program.accepted.calls == {("pid", 0.0): 1, ("ring", 16.0): 1}
    assert (program.filters, program.parts_ways) == (False, False)
    least, most = program.bounds(lambda one: one.instructions)
    assert least == program.accepted.instructions < most


@pytest.mark.parametrize(("number", "name"), [(16, "comm"), (113, "read"), (115, "string")])
def test_what_is_told_of_a_failure_is_no_event_of_the_script(number, name):
    """bpftrace 0.23 of `comm`, or of a field behind a pointer: where the helper fails, an event tells of it."""
    code = [
        (0xB7, 0x02, 0, 16), (0x85, 0, 0, number), (0xBF, 0x01, 0, 0), (0x67, 0x01, 0, 32), (0xC7, 0x01, 0, 32),
        (0x65, 0x01, 5, -1), (0x18, 0x11, 0, 0), (0, 0, 0, 0), (0xB7, 0x03, 0, 20), (0xB7, 0x04, 0, 0),
        (0x85, 0, 0, 130), (0xB7, 0x00, 0, 0), (0x95, 0, 0, 0),
    ]  # fmt: skip
    program = Program(b"".join(struct.pack("<BBhi", *one) for one in code), {0: Map("ring", 0)})
    assert [called for called, _ in program.accepted.calls] == [name]
    assert not program.parts_ways
