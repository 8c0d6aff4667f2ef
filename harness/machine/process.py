# SPDX-License-Identifier: MIT
"""QEMU as a process of this host, in its sandbox: known by its own id, whatever stands between it and this process."""

from __future__ import annotations

import json
import logging
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from harness.errors import RunError
from harness.machine.qemu import qemu_words, tools_of
from harness.machine.sandbox import Sandbox, View, environment, limits, sandbox, started
from harness.machine.syscalls import program

log = logging.getLogger(__name__)

ENTER = Path(__file__).with_name("enter.py")
ENTER_S = 30.0
#: What a shell, and bubblewrap, make of a process that a signal ended.
SIGNALLED = 128
#: A socket in QEMU's folder, at which this process listens as long as it lives.
ALIVE = "alive"


class QemuProcess:
    """A QEMU that runs, or has run; it dies with this process, and does not start without it.

    What ends it with its parent is asked for by the child itself, which is too late where the parent was killed before.
    So QEMU, once it is up, connects to its harness, and ends where nobody listens.

    `argv` begins with QEMU's name; the attribute has the sandbox's options too. `terminal`: it has this process's
    standard streams and session. `pid` is QEMU's on this host.
    """

    def __init__(
        self,
        argv: Sequence[str],
        view: View,
        stderr: IO[bytes],
        *,
        memory_mib: int,
        file_bytes: int,
        pass_fds: Sequence[int] = (),
        terminal: bool = False,
    ) -> None:
        self.sandbox: Sandbox = sandbox()
        self._socket_path = view.folder / ALIVE
        self._alive = _listener(self._socket_path)
        alive = ["-chardev", f"socket,id={ALIVE},path={ALIVE}"] if self._alive is not None else []
        self.argv = [*argv, *alive, *self.sandbox.options()]
        self._handle: int | None = None
        reader, writer = _status_pipe()
        filters = _filter_file()
        try:
            words = self.sandbox.words(tools_of(argv[0]), view, writer, seccomp=filters, terminal=terminal)
            words = [*limits(memory_mib, file_bytes), *words, *qemu_words(self.argv)]
            stream = None if terminal else subprocess.DEVNULL
            shut = [filters] if filters is not None else []
            # Bubblewrap asks to die with its parent by itself, once it has a child that does so too.
            self._outer = subprocess.Popen(
                words if self.sandbox.program else started(words),
                cwd=view.folder,
                stdin=stream,
                stdout=stream,
                stderr=stderr,
                pass_fds=[*pass_fds, writer, *shut] if self.sandbox.program else list(pass_fds),
                start_new_session=not terminal,
                env=environment(view.preload),
            )
        except BaseException:
            os.close(reader)
            self._stop_listening()
            raise
        finally:
            os.close(writer)
            if filters is not None:
                os.close(filters)
        self._status = os.fdopen(reader, "rb")  # open to the end: bubblewrap writes into it once more
        self.pid = self._find()
        log.debug("QEMU is process %d: %s", self.pid, shlex.join(self.argv))
        with suppress(OSError):
            self._handle = os.pidfd_open(self.pid)

    def _find(self) -> int:
        """QEMU's process id; that of what should have started it, where that ended before."""
        if self.sandbox.program:
            with suppress(ValueError, KeyError, TypeError):
                return int(json.loads(self._status.readline())["child-pid"])
        return self._outer.pid

    @property
    def returncode(self) -> int | None:
        """QEMU's exit status, -N when signal N ended it, None as long as nobody has seen it end."""
        return _as_own(self._outer.returncode, enclosed=bool(self.sandbox.program))

    def poll(self) -> int | None:
        """Its exit status as in `returncode`; None while it runs."""
        self._outer.poll()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit status. subprocess.TimeoutExpired after `timeout` seconds."""
        self._outer.wait(timeout)
        status = self.returncode
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill it; harmless when it has ended."""
        if self._outer.poll() is not None:
            return
        if self._handle is None:
            self._outer.kill()
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def close(self) -> None:
        """Wait for its end, and give up what it was watched with."""
        self._outer.wait()
        if self._handle is not None:  # bubblewrap may have been killed alone, and QEMU be about to die with it
            ended = select.poll()
            ended.register(self._handle, select.POLLIN)
            ended.poll()
            os.close(self._handle)
            self._handle = None
        self._status.close()
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self._alive is not None:
            self._alive.close()
            self._alive = None
            with suppress(OSError):
                self._socket_path.unlink()

    def cpu_seconds(self) -> float:
        """CPU time that QEMU has had, all its threads together; 0 when it is gone."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connection(self, port: int, timeout_s: float) -> socket.socket:
        """A TCP connection to a port that QEMU listens on, on the loopback of its own network. OSError without one.

        RunError when that network cannot be entered.
        """
        made = self._socket() if self.sandbox.program else socket.socket()
        try:
            made.settimeout(timeout_s)
            made.connect(("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return made

    def _socket(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                words = [sys.executable, "-I", "-S", str(ENTER), str(self.pid), str(theirs.fileno())]
                made = subprocess.run(
                    words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True, timeout=ENTER_S, check=False
                )
            if made.returncode != 0:
                why = next(iter(made.stderr.strip().splitlines()[-1:]), "no reason given")
                if self.poll() is None:  # it will not be otherwise the next time
                    raise RunError(f"QEMU's network cannot be entered: {why}")
                raise OSError(why)
            _, handles, _, _ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=handles[0])

    def host_threads(self, threads: Sequence[int]) -> list[int]:
        """The host's ids of threads that QEMU tells by its own; as they are where it has no namespace of its own."""
        if not self.sandbox.program:
            return list(threads)
        known = {}
        for status in Path(f"/proc/{self.pid}/task").glob("[0-9]*/status"):
            with suppress(OSError):
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                known[int(lines["NSpid"].split()[-1])] = int(lines["NSpid"].split()[0])
        return [known[thread] for thread in threads if thread in known]


def _status_pipe() -> tuple[int, int]:
    """A pipe for what bubblewrap tells; its writer reads too, so that it is not killed by a pipe that nobody reads.

    That would be before its child may go on, which would wait for ever.
    """
    reader, writer = os.pipe()
    try:
        return reader, os.open(f"/proc/self/fd/{writer}", os.O_RDWR | os.O_CLOEXEC)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


def _filter_file() -> int | None:
    """A descriptor with the filter of system calls, which bubblewrap reads and closes; None for a CPU without one."""
    filters = program(analysis=False)
    if filters is None:
        return None
    handle = os.memfd_create("filter")
    os.write(handle, filters)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _listener(path: Path) -> socket.socket | None:
    """A socket that listens at `path`, however long that is; None where the file system takes none."""
    made = socket.socket(socket.AF_UNIX)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        made.listen(1)
    except OSError:
        made.close()
        return None
    return made


def _as_own(status: int | None, *, enclosed: bool) -> int | None:
    return SIGNALLED - status if enclosed and status is not None and status > SIGNALLED else status
