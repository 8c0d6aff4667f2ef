# SPDX-License-Identifier: MIT
"""The observer's C on this host: exact trust, the perf page's seqlock, rings and losses, options, what it reports."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import struct
import subprocess
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.shim.hello import Hello
from harness.image.programs import build_program, build_programs, program_sources
from harness.paths import EXPERIMENTS
from tests.conftest import needs_guest_packages
from tests.processes import PATIENCE_S

pytestmark = needs_guest_packages
GUEST = EXPERIMENTS / "shim" / "guest"
DRIVER = Path(__file__).with_name("shim_driver.c")
SAMPLE = struct.Struct("<QQiiQII")
needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="an observer needs a CPU of its own")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("programs")
    names = ("shim", "shimload", "shimtruth", "timersample", "ppidrights", "shimhello", "ppidtable", "ppidbpf")
    sources = program_sources([GUEST])
    build_programs("x86_64", {name: sources[name] for name in names}, folder, folder / "log")
    guest = tmp_path_factory.mktemp("driver") / "guest"
    shutil.copytree(GUEST / "lib", guest / "lib")
    shutil.copytree(GUEST / "shim", guest / "driver")
    shutil.copyfile(DRIVER, guest / "driver/shim.c")  # instead of the one with main()
    build_program("x86_64", guest / "driver", folder / "driver", folder / "log")
    return folder


def ask(programs: Path, *words: str, lines: list[str] | None = None) -> list[str]:
    done = subprocess.run(
        [programs / "driver", *words], input="\n".join(lines or []), capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


clocks = st.one_of(st.integers(0, 2000), st.integers(0, 2**64 - 1), st.integers(2**32 - 3000, 2**32 + 3000))
ratios = st.fractions(Fraction(0), Fraction(4), max_denominator=2**30 - 1)  # 32 bits above and below


@settings(max_examples=40, deadline=None)
@given(
    ratios=st.tuples(ratios, ratios).map(sorted),
    cases=st.lists(st.tuples(clocks, clocks, clocks, clocks), min_size=1, max_size=50),
)
@pytest.mark.deep
def test_trust_is_that_of_exact_fractions(programs, ratios, cases):
    low, high = ratios
    bounds = f"{low.numerator}/{low.denominator},{high.numerator}/{high.denominator}"
    answers = ask(programs, "trust", bounds, lines=[" ".join(map(str, case)) for case in cases])
    assert answers == [str(int(trusted(low, high, *case))) for case in cases]


def trusted(low: Fraction, high: Fraction, begin0: int, end0: int, begin1: int, end1: int) -> bool:
    if begin1 <= begin0 or end1 < end0:
        return False
    return low <= Fraction(end1 - end0, begin1 - begin0) <= high


@pytest.mark.parametrize("hundreds", [1, 1 << 20, 1 << 25, 1 << 26, 1 << 40, 1 << 56])
@pytest.mark.parametrize(("edge", "outside"), [(99, -1), (101, 1)])
def test_bounds_are_included_to_the_last_cycle(programs, hundreds, edge, outside):
    """The public code truncates: it takes 1.0199 for 1.01."""
    begin, end = 5, 9
    cases = [(begin, end, begin + 100 * hundreds, end + edge * hundreds + off) for off in (0, outside, -outside)]
    assert ask(programs, "trust", "0.99,1.01", lines=[" ".join(map(str, case)) for case in cases]) == ["1", "0", "1"]


def test_equal_clocks_are_no_division_and_not_trusted(programs):
    assert ask(programs, "trust", "0,4", lines=["7 9 7 9", "7 9 7 12", "7 9 8 9", "7 9 6 12"]) == ["0", "0", "1", "0"]
    # An end clock that runs backwards is no long way forward.
    assert ask(programs, "trust", "0,4", lines=[f"0 9 {1 << 62} 8"]) == ["0"]


def test_bounds_are_read_as_they_are_written(programs):
    texts = ["0.99,1.01", "99/100,101/100", "1,1", "0.5,4294967295", "1.01,0.99", "1", "1,", "1,x", "1/0,2", "-1,2"]
    texts += ["0.99,1.01x", "1.,2", ".9,1.1", "1,4294967296", "0.1234567890123,1"]
    assert ask(programs, "bounds", lines=texts) == [
        "99/100 101/100",
        "99/100 101/100",
        "1/1 1/1",
        "5/10 4294967295/1",
        *["no"] * 11,
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=50))
def test_an_interval_lies_in_its_bucket_which_is_a_sixteenth_wide(programs, intervals):
    for interval, answer in zip(intervals, ask(programs, "periods", lines=list(map(str, intervals))), strict=True):
        _, low, high = map(int, answer.split())
        assert low <= interval < high or (high == 0 and low <= interval)
        assert high - low <= max(low // 16, 1) or high == 0


def test_events_go_by_the_names_that_people_know(programs):
    names = ["instructions", "INSTRUCTIONS", "perf::INSTRUCTIONS", "PERF_COUNT_HW_INSTRUCTIONS", "cpu-cycles"]
    names += ["branch-instructions", "CACHE_MISSES", "r01c2", "r", "r01c2q", "rxyz", "instruction", "", "perf::"]
    assert ask(programs, "event", lines=names) == [
        *["instructions 0 1"] * 4,
        "cycles 0 0",
        "branches 0 4",
        "cache-misses 0 3",
        "r01c2 4 1c2",
        *["no"] * 6,
    ]


def test_the_map_has_a_line_of_every_cpu_that_can_be(programs):
    answers = ask(programs, "ppid-bytes", lines=["1", "64", "65", "4096"])
    assert answers == ["4096", "4096", "8192", str(64 * 4096)]


# -- the page that perf maps, made up --------------------------------------------------------------


def page(programs: Path, **fields: int) -> tuple[int, bool, bool, bool]:
    """Count, live, whole, torn of one synthetic page; index 8 is counter 7, which holds `pmc`."""
    given = {"lock": 2, "index": 8, "offset": 1000, "width": 48, "allowed": 1, "enabled": 5, "running": 5, "pmc": 34}
    (answer,) = ask(programs, "page", lines=[" ".join(str(value) for value in (given | fields).values())])
    count, live, whole, torn = map(int, answer.split())
    return count, bool(live), bool(whole), bool(torn)


def test_a_count_is_offset_and_counter(programs):
    assert page(programs) == (1034, True, True, False)
    assert page(programs, index=9) == (1000 + 0xDEAD, True, True, False), "the index is read each time"


@pytest.mark.parametrize("width", [32, 40, 48, 64])
def test_a_counter_is_as_wide_as_the_page_says_and_signed(programs, width):
    """The kernel starts a counter at minus its period, and offset makes up for it."""
    assert page(programs, width=width, pmc=2**width - 10, offset=50)[0] == 40
    above = 2**width - 1 if width == 64 else (0xABC << width) + 10
    assert page(programs, width=width, pmc=above, offset=50)[0] == (49 if width == 64 else 60)


def test_an_event_that_is_on_no_counter_is_not_live(programs):
    assert page(programs, index=0) == (1000, False, True, False)
    assert page(programs, allowed=0) == (1000, False, True, False)
    assert page(programs, width=0) == (1000, False, True, False)
    assert page(programs, width=65) == (1000, False, True, False)


def test_an_event_that_shared_its_counter_is_not_whole(programs):
    assert page(programs, running=4) == (1034, True, False, False)


def test_a_page_that_is_being_written_gives_nothing(programs):
    assert page(programs, lock=3)[3] is True


def test_a_page_that_changed_meanwhile_is_read_again(programs):
    assert ask(programs, "page-change", "0") == ["1000 0 1"]
    assert ask(programs, "page-change", "1") == ["1000 0 2"]
    assert ask(programs, "page-change", "5") == ["1000 0 6"]
    assert ask(programs, "page-change", "100000")[0].split()[1] == "1", "and given up at last"


@needs_two_cpus
def test_a_page_that_changes_all_the_time_is_never_read_in_halves(programs):
    (answer,) = ask(programs, "page-race", "1000000")
    assert answer.split()[0] == "0"


@needs_two_cpus
def test_a_line_that_changes_all_the_time_is_never_taken_for_one_at_rest(programs):
    (answer,) = ask(programs, "ppid-race", "1000000")
    assert answer.split()[0] == "0"


# -- rings -----------------------------------------------------------------------------------------


def ring(programs: Path, target: Path, *words: str) -> tuple[list[int], int, int]:
    (answer,) = ask(programs, *words, str(target))
    written, lost, error = map(int, answer.split())
    assert error == 0
    records = list(struct.iter_unpack("<QQ", target.read_bytes()))
    assert all(first ^ second == 2**64 - 1 for first, second in records), "no record in halves"
    return [first for first, _ in records], written, lost


def test_a_full_ring_loses_what_comes_and_counts_it(programs, tmp_path):
    assert ring(programs, tmp_path / "out", "ring", "64", "50") == (list(range(50)), 50, 0)
    assert ring(programs, tmp_path / "out", "ring", "64", "100") == (list(range(64)), 64, 36)


def test_a_ring_that_is_emptied_meanwhile_keeps_order_and_accounts_for_all(programs, tmp_path):
    records, written, lost = ring(programs, tmp_path / "out", "ring-live", "1024", "200000")
    assert len(records) == written
    assert written + lost == 200_000
    assert records == sorted(set(records))
    assert written > 10 * 1024


# -- the programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "shim",
        "shim walk",
        "shim run --cpu",
        "shim run --cpu x",
        "shim run --cpu 0",
        "shim run --cpu 99",
        "shim run --period 10parsecs",
        "shim run --period us",
        "shim run --min-window -1us",
        "shim run --bounds 1.01,0.99",
        "shim run --seconds 0",
        "shim run --seconds 1x",
        "shim run --event no-such",
        "shim run --signal words",
        "shim run --signal a=/dev/null@7",
        "shim run --ring 1000",
        "shim run --inject 10",
        "shim run --inject 0,5",
        "shim run --colour red",
        "shim list xml",
        "shimload",
        "shimload dance",
        "shimload known --seconds 0",
        "shimload known --cpu",
        "shimload switch --how shout",
        "shimload switch --threads 0",
        "shimtruth",
        "shimtruth begin x 1",
        "shimtruth begin 1 big",
        "timersample",
        "timersample 0 x",
        "timersample 0 1 0",
        "ppidrights 0 ppid_callback",
    ],
)
def test_wrong_arguments_are_a_line_and_status_2(programs, words):
    name, *rest = words.split()
    done = subprocess.run([programs / name, *rest], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def observed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the observer on this host: no slot, no oracle; a word of memory as its signal."""
    folder: Path = tmp_path_factory.mktemp("observed")
    (folder / "word").write_bytes(struct.pack("<QQ", 0, 42))
    subprocess.run(
        [
            *(programs / "shim", "run", "--seconds", "0.3", "--min-window", "20us", "--inject", "20,40000"),
            *(
                "--out",
                folder / "run",
                "--samples",
                folder / "run.samples.bin",
                "--limit",
                "5000",
                "--event",
                "instructions",
            ),
            *("--signal", f"word={folder / 'word'}@8", "--signal", f"gone={folder / 'none'}@0"),
        ],
        check=True,
    )
    return folder


