# SPDX-License-Identifier: MIT
"""The /proc/profile buffer into ticks per function.

Format (kernel/profile.c of 6.1, read_profile()): little-endian unsigned 32-bit words whatever the word size
of the kernel. The first is the step, `1 << shift` for the boot parameter `profile=shift`; then come
`(_etext - _stext) >> shift` counters, counter b for the step bytes from `_stext + b * step` on. An address
outside that range (module, init text, below `_stext`) is clamped into the *last* counter, which also holds
the last bytes of text, from `step` to `2 * step - 1` of them: its content belongs to no function for certain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.symbols import SymbolMap

OUT_OF_TEXT = "*out of text*"

_WORD = np.dtype("<u4")
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ProfileTable:
    """Ticks per function of one profile buffer; n functions in address order, b counters.

    ticks   (n,) float64  ticks; a counter shared by several functions is split by bytes
    low     (n,) int64    ticks in counters that hold nothing but this function: certainly its own
    high    (n,) int64    ticks in every counter that holds at least one byte of it: no more can be its own
    shared  (n,) float64  part of `ticks` that came from shared counters, in ticks
    buckets (b,) int64    the counters, in ticks; the last is `out_of_text`
    out_of_text           ticks of the last counter: samples outside text, or in its tail from `tail` on
    tail                  first address that the last counter holds
    step                  bytes per counter
    """

    symbols: SymbolMap
    step: int
    buckets: Ints
    ticks: Floats
    low: Ints
    high: Ints
    shared: Floats
    out_of_text: int
    tail: int

    @property
    def total(self) -> int:
        """All samples, in ticks: exactly `ticks.sum() + out_of_text`."""
        return int(self.buckets.sum())

    @property
    def ticks_per_byte(self) -> Floats:
        """Third column of the paper's and readprofile's table: ticks per byte of function; (n,) float64."""
        return self.ticks / self.symbols.size.astype(np.float64)

    def bucket_of(self, address: int) -> int:
        """Index of the counter that a sample at `address` goes to, as do_profile_hits() computes it."""
        if not self.symbols.stext <= address < self.symbols.etext:
            return int(self.buckets.size) - 1
        return min((address - self.symbols.stext) // self.step, int(self.buckets.size) - 1)

    def is_exclusive(self, bucket: int) -> bool:
        """True when every sample in that counter certainly belongs to one function."""
        if bucket >= self.buckets.size - 1:
            return False
        start = self.symbols.stext + bucket * self.step
        first, last = self.symbols.at(np.array([start, start + self.step - 1], dtype=np.uint64))
        return bool(first == last)

    def frame(self) -> pd.DataFrame:
        """Functions with at least one possible tick, and the out-of-text row (address and size 0).

        Columns: function str, address uint64, size uint64 bytes, ticks float64, low and high int64 ticks,
        shared float64 ticks, ticks_per_byte float64 (NaN on the out-of-text row).
        """
        keep = np.flatnonzero((self.high > 0) | (self.ticks > 0))
        table = pd.DataFrame(
            {
                "function": self.symbols.name[keep].astype(object),
                "address": self.symbols.address[keep],
                "size": self.symbols.size[keep],
                "ticks": self.ticks[keep],
                "low": self.low[keep],
                "high": self.high[keep],
                "shared": self.shared[keep],
                "ticks_per_byte": self.ticks_per_byte[keep],
            }
        )
        # The last counter always holds some text too, so no sample is certainly outside it: low is 0.
        outside = pd.DataFrame(
            {
                "function": [OUT_OF_TEXT],
                "address": np.zeros(1, dtype=np.uint64),
                "size": np.zeros(1, dtype=np.uint64),
                "ticks": [float(self.out_of_text)],
                "low": np.zeros(1, dtype=np.int64),
                "high": np.array([self.out_of_text], dtype=np.int64),
                "shared": [float(self.out_of_text)],
                "ticks_per_byte": [np.nan],
            }
        )
        return pd.concat([table, outside], ignore_index=True) if len(table) else outside


@dataclass(frozen=True)
class ReadprofileTable:
    """What util-linux's readprofile attributes, symbol by symbol (aliases included), faults included.

    name (m,) str      symbols in the map's order, first after `_stext` to last before `_etext`
    address (m,) uint64
    ticks (m,) int64
    owner (b,) int64   index into `name` of the symbol that each counter goes to; -1 for the last counter
    buckets (b,) int64 the counters
    unknown            the last counter, printed as *unknown*
    total              what its "total" line says: all counters but the last
    """

    name: npt.NDArray[np.str_]
    address: npt.NDArray[np.uint64]
    ticks: Ints
    owner: Ints
    buckets: Ints
    unknown: int
    total: int
    step: int
    stext: int


def decode(raw: bytes, symbols: SymbolMap, *, where: str = "profile") -> ProfileTable:
    """Ticks per function from a raw buffer, with straddling counters split by bytes.

    KreproError when the buffer is not one of this kernel: no step, a step that is no power of two, or a
    number of counters that the map does not give.
    """
    step, buckets = _counters(raw, symbols, where)
    regular = buckets[:-1]
    tail = symbols.stext + regular.size * step
    start = (symbols.address - np.uint64(symbols.stext)).astype(np.int64)
    end = start + symbols.size.astype(np.int64)
    limit = regular.size * step  # in bytes from _stext: regular counters end here, the last one begins

    # Integer prefix sums in tick-bytes: cumulative(x) is step times the ticks in the first x bytes of text.
    before = np.concatenate(([0], np.cumsum(regular)))
    padded = np.append(regular, 0)

    def cumulative(position: Ints) -> Ints:
        whole, part = np.divmod(np.minimum(position, limit), step)
        return np.asarray(before[whole] * step + padded[whole] * part, dtype=np.int64)

    tick_bytes = cumulative(end) - cumulative(start)
    ticks = tick_bytes / step  # exact: the step is a power of two
    first, last = -(-start // step), np.minimum(end, limit) // step
    first = np.minimum(first, regular.size)
    low = np.where(last > first, before[np.maximum(last, first)] - before[first], 0)
    touched = np.minimum(-(-end // step), regular.size)
    high = before[touched] - before[np.minimum(start // step, regular.size)]
    high = high + np.where(end > limit, buckets[-1], 0)
    return ProfileTable(
        symbols=symbols,
        step=step,
        buckets=buckets,
        ticks=np.asarray(ticks, dtype=np.float64),
        low=np.asarray(low, dtype=np.int64),
        high=np.asarray(high, dtype=np.int64),
        shared=np.asarray((tick_bytes - low * step) / step, dtype=np.float64),
        out_of_text=int(buckets[-1]),
        tail=tail,
    )


def decode_as_readprofile(raw: bytes, symbols: SymbolMap, *, where: str = "profile") -> ReadprofileTable:
    """The same buffer as util-linux's readprofile attributes it (sys-utils/readprofile.c, main loop).

    It gives a symbol the counters below `(next - _stext) / step` in *its* numbering, where word 0 is the step
    and counter 0 is word 1: so a function's last whole counter goes to the symbol after it, and the last
    counter of all is printed as *unknown* whatever it holds.
    """
    step, buckets = _counters(raw, symbols, where)
    # readprofile starts at the line named _stext; other names of that address before it are skipped.
    named = np.flatnonzero(symbols.alias_name == "_stext")
    skip = int(named[0]) if named.size else 0
    name, address = symbols.alias_name[skip:], symbols.alias_address[skip:]
    following = np.append(address[1:], np.uint64(symbols.etext))
    words = (following - np.uint64(symbols.stext)).astype(np.int64) // step
    last = np.clip(words - 1, 0, buckets.size - 1)  # counters of this symbol end here
    first = np.concatenate(([0], last[:-1]))
    before = np.concatenate(([0], np.cumsum(buckets)))
    owner = np.searchsorted(last, np.arange(buckets.size), side="right")
    owner[last[-1] :] = -1
    return ReadprofileTable(
        name=name,
        address=address,
        ticks=np.asarray(before[last] - before[first], dtype=np.int64),
        owner=np.asarray(owner, dtype=np.int64),
        buckets=buckets,
        unknown=int(buckets[-1]),
        total=int(before[last[-1]]),
        step=step,
        stext=symbols.stext,
    )


def decode_as_printed(raw: bytes, symbols: SymbolMap, *, where: str = "profile") -> Ints:
    """Ticks per function by the paper's pseudo-code (section 3.3), whose index restarts at 0; (n,) int64.

    Every function reads the first `size / step` counters of the whole text, so its figure is a property of
    its length alone.
    """
    step, buckets = _counters(raw, symbols, where)
    before = np.concatenate(([0], np.cumsum(buckets)))
    blocks = np.minimum(symbols.size.astype(np.int64) // step, buckets.size)
    return np.asarray(before[blocks], dtype=np.int64)


def _counters(raw: bytes, symbols: SymbolMap, where: str) -> tuple[int, Ints]:
    """The step in bytes and the counters as int64, after checking both against the map."""
    if len(raw) < 2 * _WORD.itemsize or len(raw) % _WORD.itemsize:
        raise RunError(f"profile buffer has {len(raw)} bytes: empty or cut short", where=where)
    words = np.frombuffer(raw, dtype=_WORD)
    step = int(words[0])
    if step == 0 or step & (step - 1):
        raise RunError(f"profile buffer's step is {step}, not a power of two", where=where)
    expected = (symbols.etext - symbols.stext) // step
    if words.size - 1 != expected:
        raise RunError(
            f"profile buffer has {words.size - 1} counters of {step} bytes, {symbols.path} gives {expected}",
            hint="the map is of another kernel, or the buffer was cut short",
            where=where,
        )
    return step, words[1:].astype(np.int64)
