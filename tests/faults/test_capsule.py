# SPDX-License-Identifier: MIT
"""A set is made again from its capsule: unpacked, without a network, with an empty store; its digest is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import EXIT_OK, EXIT_RUN_FAILED
from harness.paths import ROOT
from harness.sets.resultset import ResultSet
from tests.folders import HELLO, experiment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


def without_network() -> list[str]:
    """The words before those of a program that shall have no network, not even loopback."""
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("capsule")


@pytest.fixture(scope="module")
def made(work: Path) -> ResultSet:
    """A set of a committed checkout and of an experiment that is not the project's."""
    checkout, folder = work / "krepro", experiment(work / "hello", HELLO)
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    done = program(checkout, "run", folder, "--results", work / "results", "--repetitions", "2")
    assert done.returncode == EXIT_OK, done.stderr
    return ResultSet(Path(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def capsule(work: Path, made: ResultSet) -> Path:
    path = work / "hello.tar.zst"
    done = program(work / "krepro", "capsule", made.path, "--out", path)
    assert done.returncode == EXIT_OK, done.stderr
    assert done.stdout == f"{path}\n"
    return path


@pytest.fixture(scope="module")
def unpacked(work: Path, capsule: Path) -> Path:
    subprocess.run(["tar", "--zstd", "-xf", capsule, "-C", work], check=True)
    (folder,) = work.glob("hello-*")
    return folder


def program(checkout: Path, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.commands.program", *map(str, words)],
        cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout), **environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def inv(folder: Path, store: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`./inv` of the unpacked capsule, without a network and with this store."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KREPRO_", "PIP_", "PYTHON"))}
    environment |= {"KREPRO_STORE": str(store), "HOME": str(store.parent), "KREPRO_OFFLINE": "1"}
    command = [*without_network(), "./inv", *map(str, words)]
    return subprocess.run(
        command, cwd=folder / "project", env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip


def test_a_capsule_says_what_it_has_and_sha256sum_agrees(unpacked, made):
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=unpacked, check=True)
    text = (unpacked / "README.md").read_text()
    assert f"./inv verify hello/{made.manifest.id} --results ../results" in text
    assert "KREPRO_OFFLINE=1 ./inv run experiment=../experiment/hello --repetitions 2\n" in text
    assert str(made.path.parent) not in text
    assert {path.name for path in unpacked.iterdir()} == {
        "README.md", "SHA256SUMS", "LICENCES.md", "ro-crate-metadata.json",
        "results", "project", "packages", "wheels", "experiment",
    }  # fmt: skip


def test_the_set_is_verified_and_made_again_without_a_network(unpacked, made, work):
    store = work / "empty/store"
    store.parent.mkdir()
    done = inv(unpacked, store, "verify", f"hello/{made.manifest.id}", "--results", "../results", "--trust")
    assert done.returncode == EXIT_OK, done.stderr
    assert "every bit is what was written" in done.stdout
    (line,) = [line for line in (unpacked / "README.md").read_text().splitlines() if " ./inv run " in line]
    done = inv(unpacked, store, *line.split()[2:])
    assert done.returncode == EXIT_OK, done.stderr
    again = ResultSet((unpacked / "project" / done.stdout.splitlines()[-1]).resolve())
    assert again.manifest.digest == made.manifest.digest
    assert again.manifest.deterministic == made.manifest.deterministic
    assert again.manifest.repository == made.manifest.repository


def test_a_flipped_bit_of_a_package_is_named_before_it_is_used(unpacked, work):
    (victim,) = (unpacked / "packages").glob("gcc-12_*_amd64.deb")
    whole = victim.read_bytes()
    try:
        victim.write_bytes(whole[:1000] + bytes([whole[1000] ^ 4]) + whole[1001:])
        done = inv(unpacked, work / "other/store", "build", "classic")
        assert done.returncode == EXIT_RUN_FAILED, done.stderr
        assert "gcc-12" in done.stderr.splitlines()[-1]
    finally:
        victim.write_bytes(whole)


def test_a_flipped_bit_of_the_file_is_named(capsule, work):
    broken = work / "broken.tar.zst"
    shutil.copyfile(capsule, broken)
    with broken.open("r+b") as file:
        file.seek(broken.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 16]))
    done = program(ROOT, "verify", broken)
    assert done.returncode == EXIT_RUN_FAILED
    (line,) = done.stderr.splitlines()[-1:]
    assert line.startswith(f"krepro: {broken}: ")
    assert "/" in line.removeprefix(f"krepro: {broken}: ").split()[0] or "cannot be read at" in line
