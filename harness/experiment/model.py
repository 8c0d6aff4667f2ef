# SPDX-License-Identifier: MIT
"""The model of `experiment.yaml`, and experiment folders anywhere on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from harness.choices import OracleMode, Profile
from harness.errors import UsageError
from harness.experiment.claim import Claim
from harness.experiment.elsewhere import VERSIONS, Elsewhere
from harness.experiment.expect import least
from harness.experiment.matrix import FIELDS, MOST_ARMS, TAKEN, WORKLOAD, Chosen, Matrix, arms_of, chosen_version
from harness.experiment.reading import PAPER, Reading
from harness.experiment.scalar import Parameter, Scalar, same, text_of
from harness.kernel.versions import in_version
from harness.machine.spec import (
    DEFAULT_ICOUNT_SHIFT,
    PLUGIN_FOLDER,
    PREDICTIONS,
    RECORDING,
    RECORDING_KEYS,
    Clock,
    Device,
)
from harness.packages.choice import KernelName, Name, Package
from harness.paths import EXPERIMENTS
from harness.yamlfile import Misfit, Strict, about, line_of, load_model, misfit, raise_misfits


def _package(value: object) -> str | Package:
    """A plain name or some files of a package; errors of the one that is meant, where a union gives those of both."""
    if isinstance(value, dict | Package):
        return Package.model_validate(value)
    return TypeAdapter(Name).validate_python(value)


PackageEntry = Annotated[Name | Package, BeforeValidator(_package)]
#: Variables that the harness itself sets in the guest: a parameter of that name would hide them.
RESERVED = frozenset({"seed", "workload", "predictions"})
#: What lies beside the folders of workloads in a trial's raw folder, by whoever leaves it there.
TRIAL_FILES = frozenset(
    {
        *("job.exit", "job.stdout", "job.stderr", "pmu", "dmesg", "kallsyms", "interrupts.final"),
        *("console.log", "qemu.stderr", "diagnosis.txt", "qmp-events.json", "host-sched.json"),
        *(RECORDING, RECORDING_KEYS, PLUGIN_FOLDER, PREDICTIONS),
    }
)
#: What lies beside the experiments' folders of result sets, and in them.
RESULTS_FOLDERS = frozenset({"reports", "reference", "latest"})


class Paper(Strict):
    """The paper that an experiment reproduces."""

    authors: Annotated[list[str], about("in the paper's order")] = Field(min_length=1)
    year: Annotated[int, about("of publication", "year")] = Field(ge=1950, le=2100)
    title: Annotated[str, about("as printed")]
    venue: Annotated[str | None, about("journal, conference or institute; null: experiment.yaml names none")] = None
    says: Annotated[str | None, about("what the paper says, in a sentence or two of ours; null: not told")] = None
    table: Annotated[str | None, about("how the title of the table to show first begins; null: the first there is")] = (
        None
    )
    figure: Annotated[str | None, about("name of the figure to show first; null: the first there is")] = None


class Workload(Strict):
    """A scenario that the guest runs while something is measured: shell text in the guest."""

    command: Annotated[str, about("shell text")] = Field(min_length=1)
    timeout_s: Annotated[float, about("guest time after which it is ended", "s")] = Field(default=60.0, gt=0, le=604800)


class Repetitions(Strict):
    """Trials per arm in each profile; 0 leaves the arm out of that profile."""

    quick: Annotated[int, about("in the profile quick", "trials")] = Field(default=1, ge=0, le=100_000)
    full: Annotated[int, about("in the profile full", "trials")] = Field(default=10, ge=0, le=100_000)


class Arm(Strict):
    """One variant of an experiment."""

    kernel: Annotated[KernelName, about("name of the kernel's spec")]
    clock: Annotated[Clock, about("virtual: instructions are time; wall: the host's")] = "wall"
    session: Annotated[Literal["ssh", "mailbox"] | None, about("null: the clock's own")] = None
    record: Annotated[bool, about("whether the trial is recorded for a replay")] = False
    cpus: Annotated[int, about("of the guest", "CPUs")] = Field(default=1, ge=1, le=64)
    icount_shift: Annotated[int, about("an instruction takes 2 to this power", "log2(ns)")] = Field(
        default=DEFAULT_ICOUNT_SHIFT, ge=0, le=10
    )
    cmdline: Annotated[dict[str, Scalar], about("kernel parameters", "the parameter's own")] = {}
    params: Annotated[dict[Parameter, Scalar], about("KREPRO_ variables in the guest", "the parameter's own")] = {}
    devices: Annotated[list[Device], about("beyond those that every machine has")] = []
    workloads: Annotated[list[Name] | None, about("in order; null: all of the experiment's")] = None
    repetitions: Annotated[Repetitions | None, about("null: the experiment's")] = None
    oracle: Annotated[list[OracleMode], about("what the oracle counts beside the measurement")] = []
    oracle_locks: Annotated[list[str], about("functions that mode locks counts the calls of")] = []
    seed: Annotated[int | None, about("of its trials in place of the run's; null: the run's", "1")] = Field(
        default=None, ge=0
    )
    workload_order: Annotated[
        Literal["given", "random"], about("of a trial's workloads; random: as the trial's seed decides")
    ] = "given"
    predicted_by: Annotated[
        Name | None, about("arm whose trial of the same repetition tells what comes of this one's; null: there is none")
    ] = None
    group: Annotated[Name | None, about("the arm of experiment.yaml whose matrix it is of; null: it is of none")] = None
    dimensions: Annotated[dict[Parameter, Scalar], about("its place in the matrix", "the dimension's")] = {}

    @field_validator("params")
    @classmethod
    def _free(cls, params: dict[Parameter, Scalar]) -> dict[Parameter, Scalar]:
        raise_misfits(((name,), "the harness sets this one itself") for name in params if name in RESERVED)
        return params

    @model_validator(mode="after")
    def _placed(self) -> Arm:
        if (self.group is None) != (not self.dimensions):
            raise ValueError("group and dimensions: give both or neither")
        for name in FIELDS:
            if name in self.dimensions and self.dimensions[name] != getattr(self, name):
                raise misfit(("dimensions", name), f"the arm's {name} is {getattr(self, name)}")
        if taken := TAKEN.intersection(self.dimensions):
            raise misfit(("dimensions", min(taken)), "is the name of a column that every set has; choose another")
        return self

    def on(self, kernel: str) -> Arm:
        """The same on another kernel: a command may be given a path, which no file of an experiment may have."""
        return self.model_copy(update={"kernel": kernel})

    def session_kind(self) -> Literal["ssh", "mailbox"]:
        """The session asked for, else the clock's own: mailbox under the virtual clock, ssh otherwise."""
        return self.session or ("mailbox" if self.clock == "virtual" else "ssh")


