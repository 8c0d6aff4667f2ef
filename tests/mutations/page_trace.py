# SPDX-License-Identifier: MIT
"""Mutations of page-trace's golden trials. They are real. Those of repetition 0 are cut: programs to their first 3,000
visits, with the oracle's sequence cut at the same visit and the kernel's counts lowered by what is gone. Those of
repetition 1 are whole, of programs that are small; known sequences are a few of 39. Those of repetition 2 are
sqlite's, cut too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from experiments.page_trace.hand import BY_HAND
from experiments.page_trace.trace.anew import AGAIN
from experiments.page_trace.trace.packed import BLOCK, blocks
from experiments.page_trace.trace.program import Program
from experiments.page_trace.trace.records import CODE, EXEC, KERNEL, PLAIN, RECORD_BYTES, SAME, Trace
from experiments.page_trace.trace.records import HEADER as FIELDS

from harness.measure.raw import VIRTUAL_NS
from harness.oracle.reader import Oracle
from tests.golden import Golden
from tests.mutation import turns
from tests.rawfiles import change_json, edit, records, said

#: Why trials are made.
SMALL = "the committed trial has four programs: traces beside the oracle's sequences are large"
UNPATCHED = "its kernel, without patches, is built for this arm alone"
BUSY = "the committed trial is of a busy host, where the interval is too wide to tell"
HEADER = 64
TRACED = ("stream", "stride-page", "random", "sort")
_COMPARED = {"missing", "missing_share", "missing_share_worst", "extra", "unexplained", "explained", "difference_share"}
_KINDS = ("dwell_error", "count_error", "count_error_own", "time_error")
_DWELLS = {*_KINDS, *(f"{name}_worst" for name in _KINDS), "traced_error", "lined_up_share", "lined_up_share_least"}
#: What is told of the program alone: what ran before its exec is found in its trace.
_OWN = {
    "visits", "steps", "slowdown", "slowdown_median", "bytes", "data_rate", "time_of_lackey", "bytes_of_lackey",
    "bytes_of_lackey_data", "bytes_of_lackey_binary", "bytes_of_lackey_packed", "told_share", "visit_time",
    "visit_time_ratio",
}  # fmt: skip
#: What ran undisturbed is what a traced run is compared with.
SHARED = ("exact",)
#: What follows from a file's content, whatever it is.
MAY_CHANGE = {
    # Without it nobody knows that the host disturbed these trials: it did, and their times are left out.
    "host-sched.json": {
        "slowdown",
        "slowdown_median",
        "data_rate",
        "time_of_lackey",
        "neighbour_slowdown",
        "neighbour_slowdown_fastest",
    },
    "stdout": {"same_output", "visit_ns", *_DWELLS},
    "maps": {*_COMPARED, *_DWELLS, "left_out_share", "code_unmapped", "advice_said"},
    "stream": {*_COMPARED, *_OWN, "unrecorded", "left_behind", "left_out_share", "code_unmapped"},
    "trace": {
        *_OWN,
        *_COMPARED, *_DWELLS, "visit_ns", "left_out_share", "code_unmapped", "unrecorded", "irregular",
        "advice_coverage", "advice_accuracy", "advice_said",
    },
    "pages.bin": {*_COMPARED, *_DWELLS, "left_out_share"},
    "pages.idx": {*_COMPARED, *_DWELLS, "left_out_share"},
    "pages.clk": _DWELLS,
    **{f"{case}.trace": {"unrecorded", "known_wrong", "hand_right", "said_exact"} for case in BY_HAND},
    # A second opinion that is cut is another opinion: it disagrees.
    **{f"{case}.lackey": {"second_wrong", "hand_right"} for case in BY_HAND},
}  # fmt: skip

Words = npt.NDArray[np.uint64]


def _stats(golden: Golden, arm: str, change: Callable[[dict[str, Any]], dict[str, Any]], *programs: str) -> None:
    for program in programs:
        change_json(golden.raw(arm) / program / "trace.json", change)


def _rewrite(path: Path, change: Callable[[Words], Words]) -> None:
    """The file's records, changed; the kernel's count of visits follows, as if it had recorded no others."""
    raw = path.read_bytes()
    before = np.frombuffer(raw[HEADER:], dtype="<u8").reshape(-1, 3).copy()
    after = change(before)
    path.write_bytes(raw[:HEADER] + after.astype("<u8").tobytes())
    visits = [int((_types(words) == 0).sum()) for words in (before, after)]
    fewer = visits[0] - visits[1]
    stats = path.with_suffix(".stats") if path.suffix else path.with_name("trace.json")
    change_json(stats, lambda answer: {"records": answer["records"] - fewer, "faults": answer["faults"] - fewer})


def _unpacked(path: Path) -> None:
    """A packed trace's records are written one by one, as pagetrace does without -z."""
    header = np.frombuffer(path.read_bytes(), dtype=FIELDS, count=1).copy()
    header["version"], header["record_bytes"] = PLAIN, RECORD_BYTES
    parts = [header.tobytes()]
    for block in blocks(path, HEADER):
        every, marks = slice(None), block.marks.astype(np.uint64)
        tid = np.asarray(block.tids(every)).astype(np.uint64)
        words = np.empty((len(block), 3), dtype="<u8")
        words[:, 0] = block.times.astype(np.uint64) << 12 | marks >> 4 << 8 | marks & 0xF
        words[:, 1] = block.pages(every).words() << 12 | tid & 0xFFF
        words[:, 2] = tid >> 12 << 48 | block.ips(every).words() & (1 << 48) - 1
        parts.append(words.tobytes())
    path.write_bytes(b"".join(parts))


