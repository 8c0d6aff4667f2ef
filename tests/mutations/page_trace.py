# SPDX-License-Identifier: MIT
"""Mutations of page-trace's golden trials. They are real and cut: programs to their first 3,000 visits, with the
oracle's sequence cut at the same visit and the kernel's counts lowered by what is gone; two known sequences of 37.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from experiments.page_trace.trace.packed import BLOCK
from experiments.page_trace.trace.records import CODE, EXEC, KERNEL, SAME

from harness.experiment.model import load_experiment
from harness.oracle.reader import Oracle
from harness.paths import EXPERIMENTS
from tests.golden import Golden
from tests.mutation import turns

HEADER = 64
TRACED = ("stream", "stride-page", "random", "sort")
_COMPARED = {"missing", "missing_share", "missing_share_worst", "extra", "unexplained", "explained", "difference_share"}
_KINDS = ("dwell_error", "count_error", "count_error_own", "time_error")
_DWELLS = {*_KINDS, *(f"{name}_worst" for name in _KINDS), "traced_error", "lined_up_share", "lined_up_share_least"}
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
    "stream": {*_COMPARED, "unrecorded", "left_behind", "left_out_share", "code_unmapped"},
    "trace": {
        *_COMPARED, *_DWELLS, "visit_ns", "left_out_share", "code_unmapped", "unrecorded", "irregular",
        "advice_coverage", "advice_accuracy", "advice_said",
    },
    "pages.bin": {*_COMPARED, *_DWELLS, "left_out_share"},
    "pages.idx": {*_COMPARED, *_DWELLS, "left_out_share"},
    "pages.clk": _DWELLS,
    "dwell.trace": {"unrecorded", "known_wrong"},
    "fork-copy.trace": {"unrecorded", "known_wrong"},
}  # fmt: skip

Words = npt.NDArray[np.uint64]
Tables = dict[str, pd.DataFrame]


def _change(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    answer = json.loads(path.read_text())
    path.write_text(json.dumps(answer | change(answer)) + "\n")


def _stats(golden: Golden, arm: str, change: Callable[[dict[str, Any]], dict[str, Any]], *programs: str) -> None:
    for program in programs:
        _change(golden.raw(arm) / program / "trace.json", change)


def _rewrite(path: Path, change: Callable[[Words], Words]) -> None:
    """The file's records, changed; the kernel's count of visits follows, as if it had recorded no others."""
    raw = path.read_bytes()
    before = np.frombuffer(raw[HEADER:], dtype="<u8").reshape(-1, 3).copy()
    after = change(before)
    path.write_bytes(raw[:HEADER] + after.astype("<u8").tobytes())
    visits = [int((_types(words) == 0).sum()) for words in (before, after)]
    fewer = visits[0] - visits[1]
    stats = path.with_name("trace.json")
    _change(stats, lambda answer: {"records": answer["records"] - fewer, "faults": answer["faults"] - fewer})


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
    kind="raw",
)
def cut_to_a_twentieth(golden: Golden) -> None:
    """Every trace is cut to the twentieth of its program's visits that comes first; the kernel's counts stay."""
    for program in TRACED:
        path = golden.raw("traced") / program / "trace"
        raw = path.read_bytes()
        own = _own(np.frombuffer(raw[HEADER:], dtype="<u8").reshape(-1, 3))
        path.write_bytes(raw[: HEADER + 24 * (int(own[own.size // 20]) + 1)])


@turns("every-visit", also=("little-missing-altogether",), kind="raw")
def without_a_stretch(golden: Golden) -> None:
    """A hundred visits in the middle of a trace are gone, and the kernel's counts are lowered by as many."""
    path = golden.raw("traced") / "sort" / "trace"
    _rewrite(path, lambda words: np.delete(words, _own(words)[1000:1100], axis=0))


@turns(
    "few-visits-by-the-kernel-differ",
    also=("every-visit", "little-missing-altogether", "no-visit-at-the-ends-missing"),
    kind="raw",
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
    kind="raw",
)
def everything_is_one_instruction(golden: Golden) -> None:
    """All records say that they are of the instruction before, and every third of them is gone."""
    path = golden.raw("traced") / "sort" / "trace"

    def change(words: Words) -> Words:
        own = _own(words)
        words[own[1:], 0] |= np.uint64(SAME)
        return np.delete(words, own[10:-10:3], axis=0)

    _rewrite(path, change)


