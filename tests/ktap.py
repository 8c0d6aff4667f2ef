# SPDX-License-Identifier: MIT
"""What a kernel's own tests say of themselves, in KTAP: KUnit's suites in the kernel's log, a kselftest's output."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: How the log begins each line.
STAMP = re.compile(r"^(?:<\d+>)?\[ *\d+\.\d+\] ?")
RESULT = re.compile(r"^ *(not ok|ok) (\d+)(?: -)? (\S+)(.*)$")
PLAN = re.compile(r"^ *1\.\.(\d+)")


def complaints(text: str, wanted: Iterable[str]) -> Iterator[str]:
    """Everything that is not as it should be: a result that is not ok or was skipped, a number that is left out, a plan
    of another number, and what of `wanted`, suites or tests, has no result. What is inside is further to the right.
    """
    seen: set[str] = set()
    plans: dict[int, int] = {}
    last: dict[int, int] = {}

    def ended(least: int) -> Iterator[str]:
        for depth in [depth for depth in plans if depth >= least]:
            if (planned := plans.pop(depth)) != (ran := last.pop(depth)):
                yield f"{ran} of {planned} ran"

    for line in (STAMP.sub("", line) for line in text.splitlines()):
        depth = len(line) - len(line.lstrip())
        if told := PLAN.match(line):
            yield from ended(depth)
            plans[depth], last[depth] = int(told[1]), 0
        elif found := RESULT.match(line):
            yield from ended(depth + 1)
            if found[1] != "ok" or "SKIP" in found[4]:
                yield line.strip()
            if int(found[2]) != last.get(depth, 0) + 1:
                yield f"{found[3]} is number {found[2]}, behind {last.get(depth, 0)}"
            last[depth] = int(found[2])
            seen.add(found[3])
    yield from ended(0)
    for name in wanted:
        if name not in seen:
            yield f"{name} did not run"
