# SPDX-License-Identifier: MIT
"""What goes into a capsule: the project at the set's commit, wheels, packages, the set, and what explains them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.artefacts.store import Store, hash_file
from harness.capsule import archive, wheels
from harness.capsule.archive import Member
from harness.capsule.crate import capsule_crate
from harness.errors import RunError, UsageError
from harness.git import git_text
from harness.kernel.arch import ARCHES, ArchName
from harness.packages.fetch import fetch
from harness.packages.lock import NAME, Entry, Lock, load, lock_for
from harness.paths import ROOT
from harness.scratch import scratch_space
from harness.sets.listing import METADATA
from harness.sets.manifest import Manifest
from harness.sets.resultset import EXPERIMENT, MANIFEST, ResultSet
from harness.sets.seal import verify_files
from harness.sets.signature import signature_file

#: Of a run's command line: options whose value is a place on the host of then, and what is said anew.
_PLACES = ("--search-root", "--results", "--executor")
_ALONE = ("--resume",)
_TEMPLATES = Environment(  # noqa: S701  (Markdown, of a set that its maker packs)
    loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True
)


@dataclass(frozen=True)
class Part:
    """A folder of a capsule, for its README."""

    name: str
    what: str
    members: Sequence[Member]

    @property
    def files(self) -> int:
        return len(self.members)

    @property
    def mib(self) -> float:
        return sum(member.path.stat().st_size for member in self.members) / 2**20


def write_capsule(store: Store, result: ResultSet, pythons: Sequence[str], path: Path) -> None:
    """Write the capsule of a set to `path`, with wheels for these versions of Python.

    UsageError when the set cannot be made again: it was made of changes that are in no commit, or of a commit that
    this checkout lacks. RunError when a package or a wheel cannot be had.
    """
    manifest = result.manifest
    state = manifest.repository
    if state.commit is None or state.dirty:
        raise UsageError(
            "was made of files that are in no commit, so nobody can make it again",
            where=str(result.path), hint="commit, run it again, and make a capsule of the new set",
        )  # fmt: skip
    wheels.check_versions(pythons)
    verify_files(result.path)
    with scratch_space("capsule", path.parent) as scratch:
        moment = check_out(state.commit, scratch / "project")
        (scratch / "wheels").mkdir()
        wheels.download(pythons, scratch / "wheels")
        place = f"results/{manifest.experiment.name}/{manifest.id}"
        named, own = _experiment(result, scratch / "project")
        fetched = _below(scratch, "wheels")
        parts = [
            Part("results", "the result set", list(_set_files(result, place))),
            Part("project", f"krepro at {state.commit[:12]}, a git checkout", _below(scratch, "project")),
            Part(
                "packages",
                "Debian packages: QEMU, compiler, guests, kernel source",
                used_packages(store, result, scratch / "project"),
            ),
            Part("wheels", f"Python packages for Python {' and '.join(pythons)}", fetched),
            *([Part(EXPERIMENT, "the experiment, as it was run", own)] if own else []),
        ]
        about = scratch / "about"
        about.mkdir()
        given = {"manifest": manifest, "parts": parts, "pythons": pythons}
        given["words"] = [named, *run_words(manifest.command_line)]
        given["set"] = f"{manifest.experiment.name}/{manifest.id}"
        given["wheels"] = {member.path.name: wheels.licence(member.path) for member in fetched}
        for name in ("README.md", "LICENCES.md"):
            (about / name).write_text(_TEMPLATES.get_template(f"{name}.j2").render(given))
        members = [*(member for part in parts for member in part.members)]
        members += [Member(name, about / name) for name in ("README.md", "LICENCES.md")]
        metadata = json.dumps(capsule_crate(result, members, place), indent=1, ensure_ascii=False) + "\n"
        (about / METADATA).write_text(metadata, encoding="utf-8")
        members.append(Member(METADATA, about / METADATA))
        archive.write(scratch / path.name, folder_name(manifest), members, moment, about / archive.SUMS)
        (scratch / path.name).rename(path)


def folder_name(manifest: Manifest) -> str:
    """The one folder that a capsule has in it."""
    return f"{manifest.experiment.name}-{manifest.id}"


def _below(scratch: Path, name: str) -> list[Member]:
    paths = (path for path in sorted((scratch / name).rglob("*")) if path.is_file())
    return [Member(path.relative_to(scratch).as_posix(), path) for path in paths]


def _set_files(result: ResultSet, place: str) -> Iterator[Member]:
    for name in (MANIFEST, *result.manifest.files):
        yield Member(f"{place}/{name}", result.path / name)
    signature = signature_file(result.path)
    if signature.exists():
        yield Member(f"{place.rpartition('/')[0]}/{signature.name}", signature)


def run_words(command_line: Sequence[str]) -> list[str]:
    """The options of a run that decide what its set is, from its command line; not the experiment, nor places."""
    words = iter(command_line[1:])
    kept: list[str] = []
    for word in words:
        if word in _PLACES:
            next(words, None)
        elif word not in _ALONE and word.partition("=")[0] not in (*_PLACES, "experiment"):
            kept.append(word)
    behind = kept[kept.index("run") + 1 :] if "run" in kept else kept
    named = any(word.startswith("experiment=") for word in command_line)
    return behind if named or not behind or behind[0].startswith("-") else behind[1:]


def _experiment(result: ResultSet, checkout: Path) -> tuple[str, list[Member]]:
    """How the run names its experiment, and that experiment's files where the project has others."""
    name, files = result.manifest.experiment.name, result.manifest.experiment_files
    folder = checkout / "experiments" / name
    if all((folder / file).is_file() and hash_file(folder / file) == sha256 for file, sha256 in files.items()):
        return f"experiment={name}", []
    members = [Member(f"{EXPERIMENT}/{name}/{file}", result.path / EXPERIMENT / file) for file in files]
    return f"experiment=../{EXPERIMENT}/{name}", members


