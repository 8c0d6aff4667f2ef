# SPDX-License-Identifier: MIT
"""What a compiled eBPF program executes of a firing: its instructions, and the helpers that it calls, along its paths.

A program has no way back (bpftrace's compiler unrolls loops), so each instruction has a sum over the ways on from it.
Where a way parts at what a map has, the key is taken to be there: it is but for its first firing. Where it parts at
whether a helper has failed, the helper is taken to have done its work. Where one side ends
without a call and the other goes on, that is a filter, and its share of firings is asked for. Any other parting hangs
on data: each side is taken half, and the least and the most bound it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.errors import UsageError

#: Helpers by number (include/uapi/linux/bpf.h), as the model calls them; and the register that has their bytes, if any.
HELPERS: dict[int, tuple[str, int | None]] = {
    1: ("look", None), 2: ("put", None), 3: ("delete", None), 4: ("read", 2), 5: ("time", None), 7: ("random", None),
    8: ("cpu", None), 14: ("pid", None), 15: ("uid", None), 16: ("comm", None), 25: ("perf", 5), 27: ("stack", None),
    35: ("task", None), 45: ("string", 2), 112: ("uread", 2), 113: ("read", 2),
    114: ("ustring", 2), 115: ("string", 2), 125: ("boot", None), 130: ("ring", 3),
}  # fmt: skip
#: Of a machine's own instructions that one of eBPF's becomes (arch/x86/net/bpf_jit_comp.c): a comparison and its jump,
#: a shift by a register, a division. All others are one.
JUMP, SHIFT, DIVISION = 2, 3, 6
#: A register that calls leave alone is saved and brought back.
SAVED = 2
_LD_IMM64, _CALL, _EXIT, _GOTO = 0x18, 0x85, 0x95, 0x05
#: A register that is copied, or set to a constant; the first that calls leave alone.
_COPY, _CONSTANTS, _KEPT = 0xBF, (0xB7, 0xB4, _LD_IMM64), 6
#: Of a signed comparison with jump, by its code: whether it holds for the greater one on the left.
_SIGNED = {0x60: True, 0x70: True, 0xC0: False, 0xD0: False}
#: Helpers that return a negative number where they fail: put, delete, read, comm, perf, string, their kinds, ring.
_MAY_FAIL = (2, 3, 4, 16, 25, 45, 112, 113, 114, 115, 130)
_MOST = 4096


@dataclass
class Executed:
    """Instructions, and calls by name and bytes: of one firing, on average over what is not known."""

    instructions: float = 0.0
    calls: dict[tuple[str, float], float] = field(default_factory=dict)

    def plus(self, other: Executed, share: float = 1.0) -> Executed:
        calls = dict(self.calls)
        for call, times in other.calls.items():
            calls[call] = calls.get(call, 0.0) + share * times
        return Executed(self.instructions + share * other.instructions, calls)


@dataclass(frozen=True)
class Map:
    """A map of a program: `kind` is `hash`, `percpu`, or what else bpftrace makes; bytes of its key."""

    kind: str
    key: float


class Program:
    """A program of `code`, its instructions' bytes; `maps` by the number that these call each."""

    def __init__(self, code: bytes, maps: Mapping[int, Map]) -> None:
        if not code or len(code) % 8 or len(code) > 8 * _MOST:
            raise UsageError(f"a program has 1 to {_MOST} instructions of 8 bytes, not {len(code)} bytes")
        self._words = [code[at : at + 8] for at in range(0, len(code), 8)]
        self._maps = maps
        #: Helpers that have no price.
        self.unknown: list[str] = []
        #: Whether it has a filter, and whether anything else hangs on data.
        self.filters = self.parts_ways = False
        #: Whether it asks a map, and which one is not known.
        self.any_map = False
        self._sums: dict[int, Executed] = {}
        self._ends: dict[int, bool] = {}

    @property
    def keeps(self) -> bool:
        """Whether it returns another constant than 0: what called it then goes on, as without a program."""
        last = [at - 1 for at in range(1, len(self._words)) if self._op(at) == _EXIT]
        return any(self._op(at) in _CONSTANTS and not self._target(at) and self._value(at) for at in last)

    @cached_property
    def accepted(self) -> Executed:
        """Of a firing that no filter ends."""
        return self._whole(self._expected)

    @cached_property
    def rejected(self) -> Executed:
        """Of a firing that the first filter ends."""
        return self._whole(self._first_end)

    def bounds(self, cost: Callable[[Executed], float]) -> tuple[float, float]:
        """The least and the most that any way costs."""
        extra = self._whole(lambda _: Executed())
        least, most = self._extremes(cost, 0, {})
        return cost(extra) + least, cost(extra) + most

    # -- one instruction -----------------------------------------------------------------------------------------

    def _op(self, at: int) -> int:
        if at >= len(self._words):
            raise UsageError("a program's way leads behind its end")
        return self._words[at][0]

    def _offset(self, at: int) -> int:
        return int.from_bytes(self._words[at][2:4], "little", signed=True)

    def _value(self, at: int) -> int:
        return int.from_bytes(self._words[at][4:8], "little", signed=True)

    def _source(self, at: int) -> int:
        return self._words[at][1] >> 4

    def _target(self, at: int) -> int:
        return self._words[at][1] & 15

    def _whole(self, of: Callable[[int], Executed]) -> Executed:
        """With what it takes to save registers."""
        used = {reg for word in self._words for reg in (word[1] & 15, word[1] >> 4) if 6 <= reg <= 9}
        return of(0).plus(Executed(float(SAVED * len(used))))

    def _step(self, at: int) -> Executed:
        """What this instruction itself executes."""
        op = self._op(at)
        if op == _CALL:
            return Executed(1.0, {self._called(at): 1.0})
        kind, code = op & 7, op & 0xF0
        if kind in (4, 7) and code in (0x30, 0x90):
            return Executed(float(DIVISION))
        if kind in (4, 7) and op & 8 and code in (0x60, 0x70, 0xC0):
            return Executed(float(SHIFT))
        return Executed(float(JUMP if self._parts(at) else 1))

    def _called(self, at: int) -> tuple[str, float]:
        number = self._value(at)
        if self._source(at) or number not in HELPERS:
            self.unknown.append(f"helper {number}" if not self._source(at) else "a function of its own")
            return (self.unknown[-1], 0.0)
        name, register = HELPERS[number]
        if name in ("look", "put", "delete"):
            number = self._constant(at, 1)
            one = self._maps.get(number, Map("percpu", 8.0))
            self.any_map = self.any_map or number not in self._maps
            if one.kind == "array" and name == "look":
                return ("array", 0.0)
            if one.kind not in ("percpu", "hash"):
                self.unknown.append(f"map {name} of a map of the kind {one.kind}")
                return (self.unknown[-1], 0.0)
            return (name if one.kind == "percpu" or name == "delete" else f"h{name}", one.key)
        return (name, float(max(0, self._constant(at, register))) if register else 0.0)

    def _constant(self, at: int, register: int) -> int:
        """What a register was last set to before this instruction, in its block; -1: it is not known."""
        for before in range(at - 1, -1, -1):
            op = self._op(before)
            if op == _EXIT or self._parts(before) or (op == _CALL and register < _KEPT):
                break
            if self._target(before) != register or not self._sets(before):
                continue
            if op == _COPY:
                register = self._source(before)
                continue
            return self._value(before) if op in _CONSTANTS else -1
        return self._once(register)

    def _sets(self, at: int) -> bool:
        """Whether this instruction sets its target: it loads, or computes."""
        op = self._op(at)
        return op == _LD_IMM64 or (op & 7 in (1, 4, 7))

    def _once(self, register: int) -> int:
        """What a register that calls leave alone is set to, if that is one constant in the whole program."""
        if register < _KEPT:
            return -1
        places = [at for at in range(len(self._words)) if self._sets(at) and self._target(at) == register]
        one = len(places) == 1 and self._op(places[0]) in _CONSTANTS
        return self._value(places[0]) if one else -1

    def _parts(self, at: int) -> bool:
        op = self._op(at)
        return op & 7 in (5, 6) and op not in (_GOTO, _CALL, _EXIT)

    def _next(self, at: int) -> int:
        op = self._op(at)
        if op == _GOTO:
            return at + 1 + self._offset(at)
        return at + (2 if op == _LD_IMM64 else 1)

    def _sides(self, at: int) -> tuple[int, int]:
        """Where it goes on if its comparison holds, and if not."""
        return at + 1 + self._offset(at), at + 1

    # -- ways ------------------------------------------------------------------------------------------------------

    def _at_map(self, at: int) -> bool:
        """Whether it asks if a map has a key: a comparison of what a look has just returned with 0."""
        if self._target(at) != 0 or self._op(at) not in (0x15, 0x55) or self._value(at):
            return False
        for before in range(at - 1, -1, -1):
            if self._op(before) == _CALL:
                return self._value(before) == 1
            if self._parts(before):
                return False
        return False

    def _done(self, at: int) -> bool | None:
        """Whether its comparison holds where the helper that was called last has not failed; None if it asks no such
        thing. What is compared is taken to be the helper's answer, which is 0 or more where it has done its work.
        """
        holds = _SIGNED.get(self._op(at) & 0xF0)
        if holds is None:
            return None
        answers = {0}
        for before in range(at - 1, -1, -1):
            if self._op(before) == _COPY and self._source(before) == 0:
                answers.add(self._target(before))
            if self._parts(before) or self._op(before) in (_EXIT, _GOTO):
                return None
            if self._op(before) == _CALL:
                if self._value(before) not in _MAY_FAIL:
                    return None
                left = self._target(at) in answers
                right = bool(self._op(at) & 8) and self._source(at) in answers
                return None if left == right else holds == left
        return None

    def _straight(self, at: int) -> tuple[list[int], int]:
        """The instructions from here to where ways part, or to the end; and that last one."""
        line = []
        while self._op(at) != _EXIT and not self._parts(at):
            self._forward(at)
            line.append(at)
            at = self._next(at)
        self._forward(at)
        return line, at

    def _ends_silently(self, at: int) -> bool:
        """Whether no way on from here calls anything."""
        if at not in self._ends:
            line, last = self._straight(at)
            calls = any(self._op(one) == _CALL for one in line)
            more = self._op(last) != _EXIT
            self._ends[at] = not calls and not (more and not all(map(self._ends_silently, self._sides(last))))
        return self._ends[at]

    def _forward(self, at: int) -> None:
        """UsageError for a loop: its rounds are not known."""
        if self._op(at) in (_CALL, _EXIT):
            return
        goal = at + 1 + self._offset(at) if self._parts(at) or self._op(at) == _GOTO else at + 1
        if goal <= at and not self._leads_out(goal):
            raise UsageError("a program with a loop: how often it turns is not known before it runs")

    def _leads_out(self, at: int) -> bool:
        """Whether it goes straight from here to the end: compilers jump back to an end that is shared."""
        while self._op(at) not in (_EXIT, _CALL) and not self._parts(at):
            at = self._next(at)
        return self._op(at) == _EXIT

    def _shares(self, at: int) -> tuple[float, float]:
        """Of the firings that come here, how many go to each side, when no filter ends them."""
        taken, on = self._sides(at)
        if self._at_map(at):
            return (0.0, 1.0) if self._op(at) == 0x15 else (1.0, 0.0)
        done = self._done(at)
        if done is not None:
            return (1.0, 0.0) if done else (0.0, 1.0)
        ends = self._ends_silently(taken), self._ends_silently(on)
        if ends[0] != ends[1]:
            self.filters = True
            return (0.0, 1.0) if ends[0] else (1.0, 0.0)
        self.parts_ways = True
        return 0.5, 0.5

    def _expected(self, at: int) -> Executed:
        if at not in self._sums:
            line, last = self._straight(at)
            found = Executed()
            for one in (*line, last):
                found = found.plus(self._step(one))
            if self._parts(last):
                for side, share in zip(self._sides(last), self._shares(last), strict=True):
                    if share:
                        found = found.plus(self._expected(side), share)
            self._sums[at] = found
        return self._sums[at]

    def _first_end(self, at: int) -> Executed:
        found = self._step(at)
        while self._op(at) != _EXIT:
            if self._parts(at):
                sides = self._sides(at)
                ends = [side for side in sides if self._ends_silently(side)]
                taken, on = self._shares(at)
                at = ends[0] if ends else sides[0] if taken > on else sides[1]
            else:
                at = self._next(at)
            found = found.plus(self._step(at))
        return found

    def _extremes(
        self, cost: Callable[[Executed], float], at: int, known: dict[int, tuple[float, float]]
    ) -> tuple[float, float]:
        if at not in known:
            line, last = self._straight(at)
            own = math.fsum(cost(self._step(one)) for one in (*line, last))
            sides = self._sides(last) if self._parts(last) else ()
            ends = [self._extremes(cost, side, known) for side in sides] or [(0.0, 0.0)]
            known[at] = own + min(end[0] for end in ends), own + max(end[1] for end in ends)
        return known[at]
