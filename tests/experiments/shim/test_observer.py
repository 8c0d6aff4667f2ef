# SPDX-License-Identifier: MIT
"""Decoders of shim: records, the trust test in exact arithmetic, switches against the kernel's trace, counters."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from experiments.shim.observer.answers import Observed, read_names
from experiments.shim.observer.counting import Counters, Rates, costs
from experiments.shim.observer.periods import coarser, histogram, quantile, read_periods
from experiments.shim.observer.pieces import Pieces, read_pieces
from experiments.shim.observer.records import (
    CHUNK,
    DELAYED,
    EVENT,
    GAP,
    INJECTED,
    LOST_BEFORE,
    SWITCH,
    TORN,
    TRUSTED,
    pieces,
    sample_type,
    whole,
)
from experiments.shim.observer.switches import (
    common,
    match,
    missed_of,
    nearest,
    share_of,
    spans_seen,
    spans_traced,
    stretches,
    summary,
)
from experiments.shim.observer.trust import Bounds, Recheck, lengths, trusted, windows
from harness.errors import RunError
from harness.measure.hostsched import host_waited
from harness.measure.raw import read_answer, read_csv
from tests.experiments.shim import files
from tests.experiments.shim.files import HZ, START

# -- records -----------------------------------------------------------------------------------------------


def test_fields_lie_where_the_documents_say():
    def layout(kind):
        return {name: (kind.fields[name][1], kind.fields[name][0].str) for name in kind.names}

    assert layout(SWITCH) == {"seen": (0, "<u8"), "pid": (8, "<i4"), "tgid": (12, "<i4"), "count": (16, "<u8"),
                              "time": (24, "<u8"), "flags": (32, "<u4"), "cpu": (36, "<u4")}  # fmt: skip
    assert layout(INJECTED) == {"number": (0, "<u8"), "begin": (8, "<u8"), "delay": (16, "<u8")}
    assert layout(EVENT) == {"time": (0, "<u8"), "prev": (8, "<i4"), "next": (12, "<i4"), "cpu": (16, "<u4"),
                             "flags": (20, "<u4")}  # fmt: skip
    assert layout(CHUNK) == {"begin": (0, "<u8"), "end": (8, "<u8"), "kind": (16, "<u4"), "tid": (20, "<i4"),
                             "instructions": (24, "<u8"), "iterations": (32, "<u8")}  # fmt: skip


def test_a_sample_by_the_letter_of_the_format(tmp_path):
    path = tmp_path / "s"
    words = [(7).to_bytes(8, "little"), (9).to_bytes(8, "little"), (-1).to_bytes(4, "little", signed=True)]
    words += [(80).to_bytes(4, "little"), (5).to_bytes(8, "little"), (17).to_bytes(4, "little")]
    words += [(2**32 - 1).to_bytes(4, "little"), (2**64 - 1).to_bytes(8, "little"), (3).to_bytes(8, "little")]
    path.write_bytes(b"".join(words))
    (one,) = whole(path, sample_type(2))
    assert (one["begin"], one["end"], one["pid"], one["tgid"], one["count"]) == (7, 9, -1, 80, 5)
    assert (one["flags"], one["number"], one["signals"].tolist()) == (17, 2**32 - 1, [2**64 - 1, 3])


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_a_file_is_the_same_in_pieces(tmp_path, size):
    made = files.steady(100)
    made.tofile(tmp_path / "s")
    parts = list(pieces(tmp_path / "s", sample_type(1), size))
    assert max(map(len, parts)) == min(size, 100)
    assert np.concatenate(parts).tobytes() == made.tobytes()


def test_damaged_files_are_refused_with_the_place(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(bytes(40 * 3 + 1))
    with pytest.raises(RunError, match="cut short: 1 bytes after record 3") as error:
        list(pieces(path, SWITCH))
    assert error.value.where == f"{path}, byte 120"
    made = files.steady(10)
    made["flags"][7] = 32
    made.tofile(path)
    with pytest.raises(RunError, match="record 7 is damaged: flags 0x20") as error:
        list(pieces(path, sample_type(1), 4))
    assert error.value.where == f"{path}, byte {7 * 48}"
    with pytest.raises(RunError, match="cannot be read: No such file"):
        list(pieces(tmp_path / "none", SWITCH))


# -- trust -------------------------------------------------------------------------------------------------

WORD = st.integers(0, 2**64 - 1)
#: Lengths near the bounds, where rounding would show.
NEAR = st.builds(
    lambda b, part, by: (b, min(2**64 - 1, max(0, b * part // 100 + by))),
    st.one_of(st.integers(0, 5000), WORD),
    st.sampled_from([99, 100, 101, 102]),
    st.integers(-2, 2),
)
RATIONALS = st.tuples(st.fractions(Fraction(1, 1000), 1), st.fractions(1, 50)).map(lambda two: Bounds(*two))


@given(st.lists(st.one_of(NEAR, st.tuples(WORD, WORD)), max_size=30), st.one_of(st.just(Bounds()), RATIONALS))
@example([], Bounds(Fraction(1, 2**64), Fraction(2**64)))
@example([(0, 1), (1, 1)], Bounds(Fraction(1, 2**64), Fraction(2**64 + 1, 2**63)))
@example([(10**19 + 7, 101 * 10**17 + by) for by in range(12)], Bounds())
def test_trust_is_exact(pairs, bounds):
    begin, end = (np.array([pair[i] for pair in pairs], dtype=np.uint64) for i in (0, 1))
    expected = [b > 0 and bounds.low <= Fraction(e, b) <= bounds.high for b, e in pairs]
    assert trusted(begin, end, bounds).tolist() == expected


def test_bounds_are_included_and_nothing_is_rounded():
    begin = np.array([100, 100, 100, 100, 0, 0, 1, 10**17, 10**17], dtype=np.uint64)
    end = np.array([99, 98, 101, 102, 0, 5, 1, 101 * 10**15, 101 * 10**15 + 1], dtype=np.uint64)
    assert trusted(begin, end, Bounds()).tolist() == [True, False, True, False, False, False, True, True, False]
    # What the test of the public code lets through: 100 * 1019 // 1000 is 101.
    assert not trusted(np.array([1000], np.uint64), np.array([1019], np.uint64), Bounds())[0]


@pytest.mark.parametrize("texts", [("99/100", "1/0"), ("x", "1"), ("101/100", "102/100"), ("0", "2"), ("1", "1", "1")])
def test_bounds_that_are_none(texts):
    with pytest.raises(RunError, match="bounds of trust"):
        Bounds.parse(texts)


def test_windows_of_lost_samples_are_not_there():
    made = files.steady(6)
    made["number"] += np.uint32(2**32 - 3)  # wraps
    assert windows(made).all()
    made["flags"][2] |= GAP
    made["number"][4:] += np.uint32(5)
    assert windows(made).tolist() == [True, False, True, False, True]
    begin, end = lengths(made[::-1])
    assert not begin.any()
    assert not end.any()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_recheck_finds_the_flags_that_are_wrong(size):
    made, _ = files.delayed(200, {20, 50, 52, 120})
    check = Recheck(Bounds())
    for first in range(0, 200, size):
        check.add(made[first : first + size])
    assert (check.samples, check.windows, check.gaps, check.wrong) == (200, 199, 0, 0)
    assert (check.delayed, check.trusted, check.delayed_numbers) == (8, 191, [20, 50, 52, 120])
    wrong = made.copy()
    wrong["flags"][20] ^= TRUSTED
    wrong["flags"][70] ^= TRUSTED
    check = Recheck(Bounds())
    check.add(wrong)
    assert check.wrong == 2


@pytest.mark.parametrize(
    ("at", "delay", "delayed", "beyond", "long", "short_trusted"),
    [
        ({20}, 9000, 2, 2, 2, 0),
        # Two samples in a row that are delayed by the same time: the test cannot see the window between them.
        ({20, 21}, 9000, 3, 2, 2, 1),
        # Bounds allow 200 cycles of a window of 20,000.
        ({20}, 100, 2, 0, 0, 2),
        # ... and 202 of the next, which is longer by the delay.
        ({20}, 201, 2, 1, 0, 1),
        ({20}, 399, 2, 2, 0, 0),
    ],
)
def test_delays_are_told_apart_by_what_the_bounds_allow(at, delay, delayed, beyond, long, short_trusted):
    made, log = files.delayed(50, at, delay=delay)
    check = Recheck(Bounds(), {int(one["number"]): int(one["delay"]) for one in log})
    check.add(made)
    assert (check.delayed, check.beyond, check.long_delay) == (delayed, beyond, long)
    assert (check.short_trusted, check.long_delay_trusted, check.wrong) == (short_trusted, 0, 0)
    assert check.delayed_numbers == sorted(at)
    assert check.clean_trusted == check.clean_all_trusted == 49 - delayed


def test_a_delay_that_is_hidden_by_an_interruption_of_its_neighbour_is_a_failure_of_the_test():
    made, log = files.delayed(50, {20})
    length = made["end"] - made["begin"]
    length[19] += np.uint64(8990)
    made = files.samples(made["begin"].tolist(), (made["begin"] + length).tolist())
    made["flags"][20] |= DELAYED
    check = Recheck(Bounds(), {20: int(log["delay"][0])})
    check.add(made)
    assert (check.long_delay, check.long_delay_trusted, check.beyond_trusted, check.short_trusted) == (2, 1, 1, 0)


def test_a_window_with_a_long_delay_that_the_program_trusts_is_a_failure_too():
    made, log = files.delayed(50, {20})
    made["flags"][20] |= TRUSTED
    check = Recheck(Bounds(), {20: int(log["delay"][0])})
    check.add(made)
    assert (check.long_delay_trusted, check.wrong) == (1, 1)


def test_whatever_the_samples_are_the_test_alone_does_not_decide_whether_long_delays_are_noticed():
    """Random windows: were those excused that the inequality permits, none would ever count against the test."""
    random = np.random.default_rng(1)
    failures = 0
    for _ in range(200):
        lengths = random.integers(100, 4000, 50)
        begin = START + 20_000 * np.arange(50)
        made = files.samples(begin.tolist(), (begin + lengths).tolist())
        made["flags"][20] |= DELAYED
        check = Recheck(Bounds(), {20: 1000})
        check.add(made)
        failures += check.long_delay_trusted
    assert failures > 10


# -- switches ----------------------------------------------------------------------------------------------


def test_switches_are_matched_by_counting():
    cpu = files.cpu(500, counted=12345)
    trace, log = cpu.trace(), cpu.log({3, 77, 78, 401})[5:-5]
    found = match(log, trace)
    assert found.inside.all()
    assert not found.wrong.any()
    assert (found.event + 12345).tolist() == log["count"].tolist()
    assert set(found.lag.tolist()) == {cpu.lag}
    about = summary(log, trace, found)
    events = int(log["count"][-1] - log["count"][0])
    assert (about["events"], about["missed"], about["wrong"], about["unmatched"]) == (events, 3, 0, 0)
    assert about["missed_share"] == 3 / events


def test_a_wrong_thread_is_found():
    cpu = files.cpu(300)
    log = cpu.log()
    log["pid"][[40, 41, 200]] = 99
    found = match(log, cpu.trace())
    assert np.flatnonzero(found.wrong).tolist() == [40, 41, 200]
    assert summary(log, cpu.trace(), found)["wrong"] == 3


def test_a_stale_next_is_wrong_nearly_always():
    """What the public code's place of the callback gives: the thread before in place of the one that runs."""
    cpu = files.cpu(300)
    log = cpu.log()
    log["pid"][1:] = log["pid"][:-1].copy()
    assert match(log, cpu.trace()).wrong.sum() == 299


