# SPDX-License-Identifier: MIT
"""irq-hotspot's patches, switched off: the code of the hot path is the stock kernel's, and a nop for each switch.

Here, as the stock kernel takes minutes to compile.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.trial.prepare import build_for
from tests.compiling import run

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
#: What a static key leaves of a branch that is not taken, on i386.
NOP = "lea %ds:0x0(%esi,%eiz,1),%esi"
PADDING = re.compile(r"lea 0x0\(%esi(,%eiz,1)?\),%esi|nop|xchg %ax,%ax")


def code(vmlinux: Path, function: str) -> list[str]:
    """A function's instructions without padding: no addresses, its own places as HERE, those of others by name."""
    lines = run("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", vmlinux).splitlines()
    words = [" ".join(line.split("\t")[1].split()) for line in lines if line.startswith("c") and "\t" in line]
    words = [re.sub(rf"\bc1[0-9a-f]{{6}} <{function}\+0x[0-9a-f]+>", "HERE", word) for word in words]
    words = [re.sub(r"\b(0x)?c1[0-9a-f]{6}\b", "PLACE", word) for word in words]
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
        code(build_for(Store.default(), kernel, None).kernel.file("vmlinux"), function)
        for kernel in ("classic-stock", "classic")
    )
    assert len(stock) > 10
    assert Counter(patched) - Counter(stock) == Counter(more)
    assert not Counter(stock) - Counter(patched)
    if function == "profile_tick":
        return  # where it returns at once, it now saves no registers first
    # In the same order, too: the branch that is not taken lies behind the rest.
    assert [word for word in patched if word not in more] == [word for word in stock if word not in more]
