# SPDX-License-Identifier: MIT
"""One QEMU process as a context manager. It always ends: normally, by panic, hang, timeout, or with its harness."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from harness.errors import KreproError, RunError
from harness.machine.hostsched import HostSchedule
from harness.machine.process import QemuProcess
from harness.machine.qmp import COMMAND_TIMEOUT_S, Qmp, QmpLost
from harness.machine.sandbox import MOST_FILE_BYTES
from harness.machine.spec import (
    DISK_BYTES,
    EXIT_DONE,
    PLUGIN_FOLDER,
    RECORDING,
    BootFiles,
    MachineSpec,
    Plugin,
    argv,
    view,
)
from harness.machine.stream import Incoming, Outgoing
from harness.machine.tail import read_tail
from harness.machine.vitals import HALTED, Vitals, guest_seconds, read_cpus

READY = "krepro: ready"
PANIC = "Kernel panic"
POLL_S = 0.01
#: Where only QEMU's own news ends a wait, and wakes it at once: a look takes most of a millisecond of a CPU that the
#: guest may need.
LOOK_S = 1.0
#: A guest whose heartbeat (one byte a second) stops for this long is hung; generous, as TCG on a busy host crawls.
HEARTBEAT_LIMIT_S = 30.0
TERM_GRACE_S = 3.0
#: For hundreds of MB, on a host that is busy.
RESTORE_S = 120.0
CONSOLE_TAIL_LINES = 12
#: Files in a machine's folder that get as long as a guest makes them.
WRITTEN = ("console.log", "heartbeat", "bulk", RECORDING, "qemu.stderr")
#: What a guest did whose CPUs stand still, by QEMU's run state. All but the first is no panic.
STOPS = {
    "guest-panicked": "panicked",
    "watchdog": "let its watchdog run out",
    "internal-error": "met an error inside KVM",
}


class GuestLost(RunError):
    """The guest panicked, hung, ended early or ran out of time."""


@dataclass(frozen=True)
class Wait:
    """How a wait on a machine ended."""

    reason: Literal["condition", "exit", "stopped"]
    exit_status: int | None = None


class Machine:
    """A running machine; `with Machine(...) as machine:` starts QEMU and lets its CPUs run.

    All host files of the machine are in `folder`: console.log, heartbeat, bulk, qemu.stderr. `file_bytes`: of each of
    them; a guest that makes one longer ends.
    """

    def __init__(
        self,
        spec: MachineSpec,
        files: BootFiles,
        folder: Path,
        *,
        incoming: Path | None = None,
        paused: bool = False,
        plugin: Plugin | None = None,
        file_bytes: int = MOST_FILE_BYTES,
    ) -> None:
        self.spec = spec
        self.folder = folder
        self.argv: list[str] = []
        self.sandbox = ""
        self._file_bytes = max(file_bytes, DISK_BYTES) if "disk" in spec.devices else file_bytes
        self._files = files
        self._incoming = incoming
        self._paused = paused
        self._plugin = plugin
        self._process: QemuProcess | None = None
        self._qmp: Qmp | None = None
        self._stderr: IO[bytes] | None = None
        self._state: Outgoing | None = None
        self._events: list[dict[str, Any]] = []
        self._schedule: HostSchedule | None = None

    def __enter__(self) -> Machine:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def qmp(self) -> Qmp:
        if self._qmp is None:
            raise RunError("the machine is not running")
        return self._qmp

    @property
    def process(self) -> QemuProcess:
        if self._process is None:
            raise RunError("the machine is not running")
        return self._process

    def console(self) -> str:
        """The end of what the guest printed on its console so far: TAIL_BYTES."""
        path = self.folder / "console.log"
        return read_tail(path) if path.exists() else ""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest says that it is ready; GuestLost when it ends, stops or takes too long before."""
        outcome = self.wait(lambda: READY in self.console(), timeout_s, "get ready")
        if outcome.reason != "condition":
            raise self.lost(f"{self.ending(outcome)} before it was ready")

    def wait(self, condition: Callable[[], bool] | None, timeout_s: float, what: str) -> Wait:
        """Wait for `condition`, QEMU's exit, or a stop of the CPUs, whichever is first; without one for the other two.

        GuestLost on a silent heartbeat or after `timeout_s` seconds, under the virtual clock of the guest's too. One
        with a mailbox has no heartbeat: GuestLost when its CPUs cannot come to anything any more. Why the CPUs stopped
        is for the caller to ask.
        """
        deadline = time.monotonic() + timeout_s
        vitals = Vitals(virtual=self.spec.clock == "virtual") if self.spec.session == "mailbox" else None
        begun = self._guest_seconds()
        beat, beat_seen = -1, time.monotonic()
        poll_s = LOOK_S if condition is None else POLL_S
        met = condition or (lambda: False)
        while True:
            status = self.process.poll()
            if self._schedule is not None and status is None:
                self._schedule.read()
            if met():
                return Wait("condition")
            if status is not None:
                return Wait("exit", status)
            try:
                until = min(deadline, vitals.next) if vitals is not None else deadline
                events = self.qmp.poll(min(poll_s, max(until - time.monotonic(), 0.0)))
                stopped = any(event["event"] == "STOP" for event in events)
                if vitals is not None and not stopped and time.monotonic() >= vitals.next:
                    self._look(vitals, begun, timeout_s, what)
            except QmpLost:
                if self.qmp.mute:
                    raise self._unreachable() from None
                stopped = False
                time.sleep(POLL_S)
            if stopped:
                return Wait("condition" if met() else "stopped")
            now = time.monotonic()
            size = self._size("heartbeat")
            if size != beat:
                beat, beat_seen = size, now
            if size > 0 and now - beat_seen > HEARTBEAT_LIMIT_S:
                raise self.lost(f"hung: no heartbeat for {HEARTBEAT_LIMIT_S:.0f} s")
            if now > deadline:
                raise self.lost(f"did not {what} within {timeout_s:.0f} s")

    def wait_stopped(self, timeout_s: float) -> None:
        """Wait for the guest's own stop (its watchdog) after it said ready; GuestLost otherwise."""
        if not self.stops_or_ends(timeout_s):
            raise self.lost("went past its mailbox")

    def stops_or_ends(self, timeout_s: float) -> bool:
        """Wait for the guest's own stop as above; False where it went past its mailbox and has done the job in it.

        Its watchdog fires half a second before it goes on. A host that is busy for longer lets it pass, where the clock
        is the host's.
        """
        outcome = self.wait(None, timeout_s, "stop at its mailbox")
        if outcome.reason != "stopped":
            if outcome.exit_status == EXIT_DONE:
                return False
            raise self.lost(f"ended with status {outcome.exit_status} instead of stopping at its mailbox")
        if self._run_state() != "watchdog":
            raise self.lost(f"{self.ending(outcome)} before it stopped at its mailbox")
        return True

    def ending(self, outcome: Wait) -> str:
        """What the guest did that ended a wait against its condition, as words behind `the guest`."""
        if outcome.reason != "stopped":
            return "ended"
        state = self._run_state()
        return STOPS.get(state, f"was stopped ({state})")

    def check_answers(self) -> None:
        """GuestLost when QEMU has ended or does not answer any more: for waits that look at something else."""
        try:
            self.qmp.command("query-status")
        except QmpLost:
            raise (self._unreachable() if self.qmp.mute else self.lost("ended")) from None

    def _unreachable(self) -> GuestLost:
        return self.lost(f"cannot be reached: QEMU did not answer within {COMMAND_TIMEOUT_S:.0f} s")

    def resume(self) -> None:
        """Let the CPUs run (again); what happened before is no news to a later `wait`, nor in `host_schedule`."""
        self.qmp.poll()
        self.watch_host()
        self.qmp.command("cont")

    def watch_host(self) -> None:
        """From now on, see how the host runs the CPUs: what it did before is left out of `host_schedule`."""
        # A recorded guest has host time in its log; one of the virtual clock never sees any.
        if self.spec.clock != "wall" or self.spec.record != "off":
            return
        if self._schedule is not None:
            self._schedule.begin()
            return
        cpus = self.qmp.command("query-cpus-fast")
        threads = [cpu["thread-id"] for cpu in sorted(cpus, key=lambda cpu: cpu["cpu-index"])]
        self._schedule = HostSchedule(self.process.pid, self.process.host_threads(threads))

    def save(self, target: Path) -> None:
        """Write the state of the stopped machine to `target`. OSError when that does not take it."""
        # A stopped guest has nothing to lose to bandwidth: lift QEMU's network-sized limit.
        self.qmp.command("migrate-set-parameters", **{"max-bandwidth": 1 << 34})
        state = Incoming(target)
        try:
            self.qmp.give("state", state.descriptor)
        finally:
            state.start()
        self.qmp.command("migrate", uri="fd:state")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = self.qmp.command("query-migrate").get("status")
            if status == "completed":
                state.finish()
                return
            if status in {"failed", "cancelled"}:
                state.finish()  # it is what failed, where the file took no more
                break
            time.sleep(POLL_S)
        raise RunError("QEMU could not save the machine's state", where=str(target))

    def forwarded_port(self) -> int:
        """The loopback port that the host's kernel chose for the guest's port 22."""
        table = str(self.qmp.command("human-monitor-command", **{"command-line": "info usernet"}))
        for line in table.splitlines():
            words = line.split()
            if words and words[0].startswith("TCP[HOST_FORWARD]") and words[-3] == "22":
                return int(words[3])
            if words and words[0].startswith("TCP[HOST_FORWARD]") and "22" in words[4:]:
                return int(words[3])
        raise RunError("QEMU shows no forwarded ssh port", hint=table.strip())

    def host_schedule(self) -> dict[str, Any] | None:
        """How the host ran this machine's CPUs; None where the host's time is not the guest's, and before they ran."""
        return self._schedule.summary() if self._schedule is not None else None

    def accelerator_in_use(self) -> str:
        """What QEMU says that it uses now, not what it was asked for."""
        return "kvm" if self.qmp.command("query-kvm").get("enabled") else "tcg"

    def lost(self, what: str) -> GuestLost:
        """Look at what is left of the machine, keep it in the folder, and make the error to raise."""
        self._diagnose()
        lines = [line for line in self.console().splitlines() if line.strip()]
        # What a panic prints behind its own line are registers.
        told = [line for line in lines if PANIC in line][-1:] or lines[-1:]
        kind = "console" if told and PANIC in told[0] else "last console line"
        stderr = self._stderr_text()
        detail = stderr.splitlines()[-1] if stderr else f"{kind}: {told[0].strip()}" if told else ""
        return GuestLost(f"the guest {what}{'; ' + detail if detail else ''}", hint=f"see {self.folder}")

    def _start(self) -> None:
        if self._plugin is not None:
            (self.folder / PLUGIN_FOLDER).mkdir(exist_ok=True)
        ours, theirs = socket.socketpair()
        self._state = Outgoing(self._incoming) if self._incoming is not None else None
        with theirs:
            given = [theirs.fileno(), *([self._state.descriptor] if self._state is not None else [])]
            words = argv(
                self.spec,
                self._files,
                self.folder,
                theirs.fileno(),
                incoming_fd=self._state.descriptor if self._state is not None else None,
                plugin=self._plugin,
            )
            self._stderr = (self.folder / "qemu.stderr").open("wb")
            self._process = QemuProcess(
                words,
                view(self.spec, self._files, self.folder, self._plugin),
                self._stderr,
                memory_mib=self.spec.hardware.memory_mib,
                file_bytes=self._file_bytes,
                pass_fds=given,
                terminal=self.spec.session == "console",
            )
            self.argv = self._process.argv
            self.sandbox = self._process.sandbox.told
        if self._state is not None:
            self._state.start()
        try:
            self._qmp = Qmp(ours, self._events)
            if self._incoming is not None:
                self._wait_restored()
            if not self._paused:
                self.watch_host()
                self._qmp.command("cont")
        except QmpLost as error:
            status = None
            with suppress(subprocess.TimeoutExpired):  # one that hangs is ended below
                status = self._process.wait(timeout=TERM_GRACE_S)
            reason = self._stderr_text() or (str(error) if status is None else f"it ended with status {status}")
            raise RunError(f"QEMU did not start: {reason.splitlines()[-1]}", hint=f"see {self.folder}") from error

    def _wait_restored(self) -> None:
        deadline = time.monotonic() + RESTORE_S
        while time.monotonic() < deadline:
            status = self.qmp.command("query-status")["status"]
            if status not in {"inmigrate", "prelaunch"}:
                return
            time.sleep(0.002)
        raise RunError(f"QEMU did not restore the saved state within {RESTORE_S:.0f} s", hint=f"see {self.folder}")

    def _end(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                try:
                    if self._qmp is not None:
                        self._qmp.command("quit")
                except KreproError:
                    pass
                try:
                    self._process.wait(timeout=TERM_GRACE_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
            self._process.close()
        if self._state is not None:
            self._state.close()
            self._state = None
        if self._qmp is not None:
            self._qmp.close()
            self._qmp = None
        if self._stderr is not None:
            self._stderr.close()
        if self._schedule is not None:
            self._schedule.release()

    def cut(self) -> str:
        """What the limit of its files cost this machine, in words; empty: nothing. QEMU itself goes on without it."""
        written = [*(self.folder / name for name in WRITTEN), *(self.folder / PLUGIN_FOLDER).rglob("*")]
        full = [path for path in written if path.is_file() and path.stat().st_size >= self._file_bytes]
        names = ", ".join(sorted(path.relative_to(self.folder).as_posix() for path in full))
        return f"the guest filled {names} with {self._file_bytes} bytes; all after them is lost" if names else ""

    def _look(self, vitals: Vitals, begun: float, limit_s: float, what: str) -> None:
        """GuestLost when the guest cannot go on, or its own clock says that it should have ended."""
        registers = self.qmp.command("human-monitor-command", **{"command-line": "info registers -a"})
        cpus = read_cpus(str(registers))
        wrong = vitals.look(cpus, time.monotonic(), self.process.cpu_seconds())
        if not wrong and self._guest_seconds() - begun > limit_s:  # a silent guest's clock runs from timer to timer
            wrong = HALTED if vitals.silent(cpus) else f"did not {what} within {limit_s:.0f} s of its own time"
        if wrong:
            raise self.lost(wrong)

    def _guest_seconds(self) -> float:
        """The guest's time under the virtual clock, which no load of the host changes; 0 where nothing tells it."""
        if self.spec.clock != "virtual" or not self.spec.board.tells_time:
            return 0.0
        try:
            return guest_seconds(self.qmp.command("qom-get", path="/machine", property="rtc-time"))
        except QmpLost:
            return 0.0

    def _run_state(self) -> str:
        try:
            return str(self.qmp.command("query-status")["status"])
        except QmpLost:
            return "gone"

    def _diagnose(self) -> None:
        """Registers of every CPU and the run state, as far as QEMU still answers, into diagnosis.txt."""
        lines: list[str] = []
        try:
            lines.append(f"status: {self.qmp.command('query-status')}")
            for words in ("info registers -a", "info irq"):
                lines.append(f"(qemu) {words}")
                lines.append(str(self.qmp.command("human-monitor-command", **{"command-line": words})))
        except KreproError as error:
            lines.append(str(error))
        lines += ["console:", *self.console().splitlines()[-CONSOLE_TAIL_LINES:]]
        (self.folder / "diagnosis.txt").write_text("\n".join(lines) + "\n")

    def _stderr_text(self) -> str:
        path = self.folder / "qemu.stderr"
        return read_tail(path).strip() if path.exists() else ""

    def _size(self, name: str) -> int:
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0

    def events(self) -> list[dict[str, Any]]:
        """Every QMP event of this machine so far."""
        return list(self._events)
