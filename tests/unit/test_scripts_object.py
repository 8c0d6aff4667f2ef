# SPDX-License-Identifier: MIT
"""Compiled BPF objects: which probes their sections mean, which maps their instructions ask, and what is none."""

from __future__ import annotations

import base64
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from experiments.probe_cost.foreign import Foreign, read
from experiments.probe_cost.model.compiled import Map, Program
from experiments.probe_cost.model.cost import CostModel
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from harness.errors import UsageError
from harness.program.prescript import NOTHING, readable
from harness.program.scripts import bpfobject
from tests.experiments.probe_cost.test_foreign import WITH_FTRACE

SOURCE = """
typedef unsigned int u32;
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))
#define MAP(name, kind, of) struct { int (*type)[kind]; of *key; u64 *value; int (*max_entries)[64]; } name SEC(".maps")
struct key { u64 a; u32 b[2]; };
static void *(*look)(void *, const void *) = (void *)1;
static long (*put)(void *, const void *, const void *, u64) = (void *)2;
static u64 (*now)(void) = (void *)5;
typedef u32 three[3];
MAP(begun, 1, const three);
MAP(counts, 5, struct key);
struct { int (*type)[6]; int (*key_size)[4]; } slots SEC(".maps");
SEC("kprobe/vfs_read") int on_read(void *ctx) { u32 key[3] = {}; u64 at = now(); put(&begun, &key, &at, 0); return 0; }
SEC("?tp/sched/sched_switch") int on_switch(void *ctx) {
    u32 key = 0; u64 *slot = look(&slots, &key); if (slot) *slot += 1; return 0; }
SEC("fentry/vfs_write") int on_write(void *ctx) {
    struct key key = {}; u64 *slot = look(&counts, &key); if (slot) *slot += 1; return 0; }
SEC("fentry/vfs_write") int twice(void *ctx) { return 0; }
SEC("perf_event") int on_sample(void *ctx) { return 0; }
SEC("xdp") int on_packet(void *ctx) { return 2; }
"""
#: What clang 14 makes of it with -O2 -g, without what debuggers read.
OBJECT = (
    "eNqtVstvG0UYH79q1yRp+oI0FBiFKrJDZbtJhYSiCpoqKUg5RG2FKAi2a3scW7F3t7vj2MZUREjtiUMvSNyo4MKx4tJeUCvUG+LOn1CJS2/0UCnM"
    "41vP7ng3CVJGmsf3/s233367366uryUTCeSPBPoXKUoN5zV1/gjWKab5CJRrsy93+T6cfSH2u2xmOJ1/LugnP0u9bBKhF7u7u09+ATqF0HNGz2hB"
    "H6Xlzv0kOQ38H3z5KO6rMf+vIvzdFXdD6DRKCXoA8mxC8ofT4DcmzlC7n36fQ4t3ADoZoA97/PRPAs3AuZ6Scy01EidTcC++8UeER6S8KMeWBp1M"
    "WG/k44g657NsOSPPuTxb3oHzUba8G20v4uQgTirgd4ItFbCfZMtFsM+NalbqHdN8+Zh9HXZO83hX1V3ROtyH62ywyV+HHTY/ZXOKzadsVqXq1HTA"
    "jrs/GRMvkIfk6RidtK/AjtOA6QTwmmyeAky3IfbrWuwzMX4zAZ034X5+jB6bEyAcsHk2nL9Q/pMROZsJ5Gx2n5wNAfdbGm7Vj9AkJ76D2rgneRM4"
    "Rn5Ovl8TczHyv0B+LkZ+Oynl8zHy30BeiJHz7HD5Ar93SpCi3I6DPsf9Bpx5rt8O8FHLosgwLl+7dvmmcf2Tz1eNGzc3Vg0D0aZLCOouLaKu5bU2"
    "LVLHXLX7/kXFaNvWplgQHTgEbZEB2jbbXYI6Zt8gFnVbxENVstm1uMzwWl8T5LVt6iGTFW7N7lrsWKN9ZFuGS8w62nJcu0rK2w1P0mXaccpVp2GX"
    "O6Uaur56pTCnqcwVOSwMDgrbdquOF5jLIh5iBh6zuF8sfYkv4eGdZczAY5MywrJ7heIydrq0MC/wncfzTJOtJj2PK0zkEtp1LVxZxnc4Oq/XorUm"
    "+pA6Za/WJHW5+mwBLFqm8Ek6EiFDVJHoFnh6GNm27a3CvMiVhMYgtRq4wDlF0HrvEr4wBrTntihBDZ78gUiSZAiEOldhE2QYmkfdbo0KdBKhn8Aw"
    "RPkQ/wdG2mvV9sYjNMJg9Kdhdpw2QQ5xGwbZZl6kP0UHsi5U9/TmmLUtQlG/7kg37KDspTDSfpHblzqm4x3gG5cKfjVC/MwY75lYM+izSP3sGO93"
    "+ZVHtyL1j8bEzY/xHog+r3D2YV8SvUT9jPl98AOhr/A3YT8L+jjQc/jwhL7C78A+B/oVzf890Hc0P98IvrqXzz8hZn6M/7Hqm8Iq0MfFrQJ9FfFv"
    "OCpR0qfB8lJVItsXtC758HnhyCanGkXJJe2YZsFFY+/n6M1V1S1fFK6td0W/W5bYO0rNKtsHHbGv3FhD6ysri8Yi3y6w7VDGr+F/HlUvkOo/NX4i"
    "gk6E/z0C//TjI63R9/ex72v8nEZ/D89dj+fkw3UyCffMafVzNSb+Y63u4+JfiYm/ExE/ExG/GhMfQ6J39on/VUz8+xHxsxHxszHxHyTCenHxyzH2"
    "Dw9oXwR7vQafgv3GPvaPI2pSxIU/vj+O7F1/D4M/h4HxNwT6MaHqPBeI7/+T/gc/Acfn"
)
#: Two maps as they were defined before there were types, {1, 8, 8, 10, 0} and {5, 24, 8, 10, 0}; each is asked once.
LEGACY = (
    "eNqtUr9Lw0AUfvnVtMVBRSGISAeHDhKr4OAglILiUAc3nUpqUy2mpiShP+igi3+Cu/hP1E3/nI462S3eJa/kfCZ06YN3X95337vvcnePp/UzWZJg"
    "HhL8QFIl8Son31Uci0w5QfF4axbG+IU4jfDjLZ7XWf80DEODLP4ceQJsghLVI5zXpZgfr8b1BPUviNRX9Jkt0YfP5TGLyGksDcJlxQVLFb5Dyt9F"
    "o4KYhIUOV4TfYbmOe+cxRFxhuQY6bGA9x+1IrxE/gCPUA9FXhP/lXSWh5mo1p2tgBvYwgK7V8yEYuGA6Tr/bsFotz+/cQhtMz3bue57btPf7bb8x"
    "8DqBDe6DTSc822qBY96A6QdeYDUZjroc67XaQeOQQ4XBUuIyOuX/sYfv2SW8lFLzzBG+muGnkvpkQf+Q8HlSH7MspPjlcf/4bCONIvTP+d0M/3fy"
    "LrL8Sxn+Roq/luKvoz+9gxIedHnB+fF1lHrIr+lJ5MvyX30h4/6uWcop93SOwk+hTxX2byD+Ar03VKE="
)


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    (tmp_path / "it.o").write_bytes(unpacked(OBJECT))
    return tmp_path / "it.o"


