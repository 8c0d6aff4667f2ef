"""The manifest of a result set: a documented, versioned schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from harness.experiment.model import Experiment
from harness.experiment.prepare import KernelBuild
from harness.experiment.trial import TrialRecord
from harness.store.provenance import Host, Repository
from harness.yamlfile import Strict

SCHEMA_VERSION: Literal[1] = 1


class KernelManifest(Strict):
    """One kernel of a run, by the hashes of what it was built from and what came out."""

    key: str
    arch: str
    release: str
    build_id: str | None
    source: dict[str, Any]
    patches: list[dict[str, str]]
    fragments: list[dict[str, str]]
    config_sha256: str
    compiler: dict[str, str]
    bzimage_sha256: str


class ImageManifest(Strict):
    """The image that ran on one kernel."""

    key: str
    sha256: str
    packages: dict[str, str]


class Manifest(Strict):
    """Everything that a reader of a result set needs to know about where it comes from."""

    schema_version: Literal[1] = SCHEMA_VERSION
    id: str
    created: str = Field(description="UTC, ISO 8601")
    experiment: Experiment
    experiment_files: dict[str, str] = Field(description="sha256 of every file of the experiment's folder")
    command_line: list[str]
    profile: Literal["quick", "full"]
    seed: int
    repository: Repository
    kernels: dict[str, KernelManifest]
    images: dict[str, ImageManifest]
    qemu: str
    accelerator: dict[str, str] = Field(description="accelerator in use, per arm, as QEMU told it")
    fidelity: dict[str, str] = Field(description="kind of time, per arm")
    host: Host
    packages: dict[str, str]
    seconds: dict[str, float] = Field(description="wall time by part of the run")
    trials: list[TrialRecord]
    digest: str | None = Field(description="hash over everything deterministic; null without virtual-clock trials")
    deterministic: dict[str, str] = Field(description="sha256 of each file that the digest covers")
    files: dict[str, str] = Field(description="sha256 of every file of the set but this one")


def describe_kernel(build: KernelBuild) -> KernelManifest:
    """What a manifest says of one kernel."""
    kernel = build.kernel
    return KernelManifest(
        key=kernel.key,
        arch=kernel.inputs["arch"],
        release=kernel.info["release"],
        build_id=kernel.info["build_id"],
        source=kernel.inputs["source"],
        patches=kernel.inputs["patches"],
        fragments=kernel.inputs["fragments"],
        config_sha256=kernel.info["config_sha256"],
        compiler=kernel.inputs["compiler"],
        bzimage_sha256=kernel.files["bzImage"],
    )


def describe_image(build: KernelBuild) -> ImageManifest:
    """What a manifest says of the image on one kernel."""
    image = build.image
    return ImageManifest(key=image.key, sha256=image.files["image.cpio"], packages=image.info["versions"])