def test_events_that_the_trace_lost_are_not_compared():
    cpu = files.cpu(600, counted=50)
    trace = np.delete(cpu.trace(), np.s_[200:260])
    trace["flags"][200] = LOST_BEFORE
    assert stretches(trace) == [(0, 199), (200, 539)]
    log = cpu.log({30, 400})
    found = match(log, trace)
    assert int((~found.inside).sum()) == 60
    assert not found.wrong.any()
    about = summary(log, trace, found)
    assert (about["missed"], about["events"], about["unmatched"]) == (2, 539, 0)
    log["pid"][500] = 99
    assert match(log, trace).wrong.sum() == 1


def test_a_slot_that_does_not_count_a_switch_drifts():
    cpu = files.cpu(600)
    log = cpu.log()
    log["count"][300:] -= np.uint64(1)
    assert match(log, cpu.trace()).drift == 1


def test_a_torn_entry_must_name_a_thread_between_its_neighbours():
    cpu = files.cpu(100, pids=(0, 70, 71, 72))
    log = cpu.log()
    log["flags"][[10, 20]] = TORN
    log["count"][[10, 20]] += 3
    log["pid"][20] = 99
    found = match(log, cpu.trace())
    assert np.flatnonzero(found.wrong).tolist() == [20]
    about = summary(log, cpu.trace(), found)
    assert (about["torn"], about["missed"], about["compared"]) == (2, 0, 100)


