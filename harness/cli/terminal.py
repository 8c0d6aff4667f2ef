# SPDX-License-Identifier: MIT
"""What every command shares: the console, signals, one-line errors, exit codes.

Standard library only where it is imported: `inv` reads the commands before the virtual environment exists.
"""

from __future__ import annotations

import logging
import os
import select
import shlex
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import harness
from harness import logs
from harness.errors import EXIT_RUN_FAILED, HOSTS_ERRORS, KreproError
from harness.harmless import harmless
from harness.paths import PROGRAM
from harness.signals import ENDING

if TYPE_CHECKING:
    from rich.console import Console

#: Results go to standard output; wide enough for side-by-side tables when it is no terminal.
PIPE_WIDTH = 200
EXIT_INTERRUPTED = 130
#: What an orderly end may take after one of them; guests and workers die with this process in any case.
END_S = 8.0

log = logging.getLogger(__name__)
_signalled = threading.Event()


def output() -> Console:
    """The console for results; whatever is printed by it steers no terminal."""
    from harness.progress import harmless_console

    return harmless_console(width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", PIPE_WIDTH)))


def print_lines(console: Console, *lines: object) -> None:
    """As they are: names may look like markup, and what is piped is not broken where a terminal ends."""
    for line in lines:
        console.print(str(line), markup=False, soft_wrap=True)


def guarded(action: Callable[[], int | None], *, debug: bool = False) -> None:
    """Run a command's action; turn expected errors into one line and their exit code, and signals into an orderly end.

    `debug`: tell what is done, and let tracebacks through.
    """
    from invoke import Exit

    end_in_order()
    _tell(debug)
    code: int | None = None
    try:
        code = action()
        if asked_to_end():  # and what it did may be its doing
            raise KeyboardInterrupt
        sys.stdout.flush()  # Python would do it at its end, and make 120 of the exit code where it fails
    except KreproError as error:
        if debug:
            raise
        if asked_to_end():  # the error may be its doing
            code = interrupted(error)
        else:
            *lines, last = error.lines
            for line in [*lines, "; ".join([last, *_notes(error)])]:
                _say(line)
            code = error.exit_code
    except KeyboardInterrupt as error:
        code = interrupted(error)
    except Exception as error:
        gone = isinstance(error, BrokenPipeError) and _reader_gone()
        if debug and not gone:
            raise
        if asked_to_end():  # a library's C code may make another error of it
            code = interrupted(error)
        elif not gone:
            # Python's own exit code for this is 1, which here says that a claim is contradicted.
            _say("; ".join([_unexpected(error), *_notes(error)]))
            code = EXIT_RUN_FAILED
            _drop_unwritten()
    if code:
        raise Exit(code=code)


def _tell(debug: bool) -> None:
    if debug:
        logs.tell()
        log.debug("krepro %s: %s", harness.__version__, shlex.join(sys.argv[1:]))


def _drop_unwritten() -> None:
    """What finds no room on standard output is tried no more: one line has told of it."""
    from harness.progress import silence

    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)


@contextmanager
def read_or_not() -> Iterator[None]:
    """A whole program, Invoke's lists and helps too: it ends as it would, whether anybody reads its output or not."""
    if sys.stdout is None:  # closed by whoever began this process (>&-)
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (to the end)
    try:
        yield
    except OSError as error:
        _not_written(error)
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            _not_written(error)


def _not_written(error: OSError) -> None:
    """Standard output could not be written: nobody reads it any more, or its place is full, which is exit code 3."""
    from harness.progress import silence

    if isinstance(error, BrokenPipeError) and _reader_gone():
        return
    if error.errno not in HOSTS_ERRORS or error.filename:
        raise error
    silence(sys.stdout)
    _say(f"standard output: {_unexpected(error)}")
    raise SystemExit(EXIT_RUN_FAILED) from error


def end_in_order() -> None:
    """From now on the first of these signals raises KeyboardInterrupt; one that was ignored stays so (nohup)."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    raise_swallowed()


def asked_to_end() -> bool:
    """Whether one of the signals has come, whatever its exception has become on its way."""
    return take() or _signalled.is_set()


def interrupted(error: BaseException) -> int:
    """Say in one line that it has ended, with the notes of `error`, which may be what a library made of it; the exit
    code.
    """
    from harness.scratch import discard_held

    discard_held()
    notes = _notes(error) or ["guests are killed, and no partial files are left"]
    _say("; ".join(["interrupted", *notes]))
    return EXIT_INTERRUPTED


def _reader_gone() -> bool:
    """Whether the reader of standard output has gone (head, less); then what is still to be written is dropped."""
    from harness.progress import silence

    watched = select.poll()
    watched.register(sys.stdout, 0)
    gone = any(events & select.POLLERR for _, events in watched.poll(0))
    if gone:
        silence(sys.stdout)
    return gone


def _notes(error: BaseException) -> list[str]:
    """What was added to an error on its way: what is kept in spite of it."""
    return list(getattr(error, "__notes__", []))


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for number in ENDING:  # the end is on its way: a second Ctrl-C must not break into it
        signal.signal(number, signal.SIG_IGN)
    _signalled.set()
    last = threading.Timer(END_S, _end_at_once)
    last.daemon = True
    last.start()
    raise KeyboardInterrupt


def _end_at_once() -> None:
    _say("interrupted; a process did not end in time and may still be running")
    os._exit(EXIT_INTERRUPTED)


def _say(text: str) -> None:
    """One line to standard error, if there still is one; what others wrote in it reaches no terminal's controls."""
    with suppress(OSError):
        line = harmless(" ".join(text.split()).replace("./inv ", f"{PROGRAM} "))
        print(f"krepro: {line}", file=sys.stderr, flush=True)


def _unexpected(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "this host has not enough memory for it"
    if isinstance(error, OSError) and error.errno in HOSTS_ERRORS:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # of shutil.copytree: errors as texts
        _, target, text = error.args[0][0]
        return f"{target}: {text.partition('] ')[2].partition(': ')[0] or text}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"unexpected {type(error).__name__}: {error} (a bug of krepro at {where}; --debug shows the traceback)"


#: So much later it is raised again: wherever the program is then, it is no longer there.
AGAIN_S = 0.05

_pending = threading.Event()


def raise_swallowed() -> None:
    """From now on an interruption that was swallowed is raised once more in the main thread."""
    default = sys.unraisablehook
    if getattr(default, "raises_again", False):
        return

    def hook(swallowed: sys.UnraisableHookArgs) -> None:
        if not issubclass(swallowed.exc_type, KeyboardInterrupt):
            default(swallowed)
            return
        _raise_soon(swallowed.exc_type)

    hook.raises_again = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


def take() -> bool:
    """Whether one was swallowed and is not raised yet. It is not raised any more: whoever asks knows of it now."""
    was = _pending.is_set()
    _pending.clear()
    return was


def _raise_soon(kind: type[BaseException]) -> None:
    before = signal.getsignal(signal.SIGINT)

    def again(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        if take():
            raise kind

    signal.signal(signal.SIGINT, again)
    _pending.set()
    main = threading.main_thread().ident
    later = threading.Timer(AGAIN_S, lambda: signal.pthread_kill(main, signal.SIGINT) if main else None)
    later.daemon = True
    later.start()
