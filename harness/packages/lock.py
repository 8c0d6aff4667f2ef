# SPDX-License-Identifier: MIT
"""tools.lock: the Debian packages that bits are made of, each by version and sha256."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from harness.errors import UsageError
from harness.packages.choice import Sha256
from harness.paths import ROOT
from harness.yamlfile import Strict

NAME = "tools.lock"
PROJECT = ROOT / NAME
UPDATE = "./inv lock --update"
#: A path below a mirror: no way out of a folder, and nothing that a URL would read otherwise.
PoolPath = Annotated[str, StringConstraints(pattern=r"^pool/([\w+~][\w.+~%-]*/)*[\w+~][\w.+~%-]*\.deb$")]


class Entry(Strict):
    """One package of one version. `needs`: names of what it depends on, resolved; None where nobody resolved it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    package: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
    version: Annotated[str, StringConstraints(pattern=r"^[0-9][\w.+~:-]*$")]
    architecture: Literal["amd64", "arm64", "i386", "all"]
    archive: Literal["debian", "debian-security"]
    path: PoolPath
    size: int = Field(gt=0)
    sha256: Sha256
    needs: tuple[str, ...] | None = None
    snapshot: Annotated[str, Field(exclude=True)] = ""  #: of its lock: the moment that the archive is asked for

    @property
    def file(self) -> str:
        """Name of the .deb in the store: an epoch's colon is a plus."""
        return f"{self.package}_{self.version.replace(':', '+')}_{self.architecture}.deb"


class Lock(Strict):
    """All entries, and which of them make the tools tree.

    `snapshot`: a moment (UTC) whose archive has them all, as the snapshot archive writes it. `cross`: by a guests'
    architecture that needs them, tools that its tree has besides.
    """

    format: Literal[1] = 1
    suites: tuple[str, ...]
    snapshot: Annotated[str, StringConstraints(pattern=r"^\d{8}T\d{6}Z$")]
    tools: tuple[str, ...]
    cross: dict[str, tuple[str, ...]] = {}
    packages: tuple[Entry, ...]

    def entry(self, arch: str, name: str) -> Entry:
        """The entry of a package for a Debian architecture; UsageError when there is none."""
        for entry in self.packages:
            if entry.package == name and entry.architecture in (arch, "all"):
                return entry
        raise UsageError(
            f"{NAME} has no package {name} for {arch}",
            hint=f"{UPDATE} adds what the project names, ./inv lock FOLDER --update what an experiment of yours does",
        )

    def has(self, name: str) -> bool:
        """Whether it has a package of this name, for whatever architecture."""
        return any(entry.package == name for entry in self.packages)

    def closure(self, arch: str, names: Iterable[str]) -> list[Entry]:
        """The entries of `names` and of all that they depend on, in the order of their names.

        UsageError when one is not locked, or is locked without what it depends on.
        """
        found: dict[str, Entry] = {}
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in found:
                continue
            entry = found[name] = self.entry(arch, name)
            if entry.needs is None:
                raise UsageError(
                    f"{NAME} has package {name} for {arch} without what it depends on",
                    hint=f"name the files that you need of it, or run {UPDATE}",
                )
            todo += entry.needs
        return sorted(found.values(), key=lambda entry: entry.package)

    def tool_entries(self, cross: str = "") -> list[Entry]:
        """The packages of the tools tree; of that with the tools for guests of another architecture, too."""
        if cross and cross not in self.cross:
            raise UsageError(f"{NAME} has no tools for guests of {cross}", hint=UPDATE)
        return [self.entry("amd64", name) for name in (*self.tools, *self.cross.get(cross, ()))]

    def dump(self) -> str:
        """The file's text: JSON, one package a line, so that a diff shows what changed."""
        plain = self.model_dump(mode="json", exclude_none=True)
        if not self.cross:
            del plain["cross"]
        packages = plain.pop("packages")
        head = json.dumps(plain, indent=1)[:-2]
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in packages)
        return f'{head},\n "packages": [\n{lines}\n ]\n}}\n'


def load(path: Path | None = None) -> Lock:
    """The lock in a file, the project's unless told; UsageError naming the file and what is wrong with it."""
    path = path or PROJECT
    return _load(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=8)
def _load(path: Path, _changed: int) -> Lock:
    try:
        made = Lock.model_validate(json.loads(path.read_bytes(), object_pairs_hook=_once))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), hint=UPDATE) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"field {place}: {first['msg']}", where=str(path), hint=UPDATE) from error
    except ValueError as error:
        raise UsageError(f"is no lock: {error}", where=str(path), hint=UPDATE) from error
    names = [(entry.package, entry.architecture) for entry in made.packages]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UsageError(f"package {twice[0]} for {twice[1]} is there twice", where=str(path), hint=UPDATE)
    stamped = (entry.model_copy(update={"snapshot": made.snapshot}) for entry in made.packages)
    return made.model_copy(update={"packages": tuple(stamped)})


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a field is there twice")
    return made


def lock_for(folder: Path | None, project: Lock | None = None) -> Lock:
    """The project's lock; where an experiment's `folder` has one of its own, with its entries before the project's.

    `project`: that of another commit.
    """
    project = project or load()
    own = folder / NAME if folder is not None else None
    if own is None or own == PROJECT or not own.exists():
        return project
    mine = load(own)
    has = {(entry.package, entry.architecture) for entry in mine.packages}
    others = (entry for entry in project.packages if (entry.package, entry.architecture) not in has)
    return project.model_copy(update={"packages": (*mine.packages, *others)})
