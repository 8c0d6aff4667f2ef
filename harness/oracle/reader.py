# SPDX-License-Identifier: MIT
"""Reading what the plugin wrote: a checked report, and tables by function, page and sample.

Nothing is returned of an oracle whose self-check does not hold, or of a mode that is absent: both raise
OracleAbsent with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import RunError
from harness.machine.spec import PLUGIN_FOLDER
from harness.measure.symbols import SymbolMap
from harness.oracle.places import CONTEXTS, USER

REPORT = "oracle.json"
#: krepro-roi's known work (images/guest/krepro-roi.c): dec and jnz; the accesses and the one that tells the place.
CHECK_INSTRUCTIONS = 200_000
CHECK_ACCESSES = 4097
CHECK_TOLERANCE = 1e-4
CHECK_COUNTERS = (0.99, 1.25)
WORKLOAD, LAP, WINDOW = 0, 2, 3

FUNCTION = np.dtype(
    [("region", "<u4"), ("kind", "<u2"), ("context", "<u2"), ("address", "<u8"), ("n", "<u8"), ("entries", "<u8")]
)
_LOCK = np.dtype(
    [("region", "<u4"), ("kind", "<u4"), ("target", "<u8"), ("site", "<u8"), ("count", "<u8"), ("lock", "<u8")]
)
_SAMPLE = np.dtype([("ns", "<i8"), ("address", "<u8"), ("about", "<u8")])


class OracleAbsent(RunError):
    """A mode has nothing to report, and why."""


def asked_for(trial: Path) -> bool:
    """Whether an oracle was to run in this trial, of which this is the raw folder; its files may be damaged."""
    return (trial / PLUGIN_FOLDER).is_dir()


#: As the plugin counts. A check's count may be near 2**64: a difference below zero, if it changed its CPU.
Count = Annotated[int, Field(ge=0, lt=1 << 64)]
#: Of words and instructions, which numpy takes in 64 bits with a sign.
Position = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Marks(_Read):
    """What the plugin saw of krepro-roi's marks."""

    mismatched: Count
    from_user: bool
    workloads: Count
    laps: Count
    windows: Count = 0


class FunctionsReport(_Read):
    """How the counting went; `check_instructions` is what was counted of the known loop, before each workload."""

    used: Count
    overflow: bool
    changes: Count | None = None  # of older sets: it counted on until QEMU stopped, which QEMU 10 does when it likes
    lost_frames: Count
    check_instructions: list[Count]


class PagesReport(_Read):
    """How the recording went; `spans` are first word, last word and instructions at the begin of each selection."""

    accesses: Count
    words: Count
    pages: Count
    lost_spans: Count
    check_accesses: list[Count]
    check_wrong: Count
    spans: list[tuple[Position, Position, Position]]


class LocksReport(_Read):
    """Distinct calls (function, lock, site), calls that were told by these, and calls that were not."""

    calls: Count
    told: Count
    untold: Count


class SamplerReport(_Read):
    samples: Count


class NmiReport(_Read):
    sent: Count
    refused: Count


class CountersReport(_Read):
    """Published counts: of the check before each workload, and of each CPU at the end."""

    check_instructions: list[Count]
    instructions: list[Count]


class PathsReport(_Read):
    """Threads are (who made it, its last image) by number, images hexadecimal names; 0 is none. See plugin/paths.c."""

    program: Count
    lost_calls: Count
    lost_code: Count
    threads: list[tuple[Count, Count]]
    images: list[str]


