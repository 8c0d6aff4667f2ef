# SPDX-License-Identifier: MIT
"""A KVM host in a box: a machine emulated by TCG with AMD's virtualisation, in which this host's own programs run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TextIO

from filelock import BaseFileLock, FileLock, Timeout

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.machine.qemu import qemu_words
from harness.progress import step
from harness.scratch import discard, scratch_folder
from harness.settings import SETTINGS
from tests.kvmbox.image import build_kvm_host

#: What TCG emulates of an AMD CPU, and the vector instructions that compiled Python packages ask for.
CPU = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+rdrand"
#: Mitigations guard nobody here, and TCG pays for each. Its CPUs have one counter, which the kernel takes for two that
#: differ: guests of several CPUs then have a clock that stands still for tens of ms, and each look at it costs an exit.
#: The other CPUs are for init to bring up.
CMDLINE = "console=ttyS0 panic=-1 quiet random.trust_cpu=on mitigations=off tsc=reliable maxcpus=1"
#: One thread and one virtual clock for all CPUs: a busy outer host makes them slower, and no timer early. An
#: instruction takes 2 ns, which is less than it takes in truth. With a thread for each, the host's CPUs stood still, or
#: ran over a stack, within seven minutes of work with guests of two CPUs (`_take_cpu` says what QEMU lacks).
ACCEL = ("-accel", "tcg,thread=single", "-icount", "shift=1")
MEMORY_MB = 4096
READY_S = 300.0
ECHO_S = 0.2
CONSOLE_TAIL_LINES = 8
#: Of the caller's environment: where things are and how text is shown.
KEPT = (
    *("HOME", "PATH", "LANG", "LC_ALL", "COLUMNS", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER"),
    *(setting.variable for setting in SETTINGS),
)
#: Inode numbers and change times are others than outside: git must go by sizes and dates.
ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.checkStat",
    "GIT_CONFIG_VALUE_0": "minimal",
    "GIT_CONFIG_KEY_1": "core.trustctime",
    "GIT_CONFIG_VALUE_1": "false",
}


class KvmHostLost(RunError):
    """The KVM host did not boot, ended early, or ran out of time."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status as a shell tells it, what it wrote, and the seconds that it took."""

    status: int
    stdout: str
    stderr: str
    seconds: float


