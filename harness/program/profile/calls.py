# SPDX-License-Identifier: MIT
"""The tree of calls of a profile, with names: threads, their functions, and what the kernel did below these."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from harness.errors import RunError
from harness.measure.symbols import SymbolMap
from harness.oracle.paths import CALL, EXCEPTION, INTERRUPT, KERNEL_IMAGE, NMI, SOFTIRQ, SYSTEM_CALL, THREAD, Paths
from harness.oracle.places import CONTEXTS, USER
from harness.program.profile.code import Files, Place, UserCode

KERNEL = "kernel"
OUTSIDE = "(outside)"
INTERRUPTED = "[interrupt]"
_MARKS = {EXCEPTION: "[exception]", INTERRUPT: INTERRUPTED, SOFTIRQ: "[softirq]", NMI: "[nmi]"}
#: What handles a system call, by the architecture and the table that it is in (include/linux/syscalls.h).
_HANDLER = re.compile(r"(?:__(?:x64|ia32|arm64|se|do)_)?(?:compat_)?sys_(\w+)")
#: What the kernel does last before it goes back to user code, pending work with it.
_ON_ITS_WAY_OUT = re.compile(r"exit_to_user|syscall_exit|irqentry_exit|do_notify_resume|prepare_exit_to|el0_")
#: How far below the entry that may be called.
_HANDLER_DEPTH = 8
#: Node, place, context, instructions.
_Leaf = tuple[int, Place, int, int]


@dataclass
class Call:
    """A function in one path of calls, or a thread, a system call, an interrupt: `place` is None where it is none.

    `own` are its instructions, `total` with those below it; `calls` how often it was called.
    """

    label: str
    place: Place | None = None
    own: int = 0
    total: int = 0
    calls: int = 0
    below: dict[tuple[str, str], Call] = field(default_factory=dict)

    def child(self, label: str, place: Place | None = None) -> Call:
        key = (label, place.file if place else "")
        if key not in self.below:
            self.below[key] = Call(label, place)
        return self.below[key]

    @property
    def system_call(self) -> str:
        """The name of the system call that it is; nothing where it is none."""
        return self.label[:-2] if self.place is None and self.label.endswith("()") else ""

    @property
    def style(self) -> str:
        """For the flame graph."""
        if self.place is None:
            return "entry"
        return "kernel" if self.place.file == KERNEL else "user"

    def sorted(self) -> list[Call]:
        """What it called, the most first."""
        return sorted(self.below.values(), key=lambda call: (-call.total, call.label))


@dataclass(frozen=True)
class Thread:
    """`made_by`: the number of the thread that made it, 0 when that is not known; `user`: instructions of user code."""

    number: int
    name: str
    made_by: int
    ours: bool
    user: int
    call: Call


@dataclass
class Calls:
    """All threads; `functions` are instructions by place and context, `lost` those of code that is in no path."""

    threads: list[Thread]
    functions: Counter[tuple[Place, str]]
    lost_calls: int
    lost: int = 0

    def by_function(self) -> tuple[Counter[Place], Counter[Place]]:
        """How often each function was called, and its instructions with all below it; where it calls itself, once."""
        entered: Counter[Place] = Counter()
        totals: Counter[Place] = Counter()
        for thread in self.threads:
            above: set[Place] = set()
            stack: list[tuple[Call, Place | None]] = [(thread.call, None)]  # or the function that ends
            while stack:
                call, ends = stack.pop()
                place = call.place
                if ends is not None:
                    above.discard(ends)
                    continue
                if place is not None:
                    entered[place] += call.calls
                    if place not in above:
                        totals[place] += call.total
                        above.add(place)
                        stack.append((call, place))
                stack += [(below, None) for below in call.below.values()]
        return entered, totals

    def of_program(self) -> Iterator[tuple[Call, bool, str]]:
        """Every call of the program's threads: whether an interrupt made it, and the system call that it is below."""
        stack = [(thread.call, "", False, "") for thread in self.threads if thread.ours]
        while stack:
            call, caller, interrupted, within = stack.pop()
            interrupted = interrupted or call.label == INTERRUPTED or _rescheduled(call, caller)
            within = call.system_call or within
            yield call, interrupted, within
            stack += [(below, call.label, interrupted, within) for below in call.below.values()]

    def system_calls(self) -> dict[str, tuple[int, int]]:
        """Of the program, by name: how often, and the kernel's instructions below them; interrupts left out."""
        found: dict[str, tuple[int, int]] = {}
        for call, interrupted, within in self.of_program():
            if within and not interrupted:
                calls, instructions = found.get(within, (0, 0))
                found[within] = (calls + (call.calls if call.system_call else 0), instructions + call.own)
        return found

    def folded(self) -> Iterator[str]:
        """Paths with their instructions, as flame graph programs read them; `_[k]` marks the kernel's functions."""
        for thread in self.threads:
            stack = [(thread.call, _folded(thread.call))]
            while stack:
                call, path = stack.pop()
                if call.own:
                    yield f"{path} {call.own}"
                stack += [(below, f"{path};{_folded(below)}") for below in reversed(call.sorted())]


