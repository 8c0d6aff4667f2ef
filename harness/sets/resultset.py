# SPDX-License-Identifier: MIT
"""Writing and reading result sets. A set appears whole under its final name, or not at all."""

from __future__ import annotations

import datetime
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from harness.artefacts.neutral import neutral, neutral_words
from harness.artefacts.store import hash_tree, usable, walk
from harness.errors import RunError, UsageError
from harness.measure.claims import ClaimResult
from harness.measure.declared import Metric, Table
from harness.measure.rows import METRIC_COLUMNS
from harness.measure.views import VIEWS
from harness.scratch import discard, remove_tree, scratch_folder, sync
from harness.sets import listing
from harness.sets.columns import declared_metrics, declared_table, write_metrics, write_table
from harness.sets.listing import ID, METADATA
from harness.sets.maker import FIELD, NO_SOURCES, maker_of
from harness.sets.manifest import Manifest, load_manifest
from harness.sets.seal import Each, check_found, content_hash, entries, manifest_pieces
from harness.sets.shown import SHOWN, Shown, read_shown
from harness.trial.model import TrialRecord

MANIFEST, CLAIMS, LATEST = listing.MANIFEST, listing.CLAIMS, listing.LATEST
#: The experiment's folder as it was run: a set can be decoded and replayed without anything else.
EXPERIMENT = "experiment"
#: Of a set that was analysed again by another experiment's folder: that which its raw files were measured with.
MEASURED = "measured"
MAX_EXPERIMENT_MIB = 16
#: What an analysis finds and may not change.
FOUND = ("raw/", "kernels/", f"{EXPERIMENT}/", f"{MEASURED}/")
METRICS = "metrics.parquet"
#: What an analysis found, for programs to read: JSON.
DOCUMENTS = "documents"
FIGURES = "figures"
SYNC_THREADS = 16
_CLAIM_LIST = TypeAdapter(list[ClaimResult])


class ResultSet:
    """A finished set on disk, whoever made it: nothing in it leads out of its folder (`check_inside`)."""

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        """`manifest`: what is in its file, of who has just written it."""
        self.path = path
        try:
            self.manifest = manifest or load_manifest(path / MANIFEST)
            check_inside(path, self.manifest)
        except OSError as error:
            raise UsageError(f"is no result set: {error.strerror}", where=str(path)) from error

    @property
    def trials(self) -> list[TrialRecord]:
        """The trials with absolute paths."""
        return [trial.relocated(self.path) for trial in self.manifest.trials]

    @property
    def claims(self) -> list[ClaimResult]:
        try:
            stored = json.loads((self.path / CLAIMS).read_bytes())
            json.dumps(stored, ensure_ascii=False).encode()  # half a surrogate pair can be escaped, and is no text
            claims = _CLAIM_LIST.validate_python(stored, strict=False)
            known = {claim.id for claim in self.manifest.experiment.claims}
            if strange := [claim.id for claim in claims if claim.id not in known]:
                raise ValueError(f"the experiment has no claim {strange[0]!a}")
            return claims
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _damaged(self.path / CLAIMS, error) from error

    @property
    def metrics(self) -> pd.DataFrame:
        """Long form; empty when no trial was good."""
        return read_metrics(self.path)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """What analysis.py decoded, by name; none when no trial was good."""
        return read_tables(self.path)

    def table(self, name: str) -> pd.DataFrame | None:
        """One of them, without reading the others; None when there is none of this name."""
        path = self.path / "tables" / f"{name}.parquet"
        return _read_parquet(path) if path.is_file() else None

    @property
    def shown(self) -> Shown:
        """What the run showed; nothing in sets that are older than the file."""
        return shown_in(self.path)

    def view(self, table: Table) -> pd.DataFrame | None:
        """One of VIEWS; None when its analysis has none, or the set is older than they are. RunError when damaged."""
        path = self.path / view_file(table.name)
        if not path.is_file():
            return None
        try:
            frame = table.typed(_read_parquet(path))
        except UsageError as error:
            raise _damaged(path, error) from error
        if frame.select_dtypes(include="object").isna().any(axis=None):
            raise _damaged(path, ValueError("a text is missing"))
        return frame

    @property
    def declared_tables(self) -> list[Table]:
        """What the columns of each table mean; none in sets that are older than declarations."""
        return [table for path in sorted((self.path / "tables").glob("*.parquet")) if (table := declared_table(path))]

    @property
    def declared_metrics(self) -> list[Metric]:
        """What each family of metrics means; none in sets that are older than declarations."""
        path = self.path / METRICS
        return declared_metrics(path) if path.is_file() else []


