# SPDX-License-Identifier: MIT
"""Matrices: an arm of experiment.yaml that stands for one arm per combination of its dimensions' values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator

from harness.errors import UsageError
from harness.experiment.scalar import Parameter, Scalar, Value, same, text_of
from harness.kernel.versions import is_version
from harness.yamlfile import Strict, misfit

#: Dimensions that are fields of an arm. Every other one is a parameter, but `workload`, which chooses one.
FIELDS = ("kernel", "clock", "session", "cpus", "icount_shift", "seed")
WORKLOAD = "workload"
#: Columns of the tables that get one for each dimension.
TAKEN = frozenset(
    {"arm", "group", "trial", "metric", "value", "unit", "reason"}
    | {"fidelity", "params", "pmu", "host_wait", "disturbed"}
)
#: Arms of one matrix, before `exclude`, and of an experiment: each has rows in tables, and a reader has to see them.
MOST_ARMS = 1000
MOST_NAME = 64
_PLACE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_UNNAMED = re.compile(r"[^a-z0-9._-]+")

Values = Annotated[list[Scalar], Field(min_length=1)]
#: By dimension the values that the command line gives it, in place of those of experiment.yaml; as texts.
Chosen = Mapping[str, Sequence[str]]


class Matrix(Strict):
    """Dimensions by name, each a list of values; the combinations that are left out, and others that are added."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Values]

    exclude: list[dict[Parameter, Scalar | Values]] = []
    include: list[dict[Parameter, Scalar]] = []

    @property
    def dimensions(self) -> dict[str, list[Value]]:
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _whole(self) -> Matrix:
        dimensions = self.dimensions
        if not dimensions:
            raise ValueError("has no dimension, such as kernel: [classic, modern-6.1]")
        for name, values in dimensions.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise misfit((name,), "the name of a dimension has lower-case letters, digits and _")
            if name in TAKEN:
                raise misfit((name,), "is the name of a column that every set has; choose another")
            for index, value in enumerate(values):
                if any(same(value, other) for other in values[:index]):
                    raise misfit((name, index), f"{text_of(value)} is given twice")
        for part in ("exclude", "include"):
            for index, entry in enumerate(getattr(self, part)):
                for name in entry:
                    if name not in dimensions:
                        known = ", ".join(dimensions)
                        raise misfit((part, index, name), f"{name} is no dimension here (known: {known})")
        for index, entry in enumerate(self.include):
            if missing := [name for name in dimensions if name not in entry]:
                raise misfit(("include", index), f"says no {missing[0]}: it must give every dimension a value")
        return self

    def widened(self, chosen: Chosen) -> Matrix:
        """The same with these values too, as YAML reads their texts."""
        more = {name: list(values) for name, values in self.dimensions.items()}
        for name, values in more.items():
            for text in chosen.get(name, ()):
                if not any(is_meant(value, text) for value in values) and not (name == "kernel" and is_version(text)):
                    values.append(_read(name, text))
        return Matrix(exclude=self.exclude, include=self.include, **more)  # type: ignore[arg-type]

    def combinations(self) -> list[dict[str, Value]]:
        """All that are left, the last dimension fastest, then those of `include`."""
        dimensions = self.dimensions
        count = math.prod(len(values) for values in dimensions.values())
        if count > MOST_ARMS:
            sizes = " x ".join(str(len(values)) for values in dimensions.values())
            raise misfit((), f"gives {sizes} = {count} arms, and {MOST_ARMS} are the most; split the experiment")
        every = [dict(zip(dimensions, values, strict=True)) for values in itertools.product(*dimensions.values())]
        for index, entry in enumerate(self.exclude):
            if not any(matches(entry, one) for one in every):
                raise misfit(("exclude", index), "leaves out no combination")
        left = [one for one in every if not any(matches(entry, one) for entry in self.exclude)]
        for index, added in enumerate(self.include):
            if any(matches(added, one) for one in left):
                raise misfit(("include", index), "is a combination that is there already")
            left.append({name: added[name] for name in dimensions})
        if not left:
            raise misfit(("exclude",), "leaves no arm")
        return left


def matches(wanted: Mapping[str, Value | Sequence[Value]], one: Mapping[str, Value]) -> bool:
    """Whether a combination has, of each dimension of `wanted`, the value or one of the values given there."""
    for name, value in wanted.items():
        allowed = value if isinstance(value, list | tuple) else [value]
        if name not in one or not any(same(one[name], other) for other in allowed):  # type: ignore[arg-type]
            return False
    return True


