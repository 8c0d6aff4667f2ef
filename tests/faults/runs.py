# SPDX-License-Identifier: MIT
"""Real runs that meet a fault: the command as a user gives it, in a place of its own, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Store
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.paths import ROOT
from tests.processes import DEFAULT_SIGNALS, eventually, machines

#: Waits in the stage that the environment names, for the test to do there what it does.
ANALYSIS = """\
import os
import time
from pathlib import Path

from harness.measure.rows import MetricRows, TableRows

TABLES, METRICS = [], []


def wait(stage):
    place = os.environ.get(f"FAULT_{stage}")
    deadline = time.monotonic() + 300
    if place:
        Path(place, "reached").touch()
        while not Path(place, "go").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def tables(trials):
    wait("ANALYSIS")
    return TableRows(TABLES).frames()


def metrics(tables):
    return MetricRows(METRICS, tables["problems"]).frame()


def figures(tables, metrics):
    wait("WRITING")
    return {}
"""
#: What `./inv` starts in the project's environment.
PROGRAM = (sys.executable, "-m", "harness.commands.program")
#: Longer than any of these runs takes, on a busy machine.
MOST_S = 1500.0
#: Bytes of the largest file system that a test may fill.
MOST_FILLED = 1 << 30
#: Of a store: all that a run takes long to make. Without these a run unpacks the tools, and builds the kernel.
SLOW_KINDS = ("tools", "kernel", "packages")
#: What is in a store while a stage goes on.
STAGES = {"image": "tmp/.krepro-image-*/*", "state": "tmp/.krepro-boot-*/*"}


@dataclass
class Ended:
    """A run that has ended."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """What it told as errors and warnings."""
        return [line for line in self.err.splitlines() if line.startswith("krepro: ")]


class Mounts:
    """Mounts, made by shell commands, that only those programs see that are begun with `words`. Needs root.

    Nothing of them is left at the end: they are gone with their last program.
    """

    def __init__(self, *commands: str) -> None:
        script = "; ".join([*commands, "echo ready", "exec sleep infinity"])
        self._holder = subprocess.Popen(["unshare", "--mount", "sh", "-ec", script], stdout=subprocess.PIPE, text=True)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        enter = ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt")
        self.words = (*enter, "env", f"--chdir={ROOT}")

    def __enter__(self) -> Mounts:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.communicate()

    def seen(self, path: Path) -> Path:
        """What these programs see as `path`."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def run(self, *words: str) -> None:
        """Run a command among them."""
        subprocess.run([*self.words, *words], check=True)

    def fill(self, folder: Path) -> Callable[[], None]:
        """Leave no room on the small file system at `folder`; what is returned frees it again."""
        filler = self.seen(folder) / "filler"
        size = os.statvfs(self.seen(folder)).f_blocks * os.statvfs(self.seen(folder)).f_frsize
        assert size < MOST_FILLED, "a file system of the test's own"
        with filler.open("wb") as file:
            step, end = 1 << 24, 0
            while step >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), end, step)
                    end += step
                except OSError:
                    step //= 2
        return filler.unlink

    def close(self, folder: Path) -> Callable[[], None]:
        """Let nothing more be opened for writing below `folder`; what is returned opens it again.

        Linux makes no file system read-only in which a file is being written, so a read-only view of it is laid over.
        """
        self.run("mount", "--rbind", str(folder), str(folder))
        self.run("mount", "-o", "remount,bind,ro", str(folder))
        return lambda: self.run("umount", "--recursive", "--lazy", str(folder))


class Place:
    """A folder for runs of one experiment: its own results, temporary files, and if need be store."""

    def __init__(self, root: Path, yaml: str, environment: Mapping[str, str] | None = None) -> None:
        self.root, self.folder = root, root / "faulty"
        self.results, self.temporary = root / "results", root / "tmp"
        self.mounts: Mounts | None = None
        for folder in (self.folder, self.temporary, self.results):
            folder.mkdir(parents=True)
        (self.folder / "experiment.yaml").write_text(yaml)
        (self.folder / "analysis.py").write_text(ANALYSIS)
        self.environment = {"TMPDIR": str(self.temporary), **(environment or {})}

    def start(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = [*PROGRAM, "run", str(self.folder), "--results", str(self.results), *words]
        inside = self.mounts.words if self.mounts is not None else ()
        return subprocess.Popen(
            [*inside, *before, *DEFAULT_SIGNALS, *command], cwd=ROOT, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **self.environment},
        )  # fmt: skip

    def run(self, *words: str, before: tuple[str, ...] = (), timeout_s: float = MOST_S) -> Ended:
        begun = time.monotonic()
        process = self.start(*words, before=before)
        out, err = process.communicate(timeout=timeout_s)
        return Ended(process.returncode, out, err, time.monotonic() - begun)

    def seen(self, path: Path) -> Path:
        """Where to look for what its runs see as `path`."""
        return path if self.mounts is None else self.mounts.seen(path)

    @property
    def home(self) -> Path:
        return self.seen(self.results / "faulty")

    def manifest(self) -> dict[str, Any]:
        """Of the newest set, whether `latest` leads there or not."""
        (newest,) = sorted(self.home.glob("2*/manifest.json"))[-1:]
        return json.loads(newest.read_text())

    def sets(self) -> list[Path]:
        return sorted(self.home.glob("2*")) if self.home.is_dir() else []

    def seals(self) -> list[str]:
        """Trials that an unfinished run has sealed."""
        return [f"{path.parent.name}/{path.stem}" for path in self.home.glob(".unfinished/*/trials/*/*.json")]

    def check_nothing_is_left(self) -> None:
        """No guest, no temporary file, no half-written set."""
        assert eventually(lambda: not machines(self.temporary), 30), "no guest outlives its run"
        assert not [path.name for path in self.seen(self.temporary).iterdir()], "no temporary file"
        for path in self.sets():
            assert (path / "manifest.json").is_file(), "no half-written set"


def seeded_store(root: Path, *kinds: str) -> Path:
    """A store in `root` with links to what this host's has of these kinds (SLOW_KINDS unless told), and nothing else.

    The linked files are of both stores: whoever damages one puts another in its place.
    """
    build_kernel(Store.default(), load_kernel("classic"))
    root.mkdir(parents=True)
    for kind in kinds or SLOW_KINDS:
        source = Store.default().root / kind
        words = ["cp", "--archive", "--link", str(source), str(root / kind)]
        if source.is_dir() and subprocess.run(words, check=False, capture_output=True).returncode != 0:
            shutil.rmtree(root / kind, ignore_errors=True)  # of another file system
            shutil.copytree(source, root / kind, symlinks=True)
    return root


def come_to(place: Place, process: subprocess.Popen[str], stage: str) -> None:
    """Wait until the run is in a stage."""
    (place.root / "reached").unlink(missing_ok=True)
    assert eventually(lambda: stage_begun(place, stage) or process.poll() is not None, 900)
    assert process.poll() is None, process.communicate()[1]


def stage_begun(place: Place, stage: str) -> bool:
    """Whether a run of this place is in this stage now."""
    store = place.seen(Path(place.environment.get("KREPRO_STORE", Store.default().root)))
    if stage in ("analysis", "writing"):
        return (place.root / "reached").exists()
    if stage == "trials":
        return bool(machines(place.temporary))
    return any(store.glob(STAGES[stage]))


def members(session: int) -> list[str]:
    """Processes of a session, the leader aside."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text(errors="replace")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        if int(fields[3]) == session and int(status.parent.name) != session and fields[0] != "Z":
            found.append(text)
    return found
