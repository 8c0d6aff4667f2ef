# SPDX-License-Identifier: MIT
"""Manifests with values of another kind, place or name, given to all that reads one."""

from __future__ import annotations

import copy
import io
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from rich.console import Console

from harness import api
from harness.analysis import verification
from harness.capsule import contents
from harness.capsule.crate import capsule_crate
from harness.errors import KreproError
from harness.packages.lock import load as load_lock
from harness.paths import ROOT
from harness.report import compared
from harness.report.history import experiments
from harness.report.page import set_page
from harness.report.reproduce import reproduction
from harness.report.setlist import list_lines
from harness.report.view import print_set
from harness.run import merging, reanalysis, reexecution
from harness.run.union import hosts_of, unite
from harness.sets import provenance, resultset
from harness.sets.export.crate import crate
from harness.sets.listing import MANIFEST, describe
from harness.sets.reference import deterministic_inputs, reference_of
from harness.sets.resultset import ResultSet
from harness.sets.seal import content_hash, manifest_pieces, verify_files
from harness.sets.values import values_of
from tests.fuzzing import limited
from tests.parts import write_part
from tests.result_sets import YAML, experiment_folder

#: Readers that take a tenth of a second get one in so many of those that can be opened.
SELDOM = {"report": 5, "compare": 5, "compare, the other way": 5}
#: Of one manifest, in all readers together, on a CPU.
MOST_S = 20.0
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0, 1e308, "", "x", "0", "\0", "../x", "/x"),
    *("\x1b[2J", "\u202e", "\ud800", "a" * 5000, [], {}, [[]], {"x": {}}, [None], {"": None}, {"arm": 1}, "{}", "1/2"),
)
YAML_OF_IT = YAML.replace("  wall: {kernel: classic, clock: wall}\n", "") + "repetitions: {quick: 2}\n"
LOCK = load_lock(ROOT / "tools.lock")


