# SPDX-License-Identifier: MIT
"""An analysis in a process of its own, in the sandbox: however that ends, this one goes on, and takes data from it."""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from harness.analysis.handed import MOST_PRINTED, MOST_WIDTH, Printed, Refused, Taken, error_of
from harness.choices import FigureFormat
from harness.errors import KreproError, RunError
from harness.experiment.claim import Claim
from harness.experiment.model import Experiment
from harness.machine.sandbox import Sandbox, sandbox_of_analyses
from harness.machine.spec import PREDICTIONS
from harness.measure.analysis import FILE_NAME
from harness.measure.claims import ClaimResult
from harness.measure.views import VIEWS
from harness.paths import CODE
from harness.progress import note
from harness.scratch import discard, scratch_folder, scratch_space
from harness.sets.resultset import DOCUMENTS, FIGURES, METRICS, Writer, shown_in, view_file
from harness.sets.shown import SHOWN, Shown
from harness.trial.model import TrialRecord

log = logging.getLogger(__name__)

#: Of one request, whatever it is.
MOST_S = 3600.0
#: What it may take to be gone when it has closed what it answers by.
END_S = 5.0
#: What bubblewrap makes of a process that a signal ended.
SIGNALLED = 128
NAME = FILE_NAME.pattern
MEASURED = re.compile(rf"tables/{NAME}\.parquet|{re.escape(METRICS)}")
SHOWING = re.compile(
    "|".join(
        [
            rf"{DOCUMENTS}/{NAME}\.json|{FIGURES}/{NAME}\.svg|{re.escape(SHOWN)}",
            *(re.escape(view_file(view.name)) for view in VIEWS),
        ]
    )
)