def _rescheduled(call: Call, caller: str) -> bool:
    """Whether the scheduler was called because time was over, and not because the thread had to wait."""
    if not call.label.startswith(("schedule", "__schedule", "preempt_schedule")):
        return False
    return call.label.startswith("preempt_schedule") or _ON_ITS_WAY_OUT.match(caller) is not None


def _folded(call: Call) -> str:
    text = call.label.replace(";", ":").replace(" ", "_")
    return f"{text}_[k]" if call.place is not None and call.place.file == KERNEL else text


def read_calls(paths: Paths, symbols: SymbolMap, files: Files) -> Calls:
    """Name everything in the plugin's tree, and unite what has one name."""
    return _Naming(paths, symbols, files).calls()


def check_counts(calls: Calls, counted: pd.DataFrame, where: str) -> None:
    """RunError unless both modes of the plugin, each in its own way, counted the same of every kernel function.

    What lies in no path may be lacking there, and no more than that in all.
    """
    ours: Counter[tuple[str, str]] = Counter()
    for (place, context), instructions in calls.functions.items():
        ours["(user)" if context == CONTEXTS[USER] else place.name, context] += instructions
    theirs: Counter[tuple[str, str]] = Counter()
    for function, context, instructions in counted[["function", "context", "instructions"]].itertuples(index=False):
        theirs[function, context] += instructions
    lacking = {key: theirs[key] - ours[key] for key in sorted(theirs.keys() | ours.keys()) if ours[key] != theirs[key]}
    if min(lacking.values(), default=0) < 0 or sum(lacking.values()) != calls.lost:
        key = min(lacking, key=lambda key: (lacking[key] > 0, key), default=("all", "any"))
        told = f"{key[0]} ({key[1]}): {theirs[key]} instructions, and by call paths {ours[key]}"
        raise RunError(f"{told}; {calls.lost} are in none" if calls.lost else told, where=where)


