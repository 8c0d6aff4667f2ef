# SPDX-License-Identifier: MIT
"""How a run or an analysis of its trials has ended: as known, with news, or not as it should."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import KreproError, RunError, exit_code
from harness.measure.claims import ClaimResult
from harness.measure.known import news
from harness.sets.manifest import Manifest
from harness.sets.resultset import ResultSet


def ended(result: ResultSet, claims: Sequence[ClaimResult], unshown: Sequence[KreproError]) -> int:
    """The exit code of a set that is written; RunError where `problem` has one."""
    error = problem(result, claims, unshown)
    if error is not None:
        raise error
    return exit_code(news=bool(news(claims)))


def problem(
    result: ResultSet,
    claims: Sequence[ClaimResult],
    unshown: Sequence[KreproError],
    unanalysed: KreproError | None = None,
) -> RunError | None:
    """Why the run of this set, or its analysis, has failed, if it has.

    `unshown`: errors of what shows the verdicts; `unanalysed`: the error that there are no verdicts for.
    """
    where, manifest = str(result.path), result.manifest
    if unanalysed is not None:
        name = f"{manifest.experiment.name}/{result.path.name}"
        return RunError(
            f"trials are kept, but their analysis failed: {unanalysed}",
            where=where,
            hint=f"./inv analyse {name} --with FOLDER, with the FOLDER of the experiment once it is mended",
        )
    failed = [trial for trial in manifest.trials if trial.status == "failed"]
    if failed:
        first, same = failed[0], "the command of the run" if manifest.analysed_from else "the same command"
        return RunError(
            f"{len(failed)} of {len(manifest.trials)} trials failed; the first: "
            f"{first.arm} {first.repetition}: {first.reason}",
            where=where,
            hint=f"{same} with --resume {result.path.name} keeps the others",
        )
    if unshown:
        return RunError(f"verdicts are kept, but their presentation failed: {unshown[0]}", where=where)
    papers = [claim for claim in claims if claim.kind == "paper" and not manifest.missing]
    ran = {name for trial in manifest.trials for name in (trial.arm, trial.group)}
    about = {(claim.metric or "").partition("/")[2] for claim in papers}
    if not about & ran and any(claim.verdict != "not-measurable" for claim in claims):
        return None  # arms were chosen of which the paper says nothing
    papers = [claim for claim in papers if claim.id not in _beyond(manifest)]
    if papers and all(claim.verdict == "not-measurable" for claim in papers):
        return RunError(
            f"no claim of the paper could be measured; {papers[0].id}: {papers[0].reason}",
            where=where,
            hint="./inv show says why, claim by claim",
        )
    return None


def _beyond(manifest: Manifest) -> set[str]:
    """Claims that a whole run of this profile leaves open: they take more trials than it has."""
    experiment = manifest.experiment
    own = [claim for claim in experiment.claims if claim.arm in experiment.arms]
    planned = {claim.id: experiment.arm_repetitions(str(claim.arm), manifest.profile) for claim in own}
    return {claim.id for claim in own if planned[claim.id] < (claim.least_trials or 1)}
