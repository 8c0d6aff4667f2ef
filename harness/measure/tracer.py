# SPDX-License-Identifier: MIT
"""Tracers: what an experiment has for programs that users bring, in a file tracer.py beside its analysis.

    TRACER = Tracer(kernel="modern-6.1", command='my-tracer "$@"', params={"window": 1})

    def traced(program: Traced, out: Path) -> list[str]: ...

`traced` writes its report, REPORT in the folder `out`, and returns lines for the terminal; NOT_WHOLE beside it says
that a part is missing. A tracer with a parameter
`watch`, in seconds, has another function for `locks --verbose`:

    def watched(part: str, before: str | None) -> list[str]: ...

Its guest writes parts to the stream, each with an empty line behind it; the lines are for the terminal, about a part
and the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from harness.choices import OracleMode
from harness.errors import KreproError, RunError, UsageError
from harness.experiment.scalar import Scalar
from harness.machine.spec import Device
from harness.measure.loading import load_module
from harness.measure.raw import read_lines

FILE = "tracer.py"
#: What `traced` writes, in its folder.
REPORT = "report.html"
#: A file that `traced` writes besides when a part of the program was not traced: the command ends with exit code 3.
NOT_WHOLE = "not-whole"
#: Lines of /proc/kallsyms about modules, in `Traced.left`, as they were when a user's own modules had been loaded.
LOADED = "modules.loaded"
_EXIT = re.compile(r"sched_process_exit: comm=(.*) pid=(\d+) prio=")

Traces = Literal["pages", "locks", "functions", "counters"]


@dataclass(frozen=True)
class Tracer:
    """How a program is traced: on which kernel, with which devices, by which command.

    `command` is shell text in the guest, for a shell without other programs than those of its PATH and its own words;
    "$@" is the program with its arguments. The word until_timeout stands before what traces it: that gets SIGTERM when
    the program's time is over, and passes it on. What it is to leave goes into the folder $KREPRO_OUT. It fails when
    the tracing does, not when the program does. `params`: what a user may choose, with its default; KREPRO_ variables.
    `traces` is what the user's command is about. With more than one of `cpus` the guest has the host's clock, and
    `several` are kernel parameters. `layouts`: a folder beside tracer.py with a kernel module that is not loaded; its
    debug information tells the report what the kernel's structs are made of. `oracle`: what QEMU's plugin counts
    meanwhile (docs/oracle.md). `any_arch`: whether it runs on kernels of another architecture than `kernel`. `modules`:
    whether it needs those of the experiment, or does without on a kernel that none can be built for.
    """

    kernel: str
    command: str
    params: Mapping[str, Scalar] = field(default_factory=dict)
    devices: Sequence[Device] = ()
    traces: Traces = "pages"
    cpus: int = 1
    several: Mapping[str, Scalar | bool] = field(default_factory=dict)
    layouts: str = ""
    oracle: Sequence[OracleMode] = ()
    any_arch: bool = False
    modules: Literal["needed", "where they can be built"] = "needed"


@dataclass(frozen=True)
class Traced:
    """What a traced program left: `raw` is what came out of the guest, `left` of it what lay in $KREPRO_OUT.

    `root` has the program's files, each where it was in the guest; `words` are the program and its arguments, `folder`
    the one that it began in. `system_map` is the kernel's, and `layouts` the module of the tracer's layouts,
    None where the tracer has none; `debug` is its vmlinux with debug information, where the user wants lines of source.
    `chosen`: what the user chose for the report. `ended_s`: after so many seconds of the guest the program was ended;
    None when it ended by itself. `beside`: another run of it, to compare with. `time_line`: whether the user wants
    TIME_LINE of harness.measure.traceevents beside REPORT; it may be there anyway.
    """

    raw: Path
    left: Path
    root: Path
    words: tuple[str, ...]
    folder: str
    system_map: Path
    chosen: Mapping[str, Sequence[str]] = field(default_factory=dict)
    layouts: Path | None = None
    debug: Path | None = None
    ended_s: int | None = None
    beside: Traced | None = None
    time_line: bool = False

    @property
    def warnings(self) -> list[str]:
        """What the report says first, whatever it is about."""
        if self.ended_s is None:
            return []
        return [f"The program was ended after {self.ended_s} s (--timeout): this is what it did until then."]


def names_of_threads(exits: Path, alive: Path) -> dict[int, str]:
    """Names of threads by number: of those that ended, as the kernel's trace point tells, and of those that were there
    at the end, a line `number name` each.
    """
    ended = [match for line in read_lines(exits) if (match := _EXIT.search(line))]
    names = {int(match[2]): match[1] for match in ended}
    for line in read_lines(alive):
        number, _, name = line.partition(" ")
        if number.isdecimal():
            names.setdefault(int(number), name)
    return names


class TracerFile:
    """An experiment's tracer.py, loaded; UsageError when it has no TRACER or no traced()."""

    def __init__(self, experiment: Path) -> None:
        self.path = experiment / FILE
        if not self.path.is_file():
            raise UsageError("has no tracer.py: it traces no programs of others", where=str(experiment))
        self._module: ModuleType = load_module(self.path)
        tracer = getattr(self._module, "TRACER", None)
        if not isinstance(tracer, Tracer) or not callable(getattr(self._module, "traced", None)):
            raise UsageError("must have TRACER, a Tracer, and a function traced", where=str(self.path))
        self.tracer = tracer

    def chosen(self, given: Mapping[str, Scalar | None]) -> dict[str, Scalar]:
        """The tracer's parameters, with those given in place of their defaults; UsageError for one that it has not."""
        params = dict(self.tracer.params)
        for name, value in given.items():
            if value is None:
                continue
            if name not in params:
                raise UsageError(f"--{name}: this tracer has no such option", where=str(self.path))
            params[name] = value
        return params

    def traced(self, program: Traced, out: Path) -> list[str]:
        """Write the report; RunError for whatever goes wrong in there."""
        function: Any = self._module.traced
        try:
            return [str(line) for line in function(program, out)]
        except (KreproError, OSError):
            raise
        except Exception as error:
            raise RunError(f"traced() failed: {type(error).__name__}: {error}", where=str(self.path)) from error

    def watched(self, part: str, before: str | None) -> list[str]:
        """Lines about one part of what the guest tells meanwhile; RunError for whatever goes wrong in there."""
        function: Any = self._module.watched
        try:
            return [str(line) for line in function(part, before)]
        except KreproError:
            raise
        except Exception as error:
            raise RunError(f"watched() failed: {type(error).__name__}: {error}", where=str(self.path)) from error


def tracing_experiments(folder: Path, traces: Traces) -> list[str]:
    """Names of the experiments in `folder` that trace this of programs of others."""
    files = sorted(path.parent for path in folder.glob(f"*/{FILE}"))
    return [path.name for path in files if TracerFile(path).tracer.traces == traces]