class _Naming:
    def __init__(self, paths: Paths, symbols: SymbolMap, files: Files) -> None:
        self._paths = paths
        self._symbols = symbols
        self._kernel = symbols.stext
        self._user = {
            image: UserCode(pages, files, paths.images[image])
            for image, pages in paths.code.items()
            if image != KERNEL_IMAGE
        }
        self._none = UserCode({}, files, "")
        self._known: dict[int, Place] = {}
        nodes = paths.nodes
        self._whats, self._targets = nodes["what"].tolist(), nodes["target"].tolist()
        self._parents, self._called = nodes["parent"].tolist(), nodes["calls"].tolist()
        # Of each node, by its root.
        self._images, self._threads = [0] * len(self._whats), [0] * len(self._whats)
        for at, (what, target, parent) in enumerate(zip(self._whats, self._targets, self._parents, strict=True)):
            is_root = what == THREAD and at
            self._images[at] = target >> 32 if is_root else self._images[parent]
            self._threads[at] = target & 0xFFFFFFFF if is_root else self._threads[parent]

    def calls(self) -> Calls:
        leaves, needed = self._leaves(), self._needed()
        places = [
            self._place(self._images[at], self._targets[at]) if what == CALL and needed[at] else None
            for at, what in enumerate(self._whats)
        ]
        names = self._handlers(places, leaves)
        roots: dict[int, Call] = {}
        calls: list[Call] = [Call("")] * len(needed)
        for at in (at for at, is_needed in enumerate(needed) if is_needed):
            what, place = self._whats[at], places[at]
            if what == THREAD:
                calls[at] = roots.setdefault(self._threads[at], Call(""))
            else:
                number = self._targets[at]
                label = place.name if place else _MARKS.get(what) or f"{names.get(number, number)}()"
                calls[at] = calls[self._parents[at]].child(label, place)
            calls[at].calls += self._called[at]
        functions: Counter[tuple[Place, str]] = Counter()
        user: Counter[int] = Counter()
        for node, place, context, instructions in leaves:
            functions[place, CONTEXTS[context]] += instructions
            if context == USER:
                user[self._threads[node]] += instructions
            call = calls[node]
            if call.place != place:  # it got there by a jump
                call = call.child(place.name, place)
            call.own += instructions
        for call in roots.values():
            _total(call)
        return Calls(self._told(roots, user), functions, self._paths.report.lost_calls, self._paths.lost)

    def _leaves(self) -> list[_Leaf]:
        """What was executed, with the blocks of a function united."""
        leaves = self._paths.leaves
        node = leaves["node"].astype(np.int64)
        image = np.where(leaves["context"] == USER, np.array(self._images)[node], -1)
        order = np.lexsort((leaves["code"], image))
        code, image = leaves["code"][order], image[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (code[1:] != code[:-1]) | (image[1:] != image[:-1])
        numbers: dict[Place, int] = {}
        first = [
            numbers.setdefault(self._kernel_place(at) if of < 0 else self._place(of, at), len(numbers))
            for of, at in zip(image[new].tolist(), code[new].tolist(), strict=True)
        ]
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.array(first, dtype=np.int64)[np.cumsum(new) - 1]
        keys = (node * max(len(numbers), 1) + place) * len(CONTEXTS) + leaves["context"]
        keys, inverse = np.unique(keys, return_inverse=True)
        sums = np.zeros(keys.size, dtype=np.int64)
        np.add.at(sums, inverse, leaves["instructions"].astype(np.int64))
        rest, contexts = np.divmod(keys, len(CONTEXTS))
        nodes, at_place = np.divmod(rest, max(len(numbers), 1))
        places = list(numbers)
        told = (nodes.tolist(), [places[at] for at in at_place.tolist()], contexts.tolist(), sums.tolist())
        return list(zip(*told, strict=True))

    def _needed(self) -> list[bool]:
        """The nodes in which, or below which, anything was executed."""
        needed = [False] * len(self._whats)
        for at in np.unique(self._paths.leaves["node"]).tolist():
            node = at
            while node and not needed[node]:
                needed[node] = True
                node = self._parents[node]
        return needed

    def _place(self, image: int, address: int) -> Place:
        if address == 0 or address >= self._kernel:
            return self._kernel_place(address)
        return self._user.get(image, self._none).at(address)

    def _kernel_place(self, address: int) -> Place:
        if address not in self._known:
            index = int(self._symbols.at([address])[0])
            name = str(self._symbols.name[index]) if index >= 0 else OUTSIDE
            self._known[address] = Place(name, KERNEL, address if index >= 0 else None)
        return self._known[address]

    def _handlers(self, places: list[Place | None], leaves: list[_Leaf]) -> dict[int, str]:
        """The name of each system call's number, by the function that most often handles it."""
        seen: dict[int, Counter[str]] = {}

        def note(node: int, place: Place | None) -> None:
            found = _HANDLER.fullmatch(place.name) if place is not None and place.file == KERNEL else None
            for _ in range(_HANDLER_DEPTH):
                if found is None or not node:
                    return
                if self._whats[node] == SYSTEM_CALL:
                    seen.setdefault(self._targets[node], Counter())[found[1]] += 1
                    return
                node = self._parents[node]

        for at, place in enumerate(places):
            note(self._parents[at], place)
        for node, place, _, _ in leaves:
            note(node, place)
        return {number: min(names, key=lambda name: (-names[name], name)) for number, names in seen.items()}

    def _told(self, roots: dict[int, Call], user: Counter[int]) -> list[Thread]:
        ours = self._paths.threads_of_program()
        told = []
        for number, call in sorted(roots.items()):
            made_by, image = self._paths.report.threads[number]
            name = self._paths.images[image] or "before"
            call.label = f"{name} {number}"
            told.append(Thread(number, name, made_by, number in ours, user[number], call))
        return told


def _total(root: Call) -> None:
    order, stack = [], [root]
    while stack:
        call = stack.pop()
        order.append(call)
        stack += call.below.values()
    for call in reversed(order):
        call.total = call.own + sum(below.total for below in call.below.values())