class OracleReport(_Read):
    """oracle.json: `modes` maps each mode asked for to the reason why it is absent, or to None."""

    format: Count
    modes: dict[str, str | None]
    marks: Marks
    functions: FunctionsReport | None = None
    paths: PathsReport | None = None
    pages: PagesReport | None = None
    counters: CountersReport | None = None
    locks: LocksReport | None = None
    sampler: SamplerReport | None = None
    nmi: NmiReport | None = None
    shift: Annotated[int, Field(ge=-1, le=63)]
    seed: Count
    period_ns: Count

    def absent(self, mode: str) -> str | None:
        """Why `mode` reports nothing, or None: not asked for, not possible with this QEMU, self-check failed."""
        if mode not in self.modes:
            return f"the oracle did not run in mode {mode}"
        if (reason := self.modes[mode] or self._marks_wrong()) is not None:
            return reason
        wrong = None
        if mode == "functions" and self.functions is not None:
            wrong = self._functions_wrong(self.functions)
        elif mode == "pages" and self.pages is not None:
            wrong = self._pages_wrong(self.pages)
        elif mode == "counters" and self.counters is not None:
            wrong = self._counters_wrong(self.counters)
        elif mode == "locks" and self.locks is None:
            wrong = "an older oracle ran, which did not tell locks apart"
        return wrong

    def _marks_wrong(self) -> str | None:
        if self.marks.mismatched or not self.marks.from_user:
            return "self-check: the marks of the region of interest came in no sensible order"
        return None if self.marks.workloads else "self-check: no region of interest was marked"

    @staticmethod
    def _functions_wrong(report: FunctionsReport) -> str | None:
        for counted in report.check_instructions or [0]:
            if abs(counted - CHECK_INSTRUCTIONS) > CHECK_TOLERANCE * CHECK_INSTRUCTIONS:
                return f"self-check: {CHECK_INSTRUCTIONS} known instructions were counted as {counted}"
        if report.overflow:
            return "self-check: the guest ran more functions than the plugin has counters"
        if report.lost_frames:
            return f"self-check: the context was lost {report.lost_frames} times"
        return None

    @staticmethod
    def _counters_wrong(report: CountersReport) -> str | None:
        # Whole blocks, and the interrupts that came meanwhile.
        low, high = (factor * CHECK_INSTRUCTIONS for factor in CHECK_COUNTERS)
        for counted in report.check_instructions or [0]:
            if not low <= counted <= high:
                return f"self-check: {CHECK_INSTRUCTIONS} known instructions were published as {counted}"
        return None

    @staticmethod
    def _pages_wrong(report: PagesReport) -> str | None:
        for seen in report.check_accesses or [0]:
            if seen != CHECK_ACCESSES:
                return f"self-check: of {CHECK_ACCESSES} known accesses {seen} were seen"
        if report.check_wrong:
            return f"self-check: {report.check_wrong} of the known accesses were seen wrong"
        return f"{report.lost_spans} selections were lost" if report.lost_spans else None