@needs_two_cpus
def test_a_run_reports_what_its_files_hold(observed):
    shim = json.loads((observed / "run.shim.json").read_text())
    assert shim["windows"] == shim["trusted"] + shim["untrusted"]
    assert shim["samples"] > shim["windows"] > 100
    assert shim["samples_written"] + shim["samples_lost"] + shim["samples_skipped"] == shim["windows"] + 1
    signals = [signal["name"] for signal in shim["signals"]]
    assert "word" in signals
    record = struct.Struct(SAMPLE.format + f"{len(signals)}Q")
    data = (observed / "run.samples.bin").read_bytes()
    samples = list(record.iter_unpack(data))
    assert len(samples) == shim["samples_written"] == min(5000, shim["windows"] + 1)
    assert [sample[6] for sample in samples] == list(range(len(samples)))
    assert {sample[7 + signals.index("word")] for sample in samples} == {42}
    assert samples[0][5] == 8
    low, high = map(Fraction, shim["bounds"])
    for before, after in pairwise(samples):
        assert bool(after[5] & 1) == trusted(low, high, before[0], before[1], after[0], after[1])
        assert after[0] - before[0] >= shim["min_window_cycles"]
        assert after[1] >= after[0]


@needs_two_cpus
def test_every_delay_that_must_be_noticed_is(observed):
    shim = json.loads((observed / "run.shim.json").read_text())
    delays = list(struct.iter_unpack("<QQQ", (observed / "run.injected.bin").read_bytes()))
    assert len(delays) == shim["injected"] > 10
    assert shim["injected_windows"] > 10
    assert shim["injected_trusted"] == 0
    assert shim["injected_windows"] + shim["injected_long"] <= 2 * shim["injected"]
    numbers = [number for number, _, _ in delays]
    assert all(later - earlier >= 3 for earlier, later in pairwise(numbers))