class MatrixArm(Arm):
    """An arm as written that stands for several: the fields that all have, and the matrix."""

    kernel: Annotated[KernelName | None, about("null: a dimension")] = None  # type: ignore[assignment]
    matrix: Matrix

    @model_validator(mode="after")
    def _kernel(self) -> MatrixArm:
        if self.kernel is None and "kernel" not in self.matrix.dimensions:
            raise misfit(("kernel",), "is missing: give it here or as a dimension of the matrix")
        return self


class Experiment(Strict):
    """One experiment as its folder states it."""

    name: Annotated[Name, about("also of the folder of its result sets")]
    version: Annotated[int, about("raised when figures stop being comparable", "1")] = Field(default=1, ge=1)
    paper: Annotated[Paper, about("what is being reproduced")]
    description: Annotated[str, about("what this is about")] = ""
    workloads: Annotated[dict[Name, Workload], about("by name")] = Field(min_length=1)
    collect: Annotated[list[Name], about("collectors around every workload")] = []
    packages: Annotated[list[PackageEntry], about("Debian packages for the guest, or some files of one")] = []
    arms: Annotated[dict[Name, Arm], about("by name")] = Field(min_length=1)
    repetitions: Annotated[Repetitions, about("of arms that have none of their own")] = Repetitions()
    claims: Annotated[list[Claim], about("what is checked")] = []
    reading: Annotated[Reading | None, about("paper.yaml, sentence by sentence; null: there is none")] = None
    elsewhere: Annotated[Elsewhere | None, about("versions.yaml, by version of Linux; null: there is none")] = None

    @field_validator("arms", mode="before")
    @classmethod
    def _expanded(cls, arms: Any, info: ValidationInfo) -> Any:
        """Arms with a matrix in place of what they stand for; the context may have the command line's `chosen`."""
        chosen = (info.context or {}).get("chosen", {})
        return _in_version(_expanded(arms, chosen), chosen) if isinstance(arms, dict) else arms

    @field_validator("name")
    @classmethod
    def _own_folder(cls, name: str) -> str:
        if name in RESULTS_FOLDERS:
            raise ValueError(f"{name} is a name of the harness's own in the folder of result sets; choose another")
        return name

    @field_validator("workloads")
    @classmethod
    def _own_files(cls, workloads: dict[Name, Workload]) -> dict[Name, Workload]:
        why = "is a name of the harness's own in a trial's folder; choose another"
        raise_misfits(((name,), why) for name in workloads if name in TRIAL_FILES)
        return workloads

    @field_validator("packages")
    @classmethod
    def _whole_or_files(cls, packages: list[PackageEntry]) -> list[PackageEntry]:
        names = [entry.name if isinstance(entry, Package) else entry for entry in packages]
        raise_misfits(
            ((index, "name"), f"package {entry.name} is given twice")
            for index, entry in enumerate(packages)
            if isinstance(entry, Package) and names.count(entry.name) > 1
        )
        return packages

    @field_validator("claims")
    @classmethod
    def _unique(cls, claims: list[Claim], info: ValidationInfo) -> list[Claim]:
        ids = [claim.id for claim in claims]
        raise_misfits(
            ((index, "id"), f"claim id {name} is given twice") for index, name in enumerate(ids) if name in ids[:index]
        )
        clocks = {name: arm.clock for name, arm in info.data.get("arms", {}).items()}
        trials = [claim.least_trials or least(claim.expect, clocks.get(claim.arm)) for claim in claims]
        return [one.model_copy(update={"least_trials": most}) for one, most in zip(claims, trials, strict=True)]

    @model_validator(mode="after")
    def _referring(self) -> Experiment:
        raise_misfits(self._references())
        return self

    def _references(self) -> Iterator[Misfit]:
        """What refers to nothing: the way to the field, and what is wrong there."""
        for name, arm in self.arms.items():
            yield from self._is_placed(name, arm)
            yield from self._is_predicted(name, arm)
            for workload in arm.workloads or []:
                if workload not in self.workloads:
                    known = ", ".join(self.workloads)
                    place = (
                        ("arms", name, "workloads") if arm.group is None else ("arms", arm.group, "matrix", WORKLOAD)
                    )
                    yield place, f"unknown workload {workload!r} (known: {known})"
        papers = [claim.id for claim in self.claims if claim.kind == "paper"]
        refuted = {claim.refutes for claim in self.claims}
        for index, claim in enumerate(self.claims):
            if claim.arm is not None:
                yield from self._names_arms(claim, index)
            for other in claim.controls:
                yield from self._controls(other, claim, index)
            if claim.refutes is not None and claim.refutes not in papers:
                known = ", ".join(papers)
                yield ("claims", index, "refutes"), f"{claim.refutes} is no claim of the paper (known: {known})"
            if claim.metric is None and claim.id not in refuted:
                what = "has no metric, and no finding refutes it"
                yield ("claims", index, "id"), f"{claim.id} {what}; what nothing here can judge stands in {PAPER}"
        if self.reading is not None:
            yield from ((("reading", *way), what) for way, what in self.reading.misfits(self.claims))

    def _is_placed(self, name: str, arm: Arm) -> Iterator[Misfit]:
        """Misfits when an arm that is written by hand does not fit its group."""
        if arm.group in self.arms:
            yield ("arms", name, "group"), f"{arm.group} is the name of an arm"
        others = next((other for other in self.arms.values() if arm.group and other.group == arm.group), arm)
        if list(arm.dimensions) != list(others.dimensions):
            wanted = ", ".join(others.dimensions)
            yield ("arms", name, "dimensions"), f"those of {arm.group} are, in this order, {wanted}"

    def _is_predicted(self, name: str, arm: Arm) -> Iterator[Misfit]:
        """Misfits when what an arm is predicted by is no arm on its kernel that is there before it."""
        if arm.predicted_by is None:
            return
        earlier = self.arms.get(arm.predicted_by)
        # Trials of the wall clock come last, and a kernel's together.
        like = earlier is not None and (earlier.kernel, earlier.clock) == (arm.kernel, "virtual")
        if earlier is None or not like or earlier.predicted_by is not None:
            what = f"{arm.predicted_by} is no arm on kernel {arm.kernel} and the virtual clock that none predicts"
            yield ("arms", arm.group or name, "predicted_by"), what

    def _names_arms(self, claim: Claim, index: int) -> Iterator[Misfit]:
        """Misfits when a claim's arm, or what it compares of a matrix, is not there."""
        own = self.group(str(claim.arm))
        if claim.across is None:
            if own:
                what = f"is a matrix of {len(own)} arms: compare them by across, or name one, such as {next(iter(own))}"
                yield ("claims", index, "metric"), f"{claim.arm} {what}"
            elif claim.arm not in self.arms:
                known = ", ".join(self.written_arms)
                yield ("claims", index, "metric"), f"{claim.metric} names no arm (known: {known})"
            return
        if not own:
            groups = ", ".join(dict.fromkeys(arm.group for arm in self.arms.values() if arm.group)) or "there is none"
            yield ("claims", index, "metric"), f"{claim.arm} is no arm with a matrix (known: {groups})"
        elif wrong := claim.across.misfit(str(claim.arm), [arm.dimensions for arm in own.values()]):
            yield ("claims", index, "across", wrong[0]), wrong[1]

    def _controls(self, other: str, claim: Claim, index: int) -> Iterator[Misfit]:
        """Misfits when a negative control is of nothing that could be one's."""
        known = {one.id: one for one in self.claims if one.metric is not None and not one.controls}
        if other not in known:
            names = ", ".join(known) or "there is none"
            what = f"{other} is no claim with a metric that is itself no control (known: {names})"
            yield ("claims", index, "controls"), what

    def group(self, name: str) -> dict[str, Arm]:
        """The arms that the matrix of this arm of experiment.yaml stands for; none where there is no such matrix."""
        return {arm: model for arm, model in self.arms.items() if model.group == name}

    @property
    def written_arms(self) -> list[str]:
        """Names of arms as experiment.yaml has them: those of a matrix as one."""
        return list(dict.fromkeys(model.group or arm for arm, model in self.arms.items()))

    def arm_workloads(self, arm: str) -> list[str]:
        """The workloads that a trial of `arm` runs, in order."""
        chosen = self.arms[arm].workloads
        return list(self.workloads) if chosen is None else list(chosen)

    def arm_repetitions(self, arm: str, profile: Profile) -> int:
        """Trials of `arm` in `profile`."""
        counts = self.arms[arm].repetitions or self.repetitions
        return counts.quick if profile == "quick" else counts.full


