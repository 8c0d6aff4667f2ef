# SPDX-License-Identifier: MIT
"""What QEMU and analyses are shut in: a view of the host with their own files alone, no network, no terminal, fewer
system calls, no capability. Where the host allows no namespaces, Landlock stands in for the view.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.choices import FILE_MIB
from harness.errors import KreproError
from harness.machine import confine
from harness.machine.qemu import qemu_version
from harness.machine.syscalls import program
from harness.packages.tree import MERGED, Tools, bubblewraps, ready, tools
from harness.paths import CODE, PACKAGE
from harness.progress import warn

#: QEMU's own filter of system calls: it starts no program, changes no user, and no scheduling.
FILTER = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
#: Of one file that QEMU writes, whatever the guest does: a console, bulk data, a recording, a plugin's output.
MOST_FILE_BYTES = FILE_MIB << 20
#: Address space beyond the guest's memory: translations (1 GiB), threads' stacks and arenas, what a plugin keeps.
MORE_MEMORY_BYTES = 16 << 30
#: Address space, bytes of all temporary files, and threads of an analysis; and its other limits.
ANALYSIS_BYTES, ANALYSIS_FILES_BYTES, ANALYSIS_THREADS = 16 << 30, 8 << 30, 512
ANALYSIS_LIMITS = {"NOFILE": 1024, "FSIZE": 4 << 30, "CORE": 0}
#: Bubblewrap's words for a program that has namespaces of its own, and no network, capability or parent but this one.
ALONE = (
    *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--cap-drop", "ALL"),
)
#: Folders outside /usr that programs of a distribution may be in, or be led through.
ALSO_READ = ("/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store")
#: Text and settings that an analysis' libraries look up, and devices that are no terminal's and no disk's.
ETC = ("/etc/localtime", "/etc/fonts", "/etc/mime.types")
NO_DISKS = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/full")
#: What variables begin with that say how libraries compute: results differ in the last bit by them.
COMPUTING = ("OPENBLAS_", "MKL_", "OMP_", "NPY_")
#: In the sandbox, in memory.
TMP, HOME = "/tmp", "/tmp/home"  # noqa: S108
CONFINE = Path(confine.__file__)
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
    """What every QEMU, or every analysis, of this process is started in.

    `program`: bubblewrap's words, empty without it. `filtered`: system calls are filtered; of QEMU, by itself too.
    `why`: what is missing of the two, and why; empty when nothing is. `landlock`: it stands in for bubblewrap.
    """

    program: tuple[str, ...]
    filtered: bool
    why: str = ""
    landlock: bool = False

    @property
    def told(self) -> str:
        """For a result set and for people."""
        parts = ["bubblewrap"] * bool(self.program) + ["landlock"] * self.landlock + ["seccomp"] * self.filtered
        return " + ".join(parts or ["none"]) + (f" ({self.why})" if self.why else "")

    @property
    def keeps_in(self) -> bool:
        """Whether a stranger's code may be executed in it."""
        return self.filtered and (bool(self.program) or self.landlock)

    def options(self) -> list[str]:
        """QEMU's own words for it."""
        return ["-sandbox", FILTER] if self.filtered else []

    def words(
        self, used: Tools, view: View, status: int | None = None, *, seccomp: int | None = None, terminal: bool = False
    ) -> list[str]:
        """The words before QEMU's command line.

        `status`: the descriptor on which bubblewrap tells the child's id; `seccomp`: the one that it reads a filter
        from. `terminal`: it keeps this process's session.
        """
        if not self.program:
            words = _without_capabilities()
            if self.landlock:
                read = [*_loaded(used), *map(str, view.readable), *map(str, view.preload), *NO_DISKS]
                write = [str(view.folder), "/dev/null", *(["/dev/kvm"] if view.kvm else [])]
                filters = program(analysis=False)
                wishes = {"read": read, "write": write, "seccomp": filters.hex() if filters else ""}
                words += [sys.executable, "-I", "-S", str(CONFINE), json.dumps(wishes)]
            return words
        words = [*self.program, *ALONE, "--as-pid-1", *_programs(used)]
        words += [] if terminal else ["--new-session"]
        words += ["--dev", "/dev", "--proc", "/proc"]
        words += ["--dev-bind", "/dev/kvm", "/dev/kvm"] if view.kvm else []
        for path in dict.fromkeys(view.readable):
            words += ["--ro-bind", str(path), str(path)]
        words += ["--bind", str(view.folder), str(view.folder), "--chdir", str(view.folder)]
        words += ["--json-status-fd", str(status)] if status is not None else []
        words += ["--seccomp", str(seccomp)] if seccomp is not None else []
        return [*words, "--"]

    def words_of_analysis(self, readable: Sequence[Path], scratch: Path, fonts: Path | None) -> list[str]:
        """The words before a Python that executes an analysis, which is then in this project's folder.

        It reads Python, the project's code and what is `readable`, and writes in HOME's folder alone: `scratch`, where
        it has no view of its own. `fonts`: matplotlib's list of them, which it would make anew.
        """
        if not self.program:
            home = scratch / "home"
            if fonts is not None:
                _fonts_of(home).mkdir(parents=True)
                shutil.copy(fonts, _fonts_of(home))
            return []
        # It is the first process of its own: no other is there whose memory it could have.
        words = [*self.program, *ALONE, "--as-pid-1", "--new-session", *hosts_programs()]
        for name in ETC:
            words += ["--ro-bind-try", name, name]
        words += ["--dev", "/dev", "--remount-ro", "/dev", "--proc", "/proc"]
        words += ["--size", str(ANALYSIS_FILES_BYTES), "--tmpfs", TMP, "--dir", HOME]
        words += ["--ro-bind", str(fonts), str(_fonts_of(Path(HOME)) / fonts.name)] if fonts is not None else []
        for path in _read_by_analysis(readable):
            words += ["--ro-bind", path, path]
        return [*words, "--remount-ro", "/", "--chdir", str(CODE), "--"]

    def wishes_of_analysis(self, readable: Sequence[Path], scratch: Path) -> str:
        """What its process asks of the kernel for itself (`shut_in`), before it knows anything of the analysis."""
        read = ["/usr", *(f"/{name}" for name in MERGED), *ALSO_READ, *ETC, *NO_DISKS, "/proc/self", "/sys/devices"]
        # Threads are counted by user and namespace: without one of its own all others of the user count too.
        threads = {"NPROC": ANALYSIS_THREADS} if self.program else {}
        wishes = {
            "landlock": {
                "read": [*read, *_read_by_analysis(readable)],
                "write": [str(scratch), "/dev/null"],
            }
            if self.landlock
            else None,
            "filtered": self.filtered,
            "parent": 0 if self.program else os.getpid(),
            "limits": {"AS": _address_space(), **ANALYSIS_LIMITS, **threads},
        }
        return json.dumps(wishes)

    def environment_of_analysis(self, scratch: Path) -> dict[str, str]:
        """What an analysis sees of this process's environment: nothing that tells whose it is."""
        tmp, home = (TMP, HOME) if self.program else (str(scratch), str(scratch / "home"))
        computing = {name: value for name, value in os.environ.items() if name.startswith(COMPUTING)}
        return {**environment(), **computing, "HOME": home, "TMPDIR": tmp, "PYTHONDONTWRITEBYTECODE": "1"}


