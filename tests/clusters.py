# SPDX-License-Identifier: MIT
"""A Dask cluster of processes, each with a store of its own, as machines would have them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from harness.artefacts.store import Store
from harness.packages.fetch import PACKAGES
from harness.paths import ROOT
from tests.networks import FIRST, Network
from tests.processes import DEFAULT_SIGNALS, eventually

LOOPBACK = "127.0.0.1"
LOCK = ROOT / "requirements-dask.lock"


def dask_python(folder: Path) -> str:
    """A Python that has the project's packages and Dask: this one, or that of an environment made in `folder`."""
    if importlib.util.find_spec("distributed"):
        return sys.executable
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    there = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    Path(there, "project.pth").write_text(sysconfig.get_path("purelib"))
    install = ["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", str(LOCK)]
    subprocess.run([python, *install], check=True)
    return str(python)


class Cluster:
    """A scheduler and workers; use it in `with`.

    They are on this host's loopback and see its files; with a `network`, each worker is on a machine of its own, which
    has the project and its own folder, but neither this host's store nor what else is beside the cluster's folder.
    """

    def __init__(self, root: Path, python: str, network: Network | None = None) -> None:
        self.root, self.python, self._network = root, python, network
        root.mkdir()
        self._file = root / "scheduler.json"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        first, address = (network.first, FIRST) if network else ((), LOOPBACK)
        self._scheduler = self._start(
            "scheduler", "scheduler", "--scheduler-file", str(self._file), "--port", "0", "--host", address,
            "--dashboard-address", f"{address}:0", before=first,
        )  # fmt: skip
        assert eventually(lambda: self._file.is_file() and self._file.stat().st_size > 0, 60), self.log("scheduler")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers.values(), self._scheduler):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    @property
    def address(self) -> str:
        address: str = json.loads(self._file.read_text())["address"]
        return address.replace("tcp://", "dask://")

    def add(self, name: str, *words: str, before: tuple[str, ...] = (), environment: Mapping[str, str] = {}) -> Path:
        """Start a worker, and wait until it has registered; its store."""
        store = self.root / name / "store"
        temporary = self.root / name / "tmp"
        temporary.mkdir(parents=True)
        machine, address = (), LOOPBACK
        if self._network:
            machine, address = self._network.machine(self.root / name, (self.root.parent, Store.default().root))
            shutil.copytree(Store.default().root / PACKAGES, store / PACKAGES, copy_function=os.link)  # else fetched
        self.workers[name] = self._start(
            name, "worker", json.loads(self._file.read_text())["address"], "--nthreads", "1", "--no-nanny",
            "--name", name, "--no-dashboard", "--local-directory", str(temporary), "--host", address, *words,
            before=(*before, *machine),
            environment={"KREPRO_STORE": str(store), "TMPDIR": str(temporary), **environment},
        )  # fmt: skip
        assert eventually(lambda: "Registered to" in self.log(name), 90), self.log(name)
        return store

    def log(self, name: str) -> str:
        path = self.root / f"{name}.log"
        return path.read_text() if path.is_file() else ""

    def _start(
        self, name: str, *words: str, before: tuple[str, ...] = (), environment: Mapping[str, str] = {}
    ) -> subprocess.Popen[bytes]:
        command = [*DEFAULT_SIGNALS, *before, self.python, "-m", "dask", *words]
        with (self.root / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT), **environment}
            )
