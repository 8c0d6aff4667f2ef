# SPDX-License-Identifier: MIT
"""Types of a compiled BPF object (Documentation/bpf/btf.rst), as far as its maps need them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

_MAGIC = 0xEB9F
_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _PROTO, _VAR, _DATASEC, _TAG, _ENUM64 = 1, 2, 3, 4, 5, 6, 13, 14, 15, 17, 19
#: They are named types, or qualified ones: as large as what they are of.
_SAME = (8, 9, 10, 11, 18)
#: Bytes behind a type: once, and for each of its members.
_ONCE = {_INT: 4, _ARRAY: 12, _VAR: 4, _TAG: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, _PROTO: 8, _DATASEC: 12, _ENUM64: 12}
_DEEPEST = 32


@dataclass(frozen=True)
class _Type:
    name: str
    kind: int
    #: Its size, or the number of the type that it is of.
    size: int
    members: Mapping[str, int] = field(default_factory=dict)
    elements: int = 0
    of: int = 0


class Types:
    """All types of an object. ValueError, or struct.error, where these are none."""

    def __init__(self, data: bytes) -> None:
        magic, _, _, header, types, length, strings, more = struct.unpack_from("<HBBIIIII", data)
        if magic != _MAGIC:
            raise ValueError("its types are not as BTF has them")
        texts = data[header + strings : header + strings + more]
        at, end = header + types, header + types + length
        self._types = [_Type("void", 0, 0)]
        while at < end:
            name, info, size = struct.unpack_from("<III", data, at)
            kind, members = info >> 24 & 31, info & 0xFFFF
            at += 12
            own: dict[str, int] = {}
            of = elements = 0
            if kind in (_STRUCT, _UNION):
                own = {
                    _text(texts, text): number
                    for text, number, _ in struct.iter_unpack("<III", data[at : at + 12 * members])
                }
            elif kind == _ARRAY:
                of, _, elements = struct.unpack_from("<III", data, at)
            at += _ONCE.get(kind, 0) + _EACH.get(kind, 0) * members
            self._types.append(_Type(_text(texts, name), kind, size, own, elements, of))

    def map_of(self, name: str) -> tuple[int, int] | None:
        """The kind of the map that a variable defines, and the bytes of its key. None for what defines none."""
        variable = next((one for one in self._types if one.kind == _VAR and one.name == name), None)
        members = self._at(variable.size).members if variable else {}
        kind = self._number(members.get("type"))
        if kind is None:
            return None
        size = self._number(members.get("key_size"))
        if size is None and "key" in members:
            size = self._size(self._at(members["key"]).size)
        return kind, size or 0

    def _at(self, number: int, deep: int = 0) -> _Type:
        found = self._types[number]
        return self._at(found.size, deep + 1) if found.kind in _SAME and deep < _DEEPEST else found

    def _number(self, member: int | None) -> int | None:
        """Numbers are kept as a pointer to an array of so many."""
        pointer = self._at(member) if member is not None else None
        return self._at(pointer.size).elements if pointer is not None and pointer.kind == _PTR else None

    def _size(self, number: int, deep: int = 0) -> int:
        found = self._at(number)
        if found.kind == _ARRAY and deep < _DEEPEST:
            return found.elements * self._size(found.of, deep + 1)
        return 8 if found.kind == _PTR else found.size


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode(errors="replace")
