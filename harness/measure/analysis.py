# SPDX-License-Identifier: MIT
"""Loading an experiment's analysis.py and checking what it declares and returns."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.errors import HOSTS_ERRORS, KreproError, RunError, UsageError, raise_all
from harness.experiment.claim import Claim
from harness.experiment.model import Experiment
from harness.experiment.scalar import Value
from harness.measure.claims import ClaimResult
from harness.measure.declared import Metric, Table, check_metrics, check_tables
from harness.measure.dimensions import GROUP, matches_texts, places
from harness.measure.loading import load_module, place_of
from harness.measure.rows import METRIC_COLUMNS, NO_VALUE, PROBLEMS, MetricRows, problem_of
from harness.measure.trials import TRIALS, trial_table, trials_declared, without_disturbed
from harness.measure.views import PROFILE_COLUMNS, TIMELINE_COLUMNS
from harness.trial.model import TrialRecord
from harness.yamlfile import line_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What hooks may ask for by the names of their parameters.
HOOKS: dict[str, frozenset[str]] = {
    "tables": frozenset({"trials"}),
    "metrics": frozenset({"tables"}),
    **dict.fromkeys(("figures", "documents", "profiles", "timeline"), frozenset({"tables", "metrics"})),
    **dict.fromkeys(("summary", "paper"), frozenset({"tables", "metrics", "claims"})),
    "predict": frozenset({"document", "script"}),
    "predictions": frozenset({"trials"}),
}
#: Of a table, a figure or a document: a name that leads out of no folder and hides nothing.
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Tables that every set has, beside those that the experiment declares.
STANDARD = (TRIALS, PROBLEMS)


class Analysis:
    """The pure functions of one analysis.py; what they raise or return wrongly is reported with its file and line.

    `declared_tables` and `declared_metrics` are what its TABLES and METRICS declare, the standard tables included.
    `follow` is told what is executed: a hook, and of `tables()` the trial that it has come to.
    """

    def __init__(self, folder: Path, follow: Callable[[str], object] = lambda _: None) -> None:
        self.path = folder / "analysis.py"
        self._follow = follow
        self._hook_name, self._trial = "", ""
        follow("import")
        self._module = load_module(self.path)
        self.declared_tables = (*self._declarations("TABLES", Table), *STANDARD)
        self.declared_metrics = self._declarations("METRICS", Metric)
        self._located(lambda: check_tables(self.declared_tables))
        self._located(lambda: check_metrics(self.declared_metrics))
        for name in HOOKS:
            if hasattr(self._module, name):
                self._parameters(name)

    def check(self, experiment: Experiment, folder: Path) -> None:
        """UsageError with file and line for each claim that asks for a metric that is not declared."""
        known = {metric.name: metric for metric in self.declared_metrics}
        errors = []
        for index, claim in enumerate(experiment.claims):
            if claim.metric_name is None:
                continue
            head, dot, _ = claim.metric_name.partition(".")
            metric = known.get(head)
            if metric is None or (dot and metric.of is None):
                names = ", ".join(f"{one.name}[.{one.of.upper()}]" if one.of else one.name for one in known.values())
                errors.append(
                    UsageError(
                        f"claim {claim.id}: metric {claim.metric_name} is not declared (known: {names})",
                        where=line_of(folder / "experiment.yaml", ("claims", index, "metric")),
                        hint=f"METRICS of {self.path.name}",
                    )
                )
        raise_all(errors)

    def tables(self, trials: Sequence[TrialRecord]) -> dict[str, pd.DataFrame]:
        """Decoded tables by name, from the trials' raw files: those declared, typed, with `trials` and `problems`."""
        made = self._frames("tables", trials=_Followed(trials, self._reached))
        for name in made:
            self._file_name("tables", name)
        declared = {table.name: table for table in self.declared_tables}
        for name in made:
            if name not in declared:
                raise UsageError(f"tables(): {name} is not in TABLES", where=str(self.path))
        made[TRIALS.name] = trial_table(trials)
        return {table.name: self._typed(table, made.get(table.name)) for table in self.tables_of(trials)}

    def tables_of(self, trials: Sequence[TrialRecord]) -> tuple[Table, ...]:
        """`declared_tables` as they are for these trials: that of the trials has the columns of their dimensions."""
        return tuple(trials_declared(trials) if table is TRIALS else table for table in self.declared_tables)

    def metrics(self, tables: dict[str, pd.DataFrame], claims: Sequence[Claim] = ()) -> pd.DataFrame:
        """Long-form metrics with METRIC_COLUMNS, of declared families; an absent value is NaN with its reason.

        A claim's metric that a trial of its arm gives no value for is absent with the trial's problem as the reason.
        What depends on timing is left out where the host kept the guest waiting (`without_disturbed`).
        """
        frame = self._call("metrics", tables=tables)
        if not isinstance(frame, pd.DataFrame) or not set(METRIC_COLUMNS) - {"unit"} <= set(frame.columns):
            raise UsageError(f"metrics() must return a table with {', '.join(METRIC_COLUMNS)}", where=str(self.path))
        if not frame.columns.is_unique:
            raise UsageError("metrics() gives a column twice", where=str(self.path))
        rows = MetricRows(self.declared_metrics, tables[PROBLEMS.name])
        for row in frame.to_dict("records"):
            self._located(functools.partial(_put, rows, row))
        frame = rows.frame()
        twice = frame.duplicated(["arm", "trial", "metric"])
        if twice.any():
            arm, trial, name = frame.loc[twice, ["arm", "trial", "metric"]].iloc[0]
            raise UsageError(f"metrics(): {name} of {arm} {trial} is given twice", where=str(self.path))
        frame = _complete(frame, claims, tables, rows)
        return without_disturbed(frame, self.declared_metrics, tables[TRIALS.name])

    def documents(self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, str]:
        """JSON text by name, as it is written; none when the analysis makes none. NaN is refused: JSON has none."""
        if not hasattr(self._module, "documents"):
            return {}
        made = self._call("documents", tables=tables, metrics=metrics)
        if not isinstance(made, dict):
            raise UsageError("documents() must return a dict by names of files", where=str(self.path))
        for name in made:
            self._file_name("documents", name)
        return {name: self._json("documents", value) for name, value in made.items()}

    def figures(self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, Figure]:
        """Figures by name; none when the analysis draws none."""
        from matplotlib.figure import Figure  # noqa: PLC0415  (who only judges draws nothing)

        if not hasattr(self._module, "figures"):
            return {}
        made = self._call("figures", tables=tables, metrics=metrics)
        if not isinstance(made, Mapping) or not all(isinstance(figure, Figure) for figure in made.values()):
            raise UsageError("figures() must return a dict of matplotlib figures", where=str(self.path))
        for name in made:
            self._file_name("figures", name)
        return dict(made)

    def summary(
        self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame, claims: Sequence[ClaimResult]
    ) -> dict[str, pd.DataFrame]:
        """Small tables for terminal and report, by title; none when the analysis has none."""
        return self._optional_frames("summary", tables=tables, metrics=metrics, claims=claims)

    def paper(
        self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame, claims: Sequence[ClaimResult]
    ) -> dict[str, pd.DataFrame]:
        """The paper's own tables with ours beside them, row by row, by title; none when the analysis has none."""
        return self._optional_frames("paper", tables=tables, metrics=metrics, claims=claims)

    def profiles(self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> pd.DataFrame | None:
        """Weighted stacks with PROFILE_COLUMNS; None when the analysis has no such hook."""
        return self._hook("profiles", PROFILE_COLUMNS, tables=tables, metrics=metrics)

    def timeline(self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> pd.DataFrame | None:
        """What happened when, with TIMELINE_COLUMNS; None when the analysis has no such hook."""
        return self._hook("timeline", TIMELINE_COLUMNS, tables=tables, metrics=metrics)

    def views(self, tables: dict[str, pd.DataFrame], metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
        """What it has for other tools: PROFILES and TIMELINE by their names, as far as it has these hooks."""
        made = {"profiles": self.profiles(tables, metrics), "timeline": self.timeline(tables, metrics)}
        return {name: frame for name, frame in made.items() if frame is not None}

    def predict(self, document: Mapping[str, Any], script: Path) -> tuple[dict[str, pd.DataFrame], list[str]]:
        """Tables by title and lines, of a script by one of the analysis' documents; UsageError without such a hook."""
        made = self._call("predict", document=document, script=script)
        if not isinstance(made, tuple) or len(made) != 2:
            raise UsageError("predict() must return tables by title, and lines", where=str(self.path))
        tables, lines = made
        return dict(tables), [str(line) for line in lines]

    def predictions(self, trials: Sequence[TrialRecord]) -> str:
        """JSON text: what comes of trials that are predicted by these, as it is written before they begin."""
        made = self._call("predictions", trials=_Followed(trials, self._reached))
        return self._json("predictions", made)

    def _json(self, hook: str, value: object) -> str:
        """As it is written. NaN is refused: JSON has none."""
        try:
            return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"{hook}(): a value is no JSON: {error}", where=str(self.path)) from error

    def _file_name(self, hook: str, name: object) -> None:
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
            what = f"must return a dict by names of files: {name!r} is none (letters, digits, dots, dashes and _)"
            raise UsageError(f"{hook}() {what}", where=str(self.path))

    def _typed(self, table: Table, frame: pd.DataFrame | None) -> pd.DataFrame:
        made: pd.DataFrame = self._located(lambda: table.empty() if frame is None else table.typed(frame))
        return made

    def _declarations(self, name: str, kind: type[Any]) -> tuple[Any, ...]:
        hint = "docs/writing-an-experiment.md"
        if not hasattr(self._module, name):
            raise UsageError(f"declares no {name}", where=str(self.path), hint=hint)
        given = getattr(self._module, name)
        if not isinstance(given, tuple | list) or not all(isinstance(one, kind) for one in given):
            raise UsageError(f"{name} must be a list of {kind.__name__}", where=str(self.path), hint=hint)
        return tuple(given)

    def _located(self, action: Callable[[], Any]) -> Any:
        """An error without a place gets that of the analysis."""
        try:
            return action()
        except KreproError as error:
            if error.where is not None:
                raise
            raise type(error)(error.message, where=str(self.path), hint=error.hint) from error

    def _parameters(self, name: str) -> list[str]:
        function = getattr(self._module, name)
        wanted = list(inspect.signature(function).parameters)
        for parameter in wanted:
            if parameter not in HOOKS[name]:
                known = ", ".join(sorted(HOOKS[name]))
                raise UsageError(f"{name}() asks for {parameter} (known: {known})", where=str(self.path))
        return wanted

    def _hook(self, name: str, columns: Mapping[str, str], **available: Any) -> pd.DataFrame | None:
        if not hasattr(self._module, name):
            return None
        frame = self._call(name, **available)
        if not isinstance(frame, pd.DataFrame) or not set(columns) <= set(frame.columns):
            raise UsageError(f"{name}() must return a table with {', '.join(columns)}", where=str(self.path))
        try:
            return frame.loc[:, list(columns)].astype(dict(columns)).reset_index(drop=True)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}(): a column has a wrong type: {error}", where=str(self.path)) from error

    def _optional_frames(self, name: str, **available: Any) -> dict[str, pd.DataFrame]:
        return self._frames(name, **available) if hasattr(self._module, name) else {}

    def _frames(self, name: str, **available: Any) -> dict[str, pd.DataFrame]:
        frames = self._call(name, **available)
        if not isinstance(frames, dict) or not all(isinstance(frame, pd.DataFrame) for frame in frames.values()):
            raise UsageError(f"{name}() must return a dict of tables", where=str(self.path))
        return dict(frames)

    def _call(self, name: str, **available: Any) -> Any:
        """The hook with those of `available` that its parameters name."""
        function: Callable[..., Any] | None = getattr(self._module, name, None)
        if function is None:
            raise UsageError(f"has no function {name}", where=str(self.path), hint="docs/writing-an-experiment.md")
        arguments = {parameter: available[parameter] for parameter in self._parameters(name)}
        self._hook_name = name
        self._reached("")
        try:
            return function(**arguments)
        except KreproError:
            raise
        except BaseException as error:
            trial = f" ({self._trial})" if self._trial else ""
            raise RunError(
                f"{name}() failed: {type(error).__name__}: {error}{trial}", where=place_of(error, self.path)
            ) from error

    def _reached(self, trial: str) -> None:
        self._trial = trial
        self._follow(f"{self._hook_name}(){trial and f', {trial}'}")


@contextmanager
def contained(path: Path, what: str) -> Iterator[None]:
    """Whatever goes wrong with what the analysis at `path` made is its mistake: RunError with its file and line.

    Only an error of the host passes (`usable` tells it): no space, or a folder that cannot be written.
    """
    try:
        yield
    except KreproError as error:
        if error.where is not None:
            raise
        raise type(error)(error.message, where=str(path), hint=error.hint) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and error.errno in HOSTS_ERRORS:
            raise
        text = " ".join(str(error).split())
        raise RunError(f"{what} failed: {type(error).__name__}: {text}", where=place_of(error, path)) from error


class _Followed(list[TrialRecord]):
    """Trials that tell which of them an analysis has come to."""

    def __init__(self, trials: Sequence[TrialRecord], reached: Callable[[str], object]) -> None:
        super().__init__(trials)
        self._reached = reached

    def __iter__(self) -> Iterator[TrialRecord]:
        for trial in super().__iter__():
            self._reached(f"trial {trial.arm} {trial.repetition}")
            yield trial
        self._reached("")


def _put(rows: MetricRows, row: Mapping[Any, Any]) -> None:
    unit, reason, value = row.get("unit"), row["reason"], row["value"]
    try:
        trial, number = int(row["trial"]), None if pd.isna(value) else float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"metrics(): {row['metric']} of {row['arm']}: {error}") from error
    rows.put(
        str(row["arm"]),
        trial,
        str(row["metric"]),
        number,
        unit=unit if isinstance(unit, str) else None,
        reason=reason if isinstance(reason, str) else None,
    )


