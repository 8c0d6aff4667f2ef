# SPDX-License-Identifier: MIT
"""`./inv bench lock-trace`: the kernel's filters between real threads of this host."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from .userspace.build import build
from .userspace.runs import ARMS, CHECKS, COSTS, FAULTS, check, pair_cycles


def bench(folder: Path, repetitions: int) -> dict[str, pd.DataFrame]:
    """Tables by title. `folder` is an empty one to build in; of `repetitions` measurements, the least is told."""
    program = build(folder)
    kept = []
    for name, load in CHECKS.items():
        for arm in ("per-lock", "contended", "paper"):
            found = check(program, arm, load)
            kept.append(
                {"load": name, "filter": arm, **{key: found[key] for key in ("acquisitions", "failed", "kept")}}
            )
            kept[-1] |= {key: found[key] for key in ("gone", *FAULTS)}
    costs = []
    for kind, locks, threads in COSTS:
        cycles = {arm: min(pair_cycles(program, arm, kind, locks, threads) for _ in range(repetitions)) for arm in ARMS}
        net = {arm: cycles[arm] - cycles["off"] for arm in ARMS[1:]}
        row = {"type": kind, "locks": locks, "threads": threads, "off": cycles["off"]}
        costs.append(row | net | {f"{arm} / all": net[arm] / net["all"] for arm in ("per-lock", "contended")})
    return {
        "What the filters keep; failed: acquisitions whose trylock failed": pd.DataFrame(kept),
        "A pair in cycles; arms but off: beyond off": pd.DataFrame(costs).round(2),
    }
