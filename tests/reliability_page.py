# SPDX-License-Identifier: MIT
"""The page of faults, which `./inv docs` makes of the tests of faults themselves."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from tests.faults.rows import Row
from tests.faults.test_guest_faults import ALL, FAULTS

#: What comes of a guest's.
GUEST = "its trial fails, if it does, with the reason, its console and registers; the others are kept"
#: Where faults are, the tests of them, and what comes of them on the whole.
GROUPS: dict[str, tuple[tuple[str, ...], str]] = {
    "QEMU and the host: killed, stopped, missing, KVM that hangs, no room, read-only, clock set": (
        ("faults.test_host_faults", "faults.test_stages"),
        "one line and its exit code; the same command goes on when it can",
    ),
    "the run: signals at every stage, once to five times, SIGKILL, a worker killed": (
        ("faults.test_signals", "faults.test_resume", "guest.test_nightly"),
        "finished trials are kept; the same command goes on, with the same digest",
    ),
    "beside it: other runs, `prune`, apt's lock, a busy host, hundreds of trials": (
        ("faults.test_shared_store", "faults.test_soak", "faults.test_shim_storm"),
        "the same bits; nothing grows",
    ),
    "files: cut, empty, flipped, missing, of others, mutated": (
        (
            *("faults.test_build_folder", "faults.test_damaged_data", "faults.test_damage_everywhere"),
            *("faults.test_fuzz", "guest.test_damage"),
        ),
        "made again, or an error in one line",
    ),
    "what breaks out: a sandbox left behind, another ssh host key, a session that stops": (
        ("guest.test_sandbox", "guest.test_boot"),
        "refused, or ended with its folder",
    ),
}
HEAD = """\
# What fails, and what comes of it

Each row is a test of `tests/faults`, a few of `tests/guest`: a fault in a real run. Whatever it is, trials that had
ended are kept, the run ends with its exit code and one line, and no process, temporary file or half-written set stays
behind, but for what a row leaves to the next run. `./inv test --faults` runs them, two at a time. Those of many boots
or mutations are run by `./inv test --faults --deep`, which takes hours: each reader of foreign files is given 100,000
mutations (`KREPRO_MUTATIONS` sets another number). Some need root, for mounts of their own.

Made by `./inv docs` from what the tests expect.

| where | faults | what comes of it |
|---|---|---|
"""
GUESTS = """
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
    for modules, _ in GROUPS.values():
        for row in rows_of(modules):
            within = f"{row.most_s:g} s" if row.most_s is not None else ""
            rows.append(f"| {row.what} | {row.then} | {within} |\n")
    return HEAD + summary() + GUESTS + "".join(lines) + HOST + "".join(rows)


def rows_of(modules: Iterable[str]) -> list[Row]:
    """The faults of these modules' tests."""
    tests = (test for name in modules for test in vars(importlib.import_module(f"tests.{name}")).values())
    return [row for test in tests for row in getattr(test, "rows", ())]


def summary() -> str:
    """How many faults there are where, as rows of a table."""
    names = ", ".join(name.replace("-", " ") for name in ALL["wall"])
    lines = [
        f"| the guest, on the virtual clock and over ssh: {names} | {len(ALL['wall'])} | {GUEST} |\n",
        *(f"| {where} | {len(rows_of(modules))} | {then} |\n" for where, (modules, then) in GROUPS.items()),
    ]
    return "".join(lines)


def told(expected: str | None) -> str:
    """A reason, of which a test knows a pattern, for people."""
    if expected is None:
        return "—"
    if expected == ".":
        return "any"
    plain = expected.replace("(", "").replace(")", "").replace("|", " / ").replace("workload fault: ", "")
    return plain.strip() or "its workload fails"
