# SPDX-License-Identifier: MIT
"""Interruptions that come to nobody. Standard library only where it is imported, as in `cli`.

A signal's handler runs between any two instructions of Python: also in what C code calls and may not fail, as `__del__`
or a pattern that pydantic matches. Its exception is printed there and forgotten, and the command would go on.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

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