def shut_in(told: str) -> None:
    """Shut this process in, as `wishes_of_analysis` has it. OSError when that cannot be."""
    wishes = json.loads(told)
    if wishes["parent"]:
        confine.die_with(wishes["parent"])
        confine.drop_capabilities()
    confine.limit(wishes["limits"])
    if wishes["landlock"] is not None:
        confine.restrict(**wishes["landlock"])
    filters = program(analysis=True, view=wishes["landlock"] is None)
    if wishes["filtered"] and filters is not None:
        confine.refuse(filters)


def sandbox() -> Sandbox:
    """The best that this host has: bubblewrap and QEMU's filter, else one of them; a warning where neither works."""
    qemu_version()  # a QEMU that does not run at all is told first
    return _sandbox(tools())


def sandbox_findings() -> dict[str, Callable[[], tuple[bool, str]]]:
    """For `doctor`: looks at each sandbox, which give whether nothing is missing of it, and what there is of it."""

    def look(chosen: Callable[[], Sandbox]) -> tuple[bool, str]:
        if not ready():
            return True, "not tried yet: the tools are not here"
        return not chosen().why, chosen().told

    return {"QEMU's sandbox": lambda: look(sandbox), "an analysis' sandbox": lambda: look(sandbox_of_analyses)}


def sandbox_of_analyses(*, fetch: bool = False) -> Sandbox:
    """The best that this host has for an analysis: bubblewrap, else Landlock, and the kernel's filter.

    `fetch`: where it would be none, the tools are fetched, among which is a bubblewrap.
    """
    chosen = _sandbox_of_analyses(tools() if ready() else Tools(), ready())
    if fetch and not chosen.keeps_in and not ready():
        try:
            return _sandbox_of_analyses(tools(), True)
        except KreproError as error:
            return Sandbox((), chosen.filtered, f"{chosen.why}, which cannot be fetched: {error.message}")
    return chosen


