# SPDX-License-Identifier: MIT
"""QMP over an inherited socket: commands and events of one QEMU process, without asyncio at the call sites."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from qemu.qmp import ExecInterruptedError, QMPClient, QMPError, Runstate, StateError

from harness.errors import RunError

COMMAND_TIMEOUT_S = 30.0
T = TypeVar("T")

logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)  # a guest that ends closes its socket: no news


class QmpLost(RunError):
    """QEMU closed the connection: it ended."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that says nothing of a task which Ctrl-C has ended: its traceback is no news, and nobody waits for it."""

    def told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KeyboardInterrupt):
            loop.default_exception_handler(context)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(told)
    return loop


class Qmp:
    """One QMP connection. Every event received is appended to `events`, each with the host's time in seconds."""

    def __init__(self, sock: socket.socket, events: list[dict[str, Any]]) -> None:
        self.mute = False
        self._events = events
        self._loop = new_loop()
        asyncio.set_event_loop(self._loop)
        self._client = QMPClient()
        self._started = time.monotonic()
        try:
            self._do(self._client.connect(sock))
        except (TimeoutError, QMPError, OSError, EOFError, AssertionError) as error:  # the last: gone while it greeted
            self.close()
            raise QmpLost(f"QEMU did not answer on QMP: {error}") from error

    def command(self, name: str, **arguments: object) -> Any:
        """Execute one command; QmpLost when QEMU is gone, RunError when it refuses.

        A QEMU that did not answer within COMMAND_TIMEOUT_S is `mute`: it is not waited for again.
        """
        if self.mute:
            raise QmpLost(f"QEMU does not answer, so {name} was not tried")
        try:
            return self._do(self._client.execute(name, arguments))
        except TimeoutError as error:
            self.mute = True
            raise QmpLost(f"QEMU did not answer {name} within {COMMAND_TIMEOUT_S:.0f} s") from error
        except (EOFError, OSError, ExecInterruptedError, StateError) as error:
            raise QmpLost(f"QEMU is gone: {name} had no answer") from error
        except QMPError as error:
            raise RunError(f"QEMU refused {name}: {error}") from error

    def give(self, name: str, descriptor: int) -> None:
        """Give QEMU an open file, which it knows by `name` then; QmpLost and RunError as `command`."""
        try:
            self._client.send_fd_scm(descriptor)
        except (OSError, QMPError) as error:
            raise QmpLost("QEMU is gone: it took no file") from error
        self.command("getfd", fdname=name)

    def poll(self, wait_s: float = 0.0) -> list[dict[str, Any]]:
        """Events since the last call, waiting up to `wait_s` seconds for the first; QmpLost when QEMU is gone."""
        try:
            fresh = self._do(self._news(wait_s))
        except (EOFError, OSError, QMPError) as error:
            raise QmpLost("QEMU is gone") from error
        now = time.monotonic() - self._started
        for event in fresh:
            event["host_s"] = round(now, 6)
        self._events += fresh
        return fresh

    def close(self) -> None:
        """Close the connection; harmless when QEMU did so first."""
        try:
            self._do(self._client.disconnect())
        except (TimeoutError, QMPError, OSError, EOFError):
            pass
        finally:
            for task in asyncio.all_tasks(self._loop):  # of a wait that was interrupted
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()
            asyncio.set_event_loop(None)

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(what, COMMAND_TIMEOUT_S))

    async def _news(self, wait_s: float) -> list[dict[str, Any]]:
        """Events so far, or the first that comes within `wait_s`; EOFError when none can come any more."""
        event = asyncio.ensure_future(self._client.events.get())
        ended = asyncio.ensure_future(self._client.runstate_changed())
        await asyncio.sleep(0)  # both wait before what has already come is read
        if self._client.runstate == Runstate.RUNNING:
            await asyncio.wait({event, ended}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        fresh = [event.result()] if event.done() else []
        fresh += self._client.events.clear()
        event.cancel()
        ended.cancel()
        if not fresh and self._client.runstate != Runstate.RUNNING:
            raise EOFError
        return [dict(message) for message in fresh]
