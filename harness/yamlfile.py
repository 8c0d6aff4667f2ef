# SPDX-License-Identifier: MIT
"""YAML files into pydantic models; an error names the file, the line and the field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from harness.errors import UsageError, raise_all

Model = TypeVar("Model", bound=BaseModel)
#: The way to a field that does not fit, and what is wrong there.
Misfit = tuple[tuple[str | int, ...], str]
#: Of one file; the largest experiment has some hundreds, five deep.
MOST_VALUES = 100_000
MOST_DEPTH = 64


class Strict(BaseModel):
    """Base of everything read from a user's file: unknown fields are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def about(text: str, unit: str | None = None) -> Any:
    """What a field means and, of a number, its unit; for `Annotated`. Both are in the JSON Schema of a manifest."""
    return Field(description=text, json_schema_extra={"unit": unit} if unit else None)


class _UniqueKeys(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, where YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool):
                continue
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_VALUES:  # a few merges of merges (<<) can mean more than there is memory
            raise yaml.constructor.ConstructorError(None, None, f"more than {MOST_VALUES} fields", node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, AttributeError, KeyError, TypeError) as error:  # 2024-13-45 and !!bool x are none
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def load_model(path: Path, model: type[Model], context: Mapping[str, Any] | None = None) -> Model:
    """Read and validate one YAML file; UsageError with `path:line` and the field when it does not fit.

    `context` is what validators of the model may ask for.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise UsageError(f"cannot be read: {reason}", where=str(path)) from error
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=_UniqueKeys)  # noqa: S506  (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UsageError(f"not valid YAML: {error.problem}", where=f"{path}:{line}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"not valid YAML: {' '.join(str(error).split())}", where=str(path)) from error
    if not isinstance(data, dict):
        raise UsageError("must be a mapping of fields", where=f"{path}:1")
    raise_all(_at_lines(path, tree, _no_json(data)))
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        errors = _at_lines(path, tree, (_told(one) for one in error.errors(include_url=False)))
    raise_all(errors)
    raise AssertionError("a ValidationError has errors")


def _told(error: ErrorDetails) -> tuple[Sequence[str | int], str]:
    """The way to the field that pydantic complains of, and the complaint."""
    way = [part for part in error["loc"] if not str(part).startswith("function-")]
    got = "" if error["type"] in {"missing", "value_error"} else f", got {_short(error.get('input'))}"
    return way, error["msg"].removeprefix("Value error, ") + got


def _at_lines(
    path: Path, tree: yaml.Node | None, problems: Iterable[tuple[Sequence[str | int], str]]
) -> list[UsageError]:
    """An error for each problem of a field, in the order of the file's lines."""
    told = sorted(((_line(tree, way), way, problem) for way, problem in problems), key=lambda one: one[0])
    return [
        UsageError(
            f"field {'.'.join(map(str, way)).encode('utf-8', 'replace').decode() or '(whole file)'}: {problem}",
            where=f"{path}:{line}",
        )
        for line, way, problem in told
    ]


def _no_json(data: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What of this data JSON cannot hold, by its place: nothing could be sealed that was made of it.

    Aliases are counted as often as they stand there: a few lines of them can mean more values than there is memory.
    """
    left: list[tuple[tuple[str | int, ...], object]] = [((), data)]
    seen = 0
    while left:
        location, value = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            yield (), f"it has more than {MOST_VALUES} values, aliases counted as often as they are used"
            return
        if len(location) > MOST_DEPTH:  # an alias of what it stands in has no end
            yield (location[0],), f"it is more than {MOST_DEPTH} levels deep"
            return
        if isinstance(value, float) and not math.isfinite(value):
            yield location, f"must be a finite number, got {value}"
        elif isinstance(value, str) and value != value.encode("utf-8", "replace").decode():
            yield location, f"must be text, got half a surrogate pair in {value!a}"
        elif isinstance(value, dict):
            left += [((*location, str(key)), part) for key, part in reversed(value.items()) for part in (key, part)]
        elif isinstance(value, list):
            left += [((*location, index), part) for index, part in reversed(list(enumerate(value)))]


def raise_misfits(misfits: Iterable[Misfit]) -> None:
    """What a validator has to say of fields below its own, all at once: the way to each, and what is wrong there."""
    told = list(dict.fromkeys(misfits))  # arms of one matrix say the same
    if told:
        raise _misfits(told)


def misfit(location: tuple[str | int, ...], message: str) -> ValidationError:
    """The same of one field, for a validator that can say no more after it."""
    return _misfits([(location, message)])


def _misfits(told: Sequence[Misfit]) -> ValidationError:
    details = [
        InitErrorDetails(
            type=PydanticCustomError("value_error", "{message}", {"message": message}), loc=location, input=None
        )
        for location, message in told
    ]
    return ValidationError.from_exception_data("", details)


def line_of(path: Path, location: Sequence[str | int]) -> str:
    """`path:line` of a field of a YAML file that has been read before; its path alone when it cannot be read again."""
    try:
        tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return str(path)
    return f"{path}:{_line(tree, location)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(node: yaml.Node | None, location: Sequence[str | int]) -> int:
    """1-based line of the deepest node on the way to `location` that exists in the file."""
    line = 1
    for part in location:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, child = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            child = node.value[part]
            line = child.start_mark.line + 1
        if child is None:
            break
        node = child
    return line
