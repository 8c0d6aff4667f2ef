"""Invoke tasks: parse, call the harness, print. `./inv --list` shows them."""

from __future__ import annotations

from pathlib import Path

from invoke import Context, task

from harness.commands import cli
from harness.paths import RESULTS

DEBUG = "show tracebacks"
SET = "a result set: a path, a unique start of an ID, or latest; EXPERIMENT/ may stand before"
SETS = "folder of sets"


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
    from harness.commands import actions

    cli.guarded(
        lambda: actions.run(experiment, profile, repetitions, accel, arms, seed, results, check_digest, oracle),
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
    from harness.commands import actions

    cli.guarded(lambda: actions.boot(kernel, experiment, accel, append, cpus), debug=debug, guests=True)


@task(positional=["kernel"], help={"kernel": "kernel=NAME, NAME, or all", "debug": DEBUG})
def build(c: Context, kernel: str, debug: bool = False) -> None:
    """Build kernels and their base images into the store."""
    from harness.commands import actions

    cli.guarded(lambda: actions.build(kernel), debug=debug, guests=True)


@task(help={"json": "machine-readable", "debug": DEBUG})
def doctor(c: Context, json: bool = False, debug: bool = False) -> None:
    """Say what this host can do: accelerator, PMU, tools, disk."""
    from harness.commands import actions

    cli.guarded(lambda: actions.doctor(json), debug=debug)


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
    from harness.commands import actions

    cli.guarded(lambda: actions.test(unit, faults, k), debug=debug, guests=not unit)


@task(
    positional=["result"],
    help={"result": "a result set", "trial": "ARM/REPETITION (all virtual ones without)", "results": "folder of sets"},
)
def replay(c: Context, result: str, trial: str = "", results: str = str(RESULTS), debug: bool = False) -> None:
    """Execute virtual-clock trials of a result set again, from the set alone, and compare bit by bit."""
    from harness.commands import actions

    cli.guarded(lambda: actions.replay(result, trial, Path(results)), debug=debug, guests=True)


@task(positional=["result"], help={"result": "a result set", "results": "folder of sets", "debug": DEBUG})
def reference(c: Context, result: str, results: str = str(RESULTS), debug: bool = False) -> None:
    """Make a result set's digest the committed reference of its experiment."""
    from harness.commands import actions

    cli.guarded(lambda: actions.reference(result, Path(results)), debug=debug)


@task(help={"experiment": "only sets of this experiment", "results": SETS, "debug": DEBUG})
def results(c: Context, experiment: str = "", results: str = str(RESULTS), debug: bool = False) -> None:
    """List result sets, newest first, with their verdicts."""
    from harness.commands import actions

    cli.guarded(lambda: actions.results(experiment, Path(results).expanduser()), debug=debug)


@task(positional=["result"], help={"result": SET, "results": SETS, "debug": DEBUG})
def show(c: Context, result: str, results: str = str(RESULTS), debug: bool = False) -> None:
    """Print a finished set's tables, claims and verdicts, as its run did."""
    from harness.commands import actions

    cli.guarded(lambda: actions.show(result, Path(results).expanduser()), debug=debug)


@task(positional=["result"], help={"result": SET, "results": SETS, "debug": DEBUG})
def verify(c: Context, result: str, results: str = str(RESULTS), debug: bool = False) -> None:
    """Check every bit of a set, and that tables, metrics, claims and figures follow from its raw files."""
    from harness.commands import actions

    cli.guarded(lambda: actions.verify(result, Path(results).expanduser()), debug=debug)


@task(
    positional=["a", "b"],
    help={
        "a": SET,
        "b": "another one, or the same one with --arms",
        "arms": "FIRST,SECOND: that arm of A against that arm of B",
        "force": "compare in spite of another experiment, version, schema or fidelity",
        "results": SETS,
        "debug": DEBUG,
    },
)
def compare(
    c: Context,
    a: str,
    b: str,
    arms: str = "",
    force: bool = False,
    results: str = str(RESULTS),
    debug: bool = False,
) -> None:
    """Compare two sets arm by arm and metric by metric, with effect sizes and their intervals."""
    from harness.commands import actions

    cli.guarded(lambda: actions.compare(a, b, arms, force, Path(results).expanduser()), debug=debug)


@task(
    positional=["result"],
    help={
        "result": SET,
        "format": "svg, pdf or png",
        "out": "folder for the files (figures/ID)",
        "results": SETS,
        "debug": DEBUG,
    },
)
def figures(
    c: Context, result: str, format: str = "svg", out: str = "", results: str = str(RESULTS), debug: bool = False
) -> None:
    """Draw the figures of a set again, from the set alone."""
    from harness.commands import actions

    cli.guarded(lambda: actions.figures(result, format, out, Path(results).expanduser()), debug=debug)


@task(
    positional=["model", "script"],
    help={
        "model": "a model.json, or a result set of probe-cost",
        "script": "YAML: workload, probes, consumers (experiments/probe-cost/README.md)",
        "name": "which of a set's models: model, or model-wall",
        "results": SETS,
        "debug": DEBUG,
    },
)
def predict(
    c: Context, model: str, script: str, name: str = "model", results: str = str(RESULTS), debug: bool = False
) -> None:
    """Say what a trace will cost before it runs, split by probe and stage, by a fitted cost model."""
    from harness.commands import actions

    cli.guarded(lambda: actions.predict(model, script, name, Path(results).expanduser()), debug=debug)


@task(
    help={
        "keep": "never remove that many newest of each experiment",
        "older-than": "remove only what is older than that many days",
        "yes": "do not ask",
        "results": SETS,
        "debug": DEBUG,
    }
)
def prune(
    c: Context,
    keep: str = "10",
    older_than: str = "0",
    yes: bool = False,
    results: str = str(RESULTS),
    debug: bool = False,
) -> None:
    """Remove old result sets, after saying which and asking."""
    from harness.commands import actions

    cli.guarded(lambda: actions.prune(keep, older_than, yes, Path(results).expanduser()), debug=debug)


@task(
    help={
        "budget": "minutes; an experiment that will not fit is skipped, one that runs when they are over is ended",
        "profile": "quick or full",
        "results": "folder of sets",
        "out": "folder for state, JUnit XML and summary",
        "experiments": "names or folders, comma-separated; otherwise all of experiments/",
        "restart": "begin a new night, even if the last one was stopped",
        "debug": DEBUG,
    }
)
def nightly(
    c: Context,
    budget: str = "480",
    profile: str = "full",
    results: str = str(RESULTS),
    out: str = str(RESULTS / "nightly"),
    experiments: str = "",
    restart: bool = False,
    debug: bool = False,
) -> None:
    """Run every experiment within a time budget and compare with the reference sets; goes on where it was stopped."""
    from harness.commands import actions

    cli.guarded(lambda: actions.nightly(budget, profile, results, out, experiments, restart), debug=debug, guests=True)


@task(help={"repetitions": "measurements of each kind", "debug": DEBUG})
def bench(c: Context, repetitions: str = "5", debug: bool = False) -> None:
    """Measure the harness: restore to workload start, beside a cold boot and the ssh path."""
    from harness.commands import actions

    cli.guarded(lambda: actions.bench(repetitions), debug=debug, guests=True)


@task(
    help={
        "result": "a result set (its first word, with ./inv); without one, an index of all sets",
        "out": "file for one set, folder for the index (default: below results/reports/)",
        "pages": "with the index: pages for this many of the newest sets of each experiment",
        "results": "folder of sets",
        "debug": DEBUG,
    },
)
def report(
    c: Context, result: str = "", out: str = "", pages: str = "5", results: str = str(RESULTS), debug: bool = False
) -> None:
    """Write a self-contained HTML report on one set, or an index over all with the history of every metric."""
    from harness.commands import actions

    cli.guarded(lambda: actions.report(result, out, pages, Path(results)), debug=debug)


@task(
    positional=["result"],
    help={
        "result": "a result set",
        "to": "csv, parquet, ro-crate, speedscope or perfetto",
        "out": "file or folder to write (default: here, named by the set)",
        "results": "folder of sets",
        "debug": DEBUG,
    },
)
def export(c: Context, result: str, to: str, out: str = "", results: str = str(RESULTS), debug: bool = False) -> None:
    """Write a result set in a format that other tools read."""
    from harness.commands import actions

    cli.guarded(lambda: actions.export(result, to, out, Path(results)), debug=debug)
