"""What every task shares: packages, signals, one-line errors, exit codes."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from invoke import Exit
from rich.console import Console

from harness import debian
from harness.errors import EXIT_RUN_FAILED, KreproError, UsageError

#: Results go to standard output; wide enough for side-by-side tables when it is no terminal.
PIPE_WIDTH = 200
EXIT_INTERRUPTED = 130


def output() -> Console:
    """The console for results."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=int(os.environ.get("COLUMNS", PIPE_WIDTH)))


def value_of(name: str, text: str) -> str:
    """The value in `NAME=value` or plain `value`; UsageError when another name is given or nothing."""
    key, separator, value = text.partition("=")
    if separator and key != name and "/" not in key:
        raise UsageError(f"{text!r}: expected {name}=… or just its value")
    chosen = value if separator and key == name else text
    if not chosen:
        raise UsageError(f"{name}= needs a value")
    return chosen


def guarded(action: Callable[[], int | None], *, debug: bool = False, guests: bool = False) -> None:
    """Run a task's action; turn expected errors into one line and their exit code, and SIGTERM into an orderly end.

    `guests`: install missing Debian packages first (or say how to). `debug`: let tracebacks through.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        if guests:
            debian.ensure_guest_packages()
        code = action()
    except KreproError as error:
        if debug:
            raise
        print(f"krepro: {' '.join(str(error).split())}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("krepro: interrupted; guests are ended and nothing half-written is left", file=sys.stderr)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (head, less): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if debug:
            raise
        # Python's own exit code for this is 1, which here says that a claim is contradicted.
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"krepro: unexpected {type(error).__name__}: {' '.join(str(error).split())} "
            f"(a bug of krepro at {Path(place.filename).name}:{place.lineno}; --debug shows the traceback)",
            file=sys.stderr,
        )
        code = EXIT_RUN_FAILED
    if code:
        raise Exit(code=code)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
