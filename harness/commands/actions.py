"""What the tasks do: words of the command line into typed options, then one call into the harness."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from harness.build.spec import kernel_names
from harness.build.store import Store
from harness.commands import cli
from harness.errors import EXIT_OK, EXIT_USAGE, UsageError
from harness.experiment.model import OracleMode, Profile, experiment_names, find_experiment
from harness.paths import ROOT

if TYPE_CHECKING:
    from harness.experiment.prepare import AcceleratorChoice


def run(
    experiment: str,
    profile: str,
    repetitions: str,
    accel: str,
    arms: str,
    seed: str,
    results: str,
    check_digest: str,
    oracle: str,
) -> int:
    """`run`: see `pipeline.run`."""
    from harness.commands import pipeline

    options = pipeline.RunOptions(
        experiment=cli.value_of("experiment", experiment),
        profile=cast(Profile, _choice("--profile", profile, get_args(Profile))),
        repetitions=_number("--repetitions", repetitions) if repetitions else None,
        accelerator=_accelerator(accel),
        arms=tuple(word for word in arms.split(",") if word) if arms else None,
        seed=_number("--seed", seed),
        results=Path(results).expanduser().resolve(),
        check_digest=check_digest or None,
        oracle=_modes(oracle) if oracle else None,
    )
    return pipeline.run(options, cli.output()).exit_code


def boot(kernel: str, experiment: str, accel: str, append: str, cpus: str) -> int:
    """`boot`: a person's shell on the guest's console."""
    from harness.commands import shell

    folder = find_experiment(experiment) if experiment else None
    return shell.shell(
        Store.default(),
        cli.value_of("kernel", kernel),
        folder,
        _accelerator(accel),
        tuple(append.split()),
        _number("--cpus", cpus),
    )


def build(kernel: str) -> None:
    """`build`: kernels and base images into the store."""
    from harness.experiment.prepare import build_for

    store = Store.default()
    wanted = cli.value_of("kernel", kernel)
    for name in kernel_names() if wanted == "all" else [wanted]:
        made = build_for(store, name, None)
        print(f"{name}: {made.kernel.path}")


def doctor(as_json: bool) -> int:
    """`doctor`: what this host can do."""
    from harness import host
    from harness.machine import accelerator

    store = Store.default()
    report = host.examine(store.root, lambda: accelerator.kvm_finding(store))
    if as_json:
        print(report.model_dump_json(indent=1))
    else:
        cli.output().print(host.table(report))
    return EXIT_OK if report.usable else EXIT_USAGE


def replay(result: str, trial: str, results: Path) -> int:
    """`replay`: virtual trials again, from their set alone."""
    from harness.commands import reexecution

    return reexecution.replay(results, cli.value_of("result", result), trial or None, cli.output())


def reference(result: str, results: Path) -> None:
    """`reference`: what CI compares runs with from now on."""
    from harness.store.reference import write_reference
    from harness.store.resultset import find_result_set

    for path in write_reference(find_result_set(results, cli.value_of("result", result))):
        print(path)


def results(experiment: str, folder: Path) -> None:
    """`results`: the finished sets, newest first."""
    from harness.report.setlist import list_lines
    from harness.store.listing import describe, set_paths

    paths = set_paths(folder, cli.value_of("experiment", experiment) if experiment else None)
    if not paths:
        wanted = f"no result sets of {experiment!r}" if experiment else "there is no result set yet"
        raise UsageError(wanted, where=str(folder), hint="./inv run experiment=NAME")
    print("\n".join(list_lines([describe(path) for path in paths])))


def show(result: str, folder: Path) -> int:
    """`show`: what its run printed."""
    from harness.commands.show import show as action

    return action(folder, cli.value_of("result", result), cli.output())


def verify(result: str, folder: Path) -> int:
    """`verify`: bytes, and what follows from them."""
    from harness.commands import verification

    return verification.verify(folder, cli.value_of("result", result), cli.output())


def compare(a: str, b: str, arms: str, force: bool, folder: Path) -> int:
    """`compare`: B against A."""
    from harness.commands import comparison

    pair = tuple(word for word in arms.split(",") if word)
    if arms and len(pair) != 2:
        raise UsageError(f"--arms {arms}: must be two arms, FIRST,SECOND")
    return comparison.compare(folder, a, b, (pair[0], pair[1]) if pair else None, force, cli.output())


def figures(result: str, form: str, out: str, folder: Path) -> int:
    """`figures`: drawn again from the set alone."""
    from harness.commands.figures import figures as action
    from harness.report.figures import Format

    chosen = cast(Format, _choice("--format", form, get_args(Format)))
    target = Path(out).expanduser() if out else None
    return action(folder, cli.value_of("result", result), chosen, target, cli.output())


def predict(model: str, script: str, name: str, folder: Path) -> int:
    """`predict`: what a trace will cost."""
    from harness.commands import prediction

    wanted = cli.value_of("model", model)
    return prediction.predict_script(folder, wanted, _path(cli.value_of("script", script)), name, cli.output())


def prune(keep: str, older_than: str, yes: bool, folder: Path) -> int:
    """`prune`: old sets away."""
    from harness.commands.prune import prune as action

    count, days = _number("--keep", keep), _number("--older-than", older_than)
    return action(folder, count, days, yes, cli.output())


def report(result: str, out: str, pages: str, results: Path) -> None:
    """`report`: HTML for people."""
    from harness.report import site
    from harness.store.resultset import find_result_set

    target = _path(out) if out else None
    if result:
        found = find_result_set(results, cli.value_of("result", result))
        print(site.write_report(found, results, target))
    else:
        print(site.write_site(results, target, _number("--pages", pages)))


def export(result: str, to: str, out: str, results: Path) -> None:
    """`export`: files for other tools."""
    from harness.store import export as exports
    from harness.store.resultset import find_result_set

    form = cast(exports.ExportFormat, _choice("--to", to, get_args(exports.ExportFormat)))
    found = find_result_set(results, cli.value_of("result", result))
    print(exports.export(found, form, _path(out) if out else None))


def nightly(budget: str, profile: str, results: str, out: str, experiments: str, restart: bool) -> int:
    """`nightly`: every experiment within a budget, against the references."""
    from harness.commands import night

    options = night.NightOptions(
        experiments=tuple(word for word in experiments.split(",") if word)
        if experiments
        else tuple(experiment_names()),
        budget_s=60.0 * _number("--budget", budget),
        profile=cast(Profile, _choice("--profile", profile, get_args(Profile))),
        results=Path(results).expanduser().resolve(),
        out=Path(out).expanduser().resolve(),
        restart=restart,
    )
    if not options.experiments:
        raise UsageError(f"--experiments {experiments}: names no experiment")
    return night.nightly(options, cli.output())


def bench(repetitions: str) -> int:
    """`bench`: the harness's own times."""
    from harness.commands import benchmark

    count = _number("--repetitions", repetitions)
    if count < 1:
        raise UsageError("--repetitions: must be 1 or more")
    return benchmark.bench(Store.default(), count, cli.output())


def test(unit: bool, faults: bool, k: str) -> int:
    """`test`: pytest, first over the unit tests on all cores, then over those that share the machine's time."""
    parallel = ["tests/unit", "-n", "auto", "--dist", "worksteal"]
    alone = ["tests/commands", "tests/guest"]
    stages = [["tests/faults", "-o", "timeout=3600"]] if faults else [parallel] if unit else [parallel, alone]
    filtered = ["-k", k] if k else []
    statuses = [_pytest([*stage, *filtered]) for stage in stages]
    if k:  # a name that fits in one stage need not fit in the other
        statuses = [status for status in statuses if status != _NO_TESTS] or [_NO_TESTS]
    return max(statuses)


#: pytest's exit code when nothing was collected.
_NO_TESTS = 5


def _pytest(words: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


def _choice(name: str, value: str, allowed: tuple[Any, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"{name} {value}: must be one of {', '.join(map(str, allowed))}")
    return value


def _modes(text: str) -> tuple[OracleMode, ...]:
    words = [word for word in text.split(",") if word]
    return tuple(cast(OracleMode, _choice("--oracle", word, get_args(OracleMode))) for word in words)


def _accelerator(text: str) -> AcceleratorChoice:
    from harness.experiment.prepare import AcceleratorChoice

    return cast(AcceleratorChoice, _choice("--accel", text, get_args(AcceleratorChoice)))


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _number(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{name} {text}: must be a whole number") from None
    if value < 0:
        raise UsageError(f"{name} {text}: must not be negative")
    return value