@cache
def _sandbox_of_analyses(used: Tools, there: bool) -> Sandbox:
    filtered = program(analysis=True) is not None and confine.filters_calls()
    missing = [] if filtered else ["this kernel filters no system calls"]
    why = ""
    for words in bubblewraps(used):
        why = _why_not([*words, *ALONE, "--new-session", "--ro-bind", "/", "/", "--", "true"])
        if not why:
            return Sandbox(words, filtered, "".join(missing))
    missing.append(_no_bubblewrap(why, there=there))
    landlock = confine.landlock_version() >= confine.LEAST_LANDLOCK
    missing += [] if landlock else [f"this kernel's Landlock is not version {confine.LEAST_LANDLOCK} or later"]
    return Sandbox((), filtered, " and ".join(missing), landlock)


def _no_bubblewrap(why: str, *, there: bool) -> str:
    if why:
        return f"bubblewrap does not work here: {why}"
    return "there is no bubblewrap here" if there else "the host has no bubblewrap and the tools are not fetched yet"


@cache
def _sandbox(used: Tools) -> Sandbox:
    filtered = _filters(used)
    missing = [] if filtered else ["this QEMU filters no system calls"]
    why = ""
    for words in bubblewraps(used):
        chosen = Sandbox(words, filtered, "".join(missing))
        view = View((), Path(tempfile.gettempdir()))
        why = _why_not([*chosen.words(used, view), *used.qemu(), "--version"])
        if not why:
            return chosen
    missing.append(_no_bubblewrap(why, there=True))
    landlock = confine.landlock_version() >= confine.LEAST_LANDLOCK
    chosen = Sandbox((), filtered, " and ".join(missing), landlock)
    if not filtered and not landlock:
        warn(f"QEMU runs without a sandbox: {chosen.why}; a guest that breaks out of it has your rights")
    return chosen


def _filters(used: Tools) -> bool:
    done = subprocess.run([*used.qemu(), "--help"], capture_output=True, text=True, check=False)
    return "\n-sandbox " in done.stdout


def _why_not(command: Sequence[str]) -> str:
    """What a sandbox says that does not work; nothing where it does."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=TRY_S, env=environment()
        )
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return f"it did not end within {TRY_S} s"
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return "" if done.returncode == 0 else (*last, f"it ended with status {done.returncode}")[0].removeprefix("bwrap: ")


def _without_capabilities() -> list[str]:
    drop = ["--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    return ["setpriv", "--no-new-privs", *drop]


def _address_space() -> int:
    """Bytes: of an analysis of yours, as much as the host has."""
    return max(ANALYSIS_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _read_by_analysis(readable: Sequence[Path]) -> list[str]:
    """Python's folders and the project's code, outside /usr, and these."""
    pythons = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(sys.executable).resolve().parent)}
    ours = [path for path in sorted(pythons, key=len) if not Path(path).is_relative_to("/usr")]
    return [*ours, str(PACKAGE), *(str(path) for path in readable if path.exists())]


def _fonts_of(home: Path) -> Path:
    return home / ".cache/matplotlib"


def environment(preload: Sequence[Path] = ()) -> dict[str, str]:
    """What QEMU sees of this process's environment: nothing that tells whose it is."""
    told = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    return told | ({"LD_PRELOAD": ":".join(map(str, preload))} if preload else {})


def _loaded(used: Tools) -> list[str]:
    """The folders that QEMU and its libraries are in, for Landlock."""
    if used.root is not None:
        return [str(used.root)]
    return ["/usr", *(f"/{name}" for name in MERGED), *ALSO_READ, *filter(None, [shutil.which(used.qemu()[0])])]


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
