"""Loading an experiment's analysis.py and checking what it returns."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from harness.errors import KreproError, RunError, UsageError
from harness.experiment.trial import TrialRecord
from harness.measure.claims import METRIC_COLUMNS

#: Columns of the optional hooks, with their types; docs/writing-an-experiment.md says what they mean.
PROFILE_COLUMNS = {"profile": "str", "unit": "str", "stack": "str", "weight": "float64"}
TIMELINE_COLUMNS = {"process": "str", "track": "str", "name": "str", "start_s": "float64", "duration_s": "float64"}


class Analysis:
    """The pure functions of one analysis.py; what they raise or return wrongly is reported with its file and line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "analysis.py"
        self._module = load_module(self.path)

    def tables(self, trials: Sequence[TrialRecord]) -> dict[str, pd.DataFrame]:
        """Decoded tables by name, from the trials' raw files."""
        return self._frames("tables", trials)

    def metrics(self, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
        """Long-form metrics with METRIC_COLUMNS; an absent value is NaN with its reason."""
        frame = self._call("metrics", tables)
        if not isinstance(frame, pd.DataFrame) or not set(METRIC_COLUMNS) <= set(frame.columns):
            raise UsageError(f"metrics() must return a table with {', '.join(METRIC_COLUMNS)}", where=str(self.path))
        frame = frame.loc[:, list(METRIC_COLUMNS)].reset_index(drop=True)
        twice = frame.duplicated(["arm", "trial", "metric"])
        if twice.any():
            arm, trial, name = frame.loc[twice, ["arm", "trial", "metric"]].iloc[0]
            raise UsageError(f"metrics(): {name} of {arm} {trial} is given twice", where=str(self.path))
        silent = frame["value"].isna() & frame["reason"].isna()
        if silent.any():
            name = frame.loc[silent, "metric"].iloc[0]
            raise UsageError(f"metrics(): {name} is absent without a reason", where=str(self.path))
        return frame.astype({"trial": "int64", "value": "float64"})

    def documents(self, tables: dict[str, pd.DataFrame]) -> dict[str, str]:
        """JSON text by name, as it is written; none when the analysis makes none. NaN is refused: JSON has none."""
        if not hasattr(self._module, "documents"):
            return {}
        made = self._call("documents", tables)
        names = list(made) if isinstance(made, dict) else [None]
        if not all(isinstance(name, str) and re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name) for name in names):
            raise UsageError("documents() must return a dict by names of files", where=str(self.path))
        try:
            return {
                name: json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
                for name, value in made.items()
            }
        except (TypeError, ValueError) as error:
            raise UsageError(f"documents(): a value is no JSON: {error}", where=str(self.path)) from error

    def figures(self, tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
        """Figures by name; none when the analysis draws none."""
        if not hasattr(self._module, "figures"):
            return {}
        return dict(self._call("figures", tables))

    def summary(self, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Small tables for the terminal, by title; none when the analysis has none."""
        return self._frames("summary", tables) if hasattr(self._module, "summary") else {}

    def profiles(self, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
        """Weighted stacks with PROFILE_COLUMNS; UsageError when the analysis has no such hook."""
        return self._hook("profiles", PROFILE_COLUMNS, tables)

    def timeline(self, tables: dict[str, pd.DataFrame]) -> pd.DataFrame | None:
        """What happened when, with TIMELINE_COLUMNS; None when the analysis has no such hook."""
        return self._hook("timeline", TIMELINE_COLUMNS, tables) if hasattr(self._module, "timeline") else None

    def predict(self, document: Mapping[str, Any], script: Path) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Tables by title and lines, of a script by one of the analysis' documents; UsageError without such a hook."""
        made = self._call("predict", document, script)
        if not isinstance(made, tuple) or len(made) != 2:
            raise UsageError("predict() must return tables by title, and lines", where=str(self.path))
        tables, lines = made
        return dict(tables), [str(line) for line in lines]

    def _hook(self, name: str, columns: Mapping[str, str], tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
        frame = self._call(name, tables)
        if not isinstance(frame, pd.DataFrame) or not set(columns) <= set(frame.columns):
            raise UsageError(f"{name}() must return a table with {', '.join(columns)}", where=str(self.path))
        try:
            return frame.loc[:, list(columns)].astype(dict(columns)).reset_index(drop=True)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}(): a column has a wrong type: {error}", where=str(self.path)) from error

    def _frames(self, name: str, argument: Any) -> dict[str, pd.DataFrame]:
        frames = self._call(name, argument)
        if not isinstance(frames, dict) or not all(isinstance(frame, pd.DataFrame) for frame in frames.values()):
            raise UsageError(f"{name}() must return a dict of tables", where=str(self.path))
        return frames

    def _call(self, name: str, *arguments: Any) -> Any:
        function: Callable[..., Any] | None = getattr(self._module, name, None)
        if function is None:
            raise UsageError(f"has no function {name}", where=str(self.path), hint="docs/writing-an-experiment.md")
        try:
            return function(*arguments)
        except KreproError:
            raise
        except Exception as error:
            raise RunError(
                f"{name}() failed: {type(error).__name__}: {error}", where=_place(error, self.path)
            ) from error


class _SourceOnly(importlib.machinery.SourceFileLoader):
    """Neither writes nor reads __pycache__: a finished set does not change, and what is run is what was hashed."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_module(path: Path) -> ModuleType:
    """The file as a package, so that it can import files beside it as `from .name import ...`."""
    name = f"krepro_analysis_{path.parent.name.replace('-', '_')}"
    for known in [known for known in sys.modules if known.startswith(f"{name}.")]:
        del sys.modules[known]  # of another folder with this name: a result set's copy, for example
    spec = importlib.util.spec_from_file_location(
        name, path, loader=_SourceOnly(name, str(path)), submodule_search_locations=[str(path.parent)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    cached, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a finished set gets no files
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{type(error).__name__}: {error}", where=_place(error, path)) from error
    finally:
        sys.dont_write_bytecode = cached
    return module


def _place(error: BaseException, path: Path) -> str:
    """file:line of the deepest frame inside the analysis or a file beside it, or of a syntax error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{error.filename or path}:{error.lineno}"
    place, trace = str(path), error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).parent == path.parent:
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
