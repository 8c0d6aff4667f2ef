# SPDX-License-Identifier: MIT
"""Kernels and images are built once per test session, in the user's store, as a run would build them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.guest.ssh import Keys, SshSession
from harness.image.keys import image_keys
from harness.machine.machine import Machine
from harness.machine.spec import BootFiles, Clock, MachineSpec, SessionKind, prepare_folder
from harness.paths import EXPERIMENTS
from harness.trial.prepare import KernelBuild, build_for

READY_S = 120.0
#: Known answers hold on all versions; those beside the kernels' own take their builds.
VERSIONS = ["6.1", *(pytest.param(version, marks=pytest.mark.deep) for version in ("6.12", "7.3"))]


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """The kernel's version."""
    told: str = request.param
    return told


@pytest.fixture(scope="session")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="session")
def classic(store: Store) -> KernelBuild:
    return build_for(store, "classic", EXPERIMENTS / "irq-hotspot")


@pytest.fixture(scope="session")
def modern(store: Store) -> KernelBuild:
    return build_for(store, "modern-6.1", EXPERIMENTS / "irq-hotspot")


@pytest.fixture
def machine_spec() -> Callable[..., MachineSpec]:
    """A spec of a build's machine, on TCG."""

    def make(built: KernelBuild, clock: Clock, session: SessionKind, *words: str, **fields: object) -> MachineSpec:
        return MachineSpec(
            hardware=built.recipe.spec.hardware,
            accelerator="tcg",
            clock=clock,
            session=session,
            cmdline=(*built.recipe.spec.cmdline, *words),
            **fields,  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def ssh_guest(
    store: Store, tmp_path: Path, machine_spec: Callable[..., MachineSpec]
) -> Iterator[Callable[..., tuple[Machine, SshSession]]]:
    """Boot a build and log in; every machine made ends with the test."""
    opened: list[tuple[Machine, SshSession]] = []

    def make(built: KernelBuild, *words: str, **fields: object) -> tuple[Machine, SshSession]:
        spec = machine_spec(built, "wall", "ssh", *words, **fields)
        made = image_keys(store, built.image)
        initrds = (built.image.file("image.cpio"), made.file("keys.cpio"))
        folder = tmp_path / f"machine-{len(opened)}"
        prepare_folder(spec, folder, None)
        machine = Machine(spec, BootFiles(kernel=built.kernel.file("bzImage"), initrds=initrds), folder)
        machine.__enter__()
        try:
            machine.wait_ready(READY_S)
            session = SshSession(machine, Keys(client=made.file("client"), host=made.file("host.pub")), READY_S)
        except BaseException:
            machine.__exit__(None, None, None)
            raise
        opened.append((machine, session))
        return machine, session

    yield make
    for machine, session in opened:
        session.close()
        machine.__exit__(None, None, None)
