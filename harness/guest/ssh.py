# SPDX-License-Identifier: MIT
"""ssh session: paramiko to the guest's sshd on a forwarded loopback port, host key pinned, own deadlines."""

from __future__ import annotations

import base64
import io
import logging
import shlex
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import paramiko

from harness.errors import RunError
from harness.guest.bulk import Bulk
from harness.guest.pipe import Feed, Sink
from harness.guest.session import JobResult, collect
from harness.machine.machine import GuestLost, Machine
from harness.machine.tail import BLOCK_BYTES, Kept

log = logging.getLogger(__name__)

logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # failed attempts while the guest boots are no news

CONNECT_TRY_S = 10.0
RETRY_S = 0.05
POLL_S = 0.02
LAST_WORDS_S = 2.0
#: So long a guest may take to begin a command, until it is looked at what keeps it.
ANSWER_S = 0.5
#: paramiko's exit status of a channel that was closed without one.
NO_STATUS = -1
#: Kept of what a command prints; jobs print into files of the guest.
MOST_BYTES = 1 << 24
#: sshd gives commands a PATH of its own.
ENVIRONMENT = ". /etc/profile; "


@dataclass(frozen=True)
class Keys:
    """Files of an image's ssh keys: the client's private key, the host's public key line."""

    client: Path
    host: Path


