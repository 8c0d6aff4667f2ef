# SPDX-License-Identifier: MIT
"""Comparing two finished result sets: bits first, then arm by arm and metric by metric."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, UsageError
from harness.experiment.model import Arm, makes_bits
from harness.measure.comparison import Compared, compare_metrics
from harness.measure.known import news_lines
from harness.progress import warn
from harness.report.comparison import comparison_lines, comparison_table, worth_showing
from harness.report.pairs import Opposed, opposed_arms
from harness.sets.digest import first_difference
from harness.sets.listing import find_set
from harness.sets.reference import compare as compare_bits
from harness.sets.reference import reference_of
from harness.sets.resultset import ResultSet


def compare(
    results: Path,
    a: str,
    b: str,
    arms: tuple[str, str] | None,
    force: bool,
    console: Console,
    *,
    over: str | None = None,
) -> int:
    """Print how B differs from A, arm by arm and metric by metric; 0 whatever comes out: a difference is no failure.

    Verdicts that are other than known are told of each set first.

    With `arms`, the first one of A against the second one of B, which may be the same set; with `over`, all arms of A
    with one value of a dimension against those of B with another. UsageError when they cannot be compared, or differ
    in experiment, version, schema or fidelity and not `force`.
    """
    left, right, opposed, rows = compared_sets(find_set(results, a), find_set(results, b), arms, force, over)
    for name, result in (("A", left), ("B", right)):
        print_lines(console, *(f"{name}: {line}" for line in (result.path, *news_lines(result.claims))))
    print_lines(console, *_libraries(left, right))
    if arms is None and opposed is None:
        print_lines(console, *_missing(left, right), _bits(left, right))
    shown = worth_showing(rows)
    if shown:
        console.print(comparison_table(shown, opposed.title, opposed.pairs) if opposed else comparison_table(shown))
    print_lines(console, *comparison_lines(rows))
    return EXIT_OK


def compared_sets(
    a: Path, b: Path, arms: tuple[str, str] | None, force: bool, over: str | None = None
) -> tuple[ResultSet, ResultSet, Opposed | None, list[Compared]]:
    """Both sets, the arms that `over` opposes, and every metric of the arms compared; UsageError as `compare`."""
    if arms and over:
        raise UsageError("--arms and --set: give one of them")
    left, right = ResultSet(a), ResultSet(b)
    pairs = [arms] if arms else [(name, name) for name in _arms(left) if name in _arms(right)]
    opposed = opposed_arms(_placed(left), _placed(right), over) if over else None
    if opposed is not None:
        pairs = list(opposed.pairs)
    for result, name in zip((left, right), arms or (), strict=False):
        if name not in _arms(result):
            raise UsageError(f"unknown arm {name!r} (known: {', '.join(_arms(result))})", where=str(result.path))
    if not pairs:
        raise UsageError("no arm is in both sets", where=f"{left.path.name}, {right.path.name}")
    _refuse(_objections(left, right, pairs), force)
    rows = compare_metrics(left.metrics, right.metrics, pairs, (_seeds(left), _seeds(right)))
    return left, right, opposed, rows


def _refuse(objections: list[str], force: bool) -> None:
    if objections and not force:
        raise UsageError("; ".join(objections), hint="--force compares them all the same")
    for objection in objections:
        warn(objection)


def _objections(a: ResultSet, b: ResultSet, pairs: list[tuple[str, str]]) -> list[str]:
    """Why numbers of these two should not be compared, one phrase each."""
    found = []
    names = a.manifest.experiment.name, b.manifest.experiment.name
    changed = first_difference(_version(a), _version(b))
    if names[0] != names[1]:
        found.append(f"experiments differ: {names[0]} and {names[1]}")
    elif changed is not None:
        found.append(f"versions of the experiment differ: {changed}")
    for left, right in pairs:
        kinds = a.manifest.fidelity.get(left), b.manifest.fidelity.get(right)
        if kinds[0] != kinds[1]:
            arm = left if left == right else f"{left} and {right}"
            found.append(f"fidelity of {arm} differs: {kinds[0]} and {kinds[1]}")
    return found


def _version(result: ResultSet) -> dict[str, str]:
    """What makes the experiment what it is: the hashes of its files but its prose."""
    files = result.manifest.experiment_files
    return {name: value for name, value in files.items() if makes_bits(name)}


def _arms(result: ResultSet) -> list[str]:
    """Arms that took part, in the experiment's order."""
    took_part = {trial.arm for trial in result.manifest.trials}
    return [arm for arm in result.manifest.experiment.arms if arm in took_part]


def _placed(result: ResultSet) -> dict[str, Arm]:
    """The arms that took part, with their places in matrices."""
    return {name: result.manifest.experiment.arms[name] for name in _arms(result)}


def _seeds(result: ResultSet) -> dict[tuple[str, int], int]:
    """The seeds of the trials of the virtual clock: with the same seed they give the same values, bit for bit."""
    trials = result.manifest.trials
    return {(trial.arm, trial.repetition): trial.seed for trial in trials if trial.clock == "virtual"}


def _missing(a: ResultSet, b: ResultSet) -> list[str]:
    lines = []
    for name, here, there in (("A", _arms(a), _arms(b)), ("B", _arms(b), _arms(a))):
        alone = [arm for arm in here if arm not in there]
        if alone:
            lines.append(f"only in {name}: {', '.join(alone)}")
    return lines


def _libraries(a: ResultSet, b: ResultSet) -> list[str]:
    """What decodes and counts is another in each: krepro's own part among them."""
    here, there = a.manifest.packages, b.manifest.packages
    return [
        f"library {name} differs: {here.get(name, 'none')} in A, {there.get(name, 'none')} in B"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


def _bits(a: ResultSet, b: ResultSet) -> str:
    """What the digests say: the strongest statement there is, where there is one."""
    if a.manifest.digest is None or b.manifest.digest is None:
        return "no digest to compare: no virtual-clock trials"
    if a.manifest.digest == b.manifest.digest:
        return f"identical: both have the digest {a.manifest.digest}"
    difference = compare_bits(reference_of(a), reference_of(b))
    if difference is None:
        return "identical in every bit: the virtual-clock trials that both have"
    return f"virtual-clock trials are not bit for bit equal: {difference}"
