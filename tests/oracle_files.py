# SPDX-License-Identifier: MIT
"""Writes the files of an oracle as the plugin does, for tests without a guest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.oracle.reader import LAP, WINDOW

CONTEXTS = {"task": 0, "interrupt": 1, "softirq": 2, "exception": 3, "nmi": 4, "user": 5}


def write_oracle(
    trial: Path,
    regions: Sequence[Mapping[tuple[int, str], tuple[int, int]]],
    samples: Sequence[tuple[int, int] | tuple[int, int, int]] = (),
    nmi_samples: Sequence[tuple[int, int]] = (),
    words: Sequence[int] = (),
    numbers: Sequence[int] = (),
    locks: Sequence[tuple[int, int, int, int, int, int]] = (),
    laps: Sequence[Mapping[tuple[int, str], tuple[int, int]]] = (),
    windows: Sequence[Mapping[tuple[int, str], tuple[int, int]]] | None = None,
    **report: Any,
) -> None:
    """regions, laps, windows (None: the regions): (address, context) -> (instructions, entries); samples: region,
    address, and the lap if in one; nmi_samples: the same in an NMI, after them; words: of pages.bin; locks: region,
    kind, target, site, count, lock.
    """
    windows = regions if windows is None else windows
    folder = trial / "oracle"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "functions.bin").open("wb") as sink:
        kinds = ((0, regions), (LAP, laps), (WINDOW, windows))
        numbered = [(kind, *pair) for kind, own in kinds for pair in enumerate(own)]
        for kind, number, region in numbered:
            for (address, context), (instructions, entries) in region.items():
                head = number | kind << 32 | CONTEXTS[context] << 48
                sink.write(np.array([head, address, instructions, entries], dtype="<u8").tobytes())
    rows = [
        (1000 * i, address, (region + 1) * 0x10001 | 1 << 40 | sum(lap + 1 for lap in inside) << 42)
        for i, (region, address, *inside) in enumerate(samples)
    ]
    rows += [
        (10**6 + i, address, (region + 1) * 0x10001 | CONTEXTS["nmi"] << 32)
        for i, (region, address) in enumerate(nmi_samples)
    ]
    (folder / "samples.bin").write_bytes(np.array(rows, dtype="<u8").tobytes())
    (folder / "pages.bin").write_bytes(np.array(words, dtype="<u8").tobytes())
    (folder / "pages.idx").write_bytes(np.array(numbers, dtype="<u8").tobytes())
    (folder / "pages.clk").write_bytes(np.array([100, 5000, 110, 9000], dtype="<u8").tobytes())
    calls = [(region | kind << 32, *rest) for region, kind, *rest in locks]
    (folder / "locks.bin").write_bytes(np.array(calls, dtype="<u8").tobytes())
    whole = {
        "format": 1,
        "modes": dict.fromkeys(("functions", "sampler", "pages", "counters", "nmi")),
        "marks": {
            "mismatched": 0,
            "from_user": True,
            "workloads": len(regions),
            "laps": len(laps),
            "windows": len(windows),
        },
        "functions": {
            "used": 9,
            "overflow": False,
            "changes": 1,
            "lost_frames": 0,
            "check_instructions": [200000, 200003],
        },
        "pages": {
            "accesses": 0,
            "words": len(words),
            "pages": len(numbers),
            "lost_spans": 0,
            "check_accesses": [4097],
            "check_wrong": 0,
            "spans": [[0, len(words), 100]],
        },
        "locks": {"calls": len(calls), "told": sum(call[3] for call in calls), "untold": 0},
        "counters": {"check_instructions": [200100], "instructions": [1000000]},
        "sampler": {"samples": len(rows)},
        "nmi": {"sent": 20, "refused": 0},
        "shift": 3,
        "seed": 1,
        "period_ns": 200000,
    }
    for key, value in report.items():
        part = whole[key]
        whole[key] = part | value if isinstance(part, dict) else value
    (folder / "oracle.json").write_text(json.dumps(whole))
