# SPDX-License-Identifier: MIT
"""Analysing a result set again: from its raw files to a new set, which says whose raw files they are."""

from __future__ import annotations

import shutil
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from harness.analysis.analyse import Analysed, analyse
from harness.analysis.contained import Contained
from harness.analysis.trust import contained
from harness.artefacts.store import hash_tree
from harness.choices import Trusted
from harness.errors import RunError, UsageError
from harness.experiment.model import Experiment, find_experiment, load_experiment
from harness.progress import step
from harness.report.telling import tell
from harness.run.outcome import ended
from harness.sets.listing import latest_of
from harness.sets.maker import made_here
from harness.sets.manifest import AnalysedFrom, Manifest
from harness.sets.provenance import made_now
from harness.sets.resultset import (
    EXPERIMENT,
    MEASURED,
    ResultSet,
    copy_experiment,
    find_result_set,
    link_or_copy,
    write_result_set,
)
from harness.sets.seal import unchanged, verify_files

#: Folders of a set that an analysis starts from.
SOURCES = ("raw", "kernels")


def reanalyse(
    results: Path, text: str, chosen: Path | None, console: Console, *, verbose: bool, trust: Trusted = None
) -> int:
    """Analyse a set again, by its own analysis or that of the folder `chosen`; print what a run prints; the exit code.

    The set's own is executed by `harness.analysis.trust`; a folder that the user names needs no question. UsageError
    when the folder is of another experiment, RunError when the set is damaged or the analysis fails: then there is no
    new set, and nothing has changed. Then RunError, as by a run, when the run had failed trials, or when no claim of
    the paper could be measured: the new set is written.
    """
    old = find_result_set(results, text)
    if chosen is None:
        folder = old.path / EXPERIMENT
        opened = contained(old, trust=trust)
    else:
        folder = find_experiment(str(chosen))
        opened = Contained(folder, old.path)
    with opened as analysis:
        result, made = _analysed_by(old, folder, analysis)
    return _show(result, made, console, verbose=verbose)


def _analysed_by(old: ResultSet, folder: Path, analysis: Contained) -> tuple[ResultSet, Analysed]:
    experiment = _judged_by(old.manifest.experiment, load_experiment(folder, old.manifest.chosen), folder)
    analysis.check(experiment)
    with step("hashing files"):
        verify_files(old.path)
    if all(trial.status == "failed" for trial in old.manifest.trials):
        raise RunError("no trial succeeded: there is nothing to analyse", where=str(old.path))
    own = made_here(old.path)  # what a stranger measured does not become ours by being analysed, whoever's code does it
    with write_result_set(old.path.parent.parent, experiment.name) as writer:
        for name in SOURCES:
            link_tree(old.path / name, writer.path / name)
        copy_experiment(folder, writer.path)
        measured = measured_experiment(old)
        if hash_tree(measured) != hash_tree(writer.path / EXPERIMENT):
            link_tree(measured, writer.path / MEASURED)
        writer.found = {name: value for name, value in old.manifest.files.items() if name.split("/")[0] in SOURCES}
        writer.seal(EXPERIMENT, MEASURED)
        with unchanged(old.path), step("analysing"):
            made = analyse(analysis, experiment.claims, old.trials, writer, part=old.manifest.part)
        manifest = _manifest(old.manifest, experiment, writer.path)
        return writer.finish(manifest, latest=_is_newest(old), own=own), made


def measured_experiment(result: ResultSet) -> Path:
    """The experiment's folder that a set's raw files were measured with."""
    kept = result.path / MEASURED
    return kept if kept.is_dir() else result.path / EXPERIMENT


def _show(result: ResultSet, made: Analysed, console: Console, *, verbose: bool) -> int:
    tell(console, result, verbose=verbose)
    return ended(result, made.claims, made.failures)


def _judged_by(run: Experiment, new: Experiment, folder: Path) -> Experiment:
    """What was run, with the claims of another state of the experiment."""
    if new.name != run.name:
        raise UsageError(f"is of the experiment {new.name}, and the set of {run.name}", where=str(folder))
    values = new.model_dump() | {"collect": run.collect, "packages": run.packages, "repetitions": run.repetitions}
    values |= {"arms": {**new.arms, **run.arms}, "workloads": {**new.workloads, **run.workloads}}
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"its claims do not fit what was run: {message}", where=str(folder)) from error


def _manifest(old: Manifest, experiment: Experiment, root: Path) -> Manifest:
    """That of the run, with what the new analysis is made with; the old one's is kept in `analysed_from`."""
    return old.model_copy(
        update={
            **made_now(),
            "experiment": experiment,
            "experiment_files": hash_tree(root / EXPERIMENT),
            "unanalysed": "",
            "analysed_from": [*old.analysed_from, AnalysedFrom.model_validate(old, from_attributes=True)],
        }
    )


def _is_newest(old: ResultSet) -> bool:
    """Whether it may be `latest`: it is whole, and no later measurement is. Analysed again, it stays an old one."""
    latest = latest_of(old.path.parent)
    return not old.manifest.missing and (latest is None or _measured_in(old) >= _measured_in(ResultSet(latest)))


def _measured_in(result: ResultSet) -> str:
    steps = result.manifest.analysed_from
    return steps[0].id if steps else result.manifest.id


def link_tree(source: Path, target: Path) -> None:
    """A folder with all its files under another name; nothing where there is no such folder."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=lambda one, two: link_or_copy(Path(one), Path(two)))
