# SPDX-License-Identifier: MIT
"""One KVM host for all tests of a process: it takes longer to boot than most of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.experiment.model import load_experiment
from harness.image.keys import image_keys
from harness.paths import EXPERIMENTS, ROOT
from harness.trial.prepare import KernelBuild, build_for
from tests.kvmbox.host import Ended, KvmHost

#: Tests that need KVM themselves: test_inside.py names them, one by one, in the KVM host.
collect_ignore = ["inside"]
#: Python alone takes most of a minute to import what a run needs, and much more beside other work.
INV_S = 1800.0


@pytest.fixture(scope="session")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="session")
def built(store: Store) -> Callable[..., dict[str, KernelBuild]]:
    """Builds, outside, what arms of an experiment boot from, by kernel: inside is no network, compilers crawl."""

    def build(name: str, arms: Sequence[str]) -> dict[str, KernelBuild]:
        folder = EXPERIMENTS / name
        experiment = load_experiment(folder)
        builds = {}
        for kernel in sorted({experiment.arms[arm].kernel for arm in arms}):
            builds[kernel] = build_for(store, kernel, folder, experiment.packages)
            image_keys(store, builds[kernel].image)
        return builds

    return build


@pytest.fixture(scope="session")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the KVM host of these tests may write to, at the same path in it as outside."""
    return tmp_path_factory.mktemp("kvm-host")


@pytest.fixture(scope="session")
def kvm_host(store: Store, inside: Path) -> Iterator[KvmHost]:
    """A running KVM host; what is written below `inside` is written outside."""
    with KvmHost(store, writable=[inside]) as host:
        yield host


@pytest.fixture
def inv(kvm_host: KvmHost) -> Callable[..., Ended]:
    """Calls `./inv` with these words in the KVM host."""

    def call(*words: str | Path, timeout_s: float = INV_S) -> Ended:
        return kvm_host.run([ROOT / "inv", *words], timeout_s=timeout_s, cwd=ROOT)

    return call
