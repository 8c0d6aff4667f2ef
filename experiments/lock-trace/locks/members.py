# SPDX-License-Identifier: MIT
"""Which member of which struct a lock is: the kernel's structs, from the debug information of `layouts`."""

from __future__ import annotations

import math
import re
from io import BytesIO
from pathlib import Path

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from harness.errors import RunError

#: Types of locks, by their struct's name or their typedef's: what begins with one is that one.
_LOCKS = frozenset({"mutex", "qrwlock", "qspinlock", "raw_spinlock", "rw_semaphore", "rwlock_t", "spinlock"})
#: A class as `classes_of` gives it: perhaps who made it, what it is a part of, where therein; and perhaps its kind.
_CLASS = re.compile(
    r"(?:(?P<maker>\w+) kmalloc-\w+|(?P<whole>[\w-]+))(?:\+(?P<offset>0x[0-9a-f]+))?(?P<rest> \(per CPU\))?"
)
_STRUCTS = ("DW_TAG_structure_type", "DW_TAG_union_type")
_ALIASES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type")


class Members:
    """Structs of the kernel by what has their type: a slab cache, a variable, a function that allocates one."""

    def __init__(self, path: Path) -> None:
        """`path`: the module of layouts, compiled for the kernel. RunError when it has no debug information."""
        try:
            elf = ELFFile(BytesIO(path.read_bytes()))  # what is read of it is read when it is asked for
            if not elf.has_dwarf_info():
                raise RunError("has no debug information", where=str(path))
            self._types: dict[str, DIE] = {}
            for unit in elf.get_dwarf_info().iter_CUs():
                for die in unit.get_top_DIE().iter_children():
                    name = _name(die)
                    if die.tag == "DW_TAG_variable" and "__" in name:
                        pointer = die.get_DIE_from_attribute("DW_AT_type")
                        self._types[name] = pointer.get_DIE_from_attribute("DW_AT_type")
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
        except (ELFError, DWARFError, KeyError) as error:
            raise RunError(f"cannot be read: {error}", where=str(path)) from error
        self._known: dict[str, str] = {}

    def name(self, lock: str) -> str:
        """A lock's class with its member's path in place of an offset; as it is where no lock's member is there."""
        if lock not in self._known:
            self._known[lock] = self._named(lock)
        return self._known[lock]

    def _named(self, lock: str) -> str:
        match = _CLASS.fullmatch(lock)
        if match is None:
            return lock
        offset, rest = int(match["offset"] or "0", 16), match["rest"] or ""
        keys = [f"made_by__{match['maker']}"]
        if match["whole"]:
            whole = re.sub(r"\W", "_", match["whole"])
            keys = [f"variable__{whole}", f"slab__{whole}"]
        for key in keys:
            kind = self._types.get(key)
            path = _path(kind, offset) if kind is not None else None
            if kind is not None and path:
                of = match["whole"] if key.startswith("variable") else _name(kind)
                return f"{of}{path}{rest}"
        return lock


def _name(die: DIE) -> str:
    given = die.attributes.get("DW_AT_name")
    return given.value.decode() if given else ""


def _bare(die: DIE) -> DIE:
    """A type without its typedefs and qualifiers, but those that are a lock's name."""
    while die.tag in _ALIASES and _name(die) not in _LOCKS:
        die = die.get_DIE_from_attribute("DW_AT_type")
    return die


def _path(kind: DIE, offset: int) -> str | None:
    """`.member[index].member` of the lock at `offset`, empty where `kind` is a lock itself; None: there is none."""
    kind = _bare(kind)
    if _name(kind) in _LOCKS and offset == 0:
        return ""
    if kind.tag in _ALIASES:
        kind = _bare(kind.get_DIE_from_attribute("DW_AT_type"))
    if kind.tag == "DW_TAG_array_type":
        return _in_array(kind, offset)
    if kind.tag not in _STRUCTS:
        return None
    for member in kind.iter_children():
        if member.tag != "DW_TAG_member" or "DW_AT_type" not in member.attributes:
            continue
        at = member.attributes.get("DW_AT_data_member_location")
        inside = offset - (at.value if at else 0)  # a union's members have no place
        of = member.get_DIE_from_attribute("DW_AT_type")
        if not 0 <= inside < max(_size(of), 1):
            continue
        found = _path(of, inside)
        if found is not None:
            name = _name(member)
            return f".{name}{found}" if name else found
    return None


def _in_array(kind: DIE, offset: int) -> str | None:
    of = kind.get_DIE_from_attribute("DW_AT_type")
    size = _size(of)
    found = _path(of, offset % size) if size else None
    if found is None:
        return None
    number, indices = offset // size, ""
    for bound in reversed(_bounds(kind)[1:]):
        number, index = divmod(number, bound)
        indices = f"[{index}]{indices}"
    return f"[{number}]{indices}{found}"


def _bounds(array: DIE) -> list[int]:
    """How many elements, by dimension; 0 for one that has no size."""
    bounds = []
    for bound in array.iter_children():
        upper, number = bound.attributes.get("DW_AT_upper_bound"), bound.attributes.get("DW_AT_count")
        bounds.append(number.value if number else upper.value + 1 if upper else 0)
    return bounds


def _size(kind: DIE) -> int:
    """In bytes."""
    while kind.tag in _ALIASES:
        if "DW_AT_type" not in kind.attributes:
            return 0
        kind = kind.get_DIE_from_attribute("DW_AT_type")
    if kind.tag == "DW_TAG_array_type":
        return math.prod(_bounds(kind)) * _size(kind.get_DIE_from_attribute("DW_AT_type"))
    size = kind.attributes.get("DW_AT_byte_size")
    return size.value if size else 0