class SshSession:
    """Commands and jobs over one ssh connection."""

    def __init__(self, machine: Machine, keys: Keys, timeout_s: float) -> None:
        self._machine = machine
        self._bulk = Bulk(machine.folder / "bulk")
        self._client = paramiko.SSHClient()
        algorithm, blob = keys.host.read_text().split()[:2]
        port = machine.forwarded_port()
        host_key = paramiko.Ed25519Key(data=base64.b64decode(blob))
        self._client.get_host_keys().add(f"[127.0.0.1]:{port}", algorithm, host_key)
        self._client.set_missing_host_key_policy(paramiko.RejectPolicy())
        self._connect(port, paramiko.Ed25519Key.from_private_key(io.StringIO(keys.client.read_text())), timeout_s)

    def run(self, job: str, target: Path, timeout_s: float) -> JobResult:
        """See `Session.run`."""
        deadline = time.monotonic() + timeout_s
        channel = self._open()
        try:
            self._begin(channel, "krepro-job", deadline, "take its job")
            channel.settimeout(max(deadline - time.monotonic(), CONNECT_TRY_S))
            channel.sendall(job.encode())
            channel.shutdown_write()
            out, err = Kept(MOST_BYTES), Kept(MOST_BYTES)
            self._drain(channel, deadline, "finish its job", out, err)
            if channel.recv_exit_status() != 0:
                raise self._machine.lost(f"could not send its data: {err.data.decode(errors='replace').strip()}")
        except (paramiko.SSHException, OSError) as error:
            raise self._machine.lost(f"lost its ssh connection: {error or type(error).__name__}") from error
        finally:
            channel.close()
        self._wait_for_frame(deadline)
        return collect(self._bulk, target)

    def command(self, text: str, timeout_s: float = 30.0) -> tuple[int, str, str]:
        """Exit status, standard output and standard error of one shell command in the guest."""
        deadline = time.monotonic() + timeout_s
        channel = self._open()
        try:
            self._begin(channel, text, deadline, f"begin {text!r}")
            channel.shutdown_write()
            out, err = Kept(MOST_BYTES), Kept(MOST_BYTES)
            self._drain(channel, deadline, f"finish {text!r}", out, err)
            return channel.recv_exit_status(), out.data.decode(errors="replace"), err.data.decode(errors="replace")
        finally:
            channel.close()

    def pipe(self, text: str, feed: Feed | None, out: BinaryIO, err: BinaryIO, timeout_s: float, what: str) -> int:
        """Exit status of one shell command, whose three streams are these, as it goes; `what` it does, for errors.

        `feed` begins to give its input at once, and ends with the command. Raises GuestLost as `run` does, and whatever
        `feed` failed with.
        """
        deadline = time.monotonic() + timeout_s
        channel = self._open()
        try:
            self._begin(channel, text, deadline, "begin its command")
            if feed is None:
                channel.shutdown_write()
            else:
                feed.start(channel)
            self._drain(channel, deadline, what, Sink(out), Sink(err))
            if feed is not None and feed.error is not None:
                raise feed.error
            return channel.recv_exit_status()
        finally:
            channel.close()

    def fetch(self, paths: Sequence[str], target: Path, timeout_s: float) -> list[str]:
        """Copy files and folders of the guest to `target`/0/NAME, `target`/1/NAME, …; those that could not be copied.

        They come over the bulk port, unpacked as what a job left is.
        """
        deadline = time.monotonic() + timeout_s
        home = "/run/krepro/copy"
        missing = []
        self.command(f"rm -rf {home}; mkdir -p {home}", timeout_s)
        for index, path in enumerate(paths):
            folder = f"{home}/{index}"
            # cp, not tar: a file of /proc says that it is empty. -L: what a link leads to.
            copy = f"mkdir {folder} && cd /root && cp -rL -- {shlex.quote(path)} {folder}/"
            status, _, _ = self.command(copy, max(deadline - time.monotonic(), 0.0))
            if status != 0:
                missing.append(path)
        status, _, err = self.command(f"krepro-send {home}", max(deadline - time.monotonic(), 0.0))
        if status != 0:
            raise RunError(f"the guest could not send its files: {err.strip()}")
        self._wait_for_frame(deadline)
        self._bulk.unpack(target)
        return missing

    def close(self) -> None:
        """See `Session.close`."""
        self._client.close()

    def _connect(self, port: int, key: paramiko.PKey, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._log_in(port, key)
            except paramiko.BadHostKeyException as error:
                raise RunError("the guest's ssh host key is not the one of its image") from error
            except (paramiko.SSHException, OSError, EOFError) as error:
                if self._machine.process.poll() is not None:
                    raise self._machine.lost("ended before ssh answered") from error
                self._machine.check_answers()
                if time.monotonic() > deadline:
                    raise self._machine.lost(f"did not answer ssh within {timeout_s:.0f} s: {error}") from error
                time.sleep(RETRY_S)
            else:
                log.debug("the guest at port %d answers ssh", port)
                return

    def _log_in(self, port: int, key: paramiko.PKey) -> None:
        sock = self._machine.process.connection(port, CONNECT_TRY_S)
        try:
            self._client.connect(
                "127.0.0.1",
                port=port,
                username="root",
                pkey=key,
                sock=sock,
                banner_timeout=CONNECT_TRY_S,
                auth_timeout=CONNECT_TRY_S,
                allow_agent=False,
                look_for_keys=False,
            )
        except BaseException:
            sock.close()
            raise

    def _open(self) -> paramiko.Channel:
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise self._machine.lost("closed its ssh connection")
        try:
            return transport.open_session(timeout=CONNECT_TRY_S)
        except (paramiko.SSHException, OSError) as error:
            raise self._machine.lost(f"opened no ssh channel: {error}") from error

    def _begin(self, channel: paramiko.Channel, text: str, deadline: float, what: str) -> None:
        """Have a command begin. paramiko would wait for the guest's answer without end: the command may stop the guest
        before that comes.
        """
        answered = threading.Event()
        errors: list[Exception] = []

        def ask() -> None:
            try:
                channel.exec_command(ENVIRONMENT + text)
            except Exception as error:
                errors.append(error)
            finally:
                answered.set()

        threading.Thread(target=ask, daemon=True).start()  # it ends with the channel
        if not answered.wait(ANSWER_S):
            outcome = self._machine.wait(answered.is_set, max(deadline - time.monotonic(), 0.0), what)
            if outcome.reason != "condition":
                raise self._machine.lost(self._machine.ending(outcome))
        if errors:
            self._closed(errors[0])

    def _closed(self, cause: Exception | None = None) -> NoReturn:
        """Raise why the guest closed the connection: it is told in a moment."""
        try:
            last = self._machine.wait(None, LAST_WORDS_S, "say why its ssh connection was closed")
        except GuestLost as error:
            raise self._machine.lost("closed its ssh connection") from cause or error
        raise self._machine.lost(self._machine.ending(last)) from cause

    def _wait_for_frame(self, deadline: float) -> None:
        """The frame is written before the command ends; the file may lag a moment. It has no end where it was cut."""
        while not self._bulk.complete():
            if time.monotonic() > deadline or self._machine.cut():
                raise self._machine.lost("sent incomplete data")
            time.sleep(POLL_S)

    def _drain(self, channel: paramiko.Channel, deadline: float, what: str, out: Kept, err: Kept) -> None:
        """Read both streams until the command ends.

        recv_exit_status has no deadline of its own and an unread stream can fill its window: both are handled here.
        """

        def pull() -> None:  # a block of each at a time: a guest may send faster than it is read
            if channel.recv_ready():
                out.add(channel.recv(BLOCK_BYTES))
            if channel.recv_stderr_ready():
                err.add(channel.recv_stderr(BLOCK_BYTES))

        def ended() -> bool:
            pull()
            return channel.exit_status_ready() or channel.closed

        outcome = self._machine.wait(ended, max(deadline - time.monotonic(), 0.0), what)
        if outcome.reason != "condition":
            raise self._machine.lost(self._machine.ending(outcome))
        if channel.recv_exit_status() == NO_STATUS:  # does not block: the channel has ended
            self._closed()
        channel.settimeout(CONNECT_TRY_S)
        try:
            ended_in_time = out.to_end(channel.recv, deadline) and err.to_end(channel.recv_stderr, deadline)
        except TimeoutError as error:
            raise self._machine.lost("did not close its streams") from error
        if not ended_in_time:
            raise self._machine.lost("did not stop sending")
