"""Writing and reading result sets. A set appears whole under its final name, or not at all."""

from __future__ import annotations

import datetime
import glob
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from harness.build.store import canonical, hash_of, hash_tree, usable
from harness.errors import RunError, UsageError
from harness.experiment.trial import TrialRecord
from harness.measure.claims import ClaimResult
from harness.scratch import scratch_folder
from harness.store.manifest import Manifest

MANIFEST = "manifest.json"
LATEST = "latest"
#: The experiment's folder as it was run: a set can be decoded and replayed without anything else.
EXPERIMENT = "experiment"
_CLAIMS = TypeAdapter(list[ClaimResult])


class ResultSet:
    """A finished set on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.manifest = Manifest.model_validate_json((path / MANIFEST).read_bytes())
        except OSError as error:
            raise UsageError(f"is no result set: {error.strerror}", where=str(path)) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            raise UsageError(f"field {field}: {first['msg']}", where=str(path / MANIFEST)) from error

    @property
    def trials(self) -> list[TrialRecord]:
        """The trials with absolute paths."""
        return [trial.relocated(self.path) for trial in self.manifest.trials]

    @property
    def claims(self) -> list[ClaimResult]:
        return _CLAIMS.validate_json((self.path / "claims.json").read_text())

    @property
    def metrics(self) -> pd.DataFrame:
        return pd.read_parquet(self.path / "metrics.parquet")


class Writer:
    """A set that is being written, in a temporary folder beside its final place."""

    def __init__(self, home: Path, path: Path) -> None:
        self.home = home
        self.path = path
        self.result: ResultSet | None = None

    def write_tables(self, tables: Mapping[str, pd.DataFrame]) -> None:
        """tables/NAME.parquet, typed, without an index."""
        folder = self.path / "tables"
        folder.mkdir(exist_ok=True)
        for name, frame in tables.items():
            frame.reset_index(drop=True).to_parquet(folder / f"{name}.parquet", index=False)

    def write_metrics(self, metrics: pd.DataFrame) -> None:
        metrics.to_parquet(self.path / "metrics.parquet", index=False)

    def write_claims(self, claims: Sequence[ClaimResult]) -> None:
        data = [claim.model_dump(mode="json") for claim in claims]
        (self.path / "claims.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")

    def finish(self, manifest: Manifest) -> ResultSet:
        """Seal the set: hash every file, name it by time and content, flush it to disk, rename it into place."""
        files = hash_tree(self.path)
        content = hash_of({"files": files, "manifest": json.loads(canonical(manifest.model_dump(mode="json")))})
        name = f"{_utc_now()}-{content[:8]}"
        sealed = manifest.model_copy(update={"id": name, "files": files})
        (self.path / MANIFEST).write_text(sealed.model_dump_json(indent=1) + "\n")
        _sync_tree(self.path)
        final = self.home / name
        self.path.rename(final)
        _sync(self.home)
        _point_latest(self.home, name)
        self.result = ResultSet(final)
        return self.result


@contextmanager
def write_result_set(results: Path, experiment: str) -> Iterator[Writer]:
    """A Writer for one new set of `experiment` below `results`; what is not finished is removed."""
    home = results / experiment
    with usable(results):
        home.mkdir(parents=True, exist_ok=True)
        folder = scratch_folder(home, "writing")
        folder.chmod(0o755)
    writer = Writer(home, folder)
    try:
        with usable(results):
            yield writer
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_experiment(folder: Path, root: Path) -> None:
    """Copy an experiment's sources (what is small and not generated) into the set at `root`."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
    shutil.copytree(folder, root / EXPERIMENT, ignore=ignored)


def find_result_set(results: Path, text: str) -> ResultSet:
    """The set that `text` means: a path, `EXPERIMENT/ID`, a unique start of an ID, or `latest`.

    UsageError when nothing or more than one thing fits.
    """
    if (Path(text) / MANIFEST).is_file():
        return ResultSet(Path(text).resolve())
    experiment, _, wanted = text.rpartition("/")
    folders = [results / experiment] if experiment else [path for path in results.glob("*") if path.is_dir()]
    if wanted == LATEST:
        found = sorted((folder / LATEST for folder in folders if (folder / LATEST / MANIFEST).is_file()), key=_resolved)
        if found:
            return ResultSet(max((path.resolve() for path in found), key=lambda path: path.name))
        raise UsageError("there is no result set yet", where=str(results), hint="./inv run experiment=NAME")
    wanted = glob.escape(wanted)
    matches = [
        path
        for folder in folders
        for path in folder.glob(f"{wanted}*" if wanted else "!")
        if not path.is_symlink() and (path / MANIFEST).is_file()
    ]
    matches += [
        path
        for folder in folders
        for path in folder.glob(f"*-{wanted}*" if wanted else "!")
        if not path.is_symlink() and (path / MANIFEST).is_file() and path not in matches
    ]
    if len(matches) == 1:
        return ResultSet(matches[0])
    if not matches:
        raise UsageError(f"no result set {text!r}", where=str(results))
    raise UsageError(f"{text!r} could be {len(matches)} result sets: {', '.join(path.name for path in matches[:4])}")


def verify_files(result: ResultSet) -> None:
    """Hash every file of a set again; RunError naming the first that is not what was written."""
    actual = hash_tree(result.path)
    actual.pop(MANIFEST, None)
    for name in sorted(result.manifest.files.keys() | actual.keys()):
        if name not in actual:
            raise RunError("is missing", where=str(result.path / name))
        if actual[name] != result.manifest.files.get(name):
            raise RunError("is not what was written", where=str(result.path / name))


def _resolved(path: Path) -> str:
    return path.resolve().name


def _utc_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")[:-5] + "Z"


def _point_latest(home: Path, name: str) -> None:
    fresh = home / f".{LATEST}-{name}"
    fresh.symlink_to(name)
    fresh.replace(home / LATEST)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(root: Path) -> None:
    for path in root.rglob("*"):
        if not path.is_symlink():
            _sync(path)
    _sync(root)
