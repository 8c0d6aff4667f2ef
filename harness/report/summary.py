# SPDX-License-Identifier: MIT
"""The lines below the tables of a run or of a finished set: verdicts, warnings, advice, times, digest."""

from __future__ import annotations

from collections.abc import Sequence

from harness.measure.claims import ClaimResult
from harness.measure.trials import TRIALS
from harness.measure.verdict import VERDICTS, Verdict
from harness.packages.buildtool import HOST
from harness.report.remarks import advice, drift_lines, outlier_lines
from harness.sets.manifest import Manifest
from harness.sets.resultset import ResultSet


def closing_lines(result: ResultSet, claims: Sequence[ClaimResult]) -> list[str]:
    """What stands below all tables and claims of a set."""
    manifest = result.manifest
    lines = [verdict_counts(claims)]
    if manifest.unanalysed:
        lines = [unanalysed_line(manifest)]
    lines += set_lines(result, verbose=True)
    lines += remark_lines(result, claims)
    lines.append(taken_line(manifest))
    if manifest.tools == HOST.told:
        lines.append(f"QEMU and compiler were the host's own: {manifest.qemu}")
    if manifest.digest is not None:
        lines.append(f"digest: {manifest.digest}")
    return lines


def remark_lines(result: ResultSet, claims: Sequence[ClaimResult]) -> list[str]:
    """Outliers, drift, and how many more repetitions would tell what could not be told.

    Drift is looked for in wall-clock trials only: nothing that changes on the host in the course of a run can reach
    the others. Where several hosts ran them, the plan's order is no order in time.
    """
    manifest, metrics = result.manifest, result.metrics
    places = {
        (trial.arm, trial.repetition): place
        for place, trial in enumerate(manifest.trials)
        if trial.clock == "wall" and len(manifest.hosts) < 2
    }
    return outlier_lines(metrics) + drift_lines(metrics, places) + advice(manifest.experiment.claims, claims)


def taken_line(manifest: Manifest) -> str:
    """How many trials in which kind of time, and how long all of it took."""
    fidelities = ", ".join(sorted(set(manifest.fidelity.values())))
    parts = ", ".join(f"{name} {value:.0f} s" for name, value in manifest.seconds.items())
    count = len(manifest.trials)
    return f"{count} {'trial' if count == 1 else 'trials'}, fidelity {fidelities}; {parts}"


def unanalysed_line(manifest: Manifest) -> str:
    """Why a set has no verdicts, and what to do about it."""
    again = f"./inv analyse {manifest.experiment.name}/{manifest.id} --with FOLDER"
    return f"not analysed: {manifest.unanalysed} ({again})"


def set_lines(result: ResultSet, *, verbose: bool = False) -> list[str]:
    """Where a set's trials come from, and which of them its figures are without."""
    manifest = result.manifest
    lines = []
    if manifest.analysed_from:
        lines.append(f"analysed again; measured by the set {manifest.analysed_from[0].id}")
    if manifest.part:
        lines.append(f"a part: {manifest.part}; ./inv merge unites sets of one plan, and makes the verdicts")
    if manifest.merged_from:
        lines.append(f"merged from {len(manifest.merged_from)} sets; trials ran on {_hosts(len(manifest.hosts))}")
    if manifest.resumed:
        lines.append(f"resumed at {', '.join(manifest.resumed)}")
    taken = sorted({trial.taken_from for trial in manifest.trials if trial.taken_from})
    if taken:
        count = sum(trial.taken_from is not None for trial in manifest.trials)
        lines.append(f"{count} of {len(manifest.trials)} trials were taken from {', '.join(taken)}")
    lines += accelerator_lines(manifest, verbose=verbose)
    failed = sum(trial.status == "failed" for trial in manifest.trials)
    if failed:
        lines.append(f"{failed} of {len(manifest.trials)} trials failed and took no part in the figures")
    return lines + _disturbed_lines(result, verbose=verbose)


def _hosts(count: int) -> str:
    return "one host" if count == 1 else f"{count} hosts"


def accelerator_lines(manifest: Manifest, *, verbose: bool = False) -> list[str]:
    """Which arms have no KVM though it was asked for, and why, in one line; with `verbose` also where auto was."""
    why = manifest.accelerator_why
    if not why or not (verbose or manifest.accelerator_asked == "kvm"):
        return []
    groups = [
        f"{', '.join(arm for arm in why if why[arm] == reason)} ({reason})" for reason in dict.fromkeys(why.values())
    ]
    return [f"--accel {manifest.accelerator_asked}: under TCG ran {'; '.join(groups)}"]


def _disturbed_lines(result: ResultSet, *, verbose: bool) -> list[str]:
    """Trials whose figures of time are left out, because of how the host ran the guest: how many, or one line each."""
    trials = result.table(TRIALS.name)
    if trials is None or "disturbed" not in trials:
        return []
    rows = trials[trials["disturbed"].notna()]
    if verbose:
        return [f"timing of {row.arm} {row.trial} is left out: {row.disturbed}" for row in rows.itertuples()]
    return [f"timing of {len(rows)} of {len(trials)} trials is left out: the host disturbed them"] if len(rows) else []


def verdict_counts(claims: Sequence[ClaimResult]) -> str:
    """How many of which verdict: of the paper's claims and of our findings, those kinds that there are."""
    kinds: list[str] = []
    for kind, title in (("paper", "the paper"), ("finding", "findings")):
        own = [claim.verdict for claim in claims if claim.kind == kind]
        words = [verdict for verdict in VERDICTS if verdict in _OF[kind]]
        if own:
            kinds.append(f"{title}: " + ", ".join(f"{own.count(verdict)} {verdict}" for verdict in words))
    return "; ".join(kinds) or "no claims"


_OF: dict[str, tuple[Verdict, ...]] = {
    "paper": ("reproduced", "contradicted", "not-measurable"),
    "finding": ("confirmed", "refuted", "not-measurable"),
}
