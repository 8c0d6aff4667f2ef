# SPDX-License-Identifier: MIT
"""A program of its own: an analysis, executed in a process that has shut itself in and does nothing else.

    python -m harness.analysis.inside WISHES DESCRIPTOR FOLDER

reads requests from standard input, a line of JSON each, and writes what they gave to the descriptor: data, which
`harness.analysis.contained` reads and does not trust.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.machine.sandbox import shut_in

#: Characters of a traceback, the last ones.
MOST_TRACE = 20_000


class _Answers:
    """What leaves the process: lines of JSON, and after that of a file its bytes."""

    def __init__(self, stream: IO[bytes], folder: Path) -> None:
        self._stream = stream
        self._folder = folder
        self._sent: set[Path] = set()

    def say(self, **told: Any) -> None:
        self._stream.write(json.dumps(told).encode() + b"\n")
        self._stream.flush()

    def begin(self) -> None:
        """What was made before is gone."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        self._sent.clear()

    def files(self) -> None:
        """Those in the folder that were not sent before."""
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            if path in self._sent:
                continue
            self._sent.add(path)
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                self.say(file=path.relative_to(self._folder).as_posix(), size=size)
                while block := file.read(1 << 20):
                    self._stream.write(block)
            self._stream.flush()


class _Task:
    """One analysis, and what was asked of it."""

    def __init__(self, folder: Path, out: Path, answers: _Answers) -> None:
        from harness.analysis.here import Here
        from harness.measure.analysis import Analysis
        from harness.sets.resultset import Writer

        self.folder = folder
        self.analysis = Analysis(folder, lambda place: answers.say(at=place))
        self.hooks = Here(self.analysis, answers.files)
        self.writer = Writer(out, out)
        self.answers = answers

    def check(self, experiment: Any) -> None:
        from harness.experiment.model import Experiment

        self.analysis.check(Experiment.model_validate(experiment), self.folder)

    def measure(self, trials: list[Any], claims: list[Any], like: str | None) -> None:
        """`like`: the set whose metrics' declarations are to be as they were."""
        from harness.experiment.claim import Claim
        from harness.measure.declared import as_stored
        from harness.sets.resultset import ResultSet
        from harness.trial.model import TrialRecord

        self.answers.begin()
        if like is not None:
            stored = ResultSet(Path(like)).declared_metrics
            self.analysis.declared_metrics = as_stored(self.analysis.declared_metrics, stored)
        good = [TrialRecord.model_validate(trial) for trial in trials]
        self.hooks.measure(good, [Claim.model_validate(claim) for claim in claims], self.writer)

    def show(self, claims: list[Any]) -> list[Any]:
        from harness.measure.claims import ClaimResult

        results = [ClaimResult.model_validate(claim) for claim in claims]
        return [as_data(error) for error in self.hooks.show(results, self.writer)]

    def redraw(self, root: str, form: Any) -> None:
        from harness.measure.analysis import contained
        from harness.report.figures import figure_style, write_figures
        from harness.sets.resultset import read_metrics, read_tables

        self.answers.begin()
        tables, metrics = read_tables(Path(root)), read_metrics(Path(root))
        with contained(self.analysis.path, "figures()"), figure_style():
            write_figures(self.analysis.figures(tables, metrics), self.writer.path, form)
        self.answers.files()

    def predictions(self, trials: list[Any]) -> None:
        from harness.machine.spec import PREDICTIONS
        from harness.trial.model import TrialRecord

        self.answers.begin()
        text = self.analysis.predictions([TrialRecord.model_validate(trial) for trial in trials])
        (self.writer.path / PREDICTIONS).write_text(text, encoding="utf-8")
        self.answers.files()

    def predict(self, document: dict[str, Any], script: str) -> list[str]:
        from harness.measure.analysis import contained
        from harness.sets.shown import Shown

        tables, lines = self.analysis.predict(document, Path(script))
        with contained(self.analysis.path, "predict()"):
            self.writer.write_shown(Shown.of({}, tables))
        self.answers.files()
        return lines


def as_data(error: BaseException) -> dict[str, Any]:
    """An error in JSON, with its traceback."""
    from harness.errors import KreproError, RunError

    if isinstance(error, OSError):
        known: KreproError = RunError(f"the analysis meets: {error.strerror}", where=error.filename)
    else:
        text = " ".join(str(error).split())
        known = error if isinstance(error, KreproError) else RunError(f"{type(error).__name__}: {text}")
    told = {"message": str(known.message), "hint": known.hint, "where": known.where and str(known.where)}
    also = [as_data(one) for one in known.also]
    trace = "".join(traceback.format_exception(error))[-MOST_TRACE:]
    return {**told, "usage": known.exit_code == 2, "also": also, "trace": trace}


def main() -> None:
    """Shut this process in, load the analysis, and answer requests until there are none."""
    wishes, descriptor, folder = sys.argv[1:]
    shut_in(wishes)
    sys.argv = ["analysis"]
    # What it prints goes where errors go; what it reads is empty.
    requests = os.fdopen(os.dup(0), "rb")
    os.set_inheritable(requests.fileno(), False)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    out = Path(tempfile.mkdtemp())
    answers = _Answers(os.fdopen(int(descriptor), "wb"), out)
    task: _Task | None = None
    for line in requests:
        request = json.loads(line)
        gave: Any = None
        error: dict[str, Any] | None = None
        try:
            task = task or _Task(Path(folder), out, answers)
            do: Callable[..., Any] = getattr(task, request.pop("do"))
            gave = do(**request)
        except BaseException as raised:  # nobody sends it a signal: whatever comes is the analysis'
            error = as_data(raised)
        sys.stdout.flush()
        sys.stderr.flush()
        answers.say(end=gave, error=error)


if __name__ == "__main__":
    main()
