# SPDX-License-Identifier: MIT
"""Predicting from what an experiment has fitted: `./inv predict` asks the experiment's own hook."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.analysis.contained import Contained
from harness.analysis.trust import contained, may_be_executed
from harness.choices import Trusted
from harness.cli.terminal import print_lines
from harness.errors import EXIT_OK, UsageError
from harness.experiment.model import find_experiment
from harness.paths import EXPERIMENTS
from harness.program.prescript import NOTHING, Wanted, is_script, readable
from harness.report.terminal import frame_table
from harness.sets.resultset import DOCUMENTS, ResultSet, find_result_set
from harness.sets.seal import unchanged
from harness.sets.shown import Shown

_NAME = re.compile(r"[\w.:-]+")
NAMED = "is named by the document, and this executes code that is in it, "


def load_document(results: Path, text: str, name: str = "model") -> tuple[Path | ResultSet, dict[str, Any]]:
    """The folder of an experiment, or a set with its copy, and a document that it made, for its hook `predict`.

    `text` is a file with such a document, whose field `experiment` names the experiment, or means a result set: then
    the set's own copy of the experiment is meant, and its document `name`.
    """
    path = Path(text)
    if path.is_file():
        document = _read(path, "a document of an experiment with a hook predict")
        if "experiment" not in document:
            raise UsageError("has no field experiment", where=str(path), hint="nothing can predict from it")
        return find_experiment(str(document["experiment"])), document
    whole = find_result_set(results, text)
    documents = whole.path / DOCUMENTS
    names = sorted(other.stem for other in documents.glob("*.json"))
    hint = f"another of {', '.join(names)}: give its path" if names else "its experiment makes no documents"
    return whole, _read(documents / f"{name}.json", hint)


def predict_script(
    results: Path,
    text: str | None,
    script: str | Path,
    console: Console,
    *,
    wanted: Wanted = NOTHING,
    to: str | None = None,
    trust: Trusted = None,
) -> int:
    """Print what the experiment's hook makes of `script`; without `text` that of the newest set that has a model.

    Code of a set is executed by `harness.analysis.trust`. So is that of a folder which a document names, if it is none
    of the project's: who wrote the document chose it.
    """
    if text is None and not is_script(str(script)):
        raise UsageError("what to predict is needed", hint="a tool's script, or a YAML file", where=str(script))
    source, document = load_document(results, newest(results) if text is None else text)
    if wanted.program is not None and wanted.program.kernel is None:
        wanted = replace(wanted, program=replace(wanted.program, kernel=_kernel(document)))
    with readable(str(script), wanted, console) as file:
        if isinstance(source, ResultSet):
            with unchanged(source.path), contained(source, file, trust=trust) as analysis:
                shown, lines = _by_set(source.path, analysis, document, file)
        else:
            strange = source.parent != EXPERIMENTS
            shut = may_be_executed(str(source), NAMED, trust=trust) if strange else None
            with Contained(source, file, strange=strange, shut=shut) as analysis:
                shown, lines = analysis.predict(document, file)
    if to == "json":
        tables = {table.title: table.frame.to_dict("records") for table in shown.summary}
        print_lines(console, json.dumps({"said": lines, "tables": tables}, indent=1))
        return EXIT_OK
    for table in shown.summary:
        console.print(frame_table(table.title, table.frame))
    print_lines(console, *lines)
    return EXIT_OK


def _by_set(folder: Path, analysis: Contained, document: dict[str, Any], file: Path) -> tuple[Shown, list[str]]:
    """By a set's own copy of the experiment. UsageError if that is older than what the script has."""
    try:
        return analysis.predict(document, file)
    except UsageError as error:
        if error.where != str(file) or file.suffix != ".json":
            raise
        hint = f"the project's does: name {folder / DOCUMENTS / 'model.json'}"
        message = "the set's own copy of the experiment does not know all that this script has"
        raise UsageError(message, where=str(folder), hint=hint) from error


def _kernel(document: dict[str, Any]) -> str | None:
    """What was fitted on, where that is the name of a kernel: a path in a document of others is none of ours."""
    name = document.get("kernel")
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def newest(results: Path) -> str:
    """The newest set that has a document `model`. UsageError where there is none."""
    models = results.glob(f"*/2*/{DOCUMENTS}/model.json")
    sets = sorted((path.parents[1] for path in models if not path.parents[1].is_symlink()), key=lambda one: one.name)
    if not sets:
        raise UsageError(
            f"no result set has a {DOCUMENTS}/model.json",
            where=str(results),
            hint="./inv calibrate --out MODEL, and ./inv predict MODEL …; or run an experiment with a hook predict",
        )
    return str(sets[-1])


def _read(path: Path, hint: str) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is no JSON: {error}", where=str(path), hint=hint) from error
    if not isinstance(document, dict):
        raise UsageError("is no JSON object", where=str(path), hint=hint)
    return document
