# SPDX-License-Identifier: MIT
"""Patches of irq-hotspot and lock-trace, switched off: the stock kernel's code on hot paths, and a nop for each switch.

Here, as the stock kernels take minutes to compile.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.trial.prepare import build_for
from tests.compiling import run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
#: What a static key leaves of a branch that is not taken, on i386.
NOP = "lea %ds:0x0(%esi,%eiz,1),%esi"
PADDING = re.compile(r"lea 0x0\(%esi(,%eiz,1)?\),%esi|nop|xchg %ax,%ax")
#: The same on x86_64, where it is as long as a short jump.
NOP64 = "xchg %ax,%ax"
#: What takes a lock or lets it go, and no more: of a trylock the compiler makes something else.
LOCKS = (
    *(f"_raw_spin_{what}" for what in ("lock", "lock_irq", "lock_bh", "lock_irqsave", "unlock_irqrestore")),
    *(f"_raw_read_{what}" for what in ("lock", "lock_irq", "lock_bh", "lock_irqsave", "unlock_irqrestore")),
    *(f"_raw_write_{what}" for what in ("lock", "lock_irq", "lock_bh", "lock_irqsave", "unlock_irqrestore")),
    *("mutex_lock", "mutex_lock_interruptible", "mutex_lock_killable", "mutex_unlock"),
    *("down_read", "down_read_killable", "up_read", "down_write", "down_write_killable", "up_write"),
)


def code(vmlinux: Path, function: str, place: str = "c1[0-9a-f]{6}") -> list[str]:
    """A function's instructions: no addresses, its own places as HERE, those of others by name."""
    lines = run("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", vmlinux).splitlines()
    words = [" ".join(line.split("\t")[1].split()) for line in lines if re.match(f"{place}:", line)]
    words = [re.sub(rf"\b{place} <{function}\+0x[0-9a-f]+>", "HERE", word) for word in words]
    # What a CPU has of its own is named by its offset, which moves with other variables.
    return [
        re.sub(rf"\b(0x)?{place}\b|0x[0-9a-f]+(?=\(%rip\))|(?<=# )[0-9a-f]+(?= <)", "PLACE", word) for word in words
    ]


def without_padding(words: list[str]) -> list[str]:
    return [word for word in words if not PADDING.fullmatch(word)]


@pytest.mark.parametrize(
    ("function", "more"),
    [
        ("__handle_irq_event_percpu", [NOP, "mov %esi,%eax", "call PLACE <__irq_hotspot_hit>", "jmp HERE"]),
        ("profile_tick", [NOP, "ret"]),
        ("handle_irq_event_percpu", []),
        ("handle_irq_event", []),
        ("profile_hits", []),
        ("tick_handle_periodic", []),
        ("default_do_nmi", []),
    ],
)
def test_off_is_the_stock_code_and_a_nop(function, more):
    stock, patched = (
        without_padding(code(build_for(Store.default(), kernel, None).kernel.file("vmlinux"), function))
        for kernel in ("classic-stock", "classic")
    )
    assert len(stock) > 10
    assert Counter(patched) - Counter(stock) == Counter(more)
    assert not Counter(stock) - Counter(patched)
    if function == "profile_tick":
        return  # where it returns at once, it now saves no registers first
    # In the same order, too: the branch that is not taken lies behind the rest.
    assert [word for word in patched if word not in more] == [word for word in stock if word not in more]


#: Where gcc needs what is let go behind the nop too, it keeps it in a register that the function saves in any case.
ALSO = {("7.3", "up_write"): "mov %rdi,%rbx"}


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.3"])
def test_a_lock_that_is_not_traced_is_the_stock_code_and_a_nop(version):
    stock, patched = (
        build_for(Store.default(), f"modern-{version}{kind}", None).kernel.file("vmlinux") for kind in ("-stock", "")
    )
    wrong = {}
    for function in LOCKS:
        before, after = (until_it_returns(code(path, function, "ffffffff8[0-9a-f]{7}")) for path in (stock, patched))
        if (version, function) in ALSO:
            after.remove(ALSO[version, function])
        nops = [place for place, word in enumerate(after) if word == NOP64]
        if len(before) < 3 or not any(after[:place] + after[place + 1 :] == before for place in nops):
            wrong[function] = before, after
    assert not wrong


def until_it_returns(words: list[str]) -> list[str]:
    """The way of who gets the lock, or lets it go, at once: what waits, and what traces, lies behind it."""
    end = next(place for place, word in enumerate(words) if re.match("ret|jmp PLACE", word))
    return words[: end + 1]
