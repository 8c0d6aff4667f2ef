# SPDX-License-Identifier: MIT
"""What every command shares: the console, signals, one-line errors, exit codes.

Standard library only where it is imported: `inv` reads the commands before the virtual environment exists.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from harness.errors import EXIT_RUN_FAILED, KreproError

if TYPE_CHECKING:
    from rich.console import Console

#: Results go to standard output; wide enough for side-by-side tables when it is no terminal.
PIPE_WIDTH = 200
EXIT_INTERRUPTED = 130


def output() -> Console:
    """The console for results."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=int(os.environ.get("COLUMNS", PIPE_WIDTH)))


def guarded(action: Callable[[], int | None], *, debug: bool = False) -> None:
    """Run a command's action; turn expected errors into one line and their exit code, and SIGTERM into an orderly end.

    `debug`: let tracebacks through.
    """
    from invoke import Exit

    signal.signal(signal.SIGTERM, _terminate)
    try:
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