def _expanded(arms: dict[Any, Any], chosen: Chosen) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for name, entry in arms.items():
        if not isinstance(entry, dict) or "matrix" not in entry:
            fresh = {name: entry}
        else:
            matrix = TypeAdapter(dict[Name, MatrixArm]).validate_python({name: entry})[name].matrix
            fresh = {}
            try:
                for arm, fields in arms_of(name, entry, matrix, chosen):
                    fresh[arm] = _arm_of_matrix(fields, matrix)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                raise misfit((name, *first["loc"]), first["msg"].removeprefix("Value error, ")) from error
        if twice := next((arm for arm in fresh if arm in made), None):
            raise misfit((name,), f"an arm {twice} is there already")
        made |= fresh
        if len(made) > MOST_ARMS:
            raise misfit((name,), f"the experiment has {len(made)} arms, and {MOST_ARMS} are the most; split it")
    return made


def _in_version(arms: dict[Any, Any], chosen: Chosen) -> dict[Any, Any]:
    """Arms, as written or made of a matrix, on their kernels in the version that `--kernel` gives."""
    version = chosen_version(chosen)
    if version is None:
        return arms
    made = {}
    for name, arm in arms.items():
        made[name] = arm
        if isinstance(arm, Arm):
            made[name] = arm.on(in_version(arm.kernel, version))
        elif isinstance(arm, dict) and isinstance(arm.get("kernel"), str):
            made[name] = arm | {"kernel": in_version(arm["kernel"], version)}
    return made


