# SPDX-License-Identifier: MIT
"""What others do on the same host while a run goes on: `prune`, another run, a program that installs packages."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.errors import EXIT_OK
from harness.paths import ROOT
from tests.faults.rows import fault
from tests.faults.runs import PROGRAM, Mounts, Place, come_to, seeded_store
from tests.processes import DEFAULT_SIGNALS

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

YAML = """\
name: faulty
paper: {authors: [Nobody], year: 2024, title: A run among others}
workloads:
  work: {command: "echo well; dd if=/dev/zero of=/dev/null bs=4k count=20000 2>/dev/null", timeout_s: 20}
arms:
  virtual: {kernel: classic, clock: virtual}
repetitions: {quick: 40}
"""


def prune(place: Place, *words: str) -> str:
    """Remove what can be removed, sets too; what it told."""
    command = [*DEFAULT_SIGNALS, *PROGRAM, "prune", *words, "--results", str(place.results), "--force"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **place.environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_OK, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@fault("`prune`, with every option that removes more, again and again while a run builds, boots and measures",
       "the run ends well, same digest; what it uses stays")  # fmt: skip
def test_prune_takes_nothing_from_a_run(tmp_path):
    alone = Place(tmp_path / "alone", YAML)
    assert alone.run().status == EXIT_OK
    store = seeded_store(tmp_path / "store")
    place = Place(tmp_path / "pruned", YAML, {"KREPRO_STORE": str(store)})
    try:
        process = place.start()
        come_to(place, process, "image")  # before that nobody has asked for the kernel yet, and it would go
        asked, stayed = 0, 0
        while process.poll() is None:
            # Of nobody: what is removed of the store, if only prune removes at all.
            unused = store / "image" / f"{asked:032x}"
            unused.mkdir(parents=True)
            told = prune(place, "store", "--below", "0")
            assert not unused.exists(), told
            stayed += "in use" in told
            prune(place, "--keep", "0")
            prune(place, "unfinished")
            asked += 1
        _, err = process.communicate(timeout=900)
        assert process.returncode == EXIT_OK, err
        assert "damaged" not in err
        assert asked > 1
        assert stayed
        assert place.manifest()["digest"] == alone.manifest()["digest"]
        place.check_nothing_is_left()
        prune(place, "store", "--below", "0")
        assert not list(store.glob("state/*")), "nobody uses it any more"
    finally:
        shutil.rmtree(store)


@fault("two runs of one experiment at once, in a store with nothing but a kernel and the tools' packages",
       "both end well, same digest; tools, image and state are made once")  # fmt: skip
def test_two_runs_at_once_on_a_cold_store_get_in_nobodys_way(tmp_path):
    store = seeded_store(tmp_path / "store", "kernel", "packages")
    place = Place(tmp_path / "place", YAML, {"KREPRO_STORE": str(store)})
    try:
        processes = [place.start("--fresh") for _ in range(2)]
        told = [process.communicate(timeout=1500)[1] for process in processes]
        assert [process.returncode for process in processes] == [EXIT_OK, EXIT_OK], told
        assert sum("unpacking the tools" in one for one in told) == 1, "the other one waits for them"
        assert len(list(store.glob("state/*"))) == 1
        assert len(place.sets()) == 2
        assert len({json.loads((path / "manifest.json").read_text())["digest"] for path in place.sets()}) == 1
        assert not list((store / "tmp").iterdir())
        place.check_nothing_is_left()
    finally:
        shutil.rmtree(store)


@fault("apt's lock is held by another program", "a run does not ask apt; with KREPRO_HOST_TOOLS apt waits for it")
@pytest.mark.skipif(os.geteuid() != 0 or not Path("/var/lib/dpkg").is_dir(), reason="needs root, and Debian's dpkg")
def test_a_run_does_not_wait_for_apts_lock(tmp_path):
    own = tmp_path / "dpkg"
    shutil.copytree("/var/lib/dpkg", own, symlinks=True, ignore=shutil.ignore_patterns("info"))
    place = Place(tmp_path / "place", YAML.replace("quick: 12", "quick: 1"))
    with Mounts(f"mount --bind {own} /var/lib/dpkg") as mounts, (own / "lock-frontend").open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        place.mounts = mounts
        busy = subprocess.run(
            [*mounts.words, "apt-get", "install", "-y", "no-such-package-of-krepro"], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert "Could not get lock" in busy.stderr, busy
        ended = place.run()
        assert ended.status == EXIT_OK, ended.err
        place.check_nothing_is_left()
