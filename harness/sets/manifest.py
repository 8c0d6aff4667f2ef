# SPDX-License-Identifier: MIT
"""The manifest of a result set: a documented, versioned schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ValidationError, field_validator, model_validator

from harness.errors import UsageError
from harness.experiment.model import Experiment
from harness.kernel.arch import ARCHES
from harness.sets.listing import read_plain
from harness.sets.provenance import Host, Reasons, Repository, check_reasons
from harness.trial.model import TrialRecord
from harness.trial.prepare import KernelBuild
from harness.yamlfile import Misfit, Strict, about, raise_misfits

#: The one version that is read. Until krepro 1.0 an older set is read by the krepro that made it.
SCHEMA_VERSION: Literal[4] = 4
#: Of a plan that a set tells: more would be no run of anybody's, and recomputing it would fill the memory.
MOST_TRIALS = 10_000_000
NO_BUILD_ID = "vmlinux has no GNU build id note"
NO_DIGEST = "no good trial on the virtual clock"


class KernelManifest(Strict):
    """One kernel of a run, by the hashes of what it was built from and what came out."""

    key: Annotated[str, about("key in the store")]
    arch: Annotated[str, about("i386, x86_64 or arm64")]
    release: Annotated[str, about("as uname -r says")]
    build_id: Annotated[str | None, about("GNU build id, hex")]
    source: Annotated[dict[str, Any], about("archive: file name to sha256, or tree: hash of a tree")]
    patches: Annotated[list[dict[str, str]], about("name and sha256 of each, in order")]
    fragments: Annotated[list[dict[str, str]], about("name and sha256 of each, in order")]
    config_sha256: Annotated[str, about("of the final .config")]
    compiler: Annotated[dict[str, str], about("first line of --version of gcc and ld")]
    bzimage_sha256: Annotated[str, about("of what was booted")]
    absent: Reasons = {}

    _reasons = model_validator(mode="after")(check_reasons)

    @field_validator("arch")
    @classmethod
    def _known(cls, arch: str) -> str:
        if arch not in ARCHES:
            raise ValueError(f"must be one of {', '.join(ARCHES)}, got {arch!a}")
        return arch

    @field_validator("source")
    @classmethod
    def _files(cls, source: dict[str, Any]) -> dict[str, Any]:
        archive = source.get("archive", {})
        if not isinstance(archive, dict) or not all(isinstance(value, str) for value in archive.values()):
            raise ValueError("archive: must give sha256 by file name")
        return source


class ImageManifest(Strict):
    """The image that ran on one kernel."""

    key: Annotated[str, about("key in the store")]
    sha256: Annotated[str, about("of image.cpio")]
    packages: Annotated[dict[str, str], about("Debian package to version")]


class AnalysedFrom(Strict):
    """Of a set that was analysed again: one that had its raw files before, and what that one was made with."""

    id: Annotated[str, about("name of the set's folder")]
    created: Annotated[str, about("UTC, ISO 8601")]
    command_line: Annotated[list[str], about("program and arguments")]
    repository: Annotated[Repository, about("state of the project then")]
    packages: Annotated[dict[str, str], about("versions then")]
    experiment_files: Annotated[dict[str, str], about("sha256 of every file of its experiment's folder")]


class Planned(Strict):
    """The whole plan of a run; a set has all of it, or a part."""

    id: Annotated[
        str, about("sha256 over the plan: trials in order, with seeds, and what each arm is; empty: nobody knows")
    ] = ""
    repetitions: Annotated[dict[str, int], about("of each arm, in the plan's order of arms", "trials")] = {}
    trials: Annotated[int, about("of the whole plan", "trials")] = 0
    part: Annotated[str, about("option that asked for a part; empty: the whole, or a merge of parts")] = ""
    measuring: Annotated[str, about("hash of the parts of krepro that run trials")] = ""

    @model_validator(mode="after")
    def _counted(self) -> Planned:
        counts = self.repetitions.values()
        if self.trials != sum(counts) or self.trials > MOST_TRIALS or any(count < 0 for count in counts):
            raise ValueError(f"no run has these {self.trials} trials")
        return self

    def part_of(self, trials: int) -> str:
        """What part of the plan a set of so many trials is, in words; empty: all of it."""
        words = f" ({self.part})" if self.part else ""
        return f"{trials} of the {self.trials} trials of its plan{words}" if trials < self.trials else ""


class MergedFrom(Strict):
    """Of a merged set: one that its trials are from."""

    id: Annotated[str, about("name of the set's folder")]
    created: Annotated[str, about("UTC, ISO 8601")]
    command_line: Annotated[list[str], about("program and arguments")]
    repository: Annotated[Repository, about("state of the project then")]
    part: Annotated[str, about("option that asked for a part; empty: the whole, or a merge of parts")]
    trials: Annotated[int, about("of it that are in the merged set", "trials")]


class Manifest(Strict):
    """Everything that a reader of a result set needs to know about where it comes from."""

    schema_version: Annotated[Literal[4], about("version of this schema", "1")] = SCHEMA_VERSION
    id: Annotated[str, about("name of the set's folder")]
    created: Annotated[str, about("UTC, ISO 8601")]
    experiment: Annotated[Experiment, about("experiment.yaml with all defaults filled in")]
    experiment_files: Annotated[dict[str, str], about("sha256 of every file of the experiment's folder")]
    command_line: Annotated[list[str], about("program and arguments")]
    profile: Annotated[Literal["quick", "full"], about("number of repetitions per arm")]
    seed: Annotated[int, about("the run's; decides order and every trial's seed", "1")]
    chosen: Annotated[
        dict[str, list[str]], about("by dimension the values that --set and --kernel gave, as texts; empty: none")
    ] = {}
    repository: Annotated[Repository, about("state of the project")]
    kernels: Annotated[dict[str, KernelManifest], about("by name")]
    images: Annotated[dict[str, ImageManifest], about("by name of their kernel")]
    qemu: Annotated[str, about("first line of --version")]
    tools: Annotated[
        str, about("where QEMU and compiler are from: `tree` and its key, or `host`; empty: a set from before the tree")
    ] = ""
    accelerator: Annotated[
        dict[str, str], about("accelerator in use, per arm, as QEMU told it; a trial that used another failed")
    ]
    accelerator_asked: Annotated[
        Literal["auto", "kvm", "tcg"] | None, about("what the run was told to use; auto: KVM where it works, else TCG")
    ]
    accelerator_why: Annotated[
        dict[str, str], about("per arm under TCG that was to have KVM, or could have had it by auto: why it has not")
    ]
    fidelity: Annotated[
        dict[str, str],
        about(
            "kind of time, per arm: virtual (TCG, icount; recorded arms too), emulated (TCG, wall clock), kvm; with "
            "+pmu where the guest's check by known work counted right"
        ),
    ]
    host: Annotated[Host, about("the machine that QEMU ran on")]
    packages: Annotated[dict[str, str], about("versions of Python and of the libraries that decide figures and files")]
    seconds: Annotated[
        dict[str, float],
        about("wall time by part of the run: harness, build, guests; of a resumed run all of its parts", "s"),
    ]
    trials: Annotated[list[TrialRecord], about("in the order of the plan")]
    digest: Annotated[str | None, about("hash over everything deterministic")]
    deterministic: Annotated[dict[str, str], about("sha256 of each file that the digest covers")]
    files: Annotated[dict[str, str], about("sha256 of every file of the set but this one")]
    resumed: Annotated[list[str], about("UTC times at which the run was resumed; empty: it was not interrupted")] = []
    unanalysed: Annotated[str, about("why there are no tables, metrics and verdicts; empty: there are")] = ""
    analysed_from: Annotated[
        list[AnalysedFrom],
        about("the set that measured the raw files, then each that analysed them again; empty: its own run did"),
    ] = []
    plan: Annotated[Planned, about("the whole plan of the run; without an ID in sets that are older than that")] = (
        Planned()
    )
    merged_from: Annotated[list[MergedFrom], about("sets that it was merged from; empty: a run made it")] = []
    hosts: Annotated[
        list[Host], about("the machines that ran the trials, where they are not all the set's `host`; else empty")
    ] = []
    maker: Annotated[
        str, about("keyed hash of the content, by which the host that made the set knows it again; empty: it has none")
    ] = ""
    absent: Reasons = {}

    _reasons = model_validator(mode="after")(check_reasons)

    @model_validator(mode="after")
    def _referring(self) -> Manifest:
        raise_misfits(islice(self._references(), 1))  # who damaged a million trials is told of one
        return self

    def _references(self) -> Iterator[Misfit]:
        """What refers to nothing: the way to the field, and what is wrong there. So no reader need look."""
        if odd := sorted(self.kernels.keys() ^ self.images.keys()):
            missing = "images" if odd[0] in self.kernels else "kernels"
            yield (missing,), f"there is none of {odd[0]!a}, of which the other is"
        for arm in self.plan.repetitions.keys() - self.experiment.arms.keys():
            yield ("plan", "repetitions"), f"there is no arm {arm!a}"
        seen: set[tuple[str, int]] = set()
        for index, trial in enumerate(self.trials):
            own = self.experiment.arms.get(trial.arm)
            if own is None:
                yield ("trials", index, "arm"), f"there is no arm {trial.arm!a}"
            elif trial.kernel != own.kernel:
                yield ("trials", index, "kernel"), f"arm {trial.arm} has kernel {own.kernel}, got {trial.kernel!a}"
            if trial.kernel not in self.kernels:
                yield ("trials", index, "kernel"), f"there is no kernel {trial.kernel!a}"
            raw, symbols = f"raw/{trial.arm}/{trial.repetition}", f"kernels/{trial.kernel}/System.map"
            for name, path, place in (("path", trial.path, raw), ("system_map", trial.system_map, symbols)):
                if str(path) != place:
                    yield ("trials", index, name), f"must be {place}, got {str(path)!a}"
            if trial.host is not None and not 0 <= trial.host < len(self.hosts):
                yield ("trials", index, "host"), f"there is no host {trial.host}"
            if (key := (trial.arm, trial.repetition)) in seen:
                yield ("trials", index), f"{trial.arm} {trial.repetition} is there twice"
            seen.add(key)

    @property
    def missing(self) -> int:
        """How many trials of the plan are not in the set: it is a part of it."""
        return max(self.plan.trials - len(self.trials), 0)

    @property
    def part(self) -> str:
        """What part of its plan the set is, in words; empty: all of it, or nobody knows."""
        return self.plan.part_of(len(self.trials))


def load_manifest(path: Path) -> Manifest:
    """The manifest in this file.

    UsageError naming file and field when it cannot be understood; OSError when it cannot be read.
    """
    where = str(path)
    try:
        data = json.loads(read_plain(path))
        json.dumps(data, ensure_ascii=False).encode()  # JSON can escape half a surrogate pair, which is no text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}", where=where) from error
    if not isinstance(data, dict):
        raise UsageError("is not a JSON object", where=where)
    if type(version := data.get("schema_version")) is not int or version != SCHEMA_VERSION:
        reads = f"this krepro reads version {SCHEMA_VERSION}"
        raise UsageError(
            f"field schema_version: {reads}, got {version!r}", where=where, hint="use the krepro that made the set"
        )
    try:
        return Manifest.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(f"field {field}: {first['msg'].removeprefix('Value error, ')}", where=where) from error


def describe_kernel(build: KernelBuild) -> KernelManifest:
    """What a manifest says of one kernel."""
    kernel = build.kernel
    build_id = kernel.info["build_id"]
    return KernelManifest(
        key=kernel.key,
        arch=kernel.inputs["arch"],
        release=kernel.info["release"],
        build_id=build_id,
        source=kernel.inputs["source"],
        patches=kernel.inputs["patches"],
        fragments=kernel.inputs["fragments"],
        config_sha256=kernel.info["config_sha256"],
        compiler=kernel.inputs["compiler"],
        bzimage_sha256=kernel.files["bzImage"],
        absent={"build_id": NO_BUILD_ID} if build_id is None else {},
    )


def describe_image(build: KernelBuild) -> ImageManifest:
    """What a manifest says of the image on one kernel."""
    image = build.image
    return ImageManifest(key=image.key, sha256=image.files["image.cpio"], packages=image.info["versions"])


def manifest_schema() -> str:
    """The schema (draft 2020-12) of a manifest as this version writes it, as text: indented, sorted as the models."""
    schema = Manifest.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"


def fields_table(model: type[BaseModel]) -> list[str]:
    """The fields of a model as a Markdown table: name, unit and meaning."""
    lines = ["| field | what | unit |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        told = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {meaning} | {told.get('unit', '')} |".replace("|  |", "| |"))
    return lines
