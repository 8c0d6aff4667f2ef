# SPDX-License-Identifier: MIT
"""A Slurm of one node, of Debian's packages `slurm-wlm` and `munge`: three daemons with all their files in a folder.

Slurm runs as root, as on any cluster: `slurmd` starts jobs in the name of users.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.processes import eventually

#: What the node claims to have, for jobs to ask for; nobody counts what they take.
MEMORY_MIB = 1024
DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "scancel", "sinfo", "squeue")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=defer,batch_sched_delay=1,sched_interval=2
KillWait=5
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=compute Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def unusable() -> str | None:
    """Why no Slurm can be had here; None where it can."""
    absent = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)}: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "Slurm's daemons run as root"
    return None


class Slurm:
    """A controller and one node with `cpus` CPUs, as it believes; use it in `with`."""

    def __init__(self, cpus: int) -> None:
        self._stack = ExitStack()
        # A socket's path has at most 107 characters.
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.root.chmod(0o755)
        (self.root / "munge.key").write_bytes(os.urandom(128))
        (self.root / "munge.key").chmod(0o600)
        for name in ("state", "spool"):
            (self.root / name).mkdir()
        ports = _free_ports(2)
        host = socket.gethostname().partition(".")[0]
        conf = self.root / "slurm.conf"
        conf.write_text(
            CONFIGURATION.format(
                host=host, controller=ports[0], node=ports[1], root=self.root, cpus=cpus, memory=MEMORY_MIB
            )
        )
        self.environment = {"SLURM_CONF": str(conf)}

    def __enter__(self) -> Slurm:
        root = self.root
        try:
            munged = [f"--{name}-file={root}/munge.{name}" for name in ("key", "log", "pid", "seed")]
            munged.append(f"--socket={root}/munge.socket")
            self._start("munged", "--foreground", "--force", *munged)
            assert eventually((root / "munge.socket").exists, 20), self.log()
            self._start("slurmctld", "-D", "-i")
            self._start("slurmd", "-D")
            assert eventually(lambda: "idle" in self.ask("sinfo", "--noheader", "-o", "%t"), 60), self.log()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if len(self._daemons) == len(DAEMONS):
            self.ask("scancel", "--user=root")
            eventually(lambda: not self.ask("squeue", "--noheader"), 30)
        for process in reversed(self._daemons):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints; nothing where it fails."""
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    def jobs(self, state: str) -> list[str]:
        """Numbers of jobs in this state (`RUNNING`, `PENDING`), the oldest first."""
        return self.ask("squeue", "--noheader", "--sort=i", "-t", state, "-o", "%i").split()

    def workers(self) -> list[str]:
        """Processes of its jobs that are there, in whatever group."""
        marker = f"SLURM_CONF={self.root}/".encode()
        there = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if b"dask_worker" in (entry / "cmdline").read_bytes() and marker in (entry / "environ").read_bytes():
                    there.append(entry.name)
        return there

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(self.root.glob("*.log")))

    def _start(self, name: str, *words: str) -> None:
        environment = {**os.environ, **self.environment}
        with (self.root / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [name, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        self._daemons.append(process)


def _free_ports(count: int) -> Sequence[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
