# SPDX-License-Identifier: MIT
"""Kernel symbol maps: System.map and /proc/kallsyms into arrays that decoders search by address.

A map has addresses, not sizes, so a function's size is the distance to the next text address; alignment
padding after a function counts as its own. `_stext` and `_etext` bound what kernel/profile.c samples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import RunError

Addresses = npt.NDArray[np.uint64]
Names = npt.NDArray[np.str_]

_TEXT_KINDS = frozenset("tTwW")
_LINE = re.compile(r"(?P<address>[0-9a-fA-F]{8}|[0-9a-fA-F]{16}) (?P<kind>[A-Za-z?-]) (?P<name>\S+)")
#: Of an address of 64 bits.
ADDRESS_DIGITS = 16
_KALLSYMS_LINE = re.compile(
    r"(?P<address>[0-9a-fA-F]+) (?P<kind>[A-Za-z?-]) (?P<name>\S+)(?:\s+\[(?P<module>[^\]]+)\])?"
)
# Symbols of the linker script: they name a place, and lose against a function at the same place.
_MARKER = re.compile(r"_?_?(?:stext|etext|text)|_s?init\w*text|__\w+_(?:start|end|begin)")
_HINT = "take the System.map of the build that booted"


@dataclass(frozen=True)
class SymbolMap:
    """The text symbols of one kernel between `_stext` and `_etext`, and optionally its modules' text.

    Functions (one per distinct address, ascending, covering `_stext`..`_etext` without a gap):
      name     (n,) str     the name chosen among aliases: a function before a linker marker, then global
                            before local before weak, then the fewest leading underscores, then by alphabet
      address  (n,) uint64  first byte
      size     (n,) uint64  bytes to the next function or to `_etext`; never 0

    Every text symbol in the map's order, aliases and zero-size symbols included (what readprofile walks):
      alias_name (m,) str, alias_address (m,) uint64

    Module text (`with_kallsyms`; empty otherwise), ascending:
      module_name (k,) str  "function [module]", module_address (k,) uint64
    """

    name: Names
    address: Addresses
    size: Addresses
    alias_name: Names
    alias_address: Addresses
    module_name: Names
    module_address: Addresses
    stext: int
    etext: int
    bits: int
    path: str = "System.map"

    def __len__(self) -> int:
        return int(self.address.size)

    def find(self, name: str) -> npt.NDArray[np.intp]:
        """Indices of the functions called `name`, by any alias; (0..,) intp. Static names may repeat."""
        places = self.alias_address[self.alias_name == name]
        return np.unique(np.searchsorted(self.address, places)).astype(np.intp)

    def at(self, addresses: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Index of the function that holds each address; -1 outside `_stext`..`_etext`. Same shape, intp."""
        wanted = np.asarray(addresses, dtype=np.uint64)
        index = np.searchsorted(self.address, wanted, side="right").astype(np.intp) - 1
        return np.where((wanted >= np.uint64(self.stext)) & (wanted < np.uint64(self.etext)), index, -1)

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules whose text is known, sorted."""
        return tuple(sorted({str(name).rpartition("[")[2].rstrip("]") for name in self.module_name}))


def read_system_map(path: Path) -> SymbolMap:
    """Read a System.map, 32 or 64 bit; KreproError when it is missing, empty, truncated or not a map."""
    where = str(path)
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except FileNotFoundError as error:
        raise RunError("symbol map is missing", hint=_HINT, where=where) from error
    except OSError as error:
        raise RunError(f"symbol map cannot be read: {error.strerror}", where=where) from error
    return parse_system_map(text, where=where)


def parse_system_map(text: str, *, where: str = "System.map") -> SymbolMap:
    """Parse a System.map (lines of `nm -n`: address, kind, name); KreproError as `read_system_map`."""
    if not text.strip():
        raise RunError("symbol map is empty", hint=_HINT, where=where)
    addresses: list[int] = []
    names: list[str] = []
    kinds: list[str] = []
    bounds: dict[str, int] = {}
    width = 0
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            cut = number == len(lines) and not text.endswith("\n")
            problem = "symbol map is truncated" if cut else "not a line of a symbol map"
            raise RunError(f"{problem}: {line[:60]!r}", hint=_HINT, where=f"{where}:{number}")
        width = max(width, len(match["address"]))
        value, name = int(match["address"], 16), match["name"]
        if name in {"_stext", "_etext"}:
            bounds.setdefault(name, value)
        if match["kind"] in _TEXT_KINDS:
            addresses.append(value)
            names.append(name)
            kinds.append(match["kind"])
    for bound in ("_stext", "_etext"):
        if bound not in bounds:
            problem = f"symbol map has no {bound}: truncated, or not of a kernel"
            raise RunError(problem, hint=_HINT, where=where)
    stext, etext = bounds["_stext"], bounds["_etext"]
    if etext <= stext:
        raise RunError(f"_etext {etext:#x} does not lie after _stext {stext:#x}", hint=_HINT, where=where)

    address = np.array(addresses, dtype=np.uint64)
    inside = np.flatnonzero((address >= np.uint64(stext)) & (address < np.uint64(etext)))
    order = inside[np.argsort(address[inside], kind="stable")]
    if not order.size or int(address[order[0]]) != stext:
        raise RunError("symbol map has no text symbol at _stext", hint=_HINT, where=where)
    best: dict[int, tuple[tuple[int, int, int], str]] = {}
    for i in order:
        rank = _rank(names[i], kinds[i])
        best[addresses[i]] = min(rank, best.get(addresses[i], rank))
    starts = np.fromiter(best, dtype=np.uint64, count=len(best))
    return SymbolMap(
        name=np.array([name for _, name in best.values()], dtype=np.str_),
        address=starts,
        size=np.diff(starts, append=np.uint64(etext)),
        alias_name=np.array([names[i] for i in order], dtype=np.str_),
        alias_address=address[order],
        module_name=np.empty(0, dtype=np.str_),
        module_address=np.empty(0, dtype=np.uint64),
        stext=stext,
        etext=etext,
        bits=64 if width > 8 else 32,
        path=where,
    )


def with_kallsyms(symbols: SymbolMap, text: str, *, where: str = "kallsyms") -> SymbolMap:
    """Add the module text that a guest's /proc/kallsyms lists; core kernel lines are ignored.

    KreproError when a line does not parse, or when every address is 0 (kptr_restrict hid them).
    """
    rows: list[tuple[int, str]] = []
    seen = hidden = 0
    for number, line in enumerate(text.splitlines(), start=1):
        match = _KALLSYMS_LINE.fullmatch(line.rstrip())
        if match is None or len(match["address"]) > ADDRESS_DIGITS:
            raise RunError(f"not a line of kallsyms: {line[:60]!r}", where=f"{where}:{number}")
        value = int(match["address"], 16)
        seen += 1
        hidden += value == 0
        if match["module"] and match["kind"] in _TEXT_KINDS:
            rows.append((value, f"{match['name']} [{match['module']}]"))
    if seen and hidden == seen:
        raise RunError("kallsyms shows no address", hint="read it as root with kptr_restrict=0", where=where)
    rows.sort()
    return replace(
        symbols,
        module_name=np.array([name for _, name in rows], dtype=np.str_),
        module_address=np.array([value for value, _ in rows], dtype=np.uint64),
    )


def _rank(name: str, kind: str) -> tuple[tuple[int, int, int], str]:
    """Order among names of one address, best first; a function of the names alone, so deterministic."""
    marker = int(_MARKER.fullmatch(name) is not None)
    binding = {"T": 0, "t": 1, "W": 2, "w": 2}[kind]
    return (marker, binding, len(name) - len(name.lstrip("_"))), name
