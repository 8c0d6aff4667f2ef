# SPDX-License-Identifier: MIT
"""What a kernel is made of: the models of `images/kernels/NAME.yaml`, and a spec with all its files found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from harness.errors import UsageError
from harness.kernel.arch import ArchName
from harness.kernel.packaged import PREFIX
from harness.packages.choice import KernelName, Name, Sha256
from harness.yamlfile import Strict

#: How many CPUs a configuration is for; the last file that says it wins.
NR_CPUS = re.compile(r"^CONFIG_NR_CPUS=(\d+)$", re.MULTILINE)


class Source(Strict):
    """Where a kernel comes from: exactly one of a Debian package with its source, a URL with its sha256, a tree of
    source, the release of one of Debian's own builds, or files of the user's.
    """

    debian: str | None = None
    url: str | None = None
    sha256: Sha256 | None = None
    tree: Path | None = None
    package: str | None = None
    given: Path | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Source:
        if sum(origin is not None for origin in (self.debian, self.url, self.tree, self.package, self.given)) != 1:
            raise ValueError("give exactly one of debian, url, tree")
        if (self.url is None) != (self.sha256 is None):
            raise ValueError("url and sha256 go together")
        return self

    @property
    def built(self) -> bool:
        """Whether somebody else has built it: nothing is configured, patched or compiled here."""
        return self.package is not None or self.given is not None


class Hardware(Strict):
    """The QEMU machine that a kernel is made for."""

    type: str = "pc"
    cpu: str = "qemu64"
    memory_mib: int = Field(default=256, ge=16, le=65536)
    nic: str = "virtio-net-pci"
    disk: Literal["ide", "virtio"] = "virtio"
    smp: bool = True


class KernelSpec(Strict):
    """A named kernel: what its build needs and what every boot of it gets."""

    name: KernelName
    description: str = ""
    arch: ArchName
    source: Source
    config: Path | None = None
    fragments: list[Name] = Field(min_length=1)
    patches: list[Name] = []
    cmdline: list[str] = []
    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+$")] | None = None
    hardware: Hardware = Hardware()
    steps: int | None = Field(default=None, gt=0, description="compile steps of a build, for the first estimate")

    @model_validator(mode="after")
    def _built(self) -> KernelSpec:
        if self.source.built:
            raise ValueError(f"source: a kernel that is not built here has no spec: {PREFIX}VERSION, or a path")
        return self


@dataclass(frozen=True)
class KernelRecipe:
    """A kernel spec with every file it names found: fragments in merge order, patches in series order.

    `sources` are new files of the kernel, by their names in the tree: they are there before the patches. `config` is a
    whole .config below the fragments, or None: then everything that no fragment names is off. `beside`: the
    experiment's folder that may have brought some of them. `lenient`: of the fragments' options those that this kernel
    has not are told, and no error.
    """

    spec: KernelSpec
    version: str
    fragments: tuple[Path, ...]
    patches: tuple[Path, ...]
    config: Path | None = None
    beside: Path | None = None
    lenient: bool = False
    sources: tuple[tuple[str, Path], ...] = ()

    def added(self) -> list[tuple[str, Path]]:
        """All that is put on the source: new files by their names in the tree, then patches by theirs."""
        return [*self.sources, *((path.name, path) for path in self.patches)]

    def check_cpus(self, what: str, cpus: int) -> None:
        """UsageError where the kernel is built for fewer CPUs: it would bring up those alone, and say nothing."""
        files = [*([self.config] if self.config else []), *self.fragments]
        told = [number for file in files for number in NR_CPUS.findall(file.read_text())]
        if told and cpus > int(told[-1]):
            raise UsageError(f"{what}: cpus {cpus}: kernel {self.spec.name} is built for {told[-1]} at most")