def check_out(commit: str, folder: Path, root: Path = ROOT) -> int:
    """Make `folder` a checkout of `commit`, which knows no older one; the commit's time in seconds of 1970.

    Equal commits give equal files, those of git's own folder included. UsageError when `root` has no such commit.
    """
    try:
        git_text(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except RunError as error:
        raise UsageError(
            f"this checkout has no commit {commit[:12]}", where=str(root), hint="git fetch, or use the checkout it was"
        ) from error
    folder.mkdir()
    git_text(folder, "init", "--quiet", "--template=", "--initial-branch=capsule")
    git_text(folder, "config", "core.logAllRefUpdates", "false")  # its log would tell when
    # One thread: how several split the work is decided by the number of CPUs.
    upload = "git -c uploadpack.allowAnySHA1InWant=true -c pack.threads=1 upload-pack"
    git_text(folder, "fetch", "--quiet", "--depth=1", f"--upload-pack={upload}", f"file://{root}", commit)
    (folder / ".git/FETCH_HEAD").unlink()
    git_text(folder, "checkout", "--quiet", "--force", "-B", "capsule", commit)
    (folder / ".git/index").unlink()
    git_text(folder, "read-tree", commit)  # without the times and inodes of these files
    return int(git_text(folder, "show", "--no-patch", "--format=%ct", commit))


#: What `tools` of a manifest begins with where QEMU and compiler were those of the lock.
TREE = "tree "


def used_packages(store: Store, result: ResultSet, checkout: Path) -> list[Member]:
    """The .deb files of tools, guests and kernel sources of a set, each in the version that it was made of.

    `checkout`: the project at the set's commit. UsageError where they are not locked. RunError when one cannot be had.
    """
    if not result.manifest.tools.startswith(TREE):
        raise UsageError(
            "was made with the host's own QEMU and compiler, which are in no lock",
            where=str(result.path),
            hint="run it again without the host's own tools, and make a capsule of the new set",
        )
    own = result.path / EXPERIMENT
    lock = lock_for(own, load(checkout / NAME))
    entries = {entry.sha256: entry for entry in _entries(result, lock)}
    paths = fetch(store, list(entries.values()))
    return [Member(f"packages/{entry.file}", paths[sha256]) for sha256, entry in entries.items()]


def _entries(result: ResultSet, lock: Lock) -> Iterator[Entry]:
    manifest = result.manifest
    for cross in sorted({ARCHES[cast(ArchName, kernel.arch)].cross for kernel in manifest.kernels.values()} | {""}):
        yield from lock.tool_entries(cross)
    sources: Mapping[str, Entry] = {entry.sha256: entry for entry in lock.packages}
    for name, kernel in manifest.kernels.items():
        for file, sha256 in kernel.source.get("archive", {}).items():
            if sha256 not in sources:
                raise UsageError(f"kernel {name}: {file} is not in the {NAME} of its commit", where=str(result.path))
            yield sources[sha256]
    for name, image in manifest.images.items():
        arch = ARCHES[cast(ArchName, manifest.kernels[name].arch)].debian
        for package, version in image.packages.items():
            entry = lock.entry(arch, package)
            if entry.version != version:
                raise UsageError(
                    f"image {name}: {package} {version} is not in the {NAME} of its commit", where=str(result.path)
                )
            yield entry
