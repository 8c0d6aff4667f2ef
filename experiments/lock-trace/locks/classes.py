# SPDX-License-Identifier: MIT
"""Names for addresses: the functions of call sites, and the classes of locks.

A lock's class is what all locks of its kind have in common: a static lock's symbol; the slab cache and the place in its
object; where it was initialised, when the trace saw that; else what memory it lies in.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import RunError
from harness.measure.symbols import SymbolMap

from .events import INIT, Events

_DATA_KINDS = frozenset("bBdDrRvV")
_LINE = re.compile(r"([0-9a-fA-F]+) ([A-Za-z]) (\S+(?:\s+\[\S+\])?)")
#: %pS: a symbol, the offset, the symbol's size and perhaps a module.
_PLACE = re.compile(r"(?P<symbol>[^+\s]+)(?:\+0x(?P<offset>[0-9a-f]+))?(?:/0x[0-9a-f]+)?(?: \[(?P<module>[^\]]+)\])?")
#: A symbol map tells no sizes; what lies further behind the last symbol than this is none of the kernel's data.
_FARTHEST = 1 << 24
DYNAMIC = "(dynamic)"


def call_sites(sites: npt.ArrayLike, symbols: SymbolMap) -> npt.NDArray[np.object_]:
    """`function+0xoffset` of the place before each address that a call returns to, `function [module]` for modules as
    `with_kallsyms` knows them; hexadecimal where no function is known. Shape (n,), object.
    """
    distinct, code = np.unique(np.asarray(sites, dtype=np.uint64), return_inverse=True)
    # A call may be its function's last instruction.
    before = distinct - np.uint64(1)
    index = symbols.at(before)
    names: list[str] = []
    for address, i in zip(distinct.tolist(), index.tolist(), strict=True):
        if i >= 0:
            names.append(f"{symbols.name[i]}+{address - int(symbols.address[i]):#x}")
        else:
            k = int(np.searchsorted(symbols.module_address, np.uint64(max(address - 1, 0)), side="right")) - 1
            near = k >= 0 and address - int(symbols.module_address[k]) < _FARTHEST
            names.append(_in_module(symbols, k, address) if near else f"{address:#x}")
    return np.asarray(np.array(names, dtype=object)[code])


def _in_module(symbols: SymbolMap, k: int, address: int) -> str:
    function, _, module = str(symbols.module_name[k]).partition(" ")
    return f"{function}+{address - int(symbols.module_address[k]):#x} {module}"


class StaticData:
    """Data symbols of a System.map, and of modules, to name static locks where the kernel kept no table of locks."""

    def __init__(self, path: Path, kallsyms: str = "") -> None:
        """`kallsyms`: lines of /proc/kallsyms, of which only those of modules count. RunError when the map cannot be
        read.
        """
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
        lines += [line for line in kallsyms.splitlines() if line.endswith("]")]
        symbols = [match.groups() for line in lines if (match := _LINE.fullmatch(line.strip()))]
        rows = sorted(
            (int(address, 16), name.replace("\t", " ")) for address, kind, name in symbols if kind in _DATA_KINDS
        )
        self.address = np.array([address for address, _ in rows], dtype=np.uint64)
        self.name = [name for _, name in rows]

    def names(self, addresses: npt.ArrayLike) -> npt.NDArray[np.object_]:
        """`symbol`, or `symbol+0xoffset`, of each address; DYNAMIC where it is no static data. Shape (n,), object."""
        wanted = np.asarray(addresses, dtype=np.uint64)
        index = np.searchsorted(self.address, wanted, side="right") - 1
        names: list[str] = []
        for address, i in zip(wanted.tolist(), index.tolist(), strict=True):
            offset = address - int(self.address[i]) if i >= 0 else _FARTHEST
            names.append(_plus(self.name[i], offset) if offset < _FARTHEST else DYNAMIC)
        return np.array(names, dtype=object)


def _plus(name: str, offset: int) -> str:
    """`name+0xoffset`, before the module if there is one."""
    symbol, space, module = name.partition(" ")
    return f"{symbol}+{offset:#x}{space}{module}" if offset else name


def lock_classes(locks: pd.DataFrame) -> pd.Series:
    """The class of each row of the kernel's table of locks (`kerneltables.read_locks`), by its index; object."""
    columns = (locks[name].tolist() for name in ("kind", "name", "offset", "init_site"))
    return pd.Series([_class(*row) for row in zip(*columns, strict=True)], index=locks.index, dtype="object")


def _class(kind: str, name: str, offset: int, init_site: str) -> str:
    if kind in ("static", "percpu") and name not in ("", "-"):
        return symbol_of(name)
    if kind == "slab" and name not in ("", "-"):
        place = _plus(name, offset)
        return _initialised(init_site, place) if name.startswith("kmalloc-") else place
    return _initialised(init_site, f"({kind})")


def _initialised(site: str, otherwise: str) -> str:
    """General caches hold all kinds of things: where it was initialised says more."""
    return f"{_function(site)} {otherwise}" if site not in ("", "-") else otherwise


def symbol_of(text: str) -> str:
    """`symbol+0x10/0x40 [module]` as `symbol+0x10 [module]`, without an offset of 0."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return text
    module = f" [{match['module']}]" if match["module"] else ""
    return _plus(match["symbol"] + module, int(match["offset"] or "0", 16))


def _function(text: str) -> str:
    match = _PLACE.fullmatch(text)
    return match["symbol"] if match is not None else text


def classes_of(
    events: Events, locks: pd.DataFrame, data: StaticData, symbols: SymbolMap, more: npt.ArrayLike = ()
) -> dict[int, str]:
    """Class by address, for each lock of `events`, of the kernel's table of locks (empty where an arm has none), and of
    `more`.

    Without a table: the static symbol, else the function of the last INIT that was traced, else DYNAMIC.
    """
    known = dict(zip(locks["address"].tolist(), lock_classes(locks).tolist(), strict=True))
    # The kernel has an address alone for static data of a module that had gone before it was asked.
    gone = [address for address, name in known.items() if name.startswith("0x")]
    known |= {
        address: str(name) for address, name in zip(gone, data.names(gone).tolist(), strict=True) if name != DYNAMIC
    }
    every = np.union1d(events["lock"], np.asarray(more, dtype=np.uint64))
    others = np.setdiff1d(every, locks["address"].to_numpy(dtype=np.uint64))
    named = dict(zip(others.tolist(), data.names(others).tolist(), strict=True))
    born = events[events["kind"] == INIT]
    for address, site in zip(born["lock"].tolist(), call_sites(born["site"], symbols).tolist(), strict=True):
        if named.get(address) == DYNAMIC or str(named.get(address)).endswith(DYNAMIC):
            named[address] = f"{_function(site)} {DYNAMIC}"
    return known | named
