# SPDX-License-Identifier: MIT
"""One exact profile as data: what its program's threads executed, by function and by system call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.measure.symbols import SymbolMap, read_system_map
from harness.measure.tracer import Traced
from harness.oracle.paths import KERNEL_IMAGE, PAGE, Paths
from harness.oracle.reader import LAP, Oracle
from harness.program.profile.calls import INTERRUPTED, KERNEL, Calls, check_counts, read_calls
from harness.program.profile.code import Files, Place

#: In place of functions: what interrupted the program, which comes when it likes.
INTERRUPTS = Place(INTERRUPTED, KERNEL)


@dataclass(frozen=True)
class Cost:
    """Instructions, and how often."""

    instructions: int = 0
    calls: int = 0

    @property
    def each(self) -> float:
        """Instructions of one call."""
        return self.instructions / self.calls if self.calls else 0.0


@dataclass
class Profile:
    """Of one run. `functions` has what they executed themselves; interrupts are one place, INTERRUPTS."""

    calls: Calls
    symbols: SymbolMap
    files: Files
    pages: dict[int, bytes]  # of the kernel's code, by address
    functions: dict[Place, Cost]
    system_calls: dict[str, Cost]
    below: dict[str, Counter[tuple[str, str]]]  # of each system call, instructions by function's name and file
    status: int = 0  # how the program ended, as a shell has it

    @property
    def total(self) -> int:
        """Instructions of the program's threads, interrupts left out."""
        return sum(cost.instructions for place, cost in self.functions.items() if place != INTERRUPTS)

    @property
    def user(self) -> int:
        """Instructions of the program's own code."""
        return sum(thread.user for thread in self.calls.threads if thread.ours)

    def has(self, name: str, file: str) -> bool:
        """Whether there is such a function, executed or not; of no file's code, whether it was executed."""
        if file == KERNEL:
            return bool(self.symbols.find(name).size)
        return (name, file) in {(place.name, place.file) for place in self.functions} or self.files.has(name, file)

    def code(self, place: Place) -> bytes:
        """The bytes of a function; none where they are not known."""
        if place.file != KERNEL:
            return self.files.code(place)
        if place.address is None:
            return b""
        index = int(self.symbols.at([place.address])[0])
        first, size = int(self.symbols.address[index]), int(self.symbols.size[index])
        parts = [self.pages.get(page) for page in range(first & -PAGE, first + size, PAGE)]
        whole = [part for part in parts if part is not None]
        return b"".join(whole)[first % PAGE :][:size] if len(whole) == len(parts) else b""


def read_profile(program: Traced) -> Profile:
    """Read what a run under the tracer left. OracleAbsent and RunError as the oracle's readers say."""
    symbols = read_system_map(program.system_map)
    oracle, files = Oracle(program.raw), Files(program.root)
    paths = Paths(oracle)
    calls = read_calls(paths, symbols, files)
    check_counts(calls, oracle.functions(symbols, kind=LAP), str(oracle.folder))
    functions: Counter[Place] = Counter()
    entered: Counter[Place] = Counter()
    under: dict[str, Counter[tuple[str, str]]] = {}
    for call, interrupted, within in calls.of_program():
        place = INTERRUPTS if interrupted else call.place
        if place is None:
            continue
        functions[place] += call.own
        entered[place] += call.calls if not interrupted or call.label == INTERRUPTED else 0
        if within and not interrupted:
            under.setdefault(within, Counter())[place.name, place.file] += call.own
    costs = {place: Cost(own, entered[place]) for place, own in functions.items()}
    system_calls = {name: Cost(below, times) for name, (times, below) in calls.system_calls().items()}
    return Profile(calls, symbols, files, paths.code.get(KERNEL_IMAGE, {}), costs, system_calls, under)
