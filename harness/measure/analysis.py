"""Loading an experiment's analysis.py and checking what it returns."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from harness.errors import KreproError, RunError, UsageError
from harness.experiment.trial import TrialRecord
from harness.measure.claims import METRIC_COLUMNS


class Analysis:
    """The pure functions of one analysis.py; what they raise or return wrongly is reported with its file and line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "analysis.py"
        self._module = _load(self.path)

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

    def figures(self, tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
        """Figures by name; none when the analysis draws none."""
        if not hasattr(self._module, "figures"):
            return {}
        return dict(self._call("figures", tables))

    def summary(self, tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """Small tables for the terminal, by title; none when the analysis has none."""
        return self._frames("summary", tables) if hasattr(self._module, "summary") else {}

    def _frames(self, name: str, argument: Any) -> dict[str, pd.DataFrame]:
        frames = self._call(name, argument)
        if not isinstance(frames, dict) or not all(isinstance(frame, pd.DataFrame) for frame in frames.values()):
            raise UsageError(f"{name}() must return a dict of tables", where=str(self.path))
        return frames

    def _call(self, name: str, argument: Any) -> Any:
        function: Callable[[Any], Any] | None = getattr(self._module, name, None)
        if function is None:
            raise UsageError(f"has no function {name}", where=str(self.path), hint="docs/writing-an-experiment.md")
        try:
            return function(argument)
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


def _load(path: Path) -> ModuleType:
    name = f"krepro_analysis_{path.parent.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{type(error).__name__}: {error}", where=_place(error, path)) from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """path:line of the deepest frame inside the analysis, or of its syntax error."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path}:{error.lineno}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)
