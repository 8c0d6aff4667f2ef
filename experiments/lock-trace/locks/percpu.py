# SPDX-License-Identifier: MIT
"""Which variable a per-CPU lock is: the kernel's symbols have the place in a CPU's part, and the lock its address.

x86-64 lays the parts, "units", of 2 MiB / 2^n each, from a multiple of 2 MiB on (arch/x86/kernel/setup_percpu.c), and a
unit begins with the variables. So what is left of an address after its unit is the variable's symbol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .classes import DYNAMIC, StaticData

#: `classes_of` of a per-CPU lock.
_UNNAMED = "(percpu)"
_ATOM = 2 << 20
_EMBEDDED = re.compile(r"percpu: Embedded \d+ pages/cpu .*\bu(\d+)")


def unit_of(said: str) -> int | None:
    """Bytes of a unit from what the kernel said at its boot; None: it said nothing, or the rule above does not hold."""
    match = _EMBEDDED.search(said)
    size = int(match[1]) if match else 0
    return size if size and _ATOM % size == 0 else None


def per_cpu_names(classes: Mapping[int, str], unit: int | None, data: StaticData) -> dict[int, str]:
    """The same classes by address, with `variable+0xoffset (per CPU)` for the kernel's own per-CPU variables."""
    found = dict(classes)
    if unit is None:
        return found
    addresses = [address for address, name in classes.items() if name == _UNNAMED]
    names = data.names([address % unit for address in addresses]).tolist()
    for address, name in zip(addresses, names, strict=True):
        # Behind the last variable lie those of modules and what was allocated.
        if name != DYNAMIC and not name.startswith("__per_cpu_end"):
            found[address] = f"{name} (per CPU)"
    return found