class Contained:
    """The analysis of an experiment's folder, which reads what is `readable` too; it starts with the first request.

    `strange`: it is a stranger's, and what it prints is not shown. `shut`: what it is shut in, the best that this host
    has where it is None. RunError, with the hook and the trial that it had come to, when its process ends.
    """

    def __init__(self, folder: Path, *readable: Path, strange: bool = False, shut: Sandbox | None = None) -> None:
        self.path = folder.absolute() / "analysis.py"
        #: A set whose metrics' declarations are to be as they were.
        self.like: Path | None = None
        self._readable = [folder.absolute(), *(path.absolute() for path in readable)]
        self._strange = strange
        self._shut = shut or sandbox_of_analyses()
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: Path | None = None
        self._answers: IO[bytes] | None = None
        self._at = ""
        self._printed = Printed(None if strange else note)

    def __enter__(self) -> Contained:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    # -- requests ----------------------------------------------------------------------------------------------

    def check(self, experiment: Experiment) -> None:
        """UsageError with file and line for what is wrong in its declarations, or asked of them by a claim."""
        self._ask("check", experiment=experiment.model_dump(mode="json"))

    def measure(self, good: Sequence[TrialRecord], claims: Sequence[Claim], writer: Writer) -> None:
        """As in `Hooks`."""
        trials, asked = _data(good), _data(claims)
        told = str(self.like.absolute()) if self.like is not None else None
        self._ask("measure", Taken(writer.path, MEASURED), trials=trials, claims=asked, like=told)

    def show(self, claims: Sequence[ClaimResult], writer: Writer) -> list[KreproError]:
        """As in `Hooks`."""
        try:
            failures = self._ask("show", Taken(writer.path, SHOWING), claims=_data(claims))
            return [error_of(failure) for failure in failures]
        except (TypeError, ValueError, KeyError, AttributeError):
            return [self._no_answer()]
        except KreproError as error:
            return [error]

    def redraw(self, root: Path, form: FigureFormat, target: Path) -> list[str]:
        """The figures of the set at `root`, in files of that form in `target`; their paths."""
        taken = Taken(target, re.compile(rf"{NAME}\.{form}"))
        self._ask("redraw", taken, root=str(root.absolute()), form=form)
        return sorted(map(str, taken.files))

    def predictions(self, trials: Sequence[TrialRecord]) -> str:
        """JSON text of the hook `predictions`."""
        with scratch_space("predictions") as scratch:
            self._ask("predictions", Taken(scratch, re.compile(re.escape(PREDICTIONS))), trials=_data(trials))
            return (scratch / PREDICTIONS).read_text(encoding="utf-8")

    def predict(self, document: dict[str, Any], script: Path) -> tuple[Shown, list[str]]:
        """Tables, in `summary`, and lines of the hook `predict`."""
        with scratch_space("predict") as scratch:
            taken = Taken(scratch, re.compile(re.escape(SHOWN)))
            lines = self._ask("predict", taken, document=document, script=str(script.absolute()))
            if not isinstance(lines, list):
                raise self._no_answer()
            return shown_in(scratch), [str(line) for line in lines]

    # -- the process -------------------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        scratch = self._scratch = scratch_folder(Path(tempfile.gettempdir()), "inside")
        reader, writer = os.pipe()
        words = self._shut.words_of_analysis(self._readable, scratch, _fonts())
        wishes = self._shut.wishes_of_analysis(self._readable, scratch)
        command = [*words, sys.executable, "-m", "harness.analysis.inside", wishes, str(writer)]
        try:
            process = subprocess.Popen(
                [*command, str(self.path.parent)],
                cwd=CODE,
                env=self._shut.environment_of_analysis(scratch),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[writer],
                start_new_session=True,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._answers = os.fdopen(reader, "rb")
        self._process = process
        self._at = "its process"
        log.debug("the analysis of %s is process %d: %s", self.path.parent, process.pid, shlex.join(command))
        return process

    def _ask(self, do: str, taken: Taken | None = None, **request: Any) -> Any:
        """What the request gives; its files are `taken`."""
        process = self._process or self._start()
        taken = taken or Taken(Path(), re.compile("(?!)"))
        try:
            line = json.dumps({"do": do, **request}).encode() + b"\n"
            answer = self._exchange(process, line, taken)
            if not isinstance(answer, dict):
                raise self._no_answer()
            if answer.get("error") is not None:
                raise error_of(answer["error"])
            return answer.get("end")
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as broken:
            raise self._no_answer() from broken
        except BaseException as error:
            if not isinstance(error, KreproError):
                self._end()
            raise
        finally:
            taken.close()

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes, taken: Taken) -> Any:
        """Send the request, and take what comes until its end."""
        assert process.stdin is not None
        assert process.stdout is not None
        assert self._answers is not None
        left = memoryview(line)
        ending = time.monotonic() + MOST_S
        with selectors.DefaultSelector() as ready:
            os.set_blocking(process.stdin.fileno(), False)
            ready.register(process.stdin, selectors.EVENT_WRITE)
            ready.register(process.stdout, selectors.EVENT_READ)
            ready.register(self._answers, selectors.EVENT_READ)
            while (patience := ending - time.monotonic()) > 0:
                found = [key.fileobj for key, _ in ready.select(patience)]
                if process.stdin in found:
                    left = _sent(process.stdin, left)
                    if not left:
                        ready.unregister(process.stdin)
                if process.stdout in found and not self._listen(process.stdout):
                    ready.unregister(process.stdout)
                if self._answers in found:
                    answer = self._answer(self._answers, taken)
                    if answer is not None:
                        return answer
        raise self._killed(f"did not end within {MOST_S:.0f} s")

    def _listen(self, stream: IO[bytes]) -> bool:
        """Take what it prints; whether there is more of it."""
        data = os.read(stream.fileno(), 1 << 16)
        if not self._printed.take(data):
            raise self._killed(f"printed more than {MOST_PRINTED >> 20} MiB")
        return bool(data)

    def _answer(self, stream: IO[bytes], taken: Taken) -> Any:
        """Take what it answers; the end of the request, if that has come."""
        data = os.read(stream.fileno(), 1 << 20)
        if not data:
            raise self._ended()
        try:
            return self._told(taken.take(data))
        except Refused as refused:
            raise self._killed(str(refused)) from None

    def _told(self, lines: Sequence[Any]) -> Any:
        """Where it is, is kept; the end of the request is given."""
        for told in lines:
            if not isinstance(told, dict):
                raise Refused("gave an answer that is none")
            if "at" in told:
                self._at = str(told["at"])[:MOST_WIDTH]
            if "end" in told:
                return told
        return None

    def _ended(self) -> RunError:
        """Why there is no more of it."""
        process, at = self._process, self._at
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        status = process.poll()
        if status is None:
            how = "closed what it answers by"
        else:
            if self._shut.program and status > SIGNALLED:
                status = SIGNALLED - status
            how = f"ended its process with status {status}"
            if status < 0:
                how = f"was ended by {_signal_name(-status)}"
                how += ", as by a kernel that has no memory left" if -status == signal.SIGKILL else ""
        with suppress(OSError):
            while process.stdout is not None and status is not None and self._listen(process.stdout):
                pass
        self._end()
        last = self._printed.last
        return RunError(f"{at} {how}{f': {last}' if last else ''}", where=str(self.path))

    def _killed(self, why: str) -> RunError:
        self._end()
        return RunError(f"{self._at} {why}", where=str(self.path))

    def _no_answer(self) -> RunError:
        return self._killed("gave an answer that is none")

    def _end(self) -> None:
        """End its process: what nothing more is asked of has nothing more to do."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                process.stdin.close() if process.stdin else None
            process.kill()
            process.wait()
            process.stdout.close() if process.stdout else None
        if self._answers is not None:
            self._answers.close()
            self._answers = None
        if self._scratch is not None:
            discard(self._scratch)
            self._scratch = None


def _sent(stream: IO[bytes], data: memoryview) -> memoryview:
    """What is left to send; nothing where nobody reads it any more."""
    try:
        return data[os.write(stream.fileno(), data[: 1 << 16]) :]
    except BrokenPipeError:
        return data[:0]


def _data(models: Sequence[TrialRecord] | Sequence[Claim] | Sequence[ClaimResult]) -> list[Any]:
    return [model.model_dump(mode="json") for model in models]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fonts() -> Path | None:
    """matplotlib's list of this host's fonts, where it has one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return max((cache / "matplotlib").glob("fontlist-*.json"), default=None)
