# SPDX-License-Identifier: MIT
"""Hostile sets, made of good ones; and every command that opens a set, to be tried on them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness import api, settings
from harness.analysis import verification
from harness.artefacts.store import hash_tree
from harness.commands.capsule import capsule
from harness.commands.export import export
from harness.commands.figures import figures
from harness.commands.report import report
from harness.commands.show import show
from harness.commands.sign import sign
from harness.program import prediction
from harness.report import compared
from harness.run import merging, reanalysis, reexecution
from harness.sets.reference import write_reference
from harness.sets.resultset import MANIFEST, ResultSet, find_result_set
from harness.sets.seal import content_hash, manifest_pieces

Change = Callable[[dict[str, Any]], object]


def forged(made: ResultSet, change: Change = lambda values: None) -> Path:
    """The set with another manifest, sealed as a forger would: all hashes and the folder's name fit."""
    values = json.loads((made.path / MANIFEST).read_text())
    named = values["id"]
    change(values)
    sealed = f"{made.path.name.partition('-')[0]}-{content_hash(values)[:8]}"
    values["id"] = sealed if values["id"] == named else values["id"]
    (made.path / MANIFEST).write_text("".join(manifest_pieces(values)))
    return made.path.rename(made.path.with_name(sealed))


def resealed(made: ResultSet) -> Path:
    """The set with whatever its files are now, sealed as a forger would."""
    files = {name: value for name, value in hash_tree(made.path).items() if name != MANIFEST}
    return forged(made, lambda values: values.update(files=files))


def commands(path: Path, out: Path) -> dict[str, Callable[[], object]]:
    """All that opens a set, by name; they write below `out`, or beside the set."""
    results, text, console = path.parent.parent, str(path), Console(quiet=True)
    forms = ("csv", "parquet", "ro-crate", "speedscope", "perfetto")

    def merge() -> object:
        with tempfile.TemporaryDirectory() as other:
            subprocess.run(["cp", "-a", path, other], check=True)
            return merging.merge(results, [text, f"{other}/{path.name}"], console, verbose=False)

    return {
        "show": lambda: show(text, results),
        "report": lambda: report(text, out / "x.html", results=results),
        "report in the site": lambda: report(text, results=results),
        **{f"export {form}": lambda form=form: export(text, form, out / form, results) for form in forms},
        "export zip": lambda: export(text, "ro-crate", out / "crate.zip", results),
        "api": lambda: api.load(text).claims,
        "figures": lambda: figures(text, "svg", out / "figures", results),
        "verify": lambda: verification.verify(results, text, console),
        "analyse": lambda: reanalysis.reanalyse(results, text, None, console, verbose=False),
        "compare": lambda: compared.compare(results, text, text, None, False, console),
        "replay": lambda: reexecution.replay(results, text, None, console),
        "predict": lambda: prediction.predict_script(results, text, out / "script", console),
        "reference": lambda: write_reference(find_result_set(results, text), out / "references"),
        "capsule": lambda: capsule(text, out=out / "x.tar.zst", results=results),
        "sign": lambda: signed(path, out / "no-key"),
        "merge": merge,
    }


def key(folder: Path, name: str) -> Path:
    """A new ssh key without a password."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "nobody", "-f", path], check=True)
    return path


def signed(path: Path, key: Path) -> None:
    """Sign the set, as the command does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.SIGNING_KEY.variable, str(key))
        sign(str(path), path.parent.parent)


def signers(folder: Path, options: str = "", **keys: Path) -> Path:
    """A file of those who may sign."""
    path = folder / "signers"
    public = {name: one.with_suffix(".pub").read_text() for name, one in keys.items()}
    path.write_text("".join(f"{name}@example.org {options} {text}" for name, text in public.items()))
    return path
