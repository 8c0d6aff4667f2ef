# SPDX-License-Identifier: MIT
"""Runs that are going on or were broken off: a plan, and every trial sealed on its own as soon as it has ended.

    EXPERIMENT/.unfinished/ID/
      plan.json           what was asked for
      set/                what becomes the result set: experiment/, raw/ARM/REPETITION/ of sealed trials, …
      trials/ARM/N.json   the seal of a trial: its description's hash, its record, its files' hashes
      running/            what the trials that run now write
      machines.json       the other machines that ran trials, if any did

A trial counts when its seal is there, which is written last; everything else is thrown away when the run is gone on
with. The process that works on a run holds a lock on its folder, until it ends, however it ends.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from harness.artefacts.store import hash_file, hash_tree
from harness.choices import AcceleratorChoice, OracleMode, Profile
from harness.errors import UsageError
from harness.progress import note, warn
from harness.scratch import locks_work, remove_tree, sweep, sync, try_lock
from harness.sets.listing import ID, UNFINISHED, fits
from harness.sets.maker import FIELD, is_own, maker_of
from harness.sets.provenance import Host
from harness.sets.resultset import link_or_copy, sync_tree, utc_now
from harness.trial.model import TrialRecord, TrialSpec
from harness.yamlfile import Strict

PLAN, SET, TRIALS, RUNNING, MACHINES = "plan.json", "set", "trials", "running", "machines.json"
LATEST = "latest"
Key = tuple[str, int]
#: Who lists runs holds a lock for a moment: so often, and so many seconds apart, a lock is asked for before it counts.
LOCK_TRIES, LOCK_PAUSE_S = 10, 0.05


class Words(Strict):
    """What a user asked for: a run with other words is another run."""

    profile: Profile
    repetitions: int | None
    arms: tuple[str, ...] | None
    seed: int
    accel: AcceleratorChoice
    oracle: tuple[OracleMode, ...] | None
    chosen: dict[str, list[str]] = {}
    part: str = ""


class Plan(Strict):
    """A run before its first trial; `sittings`: UTC times at which it was begun and gone on with."""

    words: Words
    trials: int
    sittings: tuple[str, ...]


class Named(Strict):
    """A machine that ran trials. Its name is not told by the set."""

    machine: str
    host: Host


class Machines(Strict):
    """All of a run, in the order of the places that records name."""

    machines: tuple[Named, ...] = ()


class Seal(Strict):
    """A trial that has ended. `guests_s`: wall time that the run's trials had taken by then, of all its sittings.

    `maker`: as in a manifest. What another host sealed does not become a trial of a set of this one. `own`: this host
    measured it, or it is of a set that was made here.
    """

    description: str
    record: TrialRecord
    files: dict[str, str]
    guests_s: float
    own: bool = True
    maker: str = ""


class Run:
    """A run that this process works on; use it in `with`, which keeps it if a trial is sealed and it is not done."""

    def __init__(self, path: Path, plan: Plan, lock: int) -> None:
        self.path, self.plan = path, plan
        self.set, self.running = path / SET, path / RUNNING
        self.spent_s = 0.0
        self.descriptions: Mapping[Key, str] = {}
        self._lock = lock
        self._begun = time.monotonic()
        self.sealed: dict[Key, TrialRecord] = {}
        self._foreign: set[Key] = set()
        self._kept = False
        self._machines = _read_machines(path)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            remove_tree(self.running)
            if not self._worth_keeping():
                remove_tree(self.path)
                self.path.parent.rmdir()
        except OSError:
            pass  # others are in it; or it cannot be removed, and is left to `prune`
        finally:
            os.close(self._lock)

    def _worth_keeping(self) -> bool:
        """Whether there is something to go on with: before `keep` has looked, any seal may be good."""
        return self.set.is_dir() and bool(self.sealed if self._kept else list((self.path / TRIALS).glob("*/*.json")))

    @property
    def resumed(self) -> list[str]:
        """When it was gone on with."""
        return list(self.plan.sittings[1:])

    def keep(self, descriptions: Mapping[Key, str]) -> None:
        """Take up the sealed trials that are of this plan, good and whole; remove what else is there, and say it."""
        self.descriptions = descriptions
        kept: dict[Key, TrialRecord] = {}
        reasons: dict[str, list[str]] = {}
        for path in sorted((self.path / TRIALS).glob("*/*.json")):
            name = f"{path.parent.name} {path.stem}"
            why, seal = self._judge(path, descriptions)
            if seal is not None and why is None:
                key = (seal.record.arm, seal.record.repetition)
                kept[key] = seal.record
                self._foreign |= set() if seal.own else {key}
                self.spent_s = max(self.spent_s, seal.guests_s)
                continue
            if why is not None:
                reasons.setdefault(why, []).append(name)
            path.unlink()
        self._clear(kept)
        self.sealed = kept
        self._kept = True
        if self.resumed:
            note(f"resuming {self.path.name}: {len(kept)} of {self.plan.trials} trials are done")
        for why, names in reasons.items():
            warn(f"{len(names)} finished trials are not used, the first {names[0]}: {why}")

    def keep_more(self, descriptions: Mapping[Key, str]) -> None:
        """Trials that are prepared only now; nothing of theirs is sealed."""
        self.descriptions = {**self.descriptions, **descriptions}

    def seal(self, spec: TrialSpec, record: TrialRecord, *, own: bool = True) -> None:
        """Put a trial that has ended where it stays, whole and on disk, whatever happens afterwards.

        `own`: this host measured it, or it is of a set that was made here.
        """
        spec.folder.mkdir(parents=True, exist_ok=True)
        key = (spec.arm, spec.repetition)
        # One that another host ran by the wall clock has a description of its own; in the plan it is this trial.
        # Of many trials, what is the same is kept once.
        shared = {name: getattr(spec, name) for name in ("arm", "kernel", "params", "cmdline", "dimensions")}
        description = record.description or self.descriptions[key]
        record = record.neutral().model_copy(update={**shared, "description": description})
        files = hash_tree(spec.folder)
        sync_tree(spec.folder)
        place = self.set / "raw" / spec.arm / str(spec.repetition)
        place.parent.mkdir(parents=True, exist_ok=True)
        spec.folder.rename(place)
        sync(place.parent)
        spent = self.spent_s + time.monotonic() - self._begun
        seal = Seal(description=self.descriptions[key], record=record, files=files, guests_s=round(spent, 3), own=own)
        seal = seal.model_copy(update={FIELD: maker_of(seal.model_dump(mode="json"))})
        write_synced(self.path / TRIALS / spec.arm / f"{spec.repetition}.json", seal.model_dump_json(indent=1))
        self.sealed[key] = record
        self._foreign |= set() if own else {key}

    @property
    def own(self) -> bool:
        """Whether this host measured all its trials, or took them from sets that were made here."""
        return not self._foreign

    def place_of(self, machine: str, host: Host) -> int:
        """The place among `hosts` of the machine of this name, which is put there when it is new."""
        names = [one.machine for one in self._machines.machines]
        if machine not in names:
            self._machines = Machines(machines=(*self._machines.machines, Named(machine=machine, host=host)))
            write_synced(self.path / MACHINES, self._machines.model_dump_json(indent=1))
            return len(names)
        return names.index(machine)

    def files(self) -> dict[str, str]:
        """sha256 of every raw file of the sealed trials, by its path in the set."""
        return {
            f"raw/{arm}/{repetition}/{name}": value
            for arm, repetition in self.sealed
            for name, value in _read_seal(self.path / TRIALS / arm / f"{repetition}.json").files.items()
        }

    @property
    def hosts(self) -> list[Host]:
        """The machines that ran its trials, but for this one."""
        return [one.host for one in self._machines.machines]

    def guests_begin(self) -> None:
        """From now on wall time counts as that of the trials."""
        self._begun = time.monotonic()

    def guests_end(self) -> None:
        """From now on it does not."""
        self.spent_s += time.monotonic() - self._begun

    def finished(self) -> None:
        """Its set has gone to its place: nothing is left to keep."""
        self.sealed = {}

    def _judge(self, path: Path, descriptions: Mapping[Key, str]) -> tuple[str | None, Seal | None]:
        """The seal, and why its trial cannot be used; no reason of a failed one: it is just run again."""
        try:
            seal = _read_seal(path)
        except (OSError, ValidationError):
            return "the seal cannot be read", None
        if seal.record.status != "ok":
            return None, None
        return self._objection(seal, descriptions), seal

    def _objection(self, seal: Seal, descriptions: Mapping[Key, str]) -> str | None:
        key = (seal.record.arm, seal.record.repetition)
        if seal.record.host is not None and seal.record.host >= len(self._machines.machines):
            return "nobody knows which machine ran it"
        if key not in descriptions:
            return "the run has no such trial any more"
        if seal.description != descriptions[key]:
            return "its description has changed: the experiment, the kernel or another input"
        if not is_own(seal.model_dump(mode="json")):
            return "it was not sealed on this host"
        try:
            whole = hash_tree(self.set / "raw" / key[0] / str(key[1])) == seal.files
        except OSError:
            whole = False
        return None if whole else "its files differ from what was written"

    def _clear(self, kept: Mapping[Key, TrialRecord]) -> None:
        remove_tree(self.running)
        self.running.mkdir()
        self.set.mkdir(exist_ok=True)
        raw = self.set / "raw"
        places = {raw / arm / str(repetition) for arm, repetition in kept}
        arms = {place.parent for place in places}
        strange = [path for path in self.set.iterdir() if path != raw]
        strange += [path for path in raw.glob("*") if path not in arms]
        strange += [path for arm in arms for path in arm.glob("*") if path not in places]
        for path in strange:  # what was not sealed, or what an analysis has put there
            path.unlink() if path.is_symlink() or not path.is_dir() else remove_tree(path)


def open_run(home: Path, words: Words, trials: int, *, resume: str | None = None, fresh: bool = False) -> Run:
    """The run with these words below the experiment's folder `home`: one that was broken off, or a new one.

    `resume`: this one (a unique prefix of its ID, or `latest`), an error without it; `fresh`: always a new one.
    UsageError when there is no such run, when it was started with other arguments, or when another process works on it.
    """
    folder = home / UNFINISHED
    for place in (home, folder):  # what a killed process left
        sweep(place)
    _remove_empty(folder)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if not fresh:
        for path in _candidates(folder, resume):
            lock = _lock(path)
            if lock is None:
                if resume is not None:
                    raise UsageError("another process works on this run", where=str(path))
                continue
            plan = read_plan(path)
            if plan is None:  # begun by nobody who got further, or done but for this folder
                remove_tree(path)
            elif plan.words == words:
                plan = plan.model_copy(update={"sittings": (*plan.sittings, now), "trials": trials})
                write_synced(path / PLAN, plan.model_dump_json(indent=1))
                return Run(path, plan, lock)
            os.close(lock)
            if plan is not None and resume is not None:
                raise UsageError(f"was started with other arguments: {_difference(plan.words, words)}", where=str(path))
    if resume is not None:
        raise UsageError(f"no unfinished run {resume!r}", where=str(home), hint="./inv results lists them")
    while True:
        path = folder / f"{utc_now()}-{secrets.token_hex(4)}"
        path.mkdir(parents=True)
        lock = _lock(path)
        if lock is not None:
            break
    (path / SET).mkdir()
    plan = Plan(words=words, trials=trials, sittings=(now,))
    write_synced(path / PLAN, plan.model_dump_json(indent=1))
    return Run(path, plan, lock)


def _lock(path: Path) -> int | None:
    """An open file that holds the run's lock; None when another process works on it, or when it is gone.

    Where the file system has no locks it holds none, which is said: nobody keeps a second process away then.
    """
    for _ in range(LOCK_TRIES):
        lock = try_lock(path)
        if lock is not None:
            return lock
        time.sleep(LOCK_PAUSE_S)
    if not path.is_dir() or locks_work(path.parent):
        return None
    warn(f"{path.parent}: this file system has no locks (flock); do not run an experiment here twice at once")
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _remove_empty(folder: Path) -> None:
    """Remove the runs that no process works on and that were ended before a trial was: there is nothing in them."""
    for path in _all_runs(folder):
        if any((path / TRIALS).glob("*/*.json")):
            continue
        lock = try_lock(path)
        if lock is not None:
            with suppress(OSError):
                remove_tree(path)
            os.close(lock)


def runs_named(home: Path, wanted: str) -> list[Path]:
    """Folders of the unfinished runs below an experiment's folder whose ID, or its hash, begins so; newest first."""
    return [path for path in _all_runs(home / UNFINISHED) if fits(path.name, wanted)]


