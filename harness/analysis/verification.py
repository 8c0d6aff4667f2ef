# SPDX-License-Identifier: MIT
"""Verifying a result set: every bit is what was written, and everything derived follows from the raw files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from harness.analysis.analyse import analyse
from harness.analysis.contained import Contained
from harness.analysis.trust import contained
from harness.artefacts.store import canonical
from harness.capsule import archive
from harness.choices import Trusted
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, RunError, exit_code
from harness.measure.claims import ClaimResult
from harness.measure.known import news, news_lines
from harness.measure.views import VIEWS
from harness.progress import step
from harness.scratch import scratch_space
from harness.sets.digest import deterministic_files, digest, first_difference
from harness.sets.listing import CLAIMS, MANIFEST, find_set
from harness.sets.provenance import OWN, package_versions
from harness.sets.reference import first_input_difference
from harness.sets.resultset import DOCUMENTS, METRICS, ResultSet, Writer, view_file
from harness.sets.seal import unchanged, verify_files
from harness.sets.shown import SHOWN
from harness.sets.signature import signed_by
from harness.trial.model import TrialRecord


def verify(results: Path, text: str, console: Console, *, trust: Trusted = None, signers: Path | None = None) -> int:
    """Verify a set and say what was compared; RunError naming the first file that is not as it must be.

    First the bytes: the manifest against the ID, all files against the manifest. Then the meaning: digest, tables,
    metrics, claims and figures are made again from the raw files by the analysis.py in the set, which is executed
    (`harness.analysis.trust`). The code is that of the verdicts, as a run's is: 1 where one is other than known.
    """
    path = find_set(results, text)
    with step("hashing files"):
        count = verify_files(path)
    console.print(f"{count} files: every bit is what was written")
    result = ResultSet(path)
    print_lines(console, signed_by(path, signers))
    _verify_digest(result)
    if result.manifest.digest is not None:
        console.print(f"digest: follows from {len(result.manifest.deterministic)} raw files")
    print_lines(console, *_verify_origin(result))
    with unchanged(path):
        lines = _verify_analysis(result, trust=trust, signers=signers)
    print_lines(console, *lines, *news_lines(result.claims), str(path))
    return exit_code(news=bool(news(result.claims)))


def verify_capsule(path: Path, console: Console) -> int:
    """Verify each file of a capsule against its list; RunError naming the first that is damaged or missing."""
    with step("hashing files"):
        damage = archive.damage(path)
    if damage is not None:
        raise RunError(damage, where=str(path), hint="fetch or copy it again")
    print_lines(console, "every file of the capsule is what was written", str(path))
    return EXIT_OK


def _verify_digest(result: ResultSet) -> None:
    manifest = result.manifest
    good = [trial for trial in manifest.trials if trial.status == "ok"]
    found = deterministic_files(result.path, good)
    difference = first_difference(manifest.deterministic, found)
    if difference is not None:
        raise RunError(f"the files under the digest are others: {difference}", where=str(result.path / MANIFEST))
    if digest(found) != manifest.digest:
        raise RunError("the digest is not that of the raw files", where=str(result.path / MANIFEST))


def _verify_origin(result: ResultSet) -> list[str]:
    """Of a set that was analysed again: its raw files are those of the set that measured them, where that is there."""
    steps = result.manifest.analysed_from
    if not steps:
        return _verify_parts(result)
    told = f"analysed again; measured by the set {steps[0].id}"
    measured = result.path.parent / steps[0].id
    if not (measured / MANIFEST).is_file():
        return [f"{told}, which is not here"]
    there = ResultSet(measured).manifest.files
    difference = first_difference(_sources(there), _sources(result.manifest.files))
    if difference is not None:
        raise RunError(f"is not what {steps[0].id} measured: {difference}", where=str(result.path))
    return [f"{told}: every raw file is the same"]


def _verify_parts(result: ResultSet) -> list[str]:
    """Of a merged set: every raw file is one of the sets that it was merged from, where they are here."""
    parts = result.manifest.merged_from
    if not parts:
        return []
    here = [path for part in parts if ((path := result.path.parent / part.id) / MANIFEST).is_file()]
    sources: set[tuple[str, str]] = set()
    for path in here:
        sources |= _sources(ResultSet(path).manifest.files).items()
    told = f"merged from {len(parts)} sets"
    if len(here) < len(parts):
        return [f"{told}, of which {len(parts) - len(here)} are not here"]
    for name, value in _sources(result.manifest.files).items():
        if (name, value) not in sources:
            raise RunError(f"is in none of the sets it was merged from: {name}", where=str(result.path))
    return [f"{told}: every raw file is one of theirs"]


def _sources(files: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in files.items() if name.startswith(("raw/", "kernels/"))}


def _verify_analysis(result: ResultSet, *, trust: Trusted, signers: Path | None) -> list[str]:
    """What was made again and came out equal, one line each; or why there is nothing to make."""
    trials = result.trials
    if all(trial.status == "failed" for trial in trials):
        return ["no trial succeeded: there is nothing to analyse"]
    if result.manifest.unanalysed:
        return [f"only the raw files are verified: the set was not analysed: {result.manifest.unanalysed}"]

    with contained(result, trust=trust, signers=signers) as analysis, step("analysing again"):
        return _analysed_again(result, trials, analysis)


def _analysed_again(result: ResultSet, trials: Sequence[TrialRecord], analysis: Contained) -> list[str]:
    """What of the set comes out equal when it is made again by its own analysis, one line each."""
    claims = result.claims
    with scratch_space("verify") as scratch:
        analysis.like = result.path
        writer = Writer(scratch, scratch)
        made = analyse(analysis, result.manifest.experiment.claims, trials, writer, part=result.manifest.part)
        _same_tables(result, made.tables, made.metrics)
        _same_claims(result, claims, made.claims)
        _same_views(result, scratch)
        _same_documents(result, scratch)
        if made.shown != result.shown:
            raise _differs(result, SHOWN, "the tables to show come out as others")
        counts = f"{len(made.tables)} tables, {len(made.metrics)} metrics and {len(claims)} claims"
        failures = [f"as in the run, something fails that shows them: {error}" for error in made.failures]
        return [f"{counts} follow from the raw files", _verify_figures(result, scratch / "figures"), *failures]


def _same_tables(result: ResultSet, tables: Mapping[str, pd.DataFrame], metrics: pd.DataFrame) -> None:
    _same_names(result, "tables", {f"{name}.parquet" for name in tables})
    for name, stored in result.tables.items():
        _same_frame(result, f"tables/{name}.parquet", stored, tables[name])
    _same_frame(result, METRICS, result.metrics, metrics)


def _same_views(result: ResultSet, fresh: Path) -> None:
    for name in (view_file(table.name) for table in VIEWS):
        if not (result.path / name).is_file():
            continue  # the set is older than they are, or its analysis has none
        if not (fresh / name).is_file():
            raise _differs(result, name, "the analysis does not make it")
        _same_frame(result, name, pd.read_parquet(result.path / name), pd.read_parquet(fresh / name))


def _same_documents(result: ResultSet, fresh: Path) -> None:
    made = {path.name for path in (fresh / DOCUMENTS).glob("*")}
    _same_names(result, DOCUMENTS, made)
    for name in sorted(made):
        if (result.path / DOCUMENTS / name).read_bytes() != (fresh / DOCUMENTS / name).read_bytes():
            raise _differs(result, f"{DOCUMENTS}/{name}", "it comes out with other values")


def _same_claims(result: ResultSet, stored: Sequence[ClaimResult], made: Sequence[ClaimResult]) -> None:
    if [claim.id for claim in stored] != [claim.id for claim in made]:
        raise _differs(result, CLAIMS, f"the claims are {', '.join(claim.id for claim in made)}")
    expects = {claim.id: claim.expect for claim in result.manifest.experiment.claims}
    for old, new in zip(stored, made, strict=True):
        before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
        expect = expects.get(new.id)
        if expect is not None and before["expected"] == expect.of_six_digits:
            after["expected"] = before["expected"]
        for field in (name for name in after if name in old.model_fields_set):  # an older set has not all of today's
            if canonical(before[field]) != canonical(after[field]):
                raise _differs(result, CLAIMS, f"{field} of {new.id} is {after[field]!r}, not {before[field]!r}")


def _verify_figures(result: ResultSet, fresh: Path) -> str:
    """Figures are compared by their bytes; where another matplotlib or krepro draws, a difference is only told."""
    names = {path.name for path in fresh.glob("*")}
    _same_names(result, "figures", names)
    for name in sorted(names):
        if (result.path / "figures" / name).read_bytes() == (fresh / name).read_bytes():
            continue
        here, there = package_versions(), result.manifest.packages
        others = [key for key in ("matplotlib", OWN) if there.get(key) != here[key]]
        if not others:
            raise _differs(result, f"figures/{name}", "it is drawn another way")
        made = "; ".join(f"{key} is {here[key]}, in the run {there.get(key, 'not recorded')}" for key in others)
        return f"figures/{name} is drawn another way here, which proves nothing: {made}"
    return f"{len(names)} figures: drawn again, byte for byte as they are stored"


def _same_names(result: ResultSet, folder: str, made: set[str]) -> None:
    stored = {path.name for path in (result.path / folder).glob("*")}
    for name in sorted(stored ^ made):
        what = "does not make it" if name in stored else "makes it, and it is not there"
        raise _differs(result, f"{folder}/{name}", f"the analysis {what}")


def _same_frame(result: ResultSet, name: str, stored: pd.DataFrame, fresh: pd.DataFrame) -> None:
    if list(stored.columns) != list(fresh.columns):
        raise _differs(result, name, f"its columns come out as {', '.join(map(str, fresh.columns))}")
    if len(stored) != len(fresh):
        raise _differs(result, name, f"{len(fresh)} rows come out, not {len(stored)}")
    for column in stored.columns:
        if not stored[column].equals(fresh[column]):
            raise _differs(result, name, f"column {column}: {_first_row(stored[column], fresh[column])}")


def _first_row(stored: pd.Series[Any], fresh: pd.Series[Any]) -> str:
    if stored.dtype != fresh.dtype:
        return f"comes out as {fresh.dtype}, not {stored.dtype}"
    row = next(index for index in range(len(stored)) if not stored[index : index + 1].equals(fresh[index : index + 1]))
    return f"row {row} comes out as {fresh.iloc[row]!r}, not {stored.iloc[row]!r}"


def _differs(result: ResultSet, name: str, what: str) -> RunError:
    """An error that also names the library that is another here, if one is: it may be the cause."""
    changed = first_input_difference(result.manifest.packages, package_versions())
    cause = f"library {changed}" if changed else "all libraries are those of the run"
    return RunError(f"does not follow from the raw files: {what} ({cause})", where=str(result.path / name))