@turns("nothing-added", also=("every-visit",), kind="raw")
def a_page_that_nobody_touched(golden: Golden) -> None:
    """A visit in the middle of a trace is to another page than the program's."""

    def change(words: Words) -> Words:
        words[_own(words)[1000], 1] = np.uint64(0x7654321 << 12)
        return words

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("code-as-mapped", kind="raw")
def data_is_called_code(golden: Golden) -> None:
    """A trace calls the page that its program visits most often code; the guest's maps do not."""

    def change(words: Words) -> Words:
        pages, times = np.unique(words[_own(words), 1] >> np.uint64(12), return_counts=True)
        code = words[-1:].copy()
        code[0, 0] = words[-1, 0] & ~np.uint64(0xFFF) | np.uint64(CODE << 8)
        code[0, 1] = pages[times.argmax()] << np.uint64(12)
        return np.concatenate([words, code])

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("little-left-out", kind="raw")
def maps_call_data_code(golden: Golden) -> None:
    """By the guest's maps, the memory of a program can be executed."""
    path = golden.raw("traced") / "random" / "maps"
    lines = path.read_text().splitlines()
    path.write_text("".join(line.replace("rw-p", "rwxp", "[" not in line) + "\n" for line in lines))


@turns(
    "every-visit",
    also=("little-missing-altogether", "nothing-added", "no-visit-at-the-ends-missing", "dwell-of-most"),
    kind="raw",
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


@turns("nothing-added", also=("every-visit",), kind="raw")
def a_stretch_twice(golden: Golden) -> None:
    """A hundred visits in the middle of a trace are there twice, and the kernel's counts are higher by as many."""

    def change(words: Words) -> Words:
        own = _own(words)
        return np.insert(words, own[1100], words[own[1000:1100]], axis=0)

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("every-visit", also=("little-missing-altogether", "nothing-added"), kind="raw")
def a_stretch_backwards(golden: Golden) -> None:
    """Two hundred visits in the middle of a trace are in the opposite order."""

    def change(words: Words) -> Words:
        own = _own(words)[1000:1200]
        words[own, 1] = words[own[::-1], 1]
        return words

    _rewrite(golden.raw("traced") / "sort" / "trace", change)


@turns("nothing-blind", kind="raw")
def executable_data(golden: Golden) -> None:
    """The kernel says that a task has data on pages that can be executed."""
    _stats(golden, "traced", lambda answer: {"unfit": 1}, "sort")


# -- time on a page ------------------------------------------------------------------------------------------


@turns("dwell", kind="raw")
def a_fast_clock(golden: Golden) -> None:
    """A trace's times run twice as fast."""

    def change(words: Words) -> Words:
        words[:, 0] = (words[:, 0] >> np.uint64(12)) * np.uint64(2) << np.uint64(12) | words[:, 0] & np.uint64(0xFFF)
        return words

    _rewrite(golden.raw("traced") / "stream" / "trace", change)


@turns("counts", "counts-own-rate", "corrected-time")
def programs_that_access_evenly(tables: Tables) -> None:
    """Estimates of accesses and of whole times are wrong by a twentieth."""
    tables["dwells"][["count_error", "count_error_own", "time_error"]] = 0.05


@turns("dwell-of-most")
def visits_without_a_duration(tables: Tables) -> None:
    """Of one program, half of the visits cannot be lined up with the undisturbed ones."""
    rows = tables["dwells"]["workload"] == "sort"
    tables["dwells"].loc[rows, "compared"] = tables["dwells"].loc[rows, "visits"] // 2


def _copied(golden: Golden, arm: str, *copies: str) -> None:
    """Trials of other arms like that of `arm`."""
    trial = next(trial for trial in golden.trials if trial.arm == arm)
    for copy in copies:
        shutil.copytree(golden.raw(arm), golden.raw(copy))
        golden.trials.append(trial.model_copy(update={"arm": copy, "path": golden.raw(copy)}))


def _windows(golden: Golden) -> None:
    """The other windows lose what that of sixteen pages does."""
    _copied(golden, "window-16", "window-2", "window-4")


@turns("window-2-loses", "window-16-loses", kind="raw", before=_windows)
def windows_that_miss_nothing(golden: Golden) -> None:
    """Traces of larger windows have what the oracle has, written as if each access were a record."""
    for arm in ("window-2", "window-16"):
        folder = golden.raw(arm)
        pages = Oracle(folder).pages(0).runs()["page"].to_numpy()

        def change(words: Words, pages: Words = pages) -> Words:
            own = _own(words)
            last = np.flatnonzero(_types(words) == EXEC)[-1]
            visits = np.repeat(words[own[:1]], pages.size, axis=0)
            visits[:, 1] = pages << np.uint64(12) | visits[:, 1] & np.uint64(0xFFF)
            return np.concatenate([words[: last + 1], visits])

        _rewrite(folder / "sort" / "trace", change)


# -- the kernel's counts, outputs, times ---------------------------------------------------------------------


def _many_steps(golden: Golden) -> None:
    """As many stepped instructions as in the twelve programs together."""
    _stats(golden, "traced", lambda answer: {"steps": 8_000}, "stream")


@turns("one-page-is-enough", "several-pages-at-once", kind="raw", before=_many_steps)
def no_instruction_needs_two_pages(golden: Golden) -> None:
    """The kernel counts no instruction that it had to step over."""
    _stats(golden, "traced", lambda answer: {"steps": 0}, *TRACED)


@turns("balance", kind="raw")
def a_fault_too_many(golden: Golden) -> None:
    """The kernel counts one fault more than its kinds give."""
    _stats(golden, "traced", lambda answer: {"faults": answer["faults"] + 1}, "sort")


@turns("balance-window", kind="raw", before=_windows)
def a_fault_too_many_in_a_window(golden: Golden) -> None:
    """The same with a window of four pages."""
    _stats(golden, "window-4", lambda answer: {"faults": answer["faults"] - 1}, "sort")


@turns("nothing-lost", kind="raw")
def a_full_ring(golden: Golden) -> None:
    """The kernel says that it lost a visit."""
    _stats(golden, "traced", lambda answer: {"lost": 1, "faults": answer["faults"] + 1}, "stream")


@turns("same-output", kind="raw")
def another_checksum(golden: Golden) -> None:
    """A traced program prints another checksum."""
    path = golden.raw("traced") / "random" / "stdout"
    path.write_text(path.read_text().replace('"checksum": "', '"checksum": "0'))


def _renamed(golden: Golden, old: str, new: str, *arms: str) -> None:
    """A program more in these arms: its files are those of another."""
    for place, trial in enumerate(golden.trials):
        if trial.arm in arms:
            shutil.copytree(trial.path / old, trial.path / new)
            golden.trials[place] = trial.model_copy(update={"workloads": (*trial.workloads, new)})


def _matmul(golden: Golden) -> None:
    """Sorting is called a matrix product too."""
    _renamed(golden, "sort", "matmul-ijk", "untraced", "traced")


@turns("light-stream", "light-matmul", "window-16-is-light", kind="raw", before=_matmul)
def other_times(golden: Golden) -> None:
    """Streaming and the larger window take ten times as long, a matrix product a hundredth of its time."""
    _stats(golden, "traced", lambda answer: {"elapsed_ns": 10 * answer["elapsed_ns"]}, "stream")
    _stats(golden, "traced", lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 100}, "matmul-ijk")
    _stats(golden, "window-16", lambda answer: {"elapsed_ns": 10 * answer["elapsed_ns"]}, "sort")


