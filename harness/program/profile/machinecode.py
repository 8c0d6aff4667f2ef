# SPDX-License-Identifier: MIT
"""Whether two functions are the same code, wherever they and what they refer to lie."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.errors import RunError
from harness.packages.tree import tools

#: How objdump calls the instruction sets.
MACHINES = {64: "i386:x86-64", 32: "i386"}
ALIGNED, INT3 = 16, b"\xcc"
#: What an instruction that is cut short may take of the padding.
PADDING = 16
_LINE = re.compile(r"\s*([0-9a-f]+):\t[0-9a-f ]+\t(.*)")
_BRANCH = re.compile(r"^((?:\S+ )*(?:call|j\w+|loop\w*)\w*)\s+0x([0-9a-f]+)$")
#: Where something lies: behind the instruction, in the kernel's image, in a CPU's own memory.
_PLACES = (
    (re.compile(r"\s*#.*"), ""),
    (re.compile(r"-?0x[0-9a-f]+\(%rip\)"), "there(%rip)"),
    (re.compile(r"0xffffffff[0-9a-f]{8}"), "there"),
    (re.compile(r"-0x7[0-9a-f]{7}"), "there"),
    (re.compile(r"%gs:0x[0-9a-f]+"), "%gs:there"),
)
_PLACES_32 = ((re.compile(r"0xc[0-9a-f]{7}"), "there"), (re.compile(r"%fs:0x[0-9a-f]+"), "%fs:there"))
_NOTHING = re.compile(r"(?:\S+ )*(?:nop\w*|int3|xchg +%ax,%ax|data16|cs nopw).*|lea +0x0\(%\w+.*\),%\w+")


def changed(pairs: Sequence[tuple[bytes, bytes]], bits: int) -> list[bool]:
    """Of each pair of functions, whether their instructions differ by more than addresses. RunError without objdump."""
    before, after = (_instructions([pair[side] for pair in pairs], bits) for side in (0, 1))
    return [one != other for one, other in zip(before, after, strict=True)]


def _instructions(functions: Sequence[bytes], bits: int) -> list[list[str]]:
    """Of each function, its instructions without places."""
    blob, starts = bytearray(), []
    for code in functions:
        starts.append(len(blob))
        blob += code + INT3 * (PADDING + -(len(code) + PADDING) % ALIGNED)
    with tempfile.NamedTemporaryFile(prefix="krepro-code-") as file:
        file.write(blob)
        file.flush()
        text = tools().run(["objdump", "-D", "-b", "binary", "-m", MACHINES[bits], Path(file.name)]).stdout
    told: list[list[str]] = [[] for _ in functions]
    at = -1
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        address = int(found[1], 16)
        while at + 1 < len(starts) and address >= starts[at + 1]:
            at += 1
        if at < 0:
            raise RunError(f"objdump told of {address:#x} before the first function")
        size = len(functions[at])
        if address < starts[at] + size:
            text = _without_places(found[2].strip(), starts[at], size, bits)
            # How position-independent code of 32 bits finds its data.
            if bits == 32 and told[at] and told[at][-1] == "call out":
                text = re.sub(r"^(add +)\$0x[0-9a-f]+", r"\1there", text)
            told[at].append(text)
    return [[one for one in instructions if not _NOTHING.fullmatch(one)] for instructions in told]


def _without_places(text: str, start: int, size: int, bits: int) -> str:
    branch = _BRANCH.match(text)
    if branch:
        target = int(branch[2], 16) - start
        return f"{branch[1]} {target if 0 <= target < size else 'out'}"
    for pattern, word in _PLACES if bits == 64 else (*_PLACES, *_PLACES_32):
        text = pattern.sub(word, text)
    return text
