# SPDX-License-Identifier: MIT
"""Finding and listing result sets without reading them whole: a thousand are listed in well under a second.

Imports no pandas and no model of a manifest: `results` spends its second on reading files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.errors import UsageError
from harness.measure.verdict import Verdict
from harness.scratch import try_lock

MANIFEST = "manifest.json"
CLAIMS = "claims.json"
#: What an export as RO-Crate puts beside the files of a set.
METADATA = "ro-crate-metadata.json"
LATEST = "latest"
#: Folder of runs that are going on or were broken off, in an experiment's folder.
UNFINISHED = ".unfinished"
#: Folder of committed references beside the experiments' folders: nothing in it is listed or removed.
REFERENCE = "reference"
#: The name of a finished set: UTC time and 8 hex digits. What is being written or removed has another.
ID = re.compile(r"\d{8}T\d{6}\.\d\dZ-([0-9a-f]{8})")


class _Named(BaseModel):
    name: str


class _Trial(BaseModel):
    status: str


class _Step(BaseModel):
    id: str


class _Planned(BaseModel):
    trials: int


class _Plan(_Planned):
    sittings: list[str]


class _Seal(BaseModel):
    record: _Trial


class _Head(BaseModel):
    """Those fields of a manifest that a list shows, and every version of it has or needs not; others are skipped."""

    schema_version: int
    created: str
    profile: str
    experiment: _Named
    trials: list[_Trial]
    unanalysed: str = ""
    analysed_from: list[_Step] = []
    plan: _Planned | None = None


class _Claim(BaseModel):
    verdict: Verdict


_CLAIMS = TypeAdapter(list[_Claim])


@dataclass(frozen=True)
class Listed:
    """One finished set as a list shows it; of a broken one only path and reason are known."""

    path: Path
    schema_version: int = 0
    created: str = ""
    profile: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    failed: int = 0
    broken: str | None = None
    unanalysed: str = ""
    analysed_from: str | None = None
    planned: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether trials of its plan are not in it."""
        return self.planned is not None and self.planned > self.trials


@dataclass(frozen=True)
class Unfinished:
    """A run that was broken off or is going on: its folder, when it was begun, and how many trials have ended."""

    path: Path
    begun: str
    trials: int
    done: int
    running: bool

    @property
    def experiment(self) -> str:
        return self.path.parent.parent.name


def set_paths(results: Path, experiment: str | None = None) -> list[Path]:
    """Folders of finished sets below `results`, newest first; links, unfinished folders and references are none."""
    found = [path for home in _homes(results, experiment) for path in _folders(home) if ID.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.name, path.parent.name), reverse=True)


def describe(path: Path) -> Listed:
    """What a list says of the set in `path`; reads two files, checks no hash."""
    try:
        file = MANIFEST
        head = _Head.model_validate_json(read_plain(path / file))
        file = CLAIMS
        claims = _CLAIMS.validate_json(read_plain(path / file))
    except OSError as error:
        return Listed(path, broken=f"{file}: {error.strerror}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return Listed(path, broken=f"{file}: {f'field {place}: ' if place else ''}{first['msg']}")
    return Listed(
        path,
        schema_version=head.schema_version,
        created=head.created,
        profile=head.profile,
        verdicts=Counter(claim.verdict for claim in claims),
        trials=len(head.trials),
        failed=sum(trial.status != "ok" for trial in head.trials),
        unanalysed=head.unanalysed,
        analysed_from=head.analysed_from[0].id if head.analysed_from else None,
        planned=head.plan.trials if head.plan else None,
    )


def read_plain(path: Path) -> bytes:
    """The content of a plain file; OSError for anything else, a link too: nothing is waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is no plain file", str(path))
        return file.read()


def unfinished_runs(results: Path, experiment: str | None = None) -> list[Unfinished]:
    """Runs below `results` that are not finished, newest first."""
    homes = _homes(results, experiment)
    runs = [run for home in homes for path in _folders(home / UNFINISHED) if (run := _unfinished(path)) is not None]
    return sorted(runs, key=lambda run: run.path.name, reverse=True)


def _unfinished(path: Path) -> Unfinished | None:
    try:
        plan = _Plan.model_validate_json((path / "plan.json").read_bytes())
        seals = [_Seal.model_validate_json(seal.read_bytes()) for seal in path.glob("trials/*/*.json")]
    except (OSError, ValidationError):
        return None
    done = sum(seal.record.status == "ok" for seal in seals)
    lock = try_lock(path)
    if lock is not None:
        os.close(lock)
    return Unfinished(path, plan.sittings[0], plan.trials, done, lock is None)


def find_set(results: Path, text: str) -> Path:
    """The folder of the set that `text` means: a path, `EXPERIMENT/ID`, a unique prefix of an ID, or `latest`.

    A start is one of the whole ID or of its hash; `EXPERIMENT/` may stand before any of them. UsageError when
    nothing or more than one thing fits. The set itself may still be damaged.
    """
    if (Path(text) / MANIFEST).is_file():
        return Path(text).resolve()
    experiment, _, wanted = text.rpartition("/")
    homes = _homes(results, experiment)
    if wanted == LATEST:
        newest = [path for home in homes if (path := latest_of(home)) is not None]
        if newest:
            return max(newest, key=lambda path: path.name)
        sets = any(_finished(home) for home in homes)
        what = "no whole result set was analysed yet" if sets else "there is no result set yet"
        raise UsageError(what, where=str(results), hint="./inv results" if sets else "./inv run experiment=NAME")
    matches = [path for home in homes for path in sets_named(home, wanted)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UsageError(f"no result set {text!r}", where=str(results), hint="./inv results lists them")
    names = ", ".join(f"{path.parent.name}/{path.name}" for path in matches[:4])
    more = f" and {len(matches) - 4} more" if len(matches) > 4 else ""
    raise UsageError(
        f"{text!r} could be {len(matches)} result sets: {names}{more}", hint="give a longer prefix of the ID"
    )


def latest_of(home: Path) -> Path | None:
    """The set that `latest` means in `home`; where the link was lost, the newest whole one that was analysed."""
    link = home / LATEST
    if (link / MANIFEST).is_file():
        return link.resolve()
    newest = sorted(_finished(home), key=lambda path: path.name, reverse=True)
    return next((path for path in newest if not (one := describe(path)).unanalysed and not one.is_part), None)


def sets_named(home: Path, wanted: str) -> list[Path]:
    """The finished sets in an experiment's folder whose ID, or its hash, begins so."""
    return [path for path in _finished(home) if fits(path.name, wanted)]


def fits(name: str, wanted: str) -> bool:
    """Whether an ID, or its hash, begins with this text, which is not empty."""
    return bool(wanted) and (name.startswith(wanted) or name.rpartition("-")[2].startswith(wanted))


def _homes(results: Path, experiment: str | None) -> list[Path]:
    """The folder of this experiment; without one those of all."""
    return [results / experiment] if experiment else [path for path in _folders(results) if path.name != REFERENCE]


def _finished(home: Path) -> list[Path]:
    return [path.resolve() for path in _folders(home) if ID.fullmatch(path.name) and (path / MANIFEST).is_file()]


def _folders(parent: Path) -> list[Path]:
    """Real folders in `parent`, hidden ones left out; none where `parent` is no folder."""
    try:
        with os.scandir(parent) as entries:
            return [
                parent / entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(parent)) from error