def _types(words: Words) -> Words:
    return words[:, 0] >> np.uint64(8) & np.uint64(0xF)


def _own(words: Words) -> npt.NDArray[np.intp]:
    """Places of the program's own visits: behind the last exec."""
    types = _types(words)
    visits = np.flatnonzero(types == 0)
    return visits[visits > np.flatnonzero(types == EXEC)[-1]]


# -- beside the oracle ---------------------------------------------------------------------------------------


@turns(
    "file-whole",
    "little-missing-altogether",
    "no-visit-at-the-ends-missing",
    also=("advice-stride", "dwell", "dwell-of-most", "counts", "counts-own-rate"),
)
def cut_to_a_twentieth(golden: Golden) -> None:
    """Every trace is cut to the twentieth of its program's visits that comes first; the kernel's counts stay."""
    for program in TRACED:
        path = golden.raw("traced") / program / "trace"
        raw = path.read_bytes()
        own = _own(np.frombuffer(raw[HEADER:], dtype="<u8").reshape(-1, 3))
        path.write_bytes(raw[: HEADER + 24 * (int(own[own.size // 20]) + 1)])


@turns("every-visit", also=("little-missing-altogether",))
def without_a_stretch(golden: Golden) -> None:
    """A hundred visits in the middle of a trace are gone, and the kernel's counts are lowered by as many."""
    path = golden.raw("traced") / "sort" / "trace"
    _rewrite(path, lambda words: np.delete(words, _own(words)[1000:1100], axis=0))


@turns(
    "few-visits-by-the-kernel-differ",
    also=("every-visit", "little-missing-altogether", "no-visit-at-the-ends-missing"),
)
def without_the_kernels_visits(golden: Golden) -> None:
    """The visits by the kernel are gone from a trace, and its counts are lowered by as many."""
    path = golden.raw("traced") / "stream" / "trace"

    def change(words: Words) -> Words:
        own = _own(words)
        return np.delete(words, own[words[own, 0] & np.uint64(KERNEL) != 0], axis=0)

    _rewrite(path, change)


@turns(
    "few-visits-of-string-instructions-differ",
    also=(
        "little-missing-altogether",
        "no-visit-at-the-ends-missing",
        "nothing-added",
        "every-visit",
        "dwell-of-most",
    ),
)
def everything_is_one_instruction(golden: Golden) -> None:
    """All records say that they are of the instruction before, and every third of them is gone."""
    path = golden.raw("traced") / "sort" / "trace"

    def change(words: Words) -> Words:
        own = _own(words)
        words[own[1:], 0] |= np.uint64(SAME)
        return np.delete(words, own[10:-10:3], axis=0)

    _rewrite(path, change)


@turns("nothing-added", also=("every-visit",))
def a_page_that_nobody_touched(golden: Golden) -> None:
    """A visit in the middle of a trace is to another page than the program's."""

    def change(words: Words) -> Words:
        words[_own(words)[1000], 1] = np.uint64(0x7654321 << 12)
        return words

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("code-as-mapped")
def data_is_called_code(golden: Golden) -> None:
    """A trace calls the page that its program visits most often code; the guest's maps do not."""

    def change(words: Words) -> Words:
        pages, times = np.unique(words[_own(words), 1] >> np.uint64(12), return_counts=True)
        code = words[-1:].copy()
        code[0, 0] = words[-1, 0] & ~np.uint64(0xFFF) | np.uint64(CODE << 8)
        code[0, 1] = pages[times.argmax()] << np.uint64(12)
        return np.concatenate([words, code])

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("little-left-out")
def maps_call_data_code(golden: Golden) -> None:
    """By the guest's maps, the memory of a program can be executed."""
    path = golden.raw("traced") / "random" / "maps"
    lines = path.read_text().splitlines()
    path.write_text("".join(line.replace("rw-p", "rwxp", "[" not in line) + "\n" for line in lines))


@turns(
    "every-visit",
    also=("little-missing-altogether", "nothing-added", "no-visit-at-the-ends-missing", "dwell-of-most"),
)
def two_pages_change_names(golden: Golden) -> None:
    """In a trace, the two pages that are visited most often have each other's names from its middle on."""

    def change(words: Words) -> Words:
        own = _own(words)
        pages, times = np.unique(words[own, 1] >> np.uint64(12), return_counts=True)
        first, second = pages[np.argsort(times)[-2:]]
        late = own[own.size // 2 :]
        page = words[late, 1] >> np.uint64(12)
        swapped = np.where(page == first, second, np.where(page == second, first, page))
        words[late, 1] = swapped << np.uint64(12) | words[late, 1] & np.uint64(0xFFF)
        return words

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("nothing-added", also=("every-visit",))
def a_stretch_twice(golden: Golden) -> None:
    """A hundred visits in the middle of a trace are there twice, and the kernel's counts are higher by as many."""

    def change(words: Words) -> Words:
        own = _own(words)
        return np.insert(words, own[1100], words[own[1000:1100]], axis=0)

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("every-visit", also=("little-missing-altogether", "nothing-added"))
def a_stretch_backwards(golden: Golden) -> None:
    """Two hundred visits in the middle of a trace are in the opposite order."""

    def change(words: Words) -> Words:
        own = _own(words)[1000:1200]
        words[own, 1] = words[own[::-1], 1]
        return words

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("nothing-blind")
def executable_data(golden: Golden) -> None:
    """The kernel says that a task has data on pages that can be executed."""
    _stats(golden, "traced", lambda answer: {"unfit": 1}, "sort")


# -- time on a page ------------------------------------------------------------------------------------------


@turns("dwell")
def a_fast_clock(golden: Golden) -> None:
    """A trace's times run twice as fast."""

    def change(words: Words) -> Words:
        words[:, 0] = (words[:, 0] >> np.uint64(12)) * np.uint64(2) << np.uint64(12) | words[:, 0] & np.uint64(0xFFF)
        return words

    _rewrite(golden.raw("traced") / "stream" / "trace", change)


def _undisturbed(golden: Golden, change: Callable[[Words], Words], program: str) -> None:
    """The oracle's words of an undisturbed program, changed."""
    folder = golden.raw("exact") / "oracle"
    spans = said(folder / "oracle.json")["pages"]["spans"]
    first, last, _ = spans[TRACED.index(program)]
    with records(folder / "pages.bin", "<u8") as words:
        words[first:last] = change(words[first:last])


@turns("counts", "counts-own-rate")
def programs_that_access_evenly(golden: Golden) -> None:
    """Undisturbed, streaming and sorting access memory once in five instructions, as the program cost does."""

    def change(words: Words) -> Words:
        runs = np.flatnonzero(words >> np.uint64(24) & np.uint64(0xFFFF))
        lasted = np.diff(np.cumsum(words >> np.uint64(40))[runs])
        count = np.clip(lasted // np.uint64(5), 1, 0xFFFF).astype(np.uint64)
        words[runs[:-1]] = words[runs[:-1]] & ~np.uint64(0xFFFF << 24) | count << np.uint64(24)
        return words

    for program in ("stream", "sort"):
        _undisturbed(golden, change, program)


@turns("corrected-time")
def programs_that_wait_once(golden: Golden) -> None:
    """Undisturbed, each program is interrupted once, for as long as its trace has too much: 0.45 to 1.8 ms."""
    for program, ms in zip(TRACED, (1.4, 1.8, 0.8, 0.45), strict=True):
        ticks = np.uint64(ms * 1e6 / VIRTUAL_NS)

        def change(words: Words, ticks: Words = ticks) -> Words:
            words[words.size // 2] += ticks << np.uint64(40)
            return words

        _undisturbed(golden, change, program)


@turns("dwell-of-most", also=("every-visit", "little-missing-altogether"))
def without_every_tenth_visit(golden: Golden) -> None:
    """Every tenth visit of a trace is gone, and the kernel's counts are lowered by as many."""
    path = golden.raw("traced") / "sort" / "trace"
    _rewrite(path, lambda words: np.delete(words, _own(words)[10:-10:10], axis=0))


def _ran(golden: Golden, arm: str, like: str, programs: Mapping[str, str], **params: str | int) -> None:
    """A trial of `arm` by the virtual clock. `programs`: of each, the one of arm `like` whose files it has."""
    trial = next(trial for trial in golden.trials if trial.arm == like)
    for new, old in programs.items():
        shutil.copytree(trial.path / old, golden.raw(arm) / new)
    made = {"arm": arm, "path": golden.raw(arm), "workloads": tuple(programs), "params": trial.params | params}
    golden.trials.append(trial.model_copy(update=made | {"clock": "virtual", "fidelity": "virtual"}))


@turns("window-2-loses", "window-16-loses")
def windows_that_miss_nothing(golden: Golden) -> None:
    """Traces of larger windows have what the oracle has, written as if each access were a record."""
    for folder in (golden.raw("window-2", 1), golden.raw("window-16")):
        pages = Oracle(folder).pages(0).runs()["page"].to_numpy()

        def change(words: Words, pages: Words = pages) -> Words:
            own = _own(words)
            last = np.flatnonzero(_types(words) == EXEC)[-1]
            visits = np.repeat(words[own[:1]], pages.size, axis=0)
            visits[:, 1] = pages << np.uint64(12) | visits[:, 1] & np.uint64(0xFFF)
            return np.concatenate([words[: last + 1], visits])

        _rewrite(folder / "sort" / "trace", change)


# -- the kernel's counts, outputs, times ---------------------------------------------------------------------


@turns("one-page-is-enough")
def no_instruction_needs_two_pages(golden: Golden) -> None:
    """No visit is by the instruction of the one before."""

    def change(words: Words) -> Words:
        words[_own(words), 0] &= ~np.uint64(SAME)
        return words

    for path in golden.root.glob("raw/traced/*/*/trace"):
        if path.parent.name != "cost":
            _rewrite(path, change)


@turns("several-pages-at-once")
def many_instructions_need_two_pages(golden: Golden) -> None:
    """Every third visit of a trace is by the instruction of the one before."""

    def change(words: Words) -> Words:
        own = _own(words)
        # What an instruction that was begun anew replaces stays as it is.
        again = np.convolve(words[own, 0] & np.uint64(AGAIN) != 0, np.ones(7), "same") > 0
        words[own[1::3][~again[1::3]], 0] |= np.uint64(SAME)
        return words

    _rewrite(golden.raw("traced") / "stride-page" / "trace", change)


@turns("balance")
def a_fault_too_many(golden: Golden) -> None:
    """The kernel counts one fault more than its kinds give."""
    _stats(golden, "traced", lambda answer: {"faults": answer["faults"] + 1}, "sort")


@turns("balance-window")
def a_fault_too_many_in_a_window(golden: Golden) -> None:
    """The same with a window of four pages."""
    change_json(golden.raw("window-4", 1) / "sort" / "trace.json", lambda answer: {"faults": answer["faults"] - 1})


@turns("nothing-lost")
def a_full_ring(golden: Golden) -> None:
    """The kernel says that it lost a visit."""
    _stats(golden, "traced", lambda answer: {"lost": 1, "faults": answer["faults"] + 1}, "stream")


@turns("same-output")
def another_checksum(golden: Golden) -> None:
    """A traced program prints another checksum."""
    path = golden.raw("traced") / "random" / "stdout"
    path.write_text(path.read_text().replace('"checksum": "', '"checksum": "0'))


def _renamed(golden: Golden, old: str, new: str, *arms: str) -> None:
    """A program more in these arms' first trials: its files are those of another."""
    for place, trial in enumerate(golden.trials):
        if trial.arm in arms and trial.repetition == 0 and old in trial.workloads:
            shutil.copytree(trial.path / old, trial.path / new)
            golden.trials[place] = trial.model_copy(update={"workloads": (*trial.workloads, new)})


def _matmul(golden: Golden) -> None:
    """Sorting is called a matrix product too."""
    _renamed(golden, "sort", "matmul-ijk", "untraced", "traced")


@turns("light-stream", "window-16-is-light")
def other_times(golden: Golden) -> None:
    """Streaming and the larger window take ten times as long."""
    _stats(golden, "traced", lambda answer: {"elapsed_ns": 10 * answer["elapsed_ns"]}, "stream")
    _stats(golden, "window-16", lambda answer: {"elapsed_ns": 10 * answer["elapsed_ns"]}, "sort")


@turns("light-matmul", before=_matmul, why=SMALL)
def a_fast_product(golden: Golden) -> None:
    """A matrix product takes a hundredth of its time."""
    _hurried(golden.raw("traced") / "matmul-ijk")


def _hurried(folder: Path) -> None:
    """The program takes a hundredth of its traced time, beyond what its starter took."""
    starter = Program(Trace(folder / "trace")).own().starter_ns
    change_json(folder / "trace.json", lambda answer: {"elapsed_ns": starter + (answer["elapsed_ns"] - starter) // 100})


@turns("light-median")
def programs_that_a_trace_hardly_slows(golden: Golden) -> None:
    """Each traced program takes a hundredth of its time."""
    for path in golden.root.glob("raw/traced/*/*/maps"):
        _hurried(path.parent)


# -- lackey --------------------------------------------------------------------------------------------------


@turns("light-median-wall")
def programs_that_a_trace_hardly_slows_on_the_wall_clock(golden: Golden) -> None:
    """Each traced program takes a hundredth of its time, by the host's clock."""
    for path in golden.raw("traced-wall").glob("*/maps"):
        _hurried(path.parent)


STREAMS = ("stream", "stride")


def _walk(golden: Golden) -> None:
    """By the virtual clock, streaming is called a walk in strides too."""
    _renamed(golden, "stream", "stride", "untraced", "traced", "lackey", "lackey-data")


def _product_and_tree(golden: Golden) -> None:
    """By the virtual clock, sorting is called a matrix product and a search in a tree too."""
    for name in ("matmul-ijk", "btree"):
        _renamed(golden, "sort", name, "untraced", "traced", "lackey")


def _fast(golden: Golden, arm: str, *programs: str) -> None:
    """Lackey takes a thousandth of its time."""
    for program in programs:
        path = golden.raw(arm) / program / "lackey.json"
        change_json(path, lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 1000})


def _other_volumes(golden: Golden, arm: str, *programs: str) -> None:
    """Lackey gives a hundredth of its bytes for streams and strides, and a hundred times as many for the others."""
    for program in programs:
        factor = 0.01 if program in STREAMS else 100
        path = golden.raw(arm) / program / "lackey.json"
        change_json(path, lambda answer, factor=factor: {"bytes": int(factor * answer["bytes"])})  # type: ignore[misc]


@turns("faster-than-an-address-tracer-stream", *(f"faster-than-an-address-tracer-{name}-wall" for name in STREAMS))
def a_fast_lackey(golden: Golden) -> None:
    """Lackey takes a thousandth of its time, by both clocks."""
    _fast(golden, "lackey", "stream")
    _fast(golden, "lackey-wall", *STREAMS)


@turns("faster-than-an-address-tracer-stride", before=_walk, why=SMALL)
def a_fast_lackey_of_a_walk(golden: Golden) -> None:
    """The same of a walk in strides, by the virtual clock."""
    _fast(golden, "lackey", "stride")


@turns(
    *(f"less-data-than-an-address-tracer-{name}" for name in ("stream", "random", "sort")),
    *(f"less-data-than-an-address-tracer-{name}-wall" for name in (*STREAMS, "matmul-ijk", "sort")),
)
def other_volumes(golden: Golden) -> None:
    """Lackey gives a hundredth of its bytes for streams and strides, and a hundred times as many for the others."""
    _other_volumes(golden, "lackey", "stream", "random", "sort")
    _other_volumes(golden, "lackey-wall", *STREAMS, "matmul-ijk", "sort")


@turns("less-data-than-an-address-tracer-stride", before=_walk, why=SMALL)
def another_volume_of_a_walk(golden: Golden) -> None:
    """The same of a walk in strides, by the virtual clock."""
    _other_volumes(golden, "lackey", "stride")


@turns(
    *(f"less-data-than-an-address-tracer-{name}" for name in ("matmul-ijk", "btree")),
    before=_product_and_tree,
    why=SMALL,
)
def other_volumes_of_a_product_and_a_tree(golden: Golden) -> None:
    """The same of a matrix product and a search in a tree, by the virtual clock."""
    _other_volumes(golden, "lackey", "matmul-ijk", "btree")


# -- long runs -----------------------------------------------------------------------------------------------

LONG = ("stream-16", "stream-long")


def _uncounted(golden: Golden, *arms: str) -> None:
    for arm in arms:
        more = {"records": 100, "faults": 100}
        _stats(golden, arm, lambda answer, more=more: {key: answer[key] + n for key, n in more.items()}, "long")  # type: ignore[misc]


@turns("streamed-whole", "long-run")
def visits_that_are_in_no_file(golden: Golden) -> None:
    """The kernel counts a hundred visits more than the files hold or say they left out."""
    _uncounted(golden, *LONG)


@turns("bounded-whole")
def visits_that_are_in_no_bounded_file(golden: Golden) -> None:
    """The same of the bounded file."""
    _uncounted(golden, "stream-bounded")


@turns("long-run-nothing-lost")
def a_full_ring_in_a_long_run(golden: Golden) -> None:
    """The kernel says that it lost a visit."""
    _stats(golden, "stream-long", lambda answer: {"lost": 1, "faults": answer["faults"] + 1}, "long")


@turns("longer-costs-no-more")
def a_visit_that_takes_longer_in_a_long_run(golden: Golden) -> None:
    """The longer program takes twice as long."""
    _stats(golden, "stream-16", lambda answer: {"elapsed_ns": 2 * answer["elapsed_ns"]}, "long")


@turns("streamed-small", also=("streamed-whole",))
def visits_that_take_no_room(golden: Golden) -> None:
    """The kernel counts half as many visits more than the file holds, which takes no byte for them."""
    more = said(golden.raw("stream-16") / "long/trace.json")["records"] // 2
    _stats(golden, "stream-16", lambda answer: {key: answer[key] + more for key in ("records", "faults")}, "long")


@turns("bounded-size", also=("bounded-whole",))
def a_file_without_a_bound(golden: Golden) -> None:
    """The launcher does not keep to its room: it writes on what it writes of the program in the other arm, twice."""
    path = golden.raw("stream-bounded") / "stream"
    path.write_bytes(path.read_bytes() + 2 * (golden.raw("stream-1") / "stream").read_bytes()[HEADER:])


#: Large programs, by the arms' names behind `large-` and `one-`; sqlite's trace, of which no small run is small, is cut
#: to 4,100 records, and the kernel's counts with it.
LARGE = {"matmul": 1, "sort": 1, "graph": 1, "threads": 1, "sqlite": 2}


def _without_last_block(golden: Golden, *names: str) -> None:
    for name in names:
        path = golden.raw(f"large-{name}", LARGE[name]) / "stream"
        raw, at, begins = path.read_bytes(), HEADER, []
        while at < len(raw):
            begins.append(at)
            at += BLOCK.itemsize + int(np.frombuffer(raw, dtype=BLOCK, count=1, offset=at)[0]["bytes"])
        path.write_bytes(raw[: begins[-1]])


@turns(*(f"large-{name}-whole" for name in LARGE))
def large_programs_without_their_last_block(golden: Golden) -> None:
    """The last block of each large program's trace did not reach the host."""
    _without_last_block(golden, *LARGE)


def _other_faults(golden: Golden, window: str, *names: str) -> None:
    """Each fault takes so much longer or shorter that what is below the bound is above it, and the other way round."""
    for name in names:
        arm = f"{window}-{name}"
        plain = said(golden.raw(window, LARGE[name]) / arm / "plain.json")["elapsed_ns"]

        def change(answer: dict[str, Any], plain: int = plain) -> dict[str, Any]:
            traced = answer["elapsed_ns"]
            short = traced < 5 * plain
            return {"elapsed_ns": traced + 60_000 * answer["faults"] if short else plain + (traced - plain) // 1000}

        change_json(golden.raw(arm, LARGE[name]) / arm / "trace.json", change)


@turns(*(f"light-large-{name}" for name in LARGE))
def programs_in_one_page_whose_faults_take_another_time(golden: Golden) -> None:
    """With one page, faults take a thousandth of their time; where they took little, 60 µs more."""
    _other_faults(golden, "one", *LARGE)


@turns(*(f"four-pages-{name}" for name in LARGE))
def programs_in_four_pages_whose_faults_take_another_time(golden: Golden) -> None:
    """The same with four pages."""
    _other_faults(golden, "large", *LARGE)


@turns("streamed-every-visit", "streamed-little-missing", "streamed-nothing-added")
def other_pages_in_a_stream(golden: Golden) -> None:
    """The pages that each block of a streamed trace tells of first have each other's names."""
    path = golden.raw("streamed") / "stream"
    raw = bytearray(path.read_bytes())
    at = HEADER
    while at < len(raw):
        head = np.frombuffer(raw, dtype=BLOCK, count=1, offset=at)[0]
        at += BLOCK.itemsize
        pages = np.frombuffer(raw, dtype="<u8", count=int(head["pages"]), offset=at)
        raw[at : at + pages.nbytes] = pages[::-1].tobytes()
        at += int(head["bytes"])
    path.write_bytes(bytes(raw))


def _thousandfold(golden: Golden, repetition: int, program: str = "*") -> None:
    volumes = ("bytes", "binary_bytes", "packed_bytes")
    for path in golden.raw("lackey-data", repetition).glob(f"{program}/lackey-data.json"):
        told = said(path).items()
        edit(path, **{name: 1000 * value for name, value in told if name.startswith("data_") or name in volumes})


@turns(*(f"less-data-than-packed-lines-{name}" for name in ("stream", "stride", "sort")))
def many_accesses_to_a_visit(golden: Golden) -> None:
    """Between two changes of page, programs access memory a thousand times as often: lackey has as many more lines."""
    _thousandfold(golden, 1)


@turns(*(f"less-data-than-lines-of-data-{name}" for name in ("stream", "sort")))
def many_lines_to_a_visit(golden: Golden) -> None:
    """The same beside the traces that are not packed."""
    _thousandfold(golden, 0)


@turns("less-data-than-lines-of-data-stride", before=_walk, why=SMALL)
def many_lines_to_a_visit_of_a_walk(golden: Golden) -> None:
    """The same of a walk in strides."""
    _thousandfold(golden, 0, "stride")


@turns("page-faults-tell-little", "page-faults-take-no-time", "soft-dirty-tells-little", "soft-dirty-takes-little")
def pages_that_do_not_stay(golden: Golden) -> None:
    """A sort's pages fault a hundred times as often, and each time takes 20 µs; they are found dirty a fourth as often,
    and each time takes 20 ms.
    """

    def change(answer: dict[str, Any], factor: float, ns: int) -> dict[str, Any]:
        records = int(factor * answer["records"])
        return {"records": records, "elapsed_ns": answer["elapsed_ns"] + ns * records}

    for arm, factor, ns in (("faults", 100, 20_000), ("soft-dirty", 0.25, 20_000_000)):
        path = golden.raw(arm, 1) / "sort" / f"{arm}.json"
        change_json(path, lambda answer, factor=factor, ns=ns: change(answer, factor, ns))  # type: ignore[misc]


def _unpatched(golden: Golden) -> None:
    """The untraced programs on a kernel without patches, as fast."""
    _ran(golden, "unpatched", "untraced", {program: program for program in TRACED}, method="stock")
    for path in golden.raw("unpatched").glob("*/plain.json"):
        path.rename(path.with_name("stock.json"))


@turns("off-costs-nothing", "off-slows-none", before=_unpatched, why=UNPATCHED)
def patches_that_cost_while_off(golden: Golden) -> None:
    """Each page fault of the untraced programs takes a microsecond longer than without the patches."""
    for program in TRACED:
        faults = said(golden.raw("traced") / program / "trace.json")["slow"]
        path = golden.raw("untraced") / program / "plain.json"
        change_json(path, lambda answer, faults=faults: {"elapsed_ns": answer["elapsed_ns"] + 1000 * faults})  # type: ignore[misc]


# -- known sequences -----------------------------------------------------------------------------------------

MACHINES = ("known-pti", "known-la57", "known-smp", "known-smp-pti-la57")


@turns("known", *MACHINES)
def an_answer_in_another_order(golden: Golden) -> None:
    """A known program says that it touches its pages in the opposite order."""
    for arm in ("known", *MACHINES):
        (path,) = golden.root.glob(f"raw/{arm}/*/*/known/ping-pong.json")
        change_json(path, lambda answer: {"expected": answer["expected"][::-1]})


def _without_page(golden: Golden, arm: str, case: str, page: int) -> None:
    """The visits to one page of a known sequence are gone from its trace, and the kernel's counts are lower."""
    (path,) = golden.root.glob(f"raw/{arm}/*/*/known/{case}.trace")
    first = int(said(path.with_suffix(".json"))["arena"], 16) >> 12
    _rewrite(path, lambda words: words[words[:, 1] >> np.uint64(12) != np.uint64(first + page)])


@turns("hand-counted", also=("known",))
def a_walk_that_leaves_a_page_out(golden: Golden) -> None:
    """A walk over 64 pages leaves the sixth one out."""
    _without_page(golden, "known", "forward", 5)


@turns("hand-counted-gather")
def a_gather_that_leaves_an_element_out(golden: Golden) -> None:
    """Gathers do not access their last element."""
    _without_page(golden, "known-avx", "gather", 7)


@turns("gathers-are-said")
def a_launcher_that_looks_at_no_instruction(golden: Golden) -> None:
    """The launcher says that a trace with gathers is exact."""
    (path,) = golden.root.glob("raw/known-avx/*/*/known/gather.stats")
    change_json(path, lambda answer: {"gathers": 0, "exact": True})


@turns("second-opinion", "second-opinion-by-hand")
def a_lackey_that_sees_no_stores(golden: Golden) -> None:
    """Lackey's lines of stores are gone."""
    for path in golden.root.glob("raw/lackey-known/*/*/known/*.lackey"):
        path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if line[1] != "S"))


@turns("file-whole-known", "known", "hand-counted")
def a_known_trace_without_its_end(golden: Golden) -> None:
    """The last five records of a known sequence's trace are gone."""
    path = golden.raw("known") / "known" / "known" / "dwell.trace"
    path.write_bytes(path.read_bytes()[: -5 * 24])


@turns("known-all")
def cases_with_more_names(golden: Golden) -> None:
    """The committed trial has 9 of the 39 cases: one of them leaves its files under 30 more names."""
    folder = golden.raw("known") / "known" / "known"
    for number in range(39 - len(list(folder.glob("*.trace")))):
        for path in folder.glob("ping-pong.*"):
            shutil.copy(path, folder / f"copy-{number}{path.suffix}")


# -- prefetching ---------------------------------------------------------------------------------------------


@turns(
    "advice-stream",
    "advice-stride",
    "advice-random",
    also=("every-visit", "little-missing-altogether", "no-visit-at-the-ends-missing", "nothing-added", "dwell-of-most"),
)
def walks_change_places(golden: Golden) -> None:
    """The strided walk's visits come in random order, those of streaming and the random walk page after page."""
    random = np.random.default_rng(1)

    def shuffled(words: Words) -> Words:
        own = _own(words)
        words[own, 1] = words[random.permutation(own), 1]
        return words

    def straight(words: Words) -> Words:
        own = _own(words)
        pages = np.arange(own.size, dtype=np.uint64) + np.uint64(0x10000)
        words[own, 1] = pages << np.uint64(12) | words[own, 1] & np.uint64(0xFFF)
        words[own, 2] = words[own[0], 2]
        return words

    _rewrite(golden.raw("traced") / "stride-page" / "trace", shuffled)
    for program in ("stream", "random"):
        _rewrite(golden.raw("traced") / program / "trace", straight)


# -- advice that is followed ---------------------------------------------------------------------------------

ASIDE = tuple(f"aside-{name}" for name in ("stream", "random", "hashjoin", "sort", "btree", "gzip", "sqlite"))
#: ns that swap space takes for a request.
REQUEST = 100_000


def _read(golden: Golden, arm: str, program: str) -> dict[str, Any]:
    return said(golden.raw(arm) / program / "advised.json")


@turns(
    "advised-resumes-faster",
    "advised-slows-none-down",
    "advised-random",
    "advised-stream",
)
def pages_that_are_fetched_in_vain(golden: Golden) -> None:
    """What is fetched ahead of resumed programs is paged out before they need it: they take as long and have as many
    major faults as by themselves, and 10 µs more for each page that was asked for.
    """
    for program in ASIDE:
        alone = _read(golden, "resumed", program)

        def change(answer: dict[str, Any], alone: dict[str, Any] = alone) -> dict[str, Any]:
            elapsed = alone["elapsed_ns"] + 10_000 * answer["fetched"]
            return {"elapsed_ns": elapsed, "major_faults": alone["major_faults"]}

        change_json(golden.raw("resumed-order") / program / "advised.json", change)


@turns("advised-sqlite", "advised-takes-fewer-faults")
def a_kernel_that_reads_page_by_page(golden: Golden) -> None:
    """By itself, resumed sqlite has a major fault for each of its pages: the kernel does not read eight at once."""

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        more = answer["paged_out"] - answer["major_faults"]
        return {"elapsed_ns": answer["elapsed_ns"] + REQUEST * more, "major_faults": answer["paged_out"]}

    change_json(golden.raw("resumed") / "aside-sqlite" / "advised.json", change)


@turns("order-is-worth-a-trace")
def what_is_needed_first_comes_last(golden: Golden) -> None:
    """Where everything is fetched ahead, resumed programs wait as often as by themselves: what they need comes last."""
    for program in ASIDE:
        waits = REQUEST * _read(golden, "resumed", program)["major_faults"]
        path = golden.raw("resumed-everything") / program / "advised.json"
        change_json(path, lambda answer, waits=waits: {"elapsed_ns": answer["elapsed_ns"] + waits})  # type: ignore[misc]


@turns("trace-says-order", "trace-says-keep", "trace-says-drop")
def walks_and_jumps_that_are_none(golden: Golden) -> None:
    """The program that goes by column visits its pages in random order, and those that scan visit all of theirs one
    after the other, from the lowest to the highest.
    """
    random = np.random.default_rng(1)

    def change(words: Words, order: Callable[[Words], Words]) -> Words:
        own = _own(words)
        words[own, 1] = order(words[own, 1])
        return words

    for program, order in (("short-columns", random.permutation), ("short-keep", np.sort), ("short-drop", np.sort)):
        path = golden.raw("short-traced") / program / "trace"
        _unpacked(path)
        _rewrite(path, lambda words, order=order: change(words, order))  # type: ignore[misc]


@turns("order-of-loops-faster", "order-of-loops-faults")
def as_many_faults_by_row(golden: Golden) -> None:
    """By row, a program with too little memory has as many major faults as by column, and waits for each."""
    faults = _read(golden, "short", "short-columns")["major_faults"]

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        waits = REQUEST * (faults - answer["major_faults"])
        return {"elapsed_ns": answer["elapsed_ns"] + waits, "major_faults": faults}

    change_json(golden.raw("short-followed") / "short-columns" / "advised.json", change)


@turns("keep-faster", "drop-faster")
def nothing_is_waited_for(golden: Golden) -> None:
    """With pages locked, or given up as cold, programs with too little memory have no major fault to wait for."""
    for program in ("short-keep", "short-drop"):
        path = golden.raw("short-followed") / program / "advised.json"
        waits = REQUEST * _read(golden, "short-followed", program)["major_faults"]
        change_json(path, lambda answer, ns=waits: {"elapsed_ns": answer["elapsed_ns"] - ns, "major_faults": 0})  # type: ignore[misc]


@turns("advised-same-answer", "followed-same-answer")
def advice_that_changes_the_answer(golden: Golden) -> None:
    """A resumed sort prints another checksum, and sums by row are not those by column."""
    path = golden.raw("resumed-order") / "aside-sort" / "stdout"
    path.write_text(path.read_text().replace('"checksum": "', '"checksum": "0'))
    path = golden.raw("short-followed") / "short-columns" / "stdout"
    path.write_text(path.read_text().replace('"sum": ', '"sum": 1'))


# -- the neighbour -------------------------------------------------------------------------------------------


def _slower(golden: Golden, share: float, factor: float, arm: str = "neighbour") -> None:
    """This share of the neighbour's chunks beside the traced program takes so many times as long."""
    path = golden.raw(arm) / arm / "stdout"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if line.get("arm") == "b":
            slow = int(share * len(line["chunk_ns"]))
            line["chunk_ns"][:slow] = [int(factor * value) for value in line["chunk_ns"][:slow]]
            line["wall_ns"] = sum(line["chunk_ns"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _calm(golden: Golden) -> None:
    """The host lets every vCPU of the neighbour's run whenever it can."""
    path = golden.raw("neighbour") / "host-sched.json"
    change_json(path, lambda answer: {"vcpus": [vcpu | {"wait_ns": 0} for vcpu in answer["vcpus"]]})


def _alike(golden: Golden) -> None:
    """On a calm host, the neighbour's segments beside the traced program are those beside the untraced one."""
    _calm(golden)
    path = golden.raw("neighbour") / "neighbour" / "stdout"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    segments = [line for line in lines if "segment" in line]
    for one, two in zip(segments[::2], segments[1::2], strict=True):
        alone, beside = (one, two) if one["arm"] == "a" else (two, one)
        beside.update({name: alone[name] for name in ("chunk_ns", "wall_ns", "ran_through")})
        for side in (alone, beside):
            side["wall_ns"] = sum(side["chunk_ns"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _even(golden: Golden) -> None:
    """The same, each chunk of a segment as long as the others: which of them are slow does not matter."""
    _alike(golden)
    path = golden.raw("neighbour") / "neighbour" / "stdout"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "segment" in line:
            line["chunk_ns"] = [line["wall_ns"] // len(line["chunk_ns"])] * len(line["chunk_ns"])
            line["wall_ns"] = sum(line["chunk_ns"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@turns("neighbour", "neighbour-fastest", before=_alike, why=BUSY)
def a_slower_neighbour(golden: Golden) -> None:
    """All chunks of the neighbour's work take a tenth longer beside the traced program."""
    _slower(golden, 1.0, 1.1)


@turns("neighbour", before=_even, why=BUSY)
def a_neighbour_that_is_slower_most_of_the_time(golden: Golden) -> None:
    """Seven chunks of ten take ten times as long beside the traced program; the fastest tenth does not see it."""
    _slower(golden, 0.7, 10.0)


@turns("neighbour-same-cpu")
def a_slower_neighbour_on_the_same_cpu(golden: Golden) -> None:
    """The same on one CPU, all chunks a tenth longer."""
    _slower(golden, 1.0, 1.1, "neighbour-same-cpu")
