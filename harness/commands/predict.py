# SPDX-License-Identifier: MIT
"""`predict`: from what an experiment has fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from harness.cli import terminal
from harness.cli.declaration import Option, command
from harness.cli.shared import SET, ResultsFolder, Trust
from harness.commands.programs import Json, Memory, Needs, Timeout
from harness.errors import UsageError
from harness.paths import RESULTS


@command("Look at results", guests=True)
def predict(
    result: Annotated[
        tuple[str, ...],
        Option(
            f"what predicts: {SET}, for its document `model`, or such a document; without it the newest such set. "
            "And what to predict: a script of bpftrace's or D, as a file `F.bt` or `F.d` or its text, a command line "
            "of perf's or trace-cmd's, the folder of tracefs, a BPF object `F.o`, or a YAML file",
            words=True,
            path=True,
        ),
    ],
    exec: Annotated[
        str | None,
        Option(
            "a program and its arguments, as shell text; or the words after `--`: count the script's probes while it "
            "runs in a guest",
            rest=True,
            needs_guests=True,
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        Option("of that guest: Debian's own, one of `images/kernels/`, or a path", path=True, none="the model's"),
    ] = None,
    in_: Needs = None,
    memory: Memory = None,
    timeout: Timeout = 600,
    live: Annotated[
        int | None,
        Option("count the script's probes on this host, as root, for so many seconds", least=1, most=60),
    ] = None,
    set_: Annotated[
        Path | None, Option("a YAML file that says how often probes fire, see [commands.md](commands.md)")
    ] = None,
    below: Annotated[
        str | None,
        Option("per cent of a CPU's time, or of the program's: the cheapest variants of the script that take no more"),
    ] = None,
    to: Json = None,
    results: ResultsFolder = RESULTS,
    trust: Trust = None,
) -> int:
    """Predict from what an experiment has fitted, before it runs."""
    from harness.program import prediction
    from harness.program.prescript import Wanted
    from harness.program.subject import TraceRequest

    if len(result) > 2:
        raise UsageError(f"one script at a time, not {len(result) - 1}", hint="quote a script that is given as text")
    for name, given in (("kernel", kernel), ("in", in_), ("memory", memory)):
        if given is not None and exec is None:
            raise UsageError(f"--{name}: is of a guest", hint="name a program after --")
    if live is not None and exec is not None:
        raise UsageError("--live counts on this host, and -- PROGRAM in a guest", hint="one of them")
    program = None
    if exec is not None:
        program = TraceRequest(
            traces="functions", program=exec, kernel=kernel, needs=in_ or (), memory=memory, timeout=timeout
        )
    by, script = result if len(result) == 2 else (None, result[0])
    wanted = Wanted(live=live, rates=set_, below=below, program=program)
    return prediction.predict_script(results, by, script, terminal.output(), wanted=wanted, to=to, trust=trust)
