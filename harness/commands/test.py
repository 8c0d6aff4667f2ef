# SPDX-License-Identifier: MIT
"""`test`: the project's own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

from harness.cli.declaration import Option, command
from harness.cli.shared import check_checkout
from harness.paths import ROOT

#: pytest's exit code when nothing was collected.
NO_TESTS = 5


@command("Upkeep", guests=True, tests=True)
def test(
    unit: Annotated[
        bool,
        Option("only `tests/unit`, `tests/experiments` and `tests/hostile`, which need no guest", spares_guests=True),
    ] = False,
    deep: Annotated[
        bool, Option("all of them: also those that take long, or need kernels that no other test needs; as CI does")
    ] = False,
    faults: Annotated[
        bool,
        Option(
            "only `tests/faults`: fault injection; with `--deep` only its long ones, mutations, tortures, long "
            "sequences, and guests of arm64: hours"
        ),
    ] = False,
    kvm: Annotated[
        bool, Option("only `tests/kvm`: guests under KVM, in a [KVM host](kvm-host.md) that is emulated")
    ] = False,
    update: Annotated[
        bool, Option("rewrite the expected results of the golden trials, and READMEs' figures; review the diff")
    ] = False,
    k: Annotated[str | None, Option("only tests whose names match, as pytest's `-k`", none="all")] = None,
) -> int:
    """Run the tests: linters, units, then guests of every kind."""
    check_checkout("test")
    shallow = [] if deep else ["-m", "not deep"]
    parallel = ["tests/unit", "tests/experiments", "tests/hostile", "-n", "auto", "--dist", "worksteal", *shallow]
    # A guest keeps one CPU busy. Tests of one file stay together: they share what they pay for.
    guests = ["tests/commands", "tests/guest", "-n", "2", "--dist", "loadfile", *shallow]
    stages = [parallel] if unit else [parallel, guests]
    if faults or kvm:
        long = ["-o", "timeout=3600"]
        # A fault is mostly waited for; tests that share what they pay for stay together.
        injected = ["tests/faults", "-m", "not soak", *long, "-n", "2", "--dist", "loadgroup"]
        at_once = ["-n", "2", "--dist", "worksteal"]  # a KVM host each, on a CPU of its own
        hosts = ["tests/kvm", *long, *at_once]
        soaked = [["tests/faults", "-m", "soak", *long], ["tests/guest/test_arm64.py", "--build-kernels", *long]]
        stages = (soaked if deep else [injected]) * faults + [hosts] * kvm
    filtered = [*(["-k", k] if k else []), *(["--update"] if update else [])]
    statuses = [_pytest([*stage, *filtered]) for stage in stages]
    if k:  # a name that fits in one stage need not fit in the other
        statuses = [status for status in statuses if status != NO_TESTS] or [NO_TESTS]
    return max(statuses)


def _pytest(words: list[str]) -> int:
    words = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(words, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode
