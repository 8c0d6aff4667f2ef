# SPDX-License-Identifier: MIT
"""docs/reliability.md, from the tests of faults themselves: `python -m tests.reliability_page` writes it."""

from __future__ import annotations

import importlib

from harness.paths import ROOT
from tests.faults.test_guest_faults import ALL, FAULTS

PAGE = ROOT / "docs" / "reliability.md"
MODULES = (
    *("faults.test_host_faults", "faults.test_stages", "faults.test_signals", "faults.test_resume"),
    *("faults.test_shared_store", "faults.test_soak", "faults.test_build_folder"),
    *("faults.test_damaged_data", "faults.test_damage_everywhere", "faults.test_fuzz"),
    "faults.test_shim_storm",
    *("guest.test_damage", "guest.test_sandbox", "guest.test_boot", "guest.test_nightly"),
)
HEAD = """\
# What fails, and what comes of it

Each row is a test of `tests/faults`, a few of `tests/guest`: a fault in a real run. Whatever it is, trials that had
ended are kept, the run ends with its exit code and one line, and no process, temporary file or half-written set stays
behind. `./inv test --faults` runs them, two at a time. Those of many boots or mutations are run by `./inv test --soak`,
which takes hours: each reader of foreign files is given 100,000 mutations (`KREPRO_MUTATIONS` sets another number).
Some need root, for mounts of their own.

This page is written by `python -m tests.reliability_page` from what the tests expect.

## Guests

One run with an arm for each, on the virtual clock and once more over ssh. `—`: nothing, its trial is fine. A trial ends
at the latest when its time limit does; here that is 80 s.

| fault | reason of its trial, virtual clock | over ssh |
|---|---|---|
"""
HOST = """
## Hosts, runs and files

| fault | what comes of it | within |
|---|---|---|
"""


def page() -> str:
    """The whole page."""
    lines = []
    for name in ALL["wall"]:
        virtual = told(FAULTS[name].virtual) if name in FAULTS else "has no ssh"
        lines.append(f"| {name.replace('-', ' ')} | {virtual} | {told(ALL['wall'][name].wall)} |\n")
    rows = []
    for module in MODULES:
        for test in vars(importlib.import_module(f"tests.{module}")).values():
            for row in getattr(test, "rows", ()):
                within = f"{row.most_s:g} s" if row.most_s is not None else ""
                rows.append(f"| {row.what} | {row.then} | {within} |\n")
    return HEAD + "".join(lines) + HOST + "".join(rows)


def told(expected: str | None) -> str:
    """A reason, of which a test knows a pattern, for people."""
    if expected is None:
        return "—"
    if expected == ".":
        return "any"
    plain = expected.replace("(", "").replace(")", "").replace("|", " / ").replace("workload fault: ", "")
    return plain.strip() or "its workload fails"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