def mutated(values: Any, chance: random.Random) -> Any:
    """A manifest's JSON with one to three changes."""
    values = copy.deepcopy(values)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(values))
        holder, name = chance.choice(places)
        other, its_name = chance.choice(places)
        kind = chance.randrange(8)
        if kind == 0:
            del holder[name]
        elif kind == 1 and isinstance(holder, dict):  # another name: what referred to it refers to nothing
            fresh = chance.choice((f"{name}x", "classic", "short", "", "files", str(name)[:-1], "../x", its_name))
            holder[str(fresh)] = holder.pop(name)
        elif kind == 2:
            holder[name] = copy.deepcopy(other[its_name])
        elif kind == 3 and isinstance(holder, list):
            holder.insert(name, copy.deepcopy(holder[name]))
        elif kind == 4 and isinstance(holder[name], str):
            text = holder[name]
            at = chance.randrange(len(text) + 1)
            holder[name] = text[:at] + chance.choice(("", "x", "/", "..", "\n", "0", " ", "-")) + text[at + 1 :]
        elif kind == 5 and isinstance(holder[name], int | float):
            holder[name] = chance.choice((-1, 0, 1, 2**31, 2**64, holder[name] + 1, -holder[name], 0.5, 10**15))
        elif kind == 6 and isinstance(holder[name], dict | list):
            holder[name].clear()
        else:
            holder[name] = copy.deepcopy(chance.choice(ODD))
    return values


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in it: what holds it, and its name or number there."""
    left = [values]
    while left:
        one = left.pop()
        for name in one if isinstance(one, dict) else range(len(one)):
            yield one, name
            if isinstance(one[name], dict | list):
                left.append(one[name])


def good_sets(folder: Path) -> tuple[ResultSet, ResultSet]:
    """Two halves of one plan."""
    source = experiment_folder(folder, YAML_OF_IT)
    first, second = (write_part(folder / "results", source, repetitions=part) for part in ("0:1/2", "1:2/2"))
    return first, second


def readers(other: ResultSet) -> dict[str, Callable[[ResultSet], object]]:
    """All that reads a manifest, by name; `other`: a good set of the same plan."""
    quiet = Console(file=io.StringIO(), width=80)

    def summary(result: ResultSet) -> None:
        print_set(quiet, result, None)
        print_set(quiet, result, None, verbose=True)

    def table(result: ResultSet) -> None:
        loaded = api.Results(result.path)
        assert [loaded.trials, loaded.claims, loaded.metrics, repr(loaded)]

    def capsule(result: ResultSet) -> None:
        manifest = result.manifest
        contents.run_words(manifest.command_line)
        contents._TEMPLATES.get_template("README.md.j2").render(
            {"manifest": manifest, "parts": [], "pythons": [], "words": [], "set": contents.folder_name(manifest)}
        )
        capsule_crate(result, [], "results/x")
        contents._experiment(result, ROOT)
        list(contents._entries(result, LOCK))

    def union(first: ResultSet, second: ResultSet) -> None:
        made = unite([first, second])
        _, records = hosts_of([first, second], made)
        merging._manifest([first, second], made, first.manifest, records, first.path)

    def replayed(result: ResultSet) -> None:
        manifest = result.manifest
        reexecution._is_projects(manifest)
        chosen = reexecution._choose(result, None)
        names = {manifest.experiment.arms[record.arm].kernel for record in chosen}
        deterministic_inputs(
            manifest.qemu, {n: manifest.kernels[n] for n in names}, {n: manifest.images[n] for n in names}
        )

    def analysed(result: ResultSet) -> None:
        reanalysis._judged_by(result.manifest.experiment, other.manifest.experiment, other.path)
        reanalysis._manifest(result.manifest, result.manifest.experiment, result.path)
        reanalysis._is_newest(result)

    def verified(result: ResultSet) -> None:
        verify_files(result.path)
        verification._verify_digest(result)
        verification._verify_origin(result)

    return {
        "show": summary,
        "api": table,
        "report": set_page,
        "report, how to make it again": reproduction,
        "reference, digest": reference_of,
        "reference, values": values_of,
        "compare": lambda result: compared.compared_sets(result.path, other.path, None, True),
        "compare, the other way": lambda result: compared.compared_sets(other.path, result.path, None, True),
        "merge": lambda result: union(result, other),
        "merge, the other way": lambda result: union(other, result),
        "export": crate,
        "capsule": capsule,
        "replay": replayed,
        "analyse": analysed,
        "verify": verified,
    }


@dataclass
class Outcome:
    """What became of many manifests: how many could be opened, how often each reader refused one, and what broke."""

    tried: int = 0
    opened: int = 0
    by_reader: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def fuzz(folder: Path, count: int, seed: int, most_failures: int = 5) -> Outcome:
    """Give all readers so many manifests."""
    with ExitStack() as stack:
        return _fuzz(folder, count, seed, most_failures, stack)


def _by_name(read: Callable[[Path], pd.DataFrame]) -> Callable[[Path], pd.DataFrame]:
    kept: dict[tuple[str, bool], pd.DataFrame] = {}

    def cached(path: Path) -> pd.DataFrame:
        key = (path.name, "fuzzed" in path.parts)
        if key not in kept:
            kept[key] = read(path)
        return kept[key].copy()

    return cached


def _fuzz(folder: Path, count: int, seed: int, most_failures: int, stack: ExitStack) -> Outcome:
    first, other = good_sets(folder)
    values = json.loads((first.path / MANIFEST).read_text())
    named = readers(other)
    # What a host is, and files that stay what they are, are looked up once: of very many manifests that is the time.
    for name in ("repository", "package_versions"):
        stack.enter_context(patch.object(provenance, name, cache(getattr(provenance, name))))
    stack.enter_context(patch.object(resultset, "_read_parquet", _by_name(resultset._read_parquet)))
    home, chance, outcome = folder / "fuzzed/waits", random.Random(seed), Outcome()
    home.mkdir(parents=True)
    path = home / first.path.name
    shutil.copytree(first.path, path)
    for number in range(count):
        if len(outcome.failures) >= most_failures:
            break
        made = mutated(values, chance)
        path = _sealed(path, made)
        outcome.tried += 1
        try:
            with limited(MOST_S):
                _read(path, named, outcome)
        except Exception as error:
            outcome.failures.append(f"{number}: {type(error).__name__}: {error}"[:500])
    return outcome


def _sealed(path: Path, made: dict[str, Any]) -> Path:
    """Write a manifest as a forger would: most have a hash that fits, so readers go on to what it says."""
    try:
        made["id"] = named = f"{path.name.partition('-')[0]}-{content_hash(made)[:8]}"
        data = "".join(manifest_pieces(made)).encode()
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError, ValueError):
        named, data = path.name, json.dumps(made).encode()
    (path / MANIFEST).write_bytes(data)
    return path.rename(path.with_name(named))


def _read(path: Path, named: dict[str, Callable[[ResultSet], object]], outcome: Outcome) -> None:
    list_lines([describe(path)])
    try:
        result = ResultSet(path)
    except KreproError as error:
        _check(error, "open", outcome)
        return
    outcome.opened += 1
    for name, read in named.items():
        if name in SELDOM and outcome.opened % SELDOM[name]:
            continue
        try:
            read(result)
        except KreproError as error:
            _check(error, name, outcome)
        except TimeoutError:
            raise
        except Exception as error:
            raise RuntimeError(f"{name}: {type(error).__name__}: {error}") from error
    experiments(path.parent.parent)


def _check(error: KreproError, name: str, outcome: Outcome) -> None:
    outcome.by_reader[name] += 1
    if any("\n" in line for line in error.lines):
        outcome.failures.append(f"{name}: an error of several lines: {str(error)!r}"[:500])