@turns("light-median", kind="raw")
def programs_that_a_trace_hardly_slows(golden: Golden) -> None:
    """Each traced program takes a hundredth of its time."""
    _stats(golden, "traced", lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 100}, *TRACED)


# -- lackey --------------------------------------------------------------------------------------------------


def _calm(golden: Golden) -> None:
    """The host lets every vCPU run whenever it can."""
    for path in golden.root.glob("raw/*/*/host-sched.json"):
        _change(path, lambda answer: {"vcpus": [vcpu | {"wait_ns": 0} for vcpu in answer["vcpus"]]})


def _heavy(golden: Golden) -> None:
    """On a calm host, each traced program takes ten times as long: two programs of a busy one tell nothing."""
    _calm(golden)
    for program in ("stream", "sort"):
        untraced = json.loads((golden.raw("untraced-wall") / program / "plain.json").read_text())["elapsed_ns"]
        _stats(golden, "traced-wall", lambda _, ns=untraced: {"elapsed_ns": 10 * ns}, program)  # type: ignore[misc]


@turns("light-median-wall", kind="raw", before=_heavy)
def programs_that_a_trace_hardly_slows_on_the_wall_clock(golden: Golden) -> None:
    """Each traced program takes a hundredth of its time, by the host's clock."""
    for program in sorted(path.parent.name for path in golden.raw("traced-wall").glob("*/trace.json")):
        _stats(golden, "traced-wall", lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 100}, program)