def test_nothing_to_match():
    cpu = files.cpu(10)
    later = files.cpu(10)
    later.begin = [time + 10**12 for time in later.begin]
    for log, trace in ((cpu.log()[:0], cpu.trace()), (cpu.log(), cpu.trace()[:0]), (later.log(), cpu.trace())):
        found = match(log, trace)
        assert not found.inside.any()
        assert np.isnan(summary(log, trace, found)["missed_share"])


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.lists(st.integers(-20, 120), max_size=20))
def test_the_nearest_is_the_nearest(times, wanted):
    times = np.sort(np.array(times, dtype=np.int64))
    found = nearest(times, np.array(wanted, dtype=np.int64))
    assert [abs(times[i] - x) for i, x in zip(found, wanted, strict=True)] == [abs(times - x).min() for x in wanted]


def test_who_ran_when():
    cpu = files.Cpu([0, 70, 0, 71, 0], [START + t for t in (1000, 2000, 5000, 6000, 9000)], lag=0)
    traced = spans_traced(cpu.trace())
    assert traced[["pid", "begin", "end"]].to_numpy().tolist() == [
        [0, START + 1000, START + 2000],
        [70, START + 2000, START + 5000],
        [0, START + 5000, START + 6000],
        [71, START + 6000, START + 9000],
    ]
    assert share_of(traced, 0, START + 1500, START + 5500) == 0.25
    assert np.isnan(share_of(traced, 0, 5, 5))
    seen = spans_seen(cpu.log({2}))
    assert seen["pid"].tolist() == [0, 70, 71]
    # The first is what was there at the begin; 70 hides a switch that was missed.
    assert seen["whole"].tolist() == [False, False, True]
    assert common(seen, traced) == (START + 1100, START + 9000)
    assert common(seen[:0], traced) == (0, 0)
    idle = cpu.trace()["next"] == 0
    assert missed_of(cpu.trace(), match(cpu.log({2}), cpu.trace()), idle) == (1, 3)