def _complete(
    frame: pd.DataFrame, claims: Sequence[Claim], tables: Mapping[str, pd.DataFrame], rows: MetricRows
) -> pd.DataFrame:
    """`frame` with an absent row for each metric of a claim that a trial of its arm gives no value for."""
    given = set(zip(frame["arm"], frame["trial"], frame["metric"], strict=True))
    trials = [(str(arm), int(trial)) for arm, trial in tables[TRIALS.name][["arm", "trial"]].itertuples(index=False)]
    units = dict(zip(frame["metric"], frame["unit"], strict=True))
    placed = places(tables[TRIALS.name])
    for claim in claims:
        name = claim.metric_name
        if name is None:
            continue
        for arm, trial in trials:
            if (arm, trial, name) not in given and _is_about(claim, arm, placed.get(arm)):
                given.add((arm, trial, name))
                reason = problem_of(tables[PROBLEMS.name], arm, trial) or NO_VALUE
                unit = units.get(name) or rows.first_unit(name)
                rows.put(arm, trial, name, None, unit=unit, reason=reason)
    return rows.frame()


def _is_about(claim: Claim, arm: str, place: Mapping[str, Value] | None) -> bool:
    """Whether a claim needs this arm's metric: it names the arm, or compares arms of the matrix that it is of."""
    if claim.across is None or place is None or place[GROUP.name] != claim.arm:
        return claim.across is None and arm == claim.arm
    return matches_texts(claim.across.where, place)