@needs_two_cpus
def test_what_is_not_there_is_refused_with_a_reason(observed):
    shim = json.loads((observed / "run.shim.json").read_text())
    assert shim["ppid"] is None
    assert "/dev/ppid_map" in shim["ppid_reason"]
    refused = {(signal["name"], signal["source"]): signal["reason"] for signal in shim["refused"]}
    assert all(refused.values())
    assert refused["gone", "memory"].endswith("No such file or directory")
    if ("instructions", "pmu") in refused:  # this host may have a PMU
        assert refused["instructions", "oracle"] == "no device: the machine has no devices: [counters]"


@needs_two_cpus
def test_intervals_and_threads_add_up_to_all_windows(observed):
    shim = json.loads((observed / "run.shim.json").read_text())
    for name in ("run.periods.csv", "run.ids.csv"):
        with (observed / name).open() as stream:
            rows = list(csv.DictReader(stream))
        assert sum(int(row["windows"]) for row in rows) == shim["windows"], name
        assert sum(int(row["trusted"]) for row in rows) == shim["trusted"], name
    assert [(row["pid"], row["tgid"]) for row in rows] == [("-1", "-1")]


@needs_two_cpus
def test_samples_can_be_read_while_they_are_taken(programs):
    with subprocess.Popen(
        [programs / "shim", "run", "--seconds", "30", "--period", "1ms", "--samples", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as shim:
        assert shim.stdout is not None
        first = shim.stdout.read(SAMPLE.size)
        assert shim.poll() is None, "it is still at it"
        shim.terminate()
        rest = shim.stdout.read()
    assert shim.returncode == 0
    assert SAMPLE.unpack(first)[5] == 8
    assert len(rest) % SAMPLE.size == 0


@needs_two_cpus
def test_what_the_rings_hold_at_the_end_is_written(programs, tmp_path):
    words = ["--seconds", "0.2", "--period", "1ms", "--drain", "10000", "--samples", tmp_path / "samples.bin"]
    done = subprocess.run([programs / "shim", "run", *words], stdout=subprocess.PIPE, check=True)
    written = json.loads(done.stdout)["samples_written"]
    assert (tmp_path / "samples.bin").stat().st_size == written * SAMPLE.size > SAMPLE.size


@needs_two_cpus
def test_without_the_oracle_nobody_tells_of_the_host(programs, tmp_path):
    words = ["--seconds", "0.1", "--period", "1ms", "--host", "20", "--out", tmp_path / "run"]
    subprocess.run([programs / "shim", "run", *words], check=True)
    said = json.loads((tmp_path / "run.shim.json").read_text())
    assert (said["host_readings"], said["host_reason"]) == (0, "no device: the machine has no devices: [counters]")
    assert not (tmp_path / "run.host.csv").exists()


def test_the_list_says_why(programs):
    listed = json.loads(subprocess.run([programs / "shim", "list", "json"], stdout=subprocess.PIPE, check=True).stdout)
    assert {event["name"] for event in listed["events"]} >= {"instructions", "cycles", "cache-misses"}
    assert all(
        event["reason"] or event["known_expected"] or event["name"] != "instructions" for event in listed["events"]
    )
    plain = subprocess.run([programs / "shim", "list"], capture_output=True, text=True, check=True).stdout
    assert plain.splitlines()[0].startswith("instructions")


SIX = ("branch-instructions", "branch-misses", "bus-cycles", "instructions", "cpu-cycles", "ref-cycles")


def test_hello_world_by_six_events(programs):
    done = subprocess.run([programs / "shimhello", *SIX], capture_output=True, text=True, check=True)
    hello = Hello.model_validate_json(done.stdout)
    assert done.stderr == "hello world\n"
    assert len(hello.events) + len(hello.refused) == len(SIX)
    assert all(refused.reason for refused in hello.refused)
    assert hello.words == 2, "the program's own tag"
    assert hello.cycles > 0
    wrong = subprocess.run([programs / "shimhello", "no-such"], capture_output=True, text=True, check=True)
    assert Hello.model_validate_json(wrong.stdout).refused[0].reason == "no such event"


def test_the_manual_page_has_every_function_of_the_library():
    header, page = (GUEST / "lib/libshim.h").read_text(), (GUEST / "lib/libshim.3").read_text()
    functions = re.findall(r"^(?:static inline .*?)?(?:bool|void) (\w+)\(", header, flags=re.MULTILINE)
    assert sorted(functions) == sorted(
        ["shim_open", "shim_add_event", "shim_add_word", "relax_cpu", "shim_read", "shim_trusted"]
    )
    for function in functions:
        assert f".Fn {function} " in page, function
        assert f".Fn {function}\n" in page, function


def test_who_maps_no_device_is_told_so(programs):
    done = subprocess.run([programs / "ppidtable", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert "/dev/ppid_map" in done.stderr


@needs_two_cpus
@pytest.mark.parametrize("load", ["known", "pattern", "phases"])
def test_a_target_says_what_it_did_and_when(programs, tmp_path, load):
    subprocess.run([programs / "shimload", load, "--seconds", "1", "--out", tmp_path / "load"], check=True)
    said = json.loads((tmp_path / "load.json").read_text())
    chunks = list(struct.iter_unpack("<QQIiQQ", (tmp_path / "load.bin").read_bytes()))
    assert len(chunks) == said["chunks"] > 3
    per_turn = {"known": {0: 2}, "pattern": {1: 0}, "phases": {0: 2, 1: 5, 2: 3, 3: 0}}[load]
    for begin, end, kind, tid, instructions, turns in chunks:
        assert said["clock_begin"]["tsc"] <= begin < end
        assert tid in {thread["tid"] for thread in said["threads"]}
        assert instructions == turns * per_turn[kind]
    by_time = sorted(chunks)
    assert all(before[1] <= after[0] for before, after in pairwise(by_time))


@needs_two_cpus
@pytest.mark.parametrize("how", ["futex", "pipe", "yield"])
def test_threads_hand_over_until_their_time_is_up(programs, how):
    done = subprocess.run(
        [programs / "shimload", "switch", "--how", how, "--seconds", "1", "--threads", "3"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_S,
    )
    assert json.loads(done.stdout)["switches"] > 3  # each thread had its turn; how often is the host's matter


@pytest.mark.deep
def test_a_load_with_a_pace_does_not_hand_over_more_often(programs):
    words = ["--cpu", "0", "--seconds", "2", "--every-us", "1000"]
    done = subprocess.run(
        [programs / "shimload", "switch", *words], stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S
    )
    # The first hand-over need not wait, and each thread gives the turn on when it ends.
    assert 3 < json.loads(done.stdout)["switches"] <= 2000 + 1 + 2
