"""Invoke tasks: parse, call the harness, print. `./inv --list` shows them."""

from __future__ import annotations

from pathlib import Path

from invoke import Context, task

from harness import cli
from harness.paths import RESULTS

DEBUG = "show tracebacks"


@task(
    positional=["experiment"],
    help={
        "experiment": "experiment=NAME, NAME, or the path of an experiment's folder",
        "profile": "quick or full",
        "repetitions": "trials per arm, instead of the profile's",
        "accel": "auto, kvm or tcg",
        "arms": "only these arms, comma-separated",
        "seed": "seed of order and trials; equal seeds give equal virtual-clock trials",
        "results": "folder for result sets",
        "oracle": "exact ground truth beside every arm: modes, comma-separated (docs/oracle.md)",
        "check-digest": "fail unless the run's digest is this one (hex, a reference file, a set, or: reference)",
        "debug": DEBUG,
    },
)
def run(
    c: Context,
    experiment: str,
    profile: str = "quick",
    repetitions: str = "",
    accel: str = "auto",
    arms: str = "",
    seed: str = "1",
    results: str = str(RESULTS),
    check_digest: str = "",
    oracle: str = "",
    debug: bool = False,
) -> None:
    """Run an experiment: build, boot, measure, judge; print tables, claims and the result set's path."""
    from harness import commands

    cli.guarded(
        lambda: commands.run(experiment, profile, repetitions, accel, arms, seed, results, check_digest, oracle),
        debug=debug,
        guests=True,
    )


@task(
    positional=["kernel"],
    help={
        "kernel": "kernel=NAME or NAME",
        "experiment": "use this experiment's image",
        "accel": "auto, kvm or tcg",
        "append": "more words for the kernel's command line",
        "cpus": "CPUs",
        "debug": DEBUG,
    },
)
def boot(
    c: Context,
    kernel: str,
    experiment: str = "",
    accel: str = "auto",
    append: str = "",
    cpus: str = "1",
    debug: bool = False,
) -> None:
    """Boot a kernel and give you a shell in the guest, on its console."""
    from harness import commands

    cli.guarded(lambda: commands.boot(kernel, experiment, accel, append, cpus), debug=debug, guests=True)


@task(positional=["kernel"], help={"kernel": "kernel=NAME, NAME, or all", "debug": DEBUG})
def build(c: Context, kernel: str, debug: bool = False) -> None:
    """Build kernels and their base images into the store."""
    from harness import commands

    cli.guarded(lambda: commands.build(kernel), debug=debug, guests=True)


@task(help={"json": "machine-readable", "debug": DEBUG})
def doctor(c: Context, json: bool = False, debug: bool = False) -> None:
    """Say what this host can do: accelerator, PMU, tools, disk."""
    from harness import commands

    cli.guarded(lambda: commands.doctor(json), debug=debug)


@task(
    help={
        "unit": "only the tests without a guest",
        "faults": "fault injection and soak instead",
        "k": "only tests whose names match (pytest -k)",
        "debug": DEBUG,
    }
)
def test(c: Context, unit: bool = False, faults: bool = False, k: str = "", debug: bool = False) -> None:
    """Run the tests: linters, unit tests, then tests that boot guests."""
    from harness import commands

    cli.guarded(lambda: commands.test(unit, faults, k), debug=debug, guests=not unit)


@task(
    positional=["result"],
    help={"result": "a result set", "trial": "ARM/REPETITION (all virtual ones without)", "results": "folder of sets"},
)
def replay(c: Context, result: str, trial: str = "", results: str = str(RESULTS), debug: bool = False) -> None:
    """Execute virtual-clock trials of a result set again, from the set alone, and compare bit by bit."""
    from harness import commands

    cli.guarded(lambda: commands.replay(result, trial, Path(results)), debug=debug, guests=True)


@task(positional=["result"], help={"result": "a result set", "results": "folder of sets", "debug": DEBUG})
def reference(c: Context, result: str, results: str = str(RESULTS), debug: bool = False) -> None:
    """Make a result set's digest the committed reference of its experiment."""
    from harness import commands

    cli.guarded(lambda: commands.reference(result, Path(results)), debug=debug)


@task(help={"repetitions": "measurements of each kind", "debug": DEBUG})
def bench(c: Context, repetitions: str = "5", debug: bool = False) -> None:
    """Measure the harness: restore to workload start, beside a cold boot and the ssh path."""
    from harness import commands

    cli.guarded(lambda: commands.bench(repetitions), debug=debug, guests=True)