def test_programs_are_where_their_sections_say(made):
    found = bpfobject.read(made)
    assert found.probes() == ["kprobe:vfs_read", "tracepoint:sched:sched_switch", "kfunc:vfs_write", "kfunc:vfs_write"]
    assert found.maps == [("begun", "hash", 12), ("slots", "array", 4), ("counts", "percpu", 16)]
    assert dict(found.unpriced) == {
        "on_sample (perf_event)": "how often it samples is not in the object",
        "on_packet (xdp)": "a program of the kind xdp is at no probe that has a price",
    }
    assert found.notes == ["the map slots: an array of each CPU is priced as an array"]


def test_instructions_ask_the_maps_of_their_relocations(made):
    with readable(str(made), NOTHING, Console(quiet=True)) as file:
        script = Foreign.model_validate_json(file.read_bytes())
    maps = {number: Map(table.kind, table.key) for number, table in enumerate(script.maps)}
    calls = [set(Program(bytes.fromhex(one.code), maps).accepted.calls) for one in script.programs]
    assert calls == [{("time", 0.0), ("hput", 12.0)}, {("array", 0.0)}, {("look", 16.0)}, set()]
    found = read(script, CostModel.model_validate(WITH_FTRACE))
    assert "kprobe:vfs_read" in [one.probe for one in found.priced]
    assert all("which map it asks" not in str(one.notes) for one in found.priced)


