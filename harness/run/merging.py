# SPDX-License-Identifier: MIT
"""Uniting sets of one plan, which several machines ran parts of, into one new set; verdicts are made of the union."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from harness.analysis.analyse import Analysed, analyse
from harness.analysis.trust import contained
from harness.artefacts.store import hash_tree
from harness.choices import Trusted
from harness.errors import RunError, UsageError
from harness.progress import step, warn
from harness.report.telling import tell
from harness.run.outcome import ended
from harness.run.reanalysis import SOURCES, link_tree, measured_experiment
from harness.run.union import Union, hosts_of, unite
from harness.sets.digest import deterministic_files, digest
from harness.sets.listing import find_set
from harness.sets.maker import is_known, made_here
from harness.sets.manifest import NO_DIGEST, Manifest, MergedFrom
from harness.sets.provenance import made_now
from harness.sets.resultset import EXPERIMENT, MEASURED, ResultSet, Writer, copy_experiment, write_result_set
from harness.sets.seal import verify_files
from harness.trial.model import TrialRecord

#: Missing trials that a line names.
MOST_NAMED = 8


def merge(results: Path, texts: Sequence[str], console: Console, *, verbose: bool, trust: Trusted = None) -> int:
    """Unite these sets; print what a run prints; the exit code is a run's.

    UsageError when there are not two sets, when they are not of one plan, or when a trial on the wall clock is in two
    of them; RunError when a set is damaged, or when a trial under the virtual clock has other bits in two of them.
    Then there is no new set. With trials missing there is one, which is a part too, and they are named.
    """
    paths = list(dict.fromkeys(find_set(results, text) for text in texts))
    if len(paths) < 2:
        raise UsageError("merge unites sets: name two or more")
    sets = [ResultSet(path) for path in paths]
    union = unite(sets)
    with step("hashing files", total=len(sets)) as bar:
        for one in sets:
            verify_files(one.path)
            bar.advance(1, one.path.name)
    # The code is the same in all of them: where one is known here, nobody is asked. Its trials are each set's own.
    known = [one for one in sets if is_known(one.path, one.manifest.experiment.name)]
    first = (known or sets)[0]
    own = all(made_here(one.path) for one in sets)
    result, made = _united(results, sets, union, first, own=own, trust=trust)
    tell(console, result, verbose=verbose)
    _warn_missing(union)
    return ended(result, made.claims, made.failures)


def _united(
    results: Path, sets: Sequence[ResultSet], union: Union, first: ResultSet, *, own: bool, trust: Trusted
) -> tuple[ResultSet, Analysed]:
    experiment = first.manifest.experiment
    hosts, records = hosts_of(sets, union)
    plan = first.manifest.plan.model_copy(update={"part": ""})
    if all(record.status != "ok" for record in records):
        raise RunError("no trial succeeded: there is nothing to merge", where=str(first.path))
    with write_result_set(results, experiment.name) as writer:
        began = time.monotonic()
        copy_experiment(first.path / EXPERIMENT, writer.path)
        measured = measured_experiment(first)
        if measured.name == MEASURED:
            link_tree(measured, writer.path / MEASURED)
        _link_raw(sets, union, writer)
        writer.seal(EXPERIMENT, MEASURED)
        with contained(first, writer.path, trust=trust) as analysis, step("analysing"):
            trials = [record.relocated(writer.path) for record in records]
            made = analyse(analysis, experiment.claims, trials, writer, part=plan.part_of(len(records)))
        manifest = _manifest(sets, union, first.manifest, records, writer.path)
        seconds = {**manifest.seconds, "harness": round(time.monotonic() - began, 3)}
        manifest = manifest.model_copy(update={"plan": plan, "hosts": hosts, "host": hosts[0], "seconds": seconds})
        return writer.finish(manifest, latest=not manifest.missing, own=own), made


def _link_raw(sets: Sequence[ResultSet], union: Union, writer: Writer) -> None:
    raw, kernels = SOURCES
    for one in sets:
        for folder in sorted((one.path / kernels).glob("*")):
            if not (writer.path / kernels / folder.name).exists():
                _link(one, Path(kernels) / folder.name, writer)
    (writer.path / raw).mkdir()
    for trial in union.trials:
        _link(sets[trial.source], trial.record.path, writer)


def _link(source: ResultSet, folder: Path, writer: Writer) -> None:
    link_tree(source.path / folder, writer.path / folder)
    linked = (path for path in (writer.path / folder).rglob("*") if path.is_file())
    names = [path.relative_to(writer.path).as_posix() for path in linked]
    writer.found |= {name: source.manifest.files[name] for name in names}


def _manifest(
    sets: Sequence[ResultSet], union: Union, first: Manifest, records: Sequence[TrialRecord], root: Path
) -> Manifest:
    """That of the first set, with what the others have beside it."""
    manifests = [one.manifest for one in sets]
    files = deterministic_files(root, [record for record in records if record.status == "ok"])
    covered = digest(files)
    counts = Counter(trial.source for trial in union.trials)
    parts = [
        MergedFrom(
            id=manifest.id,
            created=manifest.created,
            command_line=manifest.command_line,
            repository=manifest.repository,
            part=manifest.plan.part,
            trials=counts[source],
        )
        for source, manifest in enumerate(manifests)
    ]
    joined = {
        field: {name: value for manifest in reversed(manifests) for name, value in getattr(manifest, field).items()}
        for field in ("kernels", "images", "accelerator", "accelerator_why", "fidelity")
    }
    guests = {
        name: round(sum(manifest.seconds.get(name, 0.0) for manifest in manifests), 3) for name in ("build", "guests")
    }
    absent = {name: why for name, why in first.absent.items() if name != "digest"}
    return first.model_copy(
        update={
            **joined,
            **made_now(),
            "experiment_files": hash_tree(root / EXPERIMENT),
            "seconds": guests,
            "trials": list(records),
            "digest": covered,
            "deterministic": files,
            "absent": absent | ({"digest": NO_DIGEST} if covered is None else {}),
            "resumed": [],
            "unanalysed": "",
            "analysed_from": [],
            "merged_from": parts,
        }
    )


def _warn_missing(union: Union) -> None:
    if union.missing:
        names = [f"{trial.arm} {trial.repetition}" for trial in union.missing]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        warn(f"{len(names)} trials of the plan are missing: {', '.join(names[:MOST_NAMED])}{more}")