WALL = ("untraced-wall", "traced-wall", "lackey-wall")


def _walks(golden: Golden) -> None:
    """Streaming is called a walk in strides too, and sorting a matrix product."""
    _renamed(golden, "stream", "stride", *WALL)
    _renamed(golden, "sort", "matmul-ijk", *WALL)


def _calm_walks(golden: Golden) -> None:
    """The same, on a host that lets every vCPU run."""
    _calm(golden)
    _walks(golden)


@turns(
    "faster-than-an-address-tracer-stream-wall",
    "faster-than-an-address-tracer-stride-wall",
    kind="raw",
    before=_calm_walks,
)
def a_fast_lackey(golden: Golden) -> None:
    """Lackey takes a thousandth of its time, by the host's clock."""
    for program in ("stream", "stride"):
        path = golden.raw("lackey-wall") / program / "lackey.json"
        _change(path, lambda answer: {"elapsed_ns": answer["elapsed_ns"] // 1000})


@turns(
    "less-data-than-an-address-tracer-stream-wall",
    "less-data-than-an-address-tracer-stride-wall",
    "less-data-than-an-address-tracer-matmul-ijk-wall",
    "less-data-than-an-address-tracer-sort-wall",
    kind="raw",
    before=_walks,
)
def other_volumes(golden: Golden) -> None:
    """Lackey gives a hundredth of its bytes for streams and strides, and a hundred times as many for the others."""
    for program in ("stream", "stride", "matmul-ijk", "sort"):
        path = golden.raw("lackey-wall") / program / "lackey.json"
        factor = 0.01 if program.startswith("str") else 100
        _change(path, lambda answer, factor=factor: {"bytes": int(factor * answer["bytes"])})  # type: ignore[misc]


LACKEY = ("stream", "stride", "random", "matmul-ijk", "sort", "btree")


def _lackey(tables: Tables) -> None:
    """Lackey by the virtual clock, which only the full profile runs: 200 times the bytes, 100 times the time."""
    runs, trials = tables["runs"], tables["trials"]
    own = runs["arm"] == "traced"
    stream, new = runs[own & (runs["workload"] == "stream")], ("stride", "btree", "matmul-ijk")
    traced = [stream.assign(workload=name) for name in new]
    lackey = [
        stream.assign(arm="lackey", method="lackey", workload=name, bytes=200 * size, seconds=100 * stream["seconds"])
        for name in LACKEY
        for size in [stream["bytes"] if name in new else runs.loc[own & (runs["workload"] == name), "bytes"].max()]
    ]
    tables["runs"] = pd.concat([runs, *traced, *lackey], ignore_index=True)
    lackeys = trials[trials["arm"] == "traced"].assign(arm="lackey", params="method=lackey")
    tables["trials"] = pd.concat([trials, lackeys], ignore_index=True)


@turns(
    "faster-than-an-address-tracer-stream",
    "faster-than-an-address-tracer-stride",
    *(f"less-data-than-an-address-tracer-{name}" for name in LACKEY),
    before=_lackey,
)
def a_lackey_as_light_as_a_trace(tables: Tables) -> None:
    """Lackey takes a fiftieth of its time and gives a fiftieth of its bytes, by the virtual clock."""
    runs = tables["runs"]
    runs.loc[runs["arm"] == "lackey", ["seconds", "bytes"]] /= 50


# -- long runs -----------------------------------------------------------------------------------------------

LONG = ("stream-16", "stream-bounded", "stream-long")


def _long(golden: Golden) -> None:
    """Trials of the other lengths are like that of the shortest."""
    _copied(golden, "stream-1", *LONG)


@turns("streamed-whole", "bounded-whole", "long-run", kind="raw", before=_long)
def visits_that_are_in_no_file(golden: Golden) -> None:
    """The kernel counts a hundred visits more than the files hold or say they left out."""
    for arm in LONG:
        more = {"records": 100, "faults": 100}
        _stats(golden, arm, lambda answer, more=more: {key: answer[key] + n for key, n in more.items()}, "long")  # type: ignore[misc]


@turns("long-run-nothing-lost", kind="raw", before=_long)
def a_full_ring_in_a_long_run(golden: Golden) -> None:
    """The kernel says that it lost a visit."""
    _stats(golden, "stream-long", lambda answer: {"lost": 1, "faults": answer["faults"] + 1}, "long")


@turns("longer-costs-no-more", kind="raw", before=_long)
def a_visit_that_takes_longer_in_a_long_run(golden: Golden) -> None:
    """The longer program takes twice as long."""
    _stats(golden, "stream-16", lambda answer: {"elapsed_ns": 2 * answer["elapsed_ns"]}, "long")


def _streams(tables: Tables, *names: str) -> None:
    """Trials like that of the shortest program, of other arms; where there is one, the program is called as the arm."""
    for arm in names:
        for name in ("runs", "traces"):
            rows = tables[name][tables[name]["arm"] == "stream-1"].assign(arm=arm)
            if arm.startswith("large"):
                rows["workload"] = arm
            tables[name] = pd.concat([tables[name], rows], ignore_index=True)
        _by_the_virtual_clock(tables, arm, "stream")


def _longer(tables: Tables) -> None:
    """Trials of two other lengths."""
    _streams(tables, *LONG[:2])


@turns("streamed-small", "bounded-size", before=_longer)
def larger_files(tables: Tables) -> None:
    """The files have three times as many bytes."""
    tables["traces"].loc[tables["traces"]["arm"].isin(LONG[:2]), "file_bytes"] *= 3


LARGE = tuple(f"large-{name}" for name in ("matmul", "sort", "graph", "threads", "sqlite"))


def _large(tables: Tables) -> None:
    """Large programs: traced they take twice as long."""
    _streams(tables, *LARGE)
    runs = tables["runs"]
    large = runs[runs["arm"].isin(LARGE)]
    plain = large.assign(arm="large", method="plain", seconds=large["seconds"] / 2)
    tables["runs"] = pd.concat([runs, plain], ignore_index=True)
    _by_the_virtual_clock(tables, "large", "plain")


@turns(*(f"{arm}-whole" for arm in LARGE), before=_large)
def large_programs_that_lose_a_visit(tables: Tables) -> None:
    """Of each large program, the ring lost one visit."""
    tables["traces"].loc[tables["traces"]["arm"].isin(LARGE), "lost"] = 1


@turns(*(f"light-{arm}" for arm in LARGE), before=_large)
def large_programs_that_take_longer(tables: Tables) -> None:
    """Each large program takes ten times as long when it is traced."""
    tables["runs"].loc[tables["runs"]["arm"].isin(LARGE), "seconds"] *= 10


@turns("streamed-every-visit", "streamed-little-missing", "streamed-nothing-added", kind="raw")
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


def _data(tables: Tables) -> None:
    """Lackey's lines of data by the virtual clock: a hundredth and more is a page trace."""
    runs = tables["runs"]
    stream = runs[(runs["arm"] == "traced") & (runs["workload"] == "stream")]
    names = ("stream", "stride", "sort")
    size = float(runs.loc[(runs["arm"] == "traced") & runs["workload"].isin(names), "bytes"].max())
    more = [stream.assign(arm="lackey-data", method="lackey-data", workload=name, bytes=10 * size) for name in names]
    tables["runs"] = pd.concat([runs, stream.assign(workload="stride"), *more], ignore_index=True)
    _by_the_virtual_clock(tables, "lackey-data")


def _by_the_virtual_clock(tables: Tables, arm: str, method: str | None = None) -> None:
    """A trial of an arm, by default one that is called as its method."""
    trials = tables["trials"]
    made = trials[trials["arm"] == "traced"].assign(arm=arm, params=f"method={method or arm}")
    tables["trials"] = pd.concat([trials, made], ignore_index=True)


@turns(*(f"less-data-than-lines-of-data-{name}" for name in ("stream", "stride", "sort")), before=_data)
def more_lines_of_data(tables: Tables) -> None:
    """Lackey gives a thousand times the bytes of a page trace in lines of data."""
    runs = tables["runs"]
    runs.loc[runs["arm"] == "lackey-data", "bytes"] *= 1000


def _packed(tables: Tables) -> None:
    """The same, and both packed: a tenth is a page trace."""
    _data(tables)
    runs = tables["runs"]
    data = runs["arm"] == "lackey-data"
    packed = runs[data].assign(arm="packed", method="packed")
    for name in ("binary_bytes", "packed_bytes"):
        runs.loc[data, name] = 10 * runs.loc[data, "bytes"]
    tables["runs"] = pd.concat([runs, packed], ignore_index=True)
    _by_the_virtual_clock(tables, "packed")


@turns(*(f"less-data-than-packed-lines-{name}" for name in ("stream", "stride", "sort")), before=_packed)
def larger_packed_lines(tables: Tables) -> None:
    """Lackey's accesses to data, packed, take a thousand times as much."""
    runs = tables["runs"]
    runs.loc[runs["arm"] == "lackey-data", "packed_bytes"] *= 1000


RIVALS = ("faults", "soft-dirty")


def _rivals(tables: Tables) -> None:
    """A sort by other methods: a thousandth of the visits, in hardly more time than without."""
    runs = tables["runs"]
    plain = runs[(runs["arm"] == "untraced") & (runs["workload"] == "sort")]
    for arm, records in (("packed", 1e6), *((arm, 1e3) for arm in RIVALS)):
        run = plain.assign(arm=arm, method=arm, records=records, seconds=1.01 * plain["seconds"])
        tables["runs"] = pd.concat([tables["runs"], run], ignore_index=True)
        _by_the_virtual_clock(tables, arm)


@turns("page-faults-tell-little", "soft-dirty-tells-little", before=_rivals)
def rivals_that_tell_more(tables: Tables) -> None:
    """They tell a hundred times as much."""
    runs = tables["runs"]
    runs.loc[runs["arm"].isin(RIVALS), "records"] *= 100


@turns("page-faults-take-no-time", "soft-dirty-takes-little", before=_rivals)
def rivals_that_take_longer(tables: Tables) -> None:
    """They take three times as long."""
    runs = tables["runs"]
    runs.loc[runs["arm"].isin(RIVALS), "seconds"] *= 3


def _unpatched(tables: Tables) -> None:
    """The untraced programs on a kernel without patches, as fast."""
    runs = tables["runs"]
    plain = runs[runs["arm"] == "untraced"]
    tables["runs"] = pd.concat([runs, plain.assign(arm="unpatched", method="stock")], ignore_index=True)
    _by_the_virtual_clock(tables, "unpatched", "stock")


@turns("off-costs-nothing", "off-slows-none", before=_unpatched)
def patches_that_cost_while_off(tables: Tables) -> None:
    """Untraced programs take a fiftieth longer than without the patches."""
    runs = tables["runs"]
    runs.loc[runs["arm"] == "untraced", "seconds"] *= 1.02


# -- known sequences -----------------------------------------------------------------------------------------

MACHINES = ("known-pti", "known-la57", "known-smp", "known-smp-pti-la57")


def _machines(golden: Golden) -> None:
    """Trials like that of the arm known on the other machines."""
    _copied(golden, "known", *MACHINES)


@turns("known", *MACHINES, kind="raw", before=_machines)
def an_answer_in_another_order(golden: Golden) -> None:
    """A known program says that it touches its pages in the opposite order."""
    for arm in ("known", *MACHINES):
        path = golden.raw(arm) / "known" / "known" / "dwell.json"
        _change(path, lambda answer: {"expected": answer["expected"][::-1]})


@turns("file-whole-known", kind="raw")
def a_known_trace_without_its_end(golden: Golden) -> None:
    """The last thirty records of a known sequence's trace are gone."""
    path = golden.raw("known") / "known" / "known" / "dwell.trace"
    path.write_bytes(path.read_bytes()[: -30 * 24])


def _all_cases(tables: Tables) -> None:
    """As many known sequences as pageknown has."""
    known = tables["known"]
    tables["known"] = known.iloc[[0] * 37].reset_index(drop=True)


@turns("known-all", before=_all_cases)
def a_case_without_files(tables: Tables) -> None:
    """One known sequence left no files."""
    tables["known"] = tables["known"].iloc[1:]


# -- prefetching ---------------------------------------------------------------------------------------------


@turns("advice-stream")
def streams_are_foreseen(tables: Tables) -> None:
    """Half of the visits of streaming are foreseen."""
    advice = tables["advice"]
    advice.loc[advice["workload"] == "stream", "coverage"] = 0.5


@turns(
    "advice-stride",
    "advice-random",
    also=("every-visit", "little-missing-altogether", "no-visit-at-the-ends-missing", "nothing-added", "dwell-of-most"),
    kind="raw",
)
def walks_change_places(golden: Golden) -> None:
    """The strided walk's visits come in random order, the random walk's visits one page after the other."""
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
    _rewrite(golden.raw("traced") / "random" / "trace", straight)


# -- advice that is followed ---------------------------------------------------------------------------------

#: By arm: the advice, seconds, major faults.
ADVISED = {
    "resumed": ("none", 1.0, 1000),
    "resumed-everything": ("everything", 0.15, 20),
    "resumed-order": ("order", 0.1, 10),
    "short": ("none", 1.0, 1000),
    "short-followed": ("followed", 0.1, 10),
}


def _advised(tables: Tables) -> None:
    """Trials of programs that memory is short for, in which each piece of advice makes a program ten times as fast."""
    trials, rows = [tables["trials"]], []
    experiment = load_experiment(EXPERIMENTS / "page-trace")
    for arm, (advice, seconds, faults) in ADVISED.items():
        like = tables["trials"][tables["trials"]["arm"] == "traced"]
        trials.append(like.assign(arm=arm, params=f"method=advised advice={advice}"))
        told = {"advice": advice, "seconds": seconds, "major_faults": faults, "paged_out": 500, "fetched": 400}
        key = {"arm": arm, "trial": 0, "exit_status": 0.0, "output": "same"}
        rows += [told | key | {"workload": workload} for workload in experiment.arms[arm].workloads]
    tables["trials"] = pd.concat(trials, ignore_index=True)
    tables["advised"] = pd.DataFrame(rows)[tables["advised"].columns]


def _where(tables: Tables, arm: str, **values: object) -> None:
    rows = tables["advised"]["arm"] == arm
    for name, value in values.items():
        tables["advised"].loc[rows, name] = value


@turns(
    "advised-resumes-faster",
    "advised-slows-none-down",
    "advised-random",
    "advised-stream",
    "advised-sqlite",
    "order-is-worth-a-trace",
    before=_advised,
)
def programs_that_fetching_ahead_slows_down(tables: Tables) -> None:
    """Resumed programs take a tenth longer with their pages fetched ahead than without."""
    _where(tables, "resumed-order", seconds=1.1)


@turns("advised-takes-fewer-faults", before=_advised)
def as_many_faults_when_resumed(tables: Tables) -> None:
    """Resumed programs have as many major faults with their pages fetched ahead as without."""
    _where(tables, "resumed-order", major_faults=1000)


@turns("trace-says-order", "trace-says-keep", "trace-says-drop")
def a_report_that_says_the_opposite(tables: Tables) -> None:
    """The report advises to drop what it advised to keep or to go through in another order."""
    said = tables["said"]
    said.loc[said["kind"].isin(["order", "keep"]), "kind"] = "drop"


@turns("order-of-loops-faster", "keep-faster", "drop-faster", before=_advised)
def programs_that_advice_makes_no_faster(tables: Tables) -> None:
    """Programs with too little memory take as long with advice followed as without."""
    _where(tables, "short-followed", seconds=1.0)


@turns("order-of-loops-faults", before=_advised)
def as_many_faults_by_row(tables: Tables) -> None:
    """Programs with too little memory have as many major faults with advice followed as without."""
    _where(tables, "short-followed", major_faults=1000)


@turns("advised-same-answer", "followed-same-answer", before=_advised)
def advice_that_changes_the_answer(tables: Tables) -> None:
    """Programs that follow advice print something else."""
    _where(tables, "resumed-order", output="other")
    _where(tables, "short-followed", output="other")


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


@turns("neighbour", "neighbour-fastest", kind="raw", before=_alike)
def a_slower_neighbour(golden: Golden) -> None:
    """All chunks of the neighbour's work take a tenth longer beside the traced program."""
    _slower(golden, 1.0, 1.1)


@turns("neighbour", kind="raw", before=_even)
def a_neighbour_that_is_slower_most_of_the_time(golden: Golden) -> None:
    """Seven chunks of ten take ten times as long beside the traced program; the fastest tenth does not see it."""
    _slower(golden, 0.7, 10.0)


@turns("neighbour-same-cpu", kind="raw")
def a_slower_neighbour_on_the_same_cpu(golden: Golden) -> None:
    """The same on one CPU, all chunks a tenth longer."""
    _slower(golden, 1.0, 1.1, "neighbour-same-cpu")
