# SPDX-License-Identifier: MIT
"""Jobs: the shell text that a guest runs for one trial. The same text over ssh and through the mailbox."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import UsageError

Value = str | int | float | bool


@dataclass(frozen=True)
class WorkloadCommand:
    """One workload as the guest runs it."""

    name: str
    command: str
    timeout_s: float
    collectors: tuple[str, ...]


def variable(name: str) -> str:
    """Environment variable that carries the parameter `name` into the guest."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UsageError(f"parameter {name!r}: lower-case letters, digits and _ only")
    return f"KREPRO_{name.upper()}"


def render(value: Value) -> str:
    """A parameter's text in the guest; booleans are `on` and `off`, as YAML spells them."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def trial_job(seed: int, params: Mapping[str, Value], workloads: Sequence[WorkloadCommand]) -> str:
    """Shell text that seeds the guest, then runs each workload between its collectors, stopping at a failure."""
    lines = [f"export KREPRO_SEED={seed}"]
    lines += [f"export {variable(name)}={shlex.quote(render(value))}" for name, value in sorted(params.items())]
    lines.append("krepro-pmu >pmu")
    lines.append(f"krepro-seed {seed} || exit 1")
    for workload in workloads:
        words = [workload.name, f"{workload.timeout_s:g}", workload.command, *workload.collectors]
        lines.append(f"krepro-workload {shlex.join(words)} || exit 1")
    return "\n".join(lines) + "\n"