class Writer:
    """A set that is being written, in a temporary folder beside its final place."""

    def __init__(self, home: Path, path: Path) -> None:
        self.home = home
        self.path = path
        self.result: ResultSet | None = None
        #: sha256 by path of what is there before an analysis is: all that may be below FOUND in the end.
        self.found: dict[str, str] = {}

    def seal(self, *folders: str) -> None:
        """What is in these folders is what no analysis may change."""
        for folder in folders:
            self.found |= {f"{folder}/{name}": value for name, value in hash_tree(self.path / folder).items()}

    def write_tables(self, tables: Mapping[str, pd.DataFrame], declared: Sequence[Table]) -> None:
        """tables/NAME.parquet, each with its declaration."""
        folder = self.path / "tables"
        folder.mkdir(exist_ok=True)
        for table in declared:
            write_table(tables[table.name], table, folder / f"{table.name}.parquet")

    def write_metrics(self, metrics: pd.DataFrame, declared: Sequence[Metric]) -> None:
        """metrics.parquet, with the declarations of the families."""
        write_metrics(metrics, declared, self.path / METRICS)

    def write_shown(self, shown: Shown) -> None:
        """shown.json; no file when there is nothing to show."""
        if shown.paper or shown.summary:
            (self.path / SHOWN).write_bytes(shown.text().encode())  # encoded first: no file when it cannot be

    def write_views(self, views: Mapping[str, pd.DataFrame]) -> None:
        """NAME.parquet of each of VIEWS that there is."""
        for table in VIEWS:
            if table.name in views:
                write_table(views[table.name], table, self.path / view_file(table.name))

    def write_documents(self, documents: Mapping[str, str]) -> None:
        """documents/NAME.json; no folder when there are none."""
        for name, text in documents.items():
            path = self.path / DOCUMENTS / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())

    def write_claims(self, claims: Sequence[ClaimResult]) -> None:
        data = [claim.model_dump(mode="json") for claim in claims]
        (self.path / CLAIMS).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def remove_derived(self) -> None:
        """Remove what an analysis has written so far: tables that nothing follows from would pass for whole."""
        views = (view_file(table.name) for table in VIEWS)
        for name in ("tables", DOCUMENTS, FIGURES, METRICS, SHOWN, CLAIMS, *views):
            path = self.path / name
            remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def finish(self, manifest: Manifest, *, latest: bool = True, own: bool = True) -> ResultSet:
        """Seal the set: hash every file, name it by time and content, flush it to disk, rename it into place.

        `latest`: the experiment's link of this name leads to it then. `own`: this host measured all of it, and may
        execute its code without a question. RunError naming the first file that is not as it was `found`: no set then.
        """
        files = hash_tree(self.path)
        if self.found:
            present = {name: files.get(name, "") for name, _ in entries(self.path)}  # a link or a pipe has no hash
            after = {name: value for name, value in present.items() if name.startswith(FOUND) or not value}
            check_found(self.path, self.found, after)
        unsealed = without_host_paths(manifest.model_copy(update={"id": "", "files": files}))
        values = _values(unsealed)
        values[FIELD] = maker_of(values) if own else ""
        name = f"{utc_now()}-{content_hash(values)[:8]}"
        with (self.path / MANIFEST).open("w", encoding="utf-8") as file:
            file.writelines(manifest_pieces(values | {"id": name}))
        sync_tree(self.path)
        final = self.home / name
        self.path.rename(final)
        sync(self.home)
        if latest:
            _point_latest(self.home, name)
        self.result = ResultSet(final, unsealed.model_copy(update={"id": name, FIELD: values[FIELD]}))
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
        discard(folder)


def _values(manifest: Manifest) -> dict[str, Any]:
    """A manifest's values as JSON has them. What grows with the trials is there once: nothing of it is copied."""
    long = {"files": manifest.files, "deterministic": manifest.deterministic}
    trials = Each(lambda: (json.loads(trial.model_dump_json()) for trial in manifest.trials))
    rest = json.loads(manifest.model_dump_json(exclude={"trials", *long}))
    values = {"trials": trials, **long, **rest}
    return {name: values[name] for name in Manifest.model_fields}


def without_host_paths(manifest: Manifest) -> Manifest:
    """The same with neutral names for the host's folders, wherever they may stand."""
    repository = manifest.repository
    absent = {name: neutral(reason) for name, reason in repository.absent.items()}
    earlier = {
        field: [
            step.model_copy(update={"command_line": neutral_words(step.command_line)})
            for step in getattr(manifest, field)
        ]
        for field in ("analysed_from", "merged_from")
    }
    return manifest.model_copy(
        update={
            "command_line": neutral_words(manifest.command_line),
            "repository": repository.model_copy(update={"absent": absent}),
            "trials": [trial.neutral() for trial in manifest.trials],
            "unanalysed": neutral(manifest.unanalysed),
            **earlier,
        }
    )


def copy_experiment(folder: Path, root: Path) -> None:
    """Copy an experiment's sources into the set at `root`, without hidden and generated files.

    UsageError naming the largest file when they have more than MAX_EXPERIMENT_MIB: every set would carry them.
    """
    sizes: dict[str, int] = {}

    def copy(source: str, target: str) -> object:
        if source != source.encode("utf-8", "replace").decode():
            raise UsageError("the file's name is not UTF-8, and a result set's list of files is", where=ascii(source))
        sizes[source] = Path(source).stat().st_size
        if sum(sizes.values()) > MAX_EXPERIMENT_MIB << 20:
            largest = max(sizes, key=lambda name: sizes[name])
            raise UsageError(
                f"{sizes[largest] / (1 << 20):.1f} MiB: the folder is copied into every result set, and may have "
                f"{MAX_EXPERIMENT_MIB} MiB in all",
                where=largest,
                hint="keep data and built files out of it",
            )
        return shutil.copy2(source, target)

    ignored = shutil.ignore_patterns(*NO_SOURCES)
    shutil.copytree(folder, root / EXPERIMENT, ignore=ignored, copy_function=copy)


