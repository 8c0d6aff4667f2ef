# SPDX-License-Identifier: MIT
"""`profile`: every instruction of a user's own program in a guest, by function, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.commands.programs import Executor, ExitCode, ProgramOptions
from harness.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(ProgramOptions):
    """What `profile` takes."""

    kernel: Annotated[
        str | None,
        Option("Debian's own, as `debian:6.1`, one of `images/kernels/`, or a path", path=True, none="`debian:6.12`"),
    ] = None
    against: Annotated[
        str | None,
        Option("compare with this kernel, or with this program, with the same arguments where it has none", path=True),
    ] = None
    repetitions: Annotated[int, Option("with `--against`: runs of each side, each with a seed of its own", least=1)] = 3
    below: Annotated[
        str | None,
        Option("with `--against`: exit code 1 when it costs more per cent than this", none="any cost is well"),
    ] = None
    executor: Executor = None
    with_: Annotated[
        Literal["perf"] | None,
        Option("`perf`: run it once more, sampled as perf record does, and tell how far that is off", none="nothing"),
    ] = None
    verbose: Annotated[
        bool, Option("tell where each function stands in the source, by Debian's debug information (320 to 1200 MB)")
    ] = False
    exit_code: ExitCode = False
    to: Annotated[
        Literal["json", "junit", "perfetto"] | None,
        Option(
            "`json`, or `junit` with `--against`: print it so; `perfetto`: a time line beside the page",
            none="a few lines",
        ),
    ] = None  # type: ignore[assignment]  # it has two forms more

    def check(self) -> None:
        """UsageError for what does not go together."""
        alone = {
            "exit-code": self.exit_code,
            "verbose": self.verbose,
            "with": self.with_,
            "to perfetto": self.to == "perfetto",
        }
        compared = {"below": self.below, "to junit": self.to == "junit", "executor": self.executor}
        for name, given in (alone if self.against is not None else compared).items():
            if given:
                raise UsageError(f"--{name}: {'not with' if self.against is not None else 'needs'} --against")


@command("Your own work", guests=True)
def profile(options: ProfileOptions) -> int:
    """Count a program's instructions in a guest, exactly, by function."""
    from harness.artefacts.store import Store
    from harness.program.comparing import Against, bound, compare_profiles
    from harness.program.tracing import trace_program

    options.check()
    request = options.request(
        "functions",
        kernel=options.kernel,
        executor=options.executor,
        exit_code=options.exit_code,
        lines=options.verbose,
        beside={"sampled": "on"} if options.with_ else None,
    )
    if options.against is None:
        return trace_program(Store.default(), request, terminal.output())
    other = Against(options.against, options.repetitions, bound(options.below))
    return compare_profiles(Store.default(), request, other, terminal.output())