class KvmHost:
    """A running KVM host; `with KvmHost(store) as host: host.run([...], timeout_s=60)`.

    Inside are the outer host's own files at their own paths, under a layer in memory that is lost at the end. Only
    what is written below the folders `writable` is written outside. There is no network. Commands run as the user
    that runs this process. Whatever ends the `with` block, or this process, ends the host.

    Outside, `folder` holds console.log and qemu.stderr while it runs.
    """

    def __init__(
        self, store: Store, *, writable: Sequence[Path] = (), cpus: int = 2, memory_mb: int = MEMORY_MB
    ) -> None:
        self.folder = Path()
        self._store = store
        self._writable = [path.absolute() for path in writable]
        self._cpus = cpus
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self._cpu: BaseFileLock | None = None
        self._unread = b""
        self._runs = 0

    def __enter__(self) -> KvmHost:
        built = build_kvm_host(self._store)
        self.folder = scratch_folder(self._store.root / "tmp", "kvm-host")
        try:
            with step("booting the KVM host"):
                self._start(built.file("vmlinuz"), built.file("initrd.cpio"))
                if (answer := self._answer(READY_S, "boot")) != "ready":
                    raise KvmHostLost(f"the KVM host has no KVM: {answer}")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        echo: bool = False,
    ) -> Ended:
        """Run a command in the host, in `cwd` (this process's own unless told), with `env` more in its environment.

        `echo`: what it writes is written to this process's standard output and error as it comes. KvmHostLost when
        the host ends or `timeout_s` seconds are over; the host is of no use then.
        """
        if self._port is None:
            raise KvmHostLost("the KVM host is not running")
        self._runs += 1
        name = f"run-{self._runs}"
        folder = self.folder / "control" / name
        folder.mkdir()
        (folder / "command").write_text(_as_this_user(command_text(argv, cwd or Path.cwd(), env or {})))
        outputs = [(folder / "stdout", sys.stdout), (folder / "stderr", sys.stderr)] if echo else []
        started = time.monotonic()
        with Echo(outputs) as echoed:
            self._port.sendall(f"{name}\n".encode())
            answer = self._answer(timeout_s, f"end {shlex.join(map(str, argv))}", echoed)
        seconds = round(time.monotonic() - started, 3)
        stdout, stderr = ((folder / stream).read_text(errors="replace") for stream in ("stdout", "stderr"))
        return Ended(int(answer.split()[1]), stdout, stderr, seconds)

    @property
    def pid(self) -> int:
        """QEMU's process id; KvmHostLost when it is not running."""
        if self._process is None:
            raise KvmHostLost("the KVM host is not running")
        return self._process.pid

    def console(self) -> str:
        """What the host's kernel printed so far."""
        path = self.folder / "console.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, kernel: Path, initrd: Path) -> None:
        control = self.folder / "control"
        control.mkdir()
        shares = {f"share{number}": path for number, path in enumerate(self._writable)}
        for path in shares.values():
            path.mkdir(parents=True, exist_ok=True)
        (control / "shares").write_text("".join(f"{tag} {path}\n" for tag, path in shares.items()))
        self._port, theirs = socket.socketpair()
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc"]
        argv += [*ACCEL, "-cpu", CPU, "-smp", str(self._cpus), "-m", str(self._memory_mb)]
        argv += ["-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd), "-append", CMDLINE]
        argv += ["-serial", f"file:{self.folder / 'console.log'}", "-device", "virtio-serial-pci"]
        argv += ["-chardev", f"socket,id=port,fd={theirs.fileno()}", "-device", "virtserialport,chardev=port,nr=1"]
        argv += shared("host", Path("/"), "readonly=on")
        for tag, path in {"control": control, **shares}.items():
            argv += shared(tag, path, "readonly=off")
        argv = qemu_words(argv)
        with theirs, (self.folder / "qemu.stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "taskset", "--cpu-list", str(self._take_cpu()), *argv],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which ends the host in order
            )

    def _take_cpu(self) -> int:
        """The CPU of the outer host that all threads of QEMU share: one that no other KVM host has, if there is one.

        QEMU 7.2 changes a CPU's `interrupt_request` without a lock where it enters and leaves a guest (svm_helper.c:
        vmrun, do_vmexit), while threads of devices set bits in it. Two at once lose one of the changes: an interrupt,
        or the end of one. On one CPU no two are at once: each is a single instruction.
        """
        allowed = sorted(os.sched_getaffinity(0), reverse=True)
        for cpu in allowed:
            lock = FileLock(self._store.root / "locks" / f"kvm-host-on-cpu-{cpu}.lock", timeout=0)
            with suppress(Timeout):
                lock.acquire()
                self._cpu = lock
                return cpu
        return allowed[0]

    def _answer(self, timeout_s: float, what: str, echoed: Echo | None = None) -> str:
        """The next line that the host says, waited for so long."""
        assert self._port is not None
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise KvmHostLost(f"the KVM host did not {what} within {timeout_s:.0f} s{self._tail()}")
            self._port.settimeout(min(left, ECHO_S) if echoed else left)
            try:
                data = self._port.recv(4096)
            except TimeoutError:
                if echoed:
                    echoed.look()
                continue
            if not data:
                raise KvmHostLost(f"the KVM host ended before it could {what}{self._tail()}")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    def _tail(self) -> str:
        stderr = self.folder / "qemu.stderr"
        lines = [*self.console().splitlines(), *stderr.read_text(errors="replace").splitlines()]
        return "; ".join(["", *(line.strip() for line in lines[-CONSOLE_TAIL_LINES:])])

    def _end(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._cpu is not None:
            self._cpu.release()
            self._cpu = None
        discard(self.folder)


class Echo:
    """Copies what files grow by to streams of this process: at each look, and at its end."""

    def __init__(self, outputs: Sequence[tuple[Path, TextIO]]) -> None:
        self._outputs = outputs
        self._shown = dict.fromkeys((path for path, _stream in outputs), 0)

    def __enter__(self) -> Echo:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.look()

    def look(self) -> None:
        """Copy what is new."""
        for path, stream in self._outputs:
            if path.exists():
                with path.open("rb") as file:
                    file.seek(self._shown[path])
                    data = file.read()
                self._shown[path] += len(data)
                stream.buffer.write(data)
                stream.flush()


def command_text(argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> str:
    """Shell text that runs a command in a folder, with what is KEPT of this process's environment and with `env`."""
    environment = {key: os.environ[key] for key in KEPT if key in os.environ} | ENVIRONMENT | dict(env)
    words = ["env", "-i", *(f"{key}={value}" for key, value in environment.items()), *map(str, argv)]
    path = environment.get("PATH", os.defpath)
    return f"export PATH={shlex.quote(path)}; cd {shlex.quote(str(cwd))} && exec {shlex.join(words)}\n"


def _as_this_user(text: str) -> str:
    """The same, run by this user with the outer host's own programs: busybox's shell would take its own."""
    setpriv = shutil.which("setpriv") or "/usr/bin/setpriv"
    user = [f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--clear-groups"]
    return f"exec {shlex.join([setpriv, *user, '/bin/sh', '-c', text])}\n"


def shared(tag: str, path: Path, access: str) -> list[str]:
    """QEMU's words for a folder that the host mounts by `tag`; UsageError for a path that QEMU cannot be told."""
    if re.search(r"[\s,]", str(path)):
        raise UsageError("QEMU takes no comma or blank in a folder's path", where=str(path))
    share = f"local,id={tag},path={path},security_model=none,multidevs=remap,{access}"
    return ["-fsdev", share, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