class Oracle:
    """The oracle's files of one trial."""

    def __init__(self, trial: Path) -> None:
        """`trial`: a trial's raw folder. OracleAbsent when it has no oracle, RunError when its report is damaged."""
        self.folder = trial / PLUGIN_FOLDER
        try:
            text = (self.folder / REPORT).read_bytes()
        except OSError as error:
            raise OracleAbsent("no oracle ran, or it did not end", where=str(self.folder)) from error
        try:
            self.report = OracleReport.model_validate_json(text)
        except ValidationError as error:
            raise RunError(
                f"not an oracle's report: {error.errors()[0]['msg']}", where=str(self.folder / REPORT)
            ) from error

    def need(self, mode: str) -> None:
        """OracleAbsent with the reason when `mode` has nothing to report."""
        reason = self.report.absent(mode)
        if reason is not None:
            raise OracleAbsent(reason, where=str(self.folder))

    def functions(self, symbols: SymbolMap, *, kind: int = WORKLOAD) -> pd.DataFrame:
        """Exact counts, one row per region, function and context that executed anything.

        region        int64   0 is the first region of this kind: the first workload
        context       object  task, interrupt, softirq, exception, nmi, user
        function      object  name; "(user)", and "(outside)" for kernel code outside _stext.._etext
        address       uint64  first byte; 0 for the last two
        instructions  int64   executed
        entries       int64   executions of the first instruction, but for those after a jump of its own
        """
        self.need("functions")
        data = self._records("functions.bin", FUNCTION)
        self._plausible("functions.bin", (data["context"] < len(CONTEXTS)) & (data["kind"] <= WINDOW))
        data = data[data["kind"] == kind]
        index = symbols.at(data["address"])
        names = np.where(index >= 0, symbols.name[np.maximum(index, 0)], "(outside)").astype(object)
        names[data["context"] == USER] = "(user)"
        return pd.DataFrame(
            {
                "region": data["region"].astype(np.int64),
                "context": np.array(CONTEXTS, dtype=object)[data["context"]],
                "function": names,
                "address": data["address"],
                "instructions": data["n"].astype(np.int64),
                "entries": data["entries"].astype(np.int64),
            }
        )

    def samples(self, symbols: SymbolMap) -> pd.DataFrame:
        """The ideal profiler's samples in workloads and collectors' windows, in time order.

        region int64, window int64, lap int64 (each -1: in none), ns int64 (virtual time), address uint64, function
        object, user bool, nmi bool (in an NMI), interrupts bool (they were on), idle bool (the CPU was halted)
        """
        self.need("sampler")
        data = self._records("samples.bin", _SAMPLE)
        about = data["about"]
        context = (about >> np.uint64(32)) & np.uint64(0xFF)
        self._plausible("samples.bin", context < len(CONTEXTS))
        if self.report.sampler is not None and data.size != self.report.sampler.samples:
            raise RunError(
                f"has {data.size} samples, not {self.report.sampler.samples}", where=str(self.folder / "samples.bin")
            )
        user = context == USER
        index = symbols.at(data["address"])
        names = np.where(index >= 0, symbols.name[np.maximum(index, 0)], "(outside)").astype(object)
        names[user] = "(user)"
        return pd.DataFrame(
            {
                "region": (about & np.uint64(0xFFFF)).astype(np.int64) - 1,
                "window": (about >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64) - 1,
                "lap": (about >> np.uint64(42)).astype(np.int64) - 1,
                "ns": data["ns"],
                "address": data["address"],
                "function": names,
                "user": user,
                "nmi": context == CONTEXTS.index("nmi"),
                "interrupts": (about >> np.uint64(40) & np.uint64(1)).astype(bool),
                "idle": (about >> np.uint64(41) & np.uint64(1)).astype(bool),
            }
        )

    def locks(self, symbols: SymbolMap, *, kind: int = WORKLOAD) -> pd.DataFrame:
        """Calls of the counted functions by lock and call site.

        region  int64   as in `functions`
        target  object  the function that was called
        lock    uint64  its first argument
        caller  object  function that the call returns to; "(outside)" for modules
        site    uint64  address that it returns to
        count   int64   calls

        Calls that were not told apart are rows with lock 0, site 0 and no caller: counts by target are exact always,
        those by lock and site when there is no such row. `report.locks` has both sums.
        """
        self.need("locks")
        data = self._records("locks.bin", _LOCK)
        counted, report = int(data["count"].sum()), self.report.locks
        if report is not None and counted != report.told + report.untold:
            raise RunError(
                f"has {counted} calls, where the oracle saw {report.told + report.untold}",
                where=str(self.folder / "locks.bin"),
            )
        data = data[data["kind"] == kind]
        # A call may be its function's last instruction: the place it returns to is the next function's.
        index = symbols.at(data["site"] - np.uint64(1))
        callers = np.where(index >= 0, symbols.name[np.maximum(index, 0)], "(outside)").astype(object)
        callers[data["site"] == 0] = None
        return pd.DataFrame(
            {
                "region": data["region"].astype(np.int64),
                "target": symbols.name[symbols.at(data["target"])].astype(object),
                "lock": data["lock"],
                "caller": callers,
                "site": data["site"],
                "count": data["count"].astype(np.int64),
            }
        )

    def pages(self, span: int = 0) -> PageSequence:
        """The page sequence of selection `span`, in runs; the file is mapped, not read."""
        self.need("pages")
        report = self.report.pages
        if report is None or span >= len(report.spans):
            raise OracleAbsent(f"no process selected itself {span + 1} times", where=str(self.folder))
        first, last, ticks = report.spans[span]
        words = self._records("pages.bin", np.dtype("<u8"))
        if words.size != report.words:
            raise RunError(f"has {words.size} words, not {report.words}", where=str(self.folder / "pages.bin"))
        clock = self._records("pages.clk", np.dtype("<u8"))
        if clock.size % 2:
            raise RunError("is cut short", where=str(self.folder / "pages.clk"))
        return PageSequence(
            words=words[first:last],
            numbers=self._records("pages.idx", np.dtype("<u8")),
            clock=np.asarray(clock.reshape(-1, 2)),
            ticks=ticks,
            shift=self.report.shift,
            where=str(self.folder / "pages.bin"),
        )

    def _plausible(self, name: str, fits: npt.NDArray[np.bool_]) -> None:
        if not fits.all():
            where = str(self.folder / name)
            raise RunError(f"record {int(np.flatnonzero(~fits)[0])} is none that the plugin writes", where=where)

    def _records(self, name: str, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        path = self.folder / name
        try:
            size = path.stat().st_size
            if size % kind.itemsize:
                raise RunError("is cut short", where=str(path))
            return np.memmap(path, dtype=kind, mode="r") if size else np.empty(0, dtype=kind)
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error


@dataclass(frozen=True)
class PageSequence:
    """A process's data accesses, as runs of accesses of one kind to one page; see plugin/pages.c for the words."""

    words: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.uint64]
    clock: npt.NDArray[np.uint64]
    ticks: int
    shift: int
    where: str = ""

    def runs(self) -> pd.DataFrame:
        """All runs: page uint64 (address >> 12), write bool, kernel bool, count int64, tick uint64 (instructions
        executed before the run began, counted from the selection), ns float64 (virtual time; NaN without the
        virtual clock). Takes some 40 bytes a run: `chunks` for long sequences.
        """
        return pd.concat(list(self.chunks(max(1, self.words.size))) or [self._decode(self.words, 0)], ignore_index=True)

    def chunks(self, words: int = 1 << 22) -> Iterator[pd.DataFrame]:
        """The same, piece by piece, in memory bounded by `words`."""
        ticks, floor = 0, -np.inf
        for start in range(0, self.words.size, words):
            part = np.asarray(self.words[start : start + words])
            frame = self._decode(part, ticks)
            if len(frame) and not np.isnan(frame["ns"].iloc[0]):
                frame["ns"] = np.maximum(frame["ns"], floor)
                floor = float(frame["ns"].iloc[-1])
            ticks += int((part >> np.uint64(40)).sum())
            yield frame

    def _decode(self, words: npt.NDArray[np.uint64], ticks: int) -> pd.DataFrame:
        tick = np.cumsum(words >> np.uint64(40), dtype=np.uint64) + np.uint64(ticks)
        count = (words >> np.uint64(24)) & np.uint64(0xFFFF)
        kept = count > 0
        number = (words[kept] & np.uint64((1 << 22) - 1)).astype(np.intp)
        if number.size and number.max() >= self.numbers.size:
            told = f"page {int(number.max())}, and pages.idx has {self.numbers.size}"
            raise RunError(f"names {told}", where=self.where)
        page = np.asarray(self.numbers)[number]
        return pd.DataFrame(
            {
                "page": page,
                "write": (words[kept] >> np.uint64(22) & np.uint64(1)).astype(bool),
                "kernel": (words[kept] >> np.uint64(23) & np.uint64(1)).astype(bool),
                "count": count[kept].astype(np.int64),
                "tick": tick[kept],
                "ns": self._ns(tick[kept] + np.uint64(self.ticks)),
            }
        )

    def _ns(self, tick: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
        """Virtual time: that of the last anchor, and 2**shift ns for each instruction since.

        An instruction that faulted was counted twice and took time once: an anchor can set back the clock by that.
        """
        if self.shift < 0 or not self.clock.size:
            return np.full(tick.size, np.nan)
        anchor = np.maximum(np.searchsorted(self.clock[:, 0], tick, side="right") - 1, 0)
        since = tick.astype(np.float64) - self.clock[anchor, 0].astype(np.float64)
        time = self.clock[anchor, 1].astype(np.float64) + since * 2.0**self.shift
        return np.asarray(np.maximum.accumulate(time))
