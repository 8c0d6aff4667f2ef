# SPDX-License-Identifier: MIT
"""How a run takes up trials that were there before it: of a run that was broken off, or of result sets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.artefacts.store import usable
from harness.errors import KreproError, UsageError
from harness.progress import note, step, warn
from harness.run import unfinished
from harness.run.request import RunRequest
from harness.run.unfinished import Key, Run, Words, open_run, runs_named, take_over
from harness.sets.listing import set_paths, sets_named
from harness.sets.maker import made_here
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_seal
from harness.trial.model import TrialSpec

log = logging.getLogger(__name__)


def earlier_set(request: RunRequest, home: Path) -> ResultSet | None:
    """The result set that `--resume` names, if it names one; its failed trials are to be run again.

    UsageError when the word fits more than one thing, sets and unfinished runs together, or a set that is damaged.
    """
    if request.resume is None or request.resume == unfinished.LATEST:
        return None
    wanted = request.resume.rpartition("/")[2]
    sets, runs = sets_named(home, wanted), runs_named(home, wanted)
    if len(sets) + len(runs) > 1:
        names = ", ".join([path.name for path in sets] + [f"{path.name} (unfinished)" for path in runs][:4])
        raise UsageError(
            f"--resume {request.resume}: could be {names}", where=str(home), hint="give a longer prefix of the ID"
        )
    return ResultSet(sets[0]) if sets else None


def folder_for(request: RunRequest, experiment: str) -> Path:
    """The folder of an experiment's sets, made where it is not there; UsageError where it cannot be."""
    home = request.results / experiment
    with usable(request.results):
        try:
            home.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # a file system that takes no folders, such as /proc
            raise UsageError(f"cannot write: {error.strerror}", where=str(home), hint="another --results") from error
    return home


@contextmanager
def working_on(request: RunRequest, home: Path, trials: int, earlier: ResultSet | None) -> Iterator[Run]:
    """The unfinished run to go on with, or a new one; see `harness.run.unfinished.open_run`.

    An error that ends the block gets a note of what is kept.
    """
    if request.fresh and request.resume is not None:
        raise UsageError("--fresh and --resume: give one of them")
    words = Words(
        profile=request.profile,
        repetitions=request.part.count,
        part=request.part.text,
        arms=request.arms,
        seed=request.seed,
        accel=request.accel,
        oracle=request.oracle,
        chosen=request.chosen,
    )
    resume = None if earlier is not None else request.resume
    fresh = request.fresh or earlier is not None
    run: Run | None = None
    try:
        with usable(request.results), open_run(home, words, trials, resume=resume, fresh=fresh) as run:
            yield run
    except BaseException as error:
        if run is not None and run.sealed:
            how = f"--resume {run.path.name} resumes the run" if fresh else "the same command resumes the run"
            error.add_note(f"{len(run.sealed)} of {trials} trials are kept, and {how}")
        raise


def take_earlier(run: Run, trials: Sequence[TrialSpec], request: RunRequest, earlier: ResultSet | None) -> None:
    """Seal those trials that `earlier` or, with `--reuse`, any set of the folder has with an equal description."""
    left = {key: spec for spec in trials if (key := (spec.arm, spec.repetition)) not in run.sealed}
    if earlier is not None:
        count = _take(run, left, earlier.path, wall=True)
        note(f"{count} of {len(trials)} trials are those of {earlier.path.name}")
    if request.reuse and left:
        with step("looking for equal trials in earlier sets"):
            count = sum(_take(run, left, path, wall=False) for path in set_paths(request.results) if left)
        note(f"{count} of {len(trials)} trials are taken from earlier sets")


def _take(run: Run, left: dict[Key, TrialSpec], source: Path, *, wall: bool) -> int:
    """How many trials were taken from a set; they leave `left`.

    An equal trial under the virtual clock gives equal bits, whatever its arm is called. On the wall clock (`wall`) each
    trial stands for itself: only that of the same arm and repetition is taken. Of a set that was not made here trials
    are taken where the user named it (`wall`), and stay a stranger's.
    """
    try:
        good = [record for record in ResultSet(source).manifest.trials if record.status == "ok" and record.description]
        exact = {record.description: record for record in good if record.clock == "virtual"}
        own = {(record.arm, record.repetition): record for record in good if wall}
        wanted = {}
        log.debug("%s has %d good trials, %d are wanted", source.name, len(good), len(left))
        for key in left:
            text = run.descriptions[key]
            record = own[key] if key in own and own[key].description == text else exact.get(text)
            if record is not None:
                wanted[key] = record
        made = bool(wanted) and made_here(source)
        if wanted and not made and not wall:
            raise UsageError("it was not made on this host")
        files = verify_seal(source)["files"] if wanted else {}
    except KreproError as error:
        warn(f"no trial is taken from {source.name}: {error.message}")
        return 0
    count = 0
    for key, record in wanted.items():
        taken = take_over(left[key], record, source, files)
        if taken is None:
            warn(f"{source.name}: trial {record.arm} {record.repetition} differs from what was written, not reused")
            continue
        run.seal(left.pop(key), taken, own=made)
        count += 1
    return count
