"""QMP over an inherited socket: commands and events of one QEMU process, without asyncio at the call sites."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

from qemu.qmp import QMPError
from qemu.qmp.legacy import QEMUMonitorProtocol

from harness.errors import RunError

COMMAND_TIMEOUT_S = 30.0

logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)  # a guest that ends closes its socket: no news


class QmpLost(RunError):
    """QEMU closed the connection: it ended."""


class Qmp:
    """One QMP connection. Every event received is appended to `events`, each with the host's time in seconds."""

    def __init__(self, sock: socket.socket, events: list[dict[str, Any]]) -> None:
        self._events = events
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._protocol = QEMUMonitorProtocol(sock)
        self._protocol.settimeout(COMMAND_TIMEOUT_S)
        self._started = time.monotonic()
        try:
            self._protocol.connect()
        except (TimeoutError, QMPError, OSError, EOFError) as error:
            self.close()
            raise QmpLost(f"QEMU did not answer on QMP: {error}") from error

    def command(self, name: str, **arguments: object) -> Any:
        """Execute one command; QmpLost when QEMU is gone, RunError when it refuses."""
        try:
            return self._protocol.cmd(name, **arguments)
        except (TimeoutError, EOFError, OSError) as error:
            raise QmpLost(f"QEMU is gone: {name} had no answer") from error
        except QMPError as error:
            if "disconnect" in type(error).__name__.lower() or "closed" in str(error).lower():
                raise QmpLost(f"QEMU is gone: {name} had no answer") from error
            raise RunError(f"QEMU refused {name}: {error}") from error

    def poll(self, wait_s: float = 0.0) -> list[dict[str, Any]]:
        """Events since the last call, waiting up to `wait_s` seconds for the first; QmpLost when QEMU is gone."""
        fresh: list[dict[str, Any]] = []
        try:
            fresh = self._protocol.get_events(wait=wait_s if wait_s > 0 else False)
        except TimeoutError:
            pass
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
            self._protocol.close()
        except (TimeoutError, QMPError, OSError, EOFError):
            pass
        finally:
            self._loop.close()
            asyncio.set_event_loop(None)
