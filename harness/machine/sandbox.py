# SPDX-License-Identifier: MIT
"""What QEMU is shut in: a view of the host with its own files alone, no network, fewer system calls, no capability."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.build.tree import MERGED, Tools, bubblewraps, ready, tools
from harness.choices import FILE_MIB
from harness.machine.qemu import qemu_version
from harness.progress import warn

#: QEMU's own filter of system calls: it starts no program, changes no user, and no scheduling.
FILTER = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#: Of one file that QEMU writes, whatever the guest does: a console, bulk data, a recording, a plugin's output.
MOST_FILE_BYTES = FILE_MIB << 20
#: Address space beyond the guest's memory: translations (1 GiB), threads' stacks and arenas, what a plugin keeps.
MORE_MEMORY_BYTES = 16 << 30
#: Bubblewrap's words for a program that has namespaces of its own, and no network, capability or parent but this one.
ALONE = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--cap-drop", "ALL"),
)
#: Folders outside /usr that programs of a distribution may be in, or be led through.
ALSO_READ = ("/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store")
TRY_S = 30


@dataclass(frozen=True)
class View:
    """What one QEMU needs of the host: files and folders that it reads, the folder that it writes in, devices.

    `preload`: libraries that come before its own.
    """

    readable: tuple[Path, ...]
    folder: Path
    kvm: bool = False
    preload: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Sandbox:
    """What every QEMU of this process is started in.

    `program`: bubblewrap's words, empty without it. `filtered`: QEMU filters its own system calls. `why`: what is
    missing of the two, and why; empty when nothing is.
    """

    program: tuple[str, ...]
    filtered: bool
    why: str = ""

    @property
    def told(self) -> str:
        """For a result set and for people."""
        parts = ["bubblewrap"] * bool(self.program) + ["seccomp"] * self.filtered
        return " + ".join(parts or ["none"]) + (f" ({self.why})" if self.why else "")

    def options(self) -> list[str]:
        """QEMU's own words for it."""
        return ["-sandbox", FILTER] if self.filtered else []

    def words(self, used: Tools, view: View, status: int | None = None) -> list[str]:
        """The words before QEMU's command line; `status`: the descriptor on which bubblewrap tells the child's id."""
        if not self.program:
            drop = ["--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
            return ["setpriv", "--no-new-privs", *drop]
        words = [*self.program, *ALONE, "--as-pid-1", *_programs(used)]
        words += ["--dev", "/dev", "--proc", "/proc"]
        words += ["--dev-bind", "/dev/kvm", "/dev/kvm"] if view.kvm else []
        for path in dict.fromkeys(view.readable):
            words += ["--ro-bind", str(path), str(path)]
        words += ["--bind", str(view.folder), str(view.folder), "--chdir", str(view.folder)]
        words += ["--json-status-fd", str(status)] if status is not None else []
        return [*words, "--"]


def sandbox() -> Sandbox:
    """The best that this host has: bubblewrap and QEMU's filter, else one of them; a warning where neither works."""
    qemu_version()  # a QEMU that does not run at all is told first
    return _sandbox(tools())


def sandbox_finding() -> tuple[bool, str]:
    """For `doctor`: whether nothing is missing of the sandbox, and what there is of it."""
    if not ready():
        return True, "not tried yet: the tools are not here"
    chosen = sandbox()
    return not chosen.why, chosen.told


@cache
def _sandbox(used: Tools) -> Sandbox:
    filtered = _filters(used)
    missing = [] if filtered else ["this QEMU filters no system calls"]
    for words in bubblewraps(used):
        chosen = Sandbox(words, filtered, missing[0] if missing else "")
        if _works(chosen, used):
            return chosen
    missing.append("the host allows no user namespaces")
    chosen = Sandbox((), filtered, " and ".join(missing))
    if not filtered:
        warn(f"QEMU runs without a sandbox: {chosen.why}; a guest that breaks out of it has your rights")
    return chosen


def _filters(used: Tools) -> bool:
    done = subprocess.run([*used.qemu(), "--help"], capture_output=True, text=True, check=False)
    return "\n-sandbox " in done.stdout


def _works(tried: Sandbox, used: Tools) -> bool:
    view = View((), Path(tempfile.gettempdir()))
    command = [*tried.words(used, view), *used.qemu(), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=TRY_S, env=environment())
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def environment(preload: Sequence[Path] = ()) -> dict[str, str]:
    """What QEMU sees of this process's environment: nothing that tells whose it is."""
    told = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    return told | ({"LD_PRELOAD": ":".join(map(str, preload))} if preload else {})


def _programs(used: Tools) -> list[str]:
    """The words for the folders that QEMU and its libraries are in."""
    if used.root is not None:
        return ["--ro-bind", str(used.root), str(used.root)]
    words = hosts_programs()
    program = shutil.which(used.qemu()[0])
    if program is not None and not program.startswith("/usr/"):
        words += ["--ro-bind", program, program]
    return words


def hosts_programs() -> list[str]:
    """The words for the folders with programs and libraries of the host's distribution."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in MERGED:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += ["--ro-bind-try", str(path), str(path)]
    for name in ALSO_READ:
        words += ["--ro-bind-try", name, name]
    return words


def limits(memory_mib: int, file_bytes: int) -> list[str]:
    """The words before a command that limit each of its files, its memory, and leave no core file of it."""
    memory = (memory_mib << 20) + MORE_MEMORY_BYTES
    return ["prlimit", "--core=0", f"--fsize={file_bytes}", f"--as={memory}"]


def started(words: Sequence[str]) -> list[str]:
    """The words that start a command which dies with this process."""
    return ["setpriv", "--pdeathsig", "KILL", *words]