# -- periods -----------------------------------------------------------------------------------------------


def periods(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["low", "high", "windows", "trusted"])


def test_quantiles_of_a_histogram():
    table = periods((7, 8, 50, 0), (16, 32, 40, 40), (32, 64, 10, 10))
    assert quantile(table, 0.5) == 7
    assert quantile(table, 0.7) == 24
    assert quantile(table, 1.0) == 64
    assert np.isnan(quantile(periods((7, 8, 0, 0)), 0.5))


def test_wider_buckets_have_the_same_windows():
    table = periods(*((low, low + 1, low, low // 2) for low in range(1, 200)))
    wide = coarser(table, 1)
    assert wide["low"].tolist() == [1, 2, 4, 8, 16, 32, 64, 128]
    assert wide["windows"].sum() == table["windows"].sum()
    assert wide["trusted"].sum() == table["trusted"].sum()


def test_buckets_that_are_none_are_refused(tmp_path):
    path = tmp_path / "p.csv"
    for text, says in (
        ("low,high,windows,trusted\n1,2,5,6\n", "line 2"),
        ("low,high,windows,trusted\n1,3,5,5\n2,4,1,1\n", "line 3"),
        ("low,high,windows,trusted\n1,3,x,5\n", "line 2"),
    ):
        path.write_text(text)
        with pytest.raises(RunError) as error:
            read_periods(path)
        assert error.value.where == f"{path}, {says}"
    path.write_text("low,high\n")
    with pytest.raises(RunError, match="has columns low, high"):
        read_periods(path)


def test_histogram_counts_every_positive_value():
    counts = histogram([0, 1, 1, 3.9, 4, 1000], 1)
    assert counts.to_numpy().tolist() == [[1, 2, 2], [2, 4, 1], [4, 8, 1], [512, 1024, 1]]
    assert histogram([]).empty


# -- counters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 10, 1000])
def test_counters_between_samples(size):
    made = files.steady(100, period=1000, ipc=0.5)
    moments = np.array([START - 1, START, START + 250, START + 1000, START + 98_999, START + 99_001], dtype=np.uint64)
    counters = Counters(moments, 1)
    for first in range(0, 100, size):
        counters.add(made[first : first + size])
    assert counters.value[1:5, 0].tolist() == [0, 125, 500, 49499.5]
    assert np.isnan(counters.value[[0, 5], 0]).all()
    assert counters.width[1:5].tolist() == [1000] * 4


def test_rates_are_of_trusted_windows_of_one_thread():
    made = files.steady(100, period=1000, ipc=2)
    made["pid"][50:], made["count"][50:] = 71, 6
    made["flags"][10] &= ~np.uint32(TRUSTED)
    rates = Rates(10_000, 0)
    rates.add(made[:33])
    rates.add(made[33:])
    found = rates.frame()
    assert found.groupby("pid")["windows"].sum().to_dict() == {70: 48, 71: 49}
    assert (found["count"] == 2 * found["cycles"]).all()
    assert found["place"].max() == 9


def test_the_cost_is_of_a_phase_against_its_neighbours():
    chunks = files.chunks(60, cycles=1000)
    slow = np.zeros(60, dtype=np.uint64)
    slow[10:20] = slow[30:40] = 100
    shift = np.cumsum(slow)
    chunks["end"] += shift
    chunks["begin"][1:] += shift[:-1]
    spans = np.stack([chunks["begin"][[10, 30, 45]], chunks["end"][[19, 39, 50]]], axis=1)
    phases = {"spin": spans[1:2], "observer": spans[[0, 2]]}
    found = costs(chunks, phases)
    assert found["what"].tolist() == ["observer", "spin", "observer"]
    assert found["ratio"].tolist() == pytest.approx([1.1, 1.1, 1.0])
    # A chunk across a border takes no part: here all that is left of the last phase lies across one.
    spans[2] = chunks["begin"][50] + np.uint64(100), chunks["end"][50] + np.uint64(100)
    assert costs(chunks, {"a": spans})["ratio"].tolist() == pytest.approx([1.1, 1.1])
    assert costs(chunks, {"a": spans[:0]}).empty
    assert costs(chunks, {}).empty


# -- what programs and the host say ------------------------------------------------------------------------


def test_answers_name_the_field_that_is_wrong(tmp_path):
    files.shim(tmp_path, "a")
    said = read_answer(tmp_path / "a.shim.json", Observed)
    assert said.signal("instructions") == 0
    assert said.signal("cycles") is None
    assert [signal.refusal for signal in (*said.signals, *said.refused)] == [
        None,
        "perf_event_open: No such file or directory",
    ]
    own = files.INSTRUCTIONS | {"source": "pmu", "scope": "observer"}
    files.shim(tmp_path, "a", signals=[own, files.INSTRUCTIONS])
    assert read_answer(tmp_path / "a.shim.json", Observed).signal("instructions") == 1
    files.shim(tmp_path, "a", windows="many")
    with pytest.raises(RunError, match="windows: Input should be a valid integer"):
        read_answer(tmp_path / "a.shim.json", Observed)
    with pytest.raises(RunError, match="cannot be read"):
        read_answer(tmp_path / "b.shim.json", Observed)


def test_names_of_threads(tmp_path):
    with pytest.raises(RunError, match="cannot be read"):
        read_names(tmp_path / "truth.comms.csv")
    files.truth(tmp_path, files.cpu(3).trace())
    assert read_names(tmp_path / "truth.comms.csv") == {0: "idle", 70: "one", 71: "two, too"}
    with pytest.raises(RunError, match="cannot be read"):
        read_csv(tmp_path / "none.csv", ("a",))


def test_without_a_record_of_the_host_the_trial_is_marked(tmp_path):
    assert host_waited(tmp_path)[1] == "no record of the host's scheduling"
    nothing = {"cpu": 0, "thread": 7, "host_cpu": None, "run_ns": None, "wait_ns": None, "slices": None}
    for vcpus in ([], [nothing]):
        said = {"pinned": False, "reason": "no schedstat", "host_cpus": [0], "seconds": 0.0, "vcpus": vcpus}
        (tmp_path / "host-sched.json").write_text(json.dumps(said))
        share, reason = host_waited(tmp_path)
        assert np.isnan(share)
        assert reason == "no record of the host's scheduling: no schedstat"


def test_pieces_of_an_observation_are_sound_or_not_by_the_worse_of_both_vcpus(tmp_path):
    files.shim(tmp_path, "run")
    ms = HZ // 1000
    files.readings(
        tmp_path, "run", [START, START + 10 * ms, START + 20 * ms, START + 40 * ms], [5, 300_005, 300_006, 300_006],
        [0, 0, 310_000, 900_000],
    )  # fmt: skip
    pieces = read_pieces(tmp_path, "run", read_answer(tmp_path / "run.shim.json", Observed))
    assert pieces is not None
    assert pieces.waited.tolist() == pytest.approx([0.03, 0.031, 0.0295])
    assert pieces.sound.tolist() == [True, False, True]
    assert pieces.sound_share == pytest.approx(0.75)
    assert pieces.reason is None
    times = np.array([-1, 0, 10 * ms - 1, 10 * ms, 20 * ms - 1, 20 * ms, 40 * ms - 1, 40 * ms]) + START
    assert pieces.hold(times.astype(np.uint64)).tolist() == [False, True, True, False, False, True, True, False]


def test_without_two_readings_there_are_no_pieces(tmp_path):
    for clocks in ([], [START]):
        files.shim(tmp_path, "run")
        files.readings(tmp_path, "run", clocks, [0] * len(clocks))
        assert read_pieces(tmp_path, "run", read_answer(tmp_path / "run.shim.json", Observed)) is None


@pytest.mark.parametrize(
    ("clocks", "waits"), [([START, START], [0, 0]), ([START + 5, START], [0, 0]), ([START, START + 5], [9, 0])]
)
def test_readings_that_fall_are_refused(tmp_path, clocks, waits):
    files.shim(tmp_path, "run")
    files.readings(tmp_path, "run", clocks, waits)
    with pytest.raises(RunError, match="holds no 2 readings that rise") as caught:
        read_pieces(tmp_path, "run", read_answer(tmp_path / "run.shim.json", Observed))
    assert str(caught.value.where).endswith("run.host.csv")


def test_windows_in_pieces_that_the_host_disturbed_are_not_called_clean():
    samples, _ = files.delayed(100, {50})
    edges = samples["begin"][[0, 20, 40, 99]]
    pieces = Pieces(edges[:-1], edges[1:], np.array([0.0, 0.5, 0.01]))
    check = Recheck(Bounds(), {50: 9000}, pieces)
    check.add(samples)
    # 19 in the first piece; 58 in the last, which ends before the last sample, of which two touch the delay.
    assert (check.windows, check.delayed, check.clean, check.clean_trusted) == (99, 2, 19 + 56, 19 + 56)
    assert (check.clean_all, check.clean_all_trusted) == (97, 97)


@pytest.mark.parametrize("number", ["9" * 20, "9" * 400, "1e300", "18446744073709551615"])
def test_periods_that_fit_no_count_are_an_error(tmp_path, number):
    (tmp_path / "periods.csv").write_text(f"low,high,windows,trusted\n{number},2,3,1\n")
    with pytest.raises(RunError, match=r"periods\.csv[:,] "):
        read_periods(tmp_path / "periods.csv")
