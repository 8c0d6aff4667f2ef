# SPDX-License-Identifier: MIT
"""Comparing a run's digest with a reference, and saying which input or file differs when it is another."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from harness.artefacts.store import hash_of
from harness.errors import RunError, UsageError
from harness.experiment.elsewhere import VERSIONS
from harness.experiment.matrix import chosen_version
from harness.experiment.model import makes_bits
from harness.machine.qemu import qemu_version
from harness.measure.known import news_lines
from harness.paths import ROOT
from harness.sets.digest import first_difference
from harness.sets.listing import MANIFEST, set_paths
from harness.sets.manifest import ImageManifest, KernelManifest
from harness.sets.resultset import ResultSet, find_result_set
from harness.sets.values import values_of, write_values
from harness.yamlfile import Strict

REFERENCES = ROOT / "results" / "reference"
DIGEST = "digest.json"


class Reference(Strict):
    """A run's deterministic part: the digest, the trials under it, and the inputs that it is a function of."""

    experiment: str
    inputs: dict[str, Any]
    digest: str
    trials: dict[str, str]  #: folder (raw/ARM/REPETITION) to the hash over its files, by name
    files: dict[str, str] = Field(
        default={}, exclude=True
    )  #: of a set at hand: what tells which file of a trial differs

    @classmethod
    def of_files(cls, experiment: str, inputs: dict[str, Any], digest: str, files: Mapping[str, str]) -> Reference:
        """From the deterministic files of its trials, by their paths in the set."""
        return cls(experiment=experiment, inputs=inputs, digest=digest, trials=trial_hashes(files), files=dict(files))

    def write(self, path: Path) -> None:
        """Write it, a line per trial and input, so that a change is readable in a diff."""
        data = self.model_dump(mode="json")
        parts = [f' "{key}": {_lines(value)}' for key, value in data.items()]
        path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def reference_of(result: ResultSet) -> Reference:
    """The reference that this result set would be; UsageError without virtual-clock trials."""
    manifest = result.manifest
    if manifest.digest is None:
        raise UsageError("has no virtual-clock trials and so no digest", where=str(result.path))
    virtual = sorted({record.kernel for record in manifest.trials if record.clock == "virtual"})
    inputs = deterministic_inputs(
        manifest.qemu,
        {name: manifest.kernels[name] for name in virtual},
        {name: manifest.images[name] for name in virtual},
    )
    inputs["seed"] = manifest.seed
    inputs["experiment"] = {name: value for name, value in manifest.experiment_files.items() if makes_bits(name)}
    return Reference.of_files(manifest.experiment.name, inputs, manifest.digest, manifest.deterministic)


def deterministic_inputs(
    qemu: str, kernels: Mapping[str, KernelManifest], images: Mapping[str, ImageManifest]
) -> dict[str, Any]:
    """What the bits of virtual-clock trials are a function of, beside experiment and seed."""
    inputs: dict[str, Any] = {"qemu": qemu}
    for name, kernel in kernels.items():
        inputs[f"kernel {name}"] = {
            "source": kernel.source,
            "patches": kernel.patches,
            "fragments": kernel.fragments,
            "compiler": kernel.compiler,
            "bzImage": kernel.bzimage_sha256,
        }
        inputs[f"image {name}"] = images[name].model_dump(mode="json")
    return inputs


def check_digest(result: ResultSet, wanted: str, other: Reference | None) -> None:
    """RunError when the set's digest is not the wanted one, naming the first trial that differs, or file.

    `other` is what `find_reference` made of `wanted` before the run (`latest` is this set after it). Against a
    known set or reference the trials that both have are compared, so a run of some arms can be checked too.
    """
    mine = reference_of(result)
    if other is None:
        if mine.digest == wanted:
            return
        raise RunError(
            f"digest is {mine.digest}, not {wanted}",
            where=str(result.path),
            hint="give a result set to learn which file differs",
        )
    difference = compare(other, mine)
    if difference is None and is_digest(wanted) and mine.digest != wanted:
        difference = "the trials that both have are equal, but they are not the same trials"
    if difference is not None:
        raise RunError(f"digest differs: {difference}", where=str(result.path))


def is_digest(text: str) -> bool:
    """Whether a word is a digest and not a name."""
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def compare(other: Reference, mine: Reference) -> str | None:
    """The first of the trials that both have which differs, with the input that may explain it; else None.

    Where the files of both are known, it is the first file.
    """
    shared = other.trials.keys() & mine.trials.keys()
    if not shared:
        return "no trial is in both"
    unlike = sorted(trial for trial in shared if other.trials[trial] != mine.trials[trial])
    if not unlike:
        return None
    there, here = (_below(one.files, unlike[0]) for one in (other, mine))
    difference = first_difference(there, here) if there and here else f"{unlike[0]} differs"
    changed = first_input_difference(other.inputs, mine.inputs)
    return f"{difference} ({f'input {changed}' if changed else 'all inputs are equal'})"


def trial_hashes(files: Mapping[str, str]) -> dict[str, str]:
    """A hash over each trial's files, by its folder (raw/ARM/REPETITION), sorted."""
    folders: dict[str, dict[str, str]] = {}
    for name, value in files.items():
        folders.setdefault("/".join(name.split("/")[:3]), {})[name] = value
    return {folder: hash_of(folders[folder]) for folder in sorted(folders)}