def _arm_of_matrix(fields: dict[str, Any], matrix: Matrix) -> Arm:
    try:
        return Arm.model_validate(fields)
    except ValidationError as error:  # as it is written, the arm is good: a value of a dimension is not
        first = error.errors(include_url=False)[0]
        field, message = str(first["loc"][0]), first["msg"].removeprefix("Value error, ")
        name = WORKLOAD if field == "workloads" else field
        values = matrix.dimensions.get(name)
        if values is None:
            raise
        value = fields["dimensions"][name]
        place = [index for index, one in enumerate(values) if same(one, value)]
        raise misfit(("matrix", name, *place), f"{message}, got {text_of(value)}") from error


def experiment_names() -> list[str]:
    """Names of the experiments that come with the project."""
    return sorted(path.parent.name for path in EXPERIMENTS.glob("*/experiment.yaml"))


def find_experiment(text: str) -> Path:
    """The folder of the experiment that `text` names or is a path of; UsageError listing the known ones."""
    inside = EXPERIMENTS / text
    if "/" not in text and (inside / "experiment.yaml").is_file():
        return inside
    folder = Path(text)
    if (folder / "experiment.yaml").is_file():
        return folder.resolve()
    if folder.is_dir():
        raise UsageError("has no experiment.yaml", where=str(folder), hint="docs/writing-an-experiment.md")
    raise UsageError(
        f"unknown experiment {text!r}", hint=f"known: {', '.join(experiment_names())}; or give a folder's path"
    )


