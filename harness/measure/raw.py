# SPDX-License-Identifier: MIT
"""Reading a trial's raw files: one way, and one kind of error that names the file.

Every function raises RunError whose `where` is the file when it is absent, damaged, or not what it should be. A decoder
lets such an error pass: `harness.measure.rows` makes of it a row in the table `problems`, and the rest stands.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pandas.errors import ParserWarning
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from harness.errors import RunError
from harness.machine.spec import DEFAULT_ICOUNT_SHIFT, PREDICTIONS
from harness.trial.model import TrialRecord

#: What an analysis is given of a trial: `path` is its raw folder, with one folder per workload.
Trial = TrialRecord
#: Nanoseconds of the virtual clock for an instruction, where an arm does not say otherwise.
VIRTUAL_NS = 1 << DEFAULT_ICOUNT_SHIFT
AnswerKind = TypeVar("AnswerKind", bound="Answer")


class Answer(BaseModel):
    """Base of what a program of the guest, or the harness, says in JSON.

    Fields that a later version adds are ignored; one that is missing or of another type is an error that names it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    def as_columns(self) -> dict[str, Any]:
        """The fields that are columns of a table, by name (`harness.measure.declared.columns_of`)."""
        fields = type(self).model_fields.items()
        return {name: getattr(self, name) for name, field in fields if field.description is not None}

    @model_validator(mode="after")
    def _in_64_bits(self) -> Answer:
        """No program of ours counts further, and nothing that tables are made of holds more."""
        left: list[object] = list(self.__dict__.values())
        while left:
            value = left.pop()
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
                raise ValueError("a number has more than 64 bits")
            left += value if isinstance(value, tuple | list) else value.values() if isinstance(value, dict) else ()
        return self


def read_bytes(path: Path) -> bytes:
    """The whole file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error


def read_text(path: Path) -> str:
    """The whole file as UTF-8; a byte that is none reads as U+FFFD, for a guest may print anything."""
    return read_bytes(path).decode("utf-8", errors="replace")


def read_json(path: Path) -> dict[str, Any]:
    """A file with one JSON object."""
    return _object(read_text(path), str(path))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """A file with one JSON object per line."""
    lines = _lines(read_text(path))
    return [_object(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def read_last_json_line(path: Path) -> dict[str, Any]:
    """The JSON object in a file's last line: a program may print what it likes before its answer."""
    lines = _lines(read_text(path))
    if not lines:
        raise RunError("is empty", where=str(path))
    return _object(lines[-1], f"{path}:{len(lines)}")


def read_answer(path: Path, kind: type[AnswerKind]) -> AnswerKind:
    """A file with one JSON object that has the fields of `kind`."""
    try:
        return kind.model_validate_json(read_bytes(path))
    except ValidationError as error:
        raise misfit(error, str(path)) from error


def read_answer_lines(path: Path, kind: type[AnswerKind]) -> list[AnswerKind]:
    """A file with one such object per line."""
    answers = []
    for number, line in enumerate(_lines(read_text(path)), 1):
        try:
            answers.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise misfit(error, f"{path}:{number}") from error
    return answers


def read_predictions(trial: Trial) -> Any:
    """What was predicted of a trial before it began, as the analysis wrote it; of that very text alone."""
    path = trial.path / PREDICTIONS
    text = read_bytes(path)
    if hashlib.sha256(text).hexdigest() != trial.params.get("predictions"):
        raise RunError("is not what the trial was begun with", where=str(path))
    return json.loads(text)


def read_csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A table whose first columns are these, every entry of them a whole number of 64 bits."""
    try:
        with warnings.catch_warnings():
            # Rows of one field more than there are names would lose one, or all of them shift.
            warnings.simplefilter("error", ParserWarning)
            table = pd.read_csv(path, index_col=False)
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except (ValueError, OverflowError, ParserWarning) as error:  # parser errors and UnicodeDecodeError are ValueErrors
        raise RunError(f"is no table: {' '.join(str(error).split())}", where=str(path)) from error
    if tuple(table.columns[: len(columns)]) != tuple(columns):
        raise RunError(f"has columns {', '.join(table.columns)}, not {', '.join(columns)}", where=str(path))
    for name in columns:
        column = table[name]
        if len(column) and column.dtype.kind not in "iu":
            # One entry that is none changes the type of all.
            wrong = next((n for n, entry in enumerate(column) if not _is_whole(entry)), 0)
            entry = str(column.iloc[wrong])[:80]
            raise RunError(f"{name} is no whole number: {entry}", where=f"{path}, line {wrong + 2}")
    return table


def _is_whole(entry: object) -> bool:
    """Of 64 bits; `entry` is text, or a number that was one before another in its column was none."""
    try:
        number = float(str(entry))
        return number.is_integer() and -(2**63) <= int(number) < 2**64
    except ValueError:
        return False


def read_lines(path: Path) -> list[str]:
    """The lines of a file of UTF-8 text; one that does not end with a line's end was cut short."""
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RunError(f"is no text: {error.reason} at byte {error.start}", where=str(path)) from error
    if text and not text.endswith("\n"):
        raise RunError("is cut short: its last line has no end", where=str(path))
    return text.split("\n")[:-1]


def read_tsv(path: Path, columns: Mapping[str, str]) -> pd.DataFrame:
    """A file's table: see `tsv`."""
    return tsv(read_lines(path), columns, str(path))


def tsv(lines: Sequence[str], columns: Mapping[str, str], where: str) -> pd.DataFrame:
    """A table of fields that tabs separate, under a line of names: `columns` of it, as these pandas types.

    Whole numbers may be decimal or 0x hexadecimal, up to 64 bits; text stands as it is. RunError, with the line, when
    it is no such table.
    """
    names = lines[0].split("\t") if lines else []
    if missing := [name for name in columns if name not in names]:
        raise RunError(f"has no column {missing[0]}", where=f"{where}:1")
    rows = [line.split("\t") for line in lines[1:]]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise RunError(f"has {len(row)} fields, not {len(names)}", where=f"{where}:{number}")
    made = {}
    for name, kind in columns.items():
        texts = [row[names.index(name)] for row in rows]
        try:
            values = texts if kind == "str" else [int(text, 0) for text in texts]
            made[name] = pd.Series(values, dtype=kind)
        except (ValueError, OverflowError) as error:
            raise RunError(f"column {name}: {error}", where=where) from error
    return pd.DataFrame(made)


def _lines(text: str) -> list[str]:
    """Lines end at a line feed alone: `splitlines` knows others, which a JSON text may hold."""
    return text.removesuffix("\n").split("\n") if text else []


def misfit(error: ValidationError, where: str) -> RunError:
    """What is wrong with the first field that is; where none of them alone is, with the whole."""
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"]))
    return RunError(f"is not what it should be: {field}{': ' if field else ''}{first['msg']}", where=where)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"is no JSON: {error}", where=where) from error
    if not isinstance(value, dict):
        raise RunError("is no JSON object", where=where)
    return value