def read_plan(path: Path) -> Plan | None:
    """The plan of the run in `path`; None where there is nothing to go on with."""
    try:
        return Plan.model_validate_json((path / PLAN).read_bytes()) if (path / SET).is_dir() else None
    except (OSError, ValidationError):
        return None


def _read_seal(path: Path) -> Seal:
    return Seal.model_validate_json(path.read_bytes())


def _read_machines(path: Path) -> Machines:
    try:
        return Machines.model_validate_json((path / MACHINES).read_bytes())
    except (OSError, ValidationError):
        return Machines()


def take_over(spec: TrialSpec, record: TrialRecord, source: Path, files: Mapping[str, str]) -> TrialRecord | None:
    """The files of a trial of the set in `source` as those of the equal trial `spec`; None when they are damaged.

    `files`: the hashes of the set's manifest. Files are linked where that can be: neither set ever changes.
    """
    prefix = f"{record.path.as_posix()}/"
    inside = {name: value for name, value in files.items() if name.startswith(prefix)}
    for name, value in inside.items():
        target = spec.folder / name.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            link_or_copy(source / name, target)
            whole = hash_file(target) == value
        except FileNotFoundError:  # damaged, or pruned this moment
            whole = False
        if not whole:
            remove_tree(spec.folder)
            return None
    told = spec.recorded | {"taken_from": record.taken_from or source.name, "host": None}
    return record.model_copy(update=told)


def write_synced(path: Path, text: str) -> None:
    """Write a file whole or not at all, and to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(text.encode())
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def _candidates(folder: Path, wanted: str | None) -> list[Path]:
    """Folders of unfinished runs, newest first; with a wanted one, only that."""
    runs = _all_runs(folder)
    if wanted is None:
        return runs
    if wanted == LATEST:
        return runs[:1]
    return [path for path in runs if fits(path.name, wanted)]


def _all_runs(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("*") if ID.fullmatch(path.name)), reverse=True)


def _difference(old: Words, new: Words) -> str:
    names = [name for name in Words.model_fields if getattr(old, name) != getattr(new, name)]
    return ", ".join(f"{name} was {getattr(old, name)}, is {getattr(new, name)}" for name in names)
