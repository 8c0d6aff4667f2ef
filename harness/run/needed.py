# SPDX-License-Identifier: MIT
"""What of the store is needed: by the project's experiments as they are, and by the result sets that are kept.

No rule says so a second time. A run of every arm is prepared as for `run` and `replay`, in a store that builds nothing
and writes down what it was asked for. To that comes what these artefacts were made of.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.artefacts.store import SEAL, Artefact, Store, canonical, hash_of, read_artefact
from harness.errors import KreproError
from harness.experiment.model import Experiment, experiment_names, find_experiment, load_experiment
from harness.image.programs import module_sources
from harness.kernel.arch import ARCHES
from harness.kernel.load import load_kernel
from harness.kernel.source import TREES, fetch_source, source_identity, tree_key
from harness.packages.lock import load
from harness.packages.tree import TOOLS, ready, tree_home
from harness.paths import IMAGES
from harness.progress import step
from harness.run.prepared import prepare_trials
from harness.run.reanalysis import measured_experiment
from harness.sets.listing import set_paths
from harness.sets.resultset import ResultSet
from harness.trial.plan import PlannedTrial

#: KIND and key of an artefact.
Name = tuple[str, str]
HASH = re.compile(rb"[0-9a-f]{32,64}")


class AbsentError(Exception):
    """The store was asked for what it does not have."""


class AskedStore(Store):
    """A store that builds nothing and changes nothing; `asked`: what it was asked for, there or not."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: set[Name] = set()

    def obtain(
        self,
        kind: str,
        name: str,
        inputs: Mapping[str, Any],
        build: Callable[[Path], Mapping[str, Any] | None],
    ) -> Artefact:
        """The artefact with these inputs, its files unseen; AbsentError when it is not there."""
        key = hash_of(inputs)[:32]
        self.asked.add((kind, key))
        try:
            return read_artefact(kind, self.root / kind / key)
        except (OSError, ValueError, KeyError) as error:
            raise AbsentError(name) from error

    @contextmanager
    def scratch(self, label: str) -> Iterator[Path]:
        yield from self._nothing(label)

    @contextmanager
    def lock(self, kind: str, key: str, name: str) -> Iterator[None]:
        yield from self._nothing(name)

    def use(self, kind: str, key: str, mark: Path | None = None) -> None:
        self.asked.add((kind, key))

    def _nothing(self, name: str) -> Iterator[Any]:
        raise AbsentError(name)


def needed(store: Store, results: Path) -> dict[Name, str]:
    """What is needed, and by whom: experiments of the project, finished sets below `results`.

    Of a set that cannot be read, nothing is known. Sets and experiments in other folders are not looked for.
    """
    reasons: dict[Name, str] = {}
    with step("looking what experiments and sets need"):
        for name in experiment_names():
            with suppress(KreproError):
                folder = find_experiment(name)
                asked = _asked(store, load_experiment(folder), folder, None)
                _add(reasons, asked, f"experiment {name} needs it")
        done: set[str] = set()
        for path in set_paths(results):
            with suppress(KreproError):
                _add(
                    reasons, _asked_by_set(store, ResultSet(path), done), f"set {path.parent.name}/{path.name} needs it"
                )
        _follow(store, reasons)
    for cross in ("", *load().cross):
        tree = tree_home(store.root, cross)
        if tree.is_dir():
            reasons[TOOLS, tree.name] = "the project's tools.lock names it"
    return reasons


def _add(reasons: dict[Name, str], names: Iterable[Name], reason: str) -> None:
    for name in names:
        reasons.setdefault(name, reason)


def _asked(store: Store, experiment: Experiment, folder: Path, arms: Iterable[str] | None) -> set[Name]:
    """What a run of these arms, or of all, asks the store for, as far as that can be told without building."""
    asked = AskedStore(store.root)
    plan = [PlannedTrial(arm, 0, 0) for arm in (experiment.arms if arms is None else arms)]
    # What was made with other tools is another artefact; and a look fetches none.
    plan = [trial for trial in plan if ready() and ready(_cross(experiment.arms[trial.arm].kernel, folder))]
    if not plan:
        return set()
    for part in (plan, *([trial] for trial in plan)):  # where something is absent, arm by arm: others have more
        with suppress(KreproError, AbsentError):
            prepare_trials(asked, experiment, folder, part, Path(tempfile.gettempdir()), "tcg")
            if part is plan:
                break
    if module_sources([IMAGES / "guest", folder / "guest"]):  # an edited module is built in the kernel's tree
        for kernel in {experiment.arms[trial.arm].kernel for trial in plan}:
            with suppress(KreproError, AbsentError):
                recipe = load_kernel(kernel, beside=folder)
                archive = fetch_source(asked, recipe.spec.source, recipe.beside)
                if archive is not None:
                    asked.use(TREES, tree_key(recipe, source_identity(recipe.spec.source, archive)))
    return asked.asked


def _cross(kernel: str, folder: Path) -> str:
    """Which tools a kernel takes besides those of all; none where it cannot be read."""
    try:
        return ARCHES[load_kernel(kernel, beside=folder).spec.arch].cross
    except KreproError:
        return ""


def _asked_by_set(store: Store, result: ResultSet, done: set[str]) -> set[Name]:
    """What a set was made with, and what its replay asks for; of sets of one experiment the latter once."""
    manifest = result.manifest
    names = {("kernel", kernel.key) for kernel in manifest.kernels.values()}
    names |= {("image", image.key) for image in manifest.images.values()}
    arms = sorted({record.arm for record in manifest.trials})
    same = hash_of({"files": manifest.experiment_files, "arms": arms, "kernels": sorted(names)})
    if same not in done:
        done.add(same)
        names |= _asked(store, manifest.experiment, measured_experiment(result), arms)
    return names


def _follow(store: Store, reasons: dict[Name, str]) -> None:
    """Add what needed artefacts were made of: those whose key, or the hash of one of whose files, their inputs name.

    And the states of needed guests under KVM, which only a host with KVM could ask for.
    """
    artefacts = {(artefact.kind, artefact.key): artefact for artefact in _all(store)}
    makers: dict[str, set[Name]] = {}
    for name, artefact in artefacts.items():
        for hashed in (artefact.key, *artefact.files.values()):
            makers.setdefault(hashed, set()).add(name)
    todo = list(reasons)
    while todo:
        name = todo.pop()
        if name in artefacts:
            for maker in _makers(artefacts[name], makers) - reasons.keys():
                reasons[maker] = reasons[name]
                todo.append(maker)
    for name, artefact in artefacts.items():
        if artefact.kind == "state" and "host" in artefact.inputs and name not in reasons:
            guests = _makers(artefact, makers)
            if guests and guests <= reasons.keys():
                reasons[name] = "a guest under KVM needs it"


def _all(store: Store) -> Iterator[Artefact]:
    for seal in store.root.glob(f"*/*/{SEAL}"):
        with suppress(OSError, ValueError, KeyError):
            yield read_artefact(seal.parent.parent.name, seal.parent)


def _makers(artefact: Artefact, makers: Mapping[str, set[Name]]) -> set[Name]:
    """The artefacts that this one's inputs name."""
    named = {found.decode() for found in HASH.findall(canonical(artefact.inputs))}
    return {maker for hashed in named for maker in makers.get(hashed, ())}
