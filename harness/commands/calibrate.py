# SPDX-License-Identifier: MIT
"""`calibrate`: what the stages of a trace cost on this host, or on a kernel in a guest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.errors import UsageError


@command("Upkeep", guests=True)
def calibrate(
    kind: Annotated[
        Literal["undo"] | None,
        Option(
            "`undo`: take away what a calibration of this host has left that was killed (with bare `invoke` not as a "
            "word)",
            word=True,
            none="measure",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        Option(
            "in a guest, in instructions: Debian's own, as `debian:6.12`, one of `images/kernels/`, or a path",
            path=True,
            none="this host itself, in nanoseconds, as root",
        ),
    ] = None,
    repetitions: Annotated[
        int | None, Option("passes; intervals are their range", least=1, none="2 on this host, 1 in a guest")
    ] = None,
    seed: Annotated[int, Option("decides which scripts are drawn to tell the model's error")] = 1,
    out: Annotated[
        Path | None, Option("file to write", writes="file", none="`model-KERNEL.json`, in this folder")
    ] = None,
) -> int:
    """Measure what tracing costs on this host or kernel, for predict."""
    from harness.program import calibration

    if kind == "undo":
        for name, given in (("kernel", kernel), ("repetitions", repetitions), ("out", out)):
            if given is not None:
                raise UsageError(f"--{name}: not with undo")
        return calibration.undo(terminal.output())
    request = calibration.CalibrationRequest(kernel=kernel, repetitions=repetitions, seed=seed, out=out)
    return calibration.calibrate(request, terminal.output())
