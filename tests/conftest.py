# SPDX-License-Identifier: MIT
"""What all tests share: markers by folder, a store of their own, a small valid experiment."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness import debian, logs
from harness.artefacts.store import Store
from harness.artefacts.uses import release
from harness.paths import ROOT
from tests.folders import experiment

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background; what a test starts would never end
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Deadlines of hypothesis measure the host's load, not the code; temporary folders are told apart by the tests.
settings.register_profile(
    "krepro", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("krepro")

EXPERIMENT = """\
name: example
paper: {authors: [Nobody], year: 2024, title: An example}
workloads:
  add: {command: "echo 42"}
  wait: {command: "sleep 1", timeout_s: 5}
arms:
  left: {kernel: classic, clock: virtual, params: {offset: 0}}
  right:
    kernel: classic
    clock: virtual
    workloads: [add]
    repetitions: {quick: 0, full: 2}
repetitions: {quick: 3, full: 4}
claims:
  - {id: adds, metric: total/left, expect: {equals: 42}, because: the workload prints it}
  - {id: bounded, metric: total/right,
    because: an example,
    expect: {between: [1, 2]}}
"""
ANALYSIS = """\
from harness.measure.declared import Metric

TABLES = []
METRICS = [Metric("total", "count", "neither", "a sum")]


def tables(trials):
    return {}


def metrics(tables):
    return None
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """--update: golden files are written anew. --build-kernels: no test is skipped for a kernel that is not built."""
    parser.addoption(
        "--update", action="store_true", help="write tests/golden/*/expected.json and the figures of READMEs anew"
    )
    parser.addoption("--build-kernels", action="store_true", help="build kernels that only some guest tests need")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in tests/guest boots guests and is marked so."""
    for item in items:
        if (ROOT / "tests/guest") in item.path.parents:
            item.add_marker(pytest.mark.guest)


#: Unit tests that compile, where the tools are the host's own.
needs_guest_packages = pytest.mark.skipif(
    debian.host_tools() and bool(debian.missing(debian.GUEST_PACKAGES)), reason="the host lacks tools"
)


@pytest.fixture(autouse=True)
def untold() -> Iterator[None]:
    """What a test's --debug tells ends with the test."""
    yield
    logs.ROOT_LOGGER.handlers.clear()
    logs.ROOT_LOGGER.setLevel(logging.NOTSET)


@pytest.fixture
def tmp_store(tmp_path: Path) -> Iterator[Store]:
    """A store of the test's own."""
    yield Store(tmp_path / "store")
    release(tmp_path / "store")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Where a test's result sets go."""
    return tmp_path / "results"


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The folder of a small valid experiment; tests change its files."""
    return experiment(tmp_path / "example", EXPERIMENT, ANALYSIS)