def test_maps_of_a_section_maps(tmp_path):
    (tmp_path / "it.o").write_bytes(unpacked(LEGACY))
    found = bpfobject.read(tmp_path / "it.o")
    assert found.maps == [("one", "hash", 8), ("two", "percpu", 24)]
    maps = {number: Map(kind, key) for number, (_, kind, key) in enumerate(found.maps)}
    calls = {probe: set(Program(code, maps).accepted.calls) for probe, code in found.programs}
    assert calls == {"kprobe:vfs_read": {("look", 24.0)}, "kprobe:vfs_write": {("hlook", 8.0)}}


@pytest.mark.parametrize(
    ("section", "probe", "why"),
    [
        ("kretprobe/f+8", "kretprobe:f+8", ""),
        ("tracepoint/a/b", "tracepoint:a:b", ""),
        ("raw_tp/x", "rawtracepoint:x", ""),
        ("fentry.s/f", "kfunc:f", ""),
        ("fexit/f", "kretfunc:f", ""),
        ("ksyscall/read", "kprobe:__x64_sys_read", ""),
        ("uprobe//bin/bash:readline", "uprobe:/bin/bash:readline", ""),
        ("uretprobe.s//bin/bash:f+4", "uretprobe:/bin/bash:f+4", ""),
        ("usdt//bin/x:a:b", "usdt:/bin/x:a:b", ""),
        ("kprobe", "", "does not say where it is attached"),
        ("kprobe.multi/vfs_*", "", "at no probe that has a price"),
        ("lsm/file_open", "", "at no probe that has a price"),
    ],
)
def test_sections_name_probes(section, probe, why):
    found = bpfobject._probe(section)
    assert (found[0], why in found[1]) == (probe, True)


def test_a_register_that_was_set_once_is_known_behind_calls_and_jumps():
    """r6 = map 1; a call; if r0 == 0 …; r1 = r6; look: what clang does with a map that is asked twice."""
    body = (
        "1806000001000000"
        + "0" * 16
        + "850000000e000000"
        + "1500030000000000"
        + "bf61000000000000"
        + "8500000001000000"
        "b700000000000000" + "9500000000000000"
    )
    maps = {0: Map("hash", 4), 1: Map("hash", 12)}
    program = Program(bytes.fromhex(body), maps)
    assert ("hlook", 12.0) in program.accepted.calls
    assert not program.any_map
    computed = Program(bytes.fromhex(body.replace("bf61000000000000", "0701000001000000")), maps)
    assert ("look", 8.0) in computed.accepted.calls
    assert computed.any_map
    other = Program(bytes.fromhex(body), {1: Map("kind 29", 4)})
    _ = other.accepted
    assert other.unknown == ["map look of a map of the kind kind 29"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is no compiled BPF object"),
        (b"\x7fELF", "is no compiled BPF object"),
        (Path("/proc/self/exe"), "is no compiled BPF object"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_object_is_told_in_one_line(tmp_path, data, says):
    file = tmp_path / "it.o"
    if data is not None:
        file.write_bytes(data.read_bytes() if isinstance(data, Path) else data)
    with pytest.raises(UsageError) as error:
        bpfobject.read(file)
    assert says in error.value.lines[0]


@given(st.integers(0, len(unpacked(OBJECT)) - 1), st.binary(min_size=1, max_size=12), st.booleans())
def test_a_damaged_object_is_refused_or_read_and_never_a_fault(tmp_path_factory, at, damage, cut):
    whole = unpacked(OBJECT)
    file = tmp_path_factory.getbasetemp() / "damaged.o"
    file.write_bytes(whole[:at] if cut else whole[:at] + damage + whole[at + len(damage) :])
    told = []
    try:
        bpfobject.read(file)
    except UsageError as error:
        told = error.lines
    assert len(told) <= 1


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_what_the_compiler_here_makes_is_read(made):
    """Versions differ in where they put an address: into the symbol, or the instruction."""
    source, other = made.with_suffix(".c"), made.with_name("other.o")
    source.write_text(SOURCE)
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-c", str(source), "-o", str(other)], check=True)
    found, kept = bpfobject.read(other), bpfobject.read(made)
    assert (found.probes(), found.maps) == (kept.probes(), kept.maps)