def load_experiment(folder: Path, chosen: Chosen | None = None) -> Experiment:
    """Read and validate `folder`/experiment.yaml, paper.yaml and versions.yaml, and see that its analysis.py is there.

    A matrix has those values of `chosen` too that it does not give a dimension itself. Of claims is known what is known
    in the version of Linux that is chosen.
    """
    experiment = load_model(folder / "experiment.yaml", Experiment, {"chosen": chosen or {}})
    if not (folder / "analysis.py").is_file():
        raise UsageError("has no analysis.py", where=str(folder), hint="docs/writing-an-experiment.md")
    for field, name in (("reading", PAPER), ("elsewhere", VERSIONS)):
        if getattr(experiment, field) is not None:
            where = line_of(folder / "experiment.yaml", (field,))
            raise UsageError(f"field {field}: write it in {name}", where=where)
    context = {"claims": experiment.claims}
    update: dict[str, object] = {}
    if (folder / PAPER).exists():
        update["reading"] = load_model(folder / PAPER, Reading, context)
    if (folder / VERSIONS).exists():
        elsewhere = load_model(folder / VERSIONS, Elsewhere, context)
        version = chosen_version(chosen or {})
        claims = elsewhere.in_version(experiment.claims, version) if version else experiment.claims
        update |= {"elsewhere": elsewhere, "claims": claims}
    return experiment.model_copy(update=update)


def makes_bits(name: str) -> bool:
    """Whether a file of an experiment's folder has a part in what a run measures, and is not only about it."""
    return name not in (PAPER, VERSIONS) and not name.endswith(".md")