def _below(files: Mapping[str, str], folder: str) -> dict[str, str]:
    return {name: value for name, value in files.items() if name.startswith(f"{folder}/")}


def _lines(value: object) -> str:
    """JSON of a field: a mapping has a line per entry."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    entries = [f"{json.dumps(key)}: {json.dumps(each, ensure_ascii=False)}" for key, each in value.items()]
    return "{\n  " + ",\n  ".join(entries) + "\n }"


def foreign_inputs(reference: Reference) -> dict[str, Any]:
    """Those inputs that this repository does not decide: QEMU, compilers, the distribution's packages and source."""
    foreign: dict[str, Any] = {"qemu": reference.inputs["qemu"]}
    for name, value in reference.inputs.items():
        if name.startswith("kernel "):
            foreign[name] = {key: value[key] for key in ("source", "compiler")}
        elif name.startswith("image "):
            foreign[name] = {"packages": value["packages"]}
    return foreign


def reference_file(folder: Path, qemu: str, linux: str | None = None) -> Path:
    """The reference in an experiment's `folder` for a QEMU, by the first line of its `--version`: its own, or the main.

    Versions of QEMU count a guest's time differently, so each has bits of its own. `linux`: the version of all kernels,
    as `--kernel` gave it, which has a reference of its own, too.
    """
    if linux is not None:
        return _linux_file(folder, linux)
    own = _own_file(folder, qemu)
    return own if own.is_file() else folder / DIGEST


def _own_file(folder: Path, qemu: str) -> Path:
    return folder / f"{Path(DIGEST).stem}-qemu-{_version(qemu)}.json"


def _linux_file(folder: Path, linux: str) -> Path:
    return folder / f"{Path(DIGEST).stem}-linux-{linux}.json"


def _version(qemu: str) -> str:
    """Major and minor number of a QEMU, or what it says instead."""
    told = re.search(r"\bversion (\d+\.\d+)", qemu)
    return told[1] if told else qemu


def write_reference(result: ResultSet, references: Path = REFERENCES) -> list[Path]:
    """Make this set the reference of its experiment, below `references`; the files written.

    A set without virtual-clock trials has values but no digest. One of another version of QEMU than the reference
    there, or of another version of Linux, is put beside it, as a digest alone. UsageError for a set with failed trials,
    and for one of another Linux with verdicts that versions.yaml does not have.
    """
    folder = references / result.manifest.experiment.name
    if (linux := chosen_version(result.manifest.chosen)) is not None:
        values_of(result)  # which refuses what failed
        if told := news_lines(result.claims):
            raise UsageError(f"in Linux {linux} {told[0]}", where=str(result.path), hint=f"say why in {VERSIONS}")
        folder.mkdir(parents=True, exist_ok=True)
        reference_of(result).write(_linux_file(folder, linux))
        return [_linux_file(folder, linux)]
    main = folder / DIGEST
    if main.is_file() and result.manifest.digest is not None:
        there, here = load_reference(main).inputs["qemu"], result.manifest.qemu
        if _version(there) != _version(here):
            values_of(result)  # which refuses what failed
            own = _own_file(folder, here)
            reference_of(result).write(own)
            return [own]
    written = [write_values(result, folder)]
    digest_file = folder / DIGEST
    if result.manifest.digest is None:
        digest_file.unlink(missing_ok=True)
        return written
    reference_of(result).write(digest_file)
    return [digest_file, *written]


def find_reference(wanted: str, experiment: str, results: Path, linux: str | None = None) -> Reference | None:
    """The reference that `wanted` means: a digest in hex, a reference file, a result set, or `reference`, of a Linux.

    A digest is looked for among the committed references and the result sets; None when nobody knows its files.
    """
    if wanted == "reference":
        return load_reference(reference_file(REFERENCES / experiment, qemu_version(), linux))
    if Path(wanted).is_file():
        return load_reference(Path(wanted))
    if not is_digest(wanted):
        return reference_of(find_result_set(results, wanted))
    for path in sorted((REFERENCES / experiment).glob(f"{Path(DIGEST).stem}*.json")):
        if (found := load_reference(path)).digest == wanted:
            return found
    for folder in set_paths(results, experiment):
        if (folder / MANIFEST).is_file() and wanted in (folder / MANIFEST).read_text():
            found_set = ResultSet(folder)
            if found_set.manifest.digest == wanted:
                return reference_of(found_set)
    return None


def load_reference(path: Path) -> Reference:
    """Read a reference file; UsageError naming it when it cannot be used."""
    try:
        return Reference.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"no reference: {error.strerror}", where=str(path)) from error
    except ValidationError as error:
        raise UsageError(f"not a reference file: {error.errors()[0]['msg']}", where=str(path)) from error


def first_input_difference(expected: dict[str, Any], actual: dict[str, Any]) -> str | None:
    """Name and both values of the first input that differs, descending into nested inputs."""
    for name in sorted(expected.keys() | actual.keys()):
        left, right = expected.get(name), actual.get(name)
        if left == right:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            return f"{name} · {first_input_difference(left, right)}"
        return f"{name}: {_short(left)} there, {_short(right)} here"
    return None


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
