# SPDX-License-Identifier: MIT
"""What the filters keep of what real threads do, and what they cost in real cycles."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120


@dataclass(frozen=True)
class Check:
    """A load for `threads check`: HOLD in turns of a loop, READS per mille, OPS a thread."""

    type: str
    locks: int
    threads: int = 2
    hold: int = 50
    reads: int = 0
    ops: int = 20_000


#: Two threads, each on a CPU of its own where there are two; and more threads than CPUs.
CHECKS = {
    "spin, 1 lock, short": Check("spin", 1, hold=0),
    "spin, 1 lock": Check("spin", 1),
    "spin, 1 lock, long": Check("spin", 1, hold=500),
    "spin, 2 locks": Check("spin", 2),
    "spin, 8 locks": Check("spin", 8),
    "spin, 100 locks": Check("spin", 100),
    "spin, 5000 locks": Check("spin", 5000, hold=0),
    "spin, 1 lock, 4 threads": Check("spin", 1, threads=4, ops=10_000),
    "rwlock, 1 lock, half reads": Check("write", 1, reads=500),
    "rwlock, 4 locks, most read": Check("write", 4, reads=900),
    "rwlock, 1 lock, 4 threads": Check("write", 1, threads=4, reads=700, ops=10_000),
    "mutex, 1 lock": Check("mutex", 1),
    "mutex, 4 locks": Check("mutex", 4, hold=200),
    "mutex, 1 lock, 4 threads": Check("mutex", 1, threads=4, hold=200, ops=10_000),
}

#: Type, locks, threads; each thread has locks of its own.
COSTS = [
    *((kind, locks, 1) for kind in ("spin", "read", "write", "mutex") for locks in (1, 100, 5000)),
    *(("spin", locks, 2) for locks in (1, 5000)),
]
ARMS = ("off", "all", "per-lock", "contended", "paper")
#: Nothing of this may be: what was waited for is kept, and nothing else.
FAULTS = ("waiters_dropped", "waits_invented", "holders_dropped", "without_waiter", "balance", "untracked", "lost")


def check(program: Path, arm: str, load: Check) -> dict[str, int]:
    """What was kept, against the locks' own words: `struct result` of threads.c, events, balance and untracked."""
    words = (load.type, load.locks, load.threads, load.hold, load.reads, load.ops)
    return {name: int(value) for name, value in _answer(program, "check", arm, *words).items()}


def pair_cycles(program: Path, arm: str, kind: str, locks: int, threads: int, pairs: int = 200_000) -> float:
    """Cycles of a pair of acquire and release, the least of twenty pieces; of several threads, the slowest's.

    Nobody reads the rings: more than 300,000 pairs would not find room in them, and cost less.
    """
    return float(_answer(program, "cost", arm, kind, locks, threads, pairs)["cycles"])


def _answer(program: Path, *words: object) -> dict[str, float]:
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer
