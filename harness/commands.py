"""What the tasks do: words of the command line into typed options, then one call into the harness."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast, get_args

from harness import cli
from harness.build.spec import kernel_names
from harness.build.store import Store
from harness.errors import EXIT_OK, EXIT_USAGE, UsageError
from harness.experiment.model import OracleMode, Profile, find_experiment
from harness.experiment.prepare import AcceleratorChoice, build_for
from harness.paths import ROOT


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
    from harness import pipeline

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
    from harness import interactive

    folder = find_experiment(experiment) if experiment else None
    return interactive.shell(
        Store.default(),
        cli.value_of("kernel", kernel),
        folder,
        _accelerator(accel),
        tuple(append.split()),
        _number("--cpus", cpus),
    )


def build(kernel: str) -> None:
    """`build`: kernels and base images into the store."""
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
    from harness import replaying

    return replaying.replay(results, cli.value_of("result", result), trial or None, cli.output())


def reference(result: str, results: Path) -> None:
    """`reference`: what CI compares runs with from now on."""
    from harness.store.reference import write_reference
    from harness.store.resultset import find_result_set

    print(write_reference(find_result_set(results, cli.value_of("result", result))))


def bench(repetitions: str) -> int:
    """`bench`: the harness's own times."""
    from harness import benchmark

    count = _number("--repetitions", repetitions)
    if count < 1:
        raise UsageError("--repetitions: must be 1 or more")
    return benchmark.bench(Store.default(), count, cli.output())


def test(unit: bool, faults: bool, k: str) -> int:
    """`test`: pytest over the chosen folders."""
    chosen = ["tests/unit"] if unit else ["tests/faults"] if faults else ["tests/unit", "tests/guest"]
    words: list[str] = [sys.executable, "-m", "pytest", *chosen, *(["-k", k] if k else [])]
    if faults:
        words += ["-o", "timeout=3600"]
    return subprocess.run(words, cwd=ROOT, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


def _choice(name: str, value: str, allowed: tuple[Any, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"{name} {value}: must be one of {', '.join(map(str, allowed))}")
    return value


def _modes(text: str) -> tuple[OracleMode, ...]:
    words = [word for word in text.split(",") if word]
    return tuple(cast(OracleMode, _choice("--oracle", word, get_args(OracleMode))) for word in words)


def _accelerator(text: str) -> AcceleratorChoice:
    return cast(AcceleratorChoice, _choice("--accel", text, get_args(AcceleratorChoice)))


def _number(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{name} {text}: must be a whole number") from None
    if value < 0:
        raise UsageError(f"{name} {text}: must not be negative")
    return value