def arms_of(
    name: str, entry: Mapping[str, Any], matrix: Matrix, chosen: Chosen
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and fields of each arm that `entry` (its fields as written) stands for.

    ValidationError with the place below the arm in experiment.yaml.
    """
    rest = {field: value for field, value in entry.items() if field != "matrix"}
    for dimension in matrix.dimensions:
        field = "workloads" if dimension == WORKLOAD else dimension
        if field in rest or dimension in (rest.get("params") or {}):
            raise misfit(("matrix", dimension), f"{field} of the arm has a value beside the matrix")
    seen: dict[str, dict[str, Value]] = {}
    for one in _located(matrix.widened(chosen)):
        arm = arm_name(name, one)
        if arm in seen:
            raise misfit(
                ("matrix",), f"two combinations are called {arm}: give values that differ in letters or digits"
            )
        if ".." in arm or arm.endswith("."):
            raise misfit(("matrix",), "a value has no letter or digit, and arms are named by them")
        if len(arm) > MOST_NAME:
            raise misfit(("matrix",), f"the name {arm} is longer than {MOST_NAME} letters: shorten names or values")
        seen[arm] = one
        yield arm, _fields(rest, one) | {"group": name, "dimensions": one}


def _located(matrix: Matrix) -> list[dict[str, Value]]:
    try:
        return matrix.combinations()
    except ValidationError as error:
        first = error.errors()[0]
        raise misfit(("matrix", *first["loc"]), first["msg"]) from error


def arm_name(group: str, combination: Mapping[str, Value]) -> str:
    """GROUP.VALUE.VALUE…: words as they are, numbers and on/off with their dimension before them (`mib-4`)."""
    parts = []
    for dimension, value in combination.items():
        text = _UNNAMED.sub("-", text_of(value).lower())
        parts.append(text.strip("-") if isinstance(value, str) else f"{dimension}-{text}")
    return ".".join([group, *parts])


def _fields(rest: Mapping[str, Any], one: Mapping[str, Value]) -> dict[str, Any]:
    made: dict[str, Any] = dict(rest)
    for part in ("params", "cmdline"):
        if isinstance(rest.get(part), Mapping):
            made[part] = {key: _filled(value, one, (part, str(key))) for key, value in rest[part].items()}
    params = {}
    for dimension, value in one.items():
        if dimension == WORKLOAD:
            made["workloads"] = [value]
        elif dimension in FIELDS:
            made[dimension] = value
        else:
            params[dimension] = value
    return made | {"params": {**made.get("params", {}), **params}}


def _filled(value: Any, one: Mapping[str, Value], place: tuple[str, str]) -> Any:
    """`value` with each {DIMENSION} in a text replaced; a text that is nothing else becomes the value itself."""
    if not isinstance(value, str):
        return value
    for found in _PLACE.finditer(value):
        if found[1] not in one:
            raise misfit(place, f"{found[0]}: there is no such dimension (known: {', '.join(one)})")
    whole = _PLACE.fullmatch(value)
    return one[whole[1]] if whole else _PLACE.sub(lambda found: text_of(one[found[1]]), value)


def parse_chosen(words: Sequence[str] | None, kernels: Sequence[str] | None) -> dict[str, list[str]]:
    """What `--set DIMENSION=VALUE,…` (one text each) and `--kernel` say; UsageError when they say it badly."""
    chosen: dict[str, list[str]] = {}
    for word in words or ():
        name, equals, text = word.partition("=")
        parts = [part for part in text.split(",") if part]
        if not name or not equals or not parts:
            raise UsageError(f"--set {word}: must be DIMENSION=VALUE,…")
        if name in chosen:
            raise UsageError(f"--set {name}: is given twice")
        chosen[name] = list(dict.fromkeys(parts))
    if kernels is not None:
        if "kernel" in chosen:
            raise UsageError("--kernel and --set kernel: give one of them")
        chosen["kernel"] = list(dict.fromkeys(kernels))
        if len(kernels) > 1 and any(map(is_version, kernels)):
            raise UsageError("--kernel: a version of all kernels stands alone")
    return chosen


def chosen_version(chosen: Chosen) -> str | None:
    """The version in which all kernels are asked for, where `--kernel` gives one."""
    return next((text for text in chosen.get("kernel", ()) if is_version(text)), None)


def is_meant(value: Value, text: str) -> bool:
    """Whether a text of the command line means this value: as a guest gets it, or as YAML reads it."""
    return text_of(value) == text or (not isinstance(value, str) and same(value, _yaml(text)))


def _read(name: str, text: str) -> Value:
    value = text if name in ("kernel", WORKLOAD) else _yaml(text)
    if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
        raise UsageError(f"--set {name}: {text!r} is no word, number or on/off")
    return value


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