def view_file(name: str) -> str:
    """The file in a set of one of VIEWS."""
    return f"{name}.parquet"


def read_metrics(root: Path) -> pd.DataFrame:
    """The metrics stored in the set at `root`, with METRIC_COLUMNS; no row when no trial was good."""
    if not (root / METRICS).is_file():
        return pd.DataFrame(columns=list(METRIC_COLUMNS))
    frame = _read_parquet(root / METRICS)
    kinds = {"trial": "int64", "value": "float64"}
    for name in METRIC_COLUMNS:
        wanted = kinds.get(name, "object")
        if name not in frame or str(frame[name].dtype) != wanted:
            raise _damaged(root / METRICS, ValueError(f"{name} is no column of {kinds.get(name, 'text')}"))
        if wanted == "object" and not frame[name].map(lambda value: value is None or isinstance(value, str)).all():
            raise _damaged(root / METRICS, ValueError(f"{name} is no column of text"))
    return frame


def read_tables(root: Path) -> dict[str, pd.DataFrame]:
    """The tables stored in the set at `root`, by name."""
    return {path.stem: _read_parquet(path) for path in sorted((root / "tables").glob("*.parquet"))}


def shown_in(root: Path) -> Shown:
    """What the run of the set at `root` showed; nothing without the file."""
    path = root / SHOWN
    try:
        return read_shown(path.read_bytes(), str(path)) if path.is_file() else Shown()
    except OSError as error:
        raise _damaged(path, error) from error


def find_result_set(results: Path, text: str) -> ResultSet:
    """The set that `text` means (see `listing.find_set`); UsageError when none or several fit, or it is damaged."""
    return ResultSet(listing.find_set(results, text))


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
        texts = frame.select_dtypes(include=["object", "string"])
        # A text that is absent is None, as its decoder gave it; pandas reads it as NaN. Here it is first decoded.
        none = {str(name): texts[name].astype("object").where(texts[name].notna(), None) for name in texts}
        return frame.assign(**none)
    except Exception as error:  # of damaged bytes pandas and pyarrow raise what comes
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunError:
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return RunError(f"cannot be read: {reason}", where=str(path), hint="./inv verify says whether the set is damaged")


def link_or_copy(source: Path, target: Path) -> None:
    """The file under another name; a link to the same bytes where the file system allows it."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def utc_now() -> str:
    """The time as an ID has it, to a hundredth of a second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")[:-5] + "Z"


def _point_latest(home: Path, name: str) -> None:
    fresh = home / f".{LATEST}-{name}"
    fresh.symlink_to(name)
    fresh.replace(home / LATEST)


def sync_tree(root: Path) -> None:
    """Flush a folder and all below it to disk.

    Many files at once: the file system then commits them together, which takes a tenth of the time.
    """
    paths = (Path(entry.path) for entry in walk(root) if not entry.is_symlink())
    with ThreadPoolExecutor(SYNC_THREADS) as threads:
        while some := list(itertools.islice(paths, 64 * SYNC_THREADS)):
            list(threads.map(sync, some))
    sync(root)


def check_inside(root: Path, manifest: Manifest) -> None:
    """UsageError naming what could lead a reader or a writer out of the set at `root`.

    Names in the manifest are those of files in the set and of the set itself; and in its folder are folders and the
    plain files that the manifest names. A link would bring in a file of the reader's host, a pipe or a device would
    hold the reader for ever, and a file that came later would be read with those that were sealed.
    """
    where = str(root / MANIFEST)
    for field, name in _named(manifest):
        if not _is_inside(name):
            raise UsageError(f"field {field}: {name!a} is no path in the set", where=where)
    earlier = [
        *(("analysed_from", step.id) for step in manifest.analysed_from),
        *(("merged_from", part.id) for part in manifest.merged_from),
    ]
    for field, name in [("id", manifest.id), *earlier]:
        if ID.fullmatch(name) is None:
            raise UsageError(f"field {field}: {name!a} is no ID of a set", where=where)
    for name, is_plain in entries(root):
        if not is_plain:
            what, hint = "is neither a plain file nor a folder", "a set has nothing else"
            raise UsageError(what, where=str(root / name), hint=hint)
        if name not in manifest.files and name not in (MANIFEST, METADATA):
            what, hint = "is not of this set: it came after it was written", "move it away"
            raise UsageError(what, where=str(root / name), hint=hint)


def _named(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for field in ("files", "deterministic", "experiment_files"):
        yield from ((field, name) for name in getattr(manifest, field))


def _is_inside(name: str) -> bool:
    return "\0" not in name and not {"", ".", ".."}.intersection(name.split("/"))
