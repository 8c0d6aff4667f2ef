# SPDX-License-Identifier: MIT
"""The tools tree: the locked QEMU, compiler and build tools, unpacked in the store, and the ways to run them.

QEMU runs straight from the tree, by the tree's own dynamic loader. A build sees the tree as its /usr: through
bubblewrap, or where the host's kernel allows no namespaces through proot, which is slower.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import debian
from harness.artefacts.store import Store, hash_of, usable
from harness.errors import UsageError
from harness.packages.deb import unpack
from harness.packages.fetch import fetch
from harness.packages.lock import load
from harness.packages.toolslist import UNUSED
from harness.paths import ROOT
from harness.progress import step, warn
from harness.scratch import remove_tree

#: Raised when another tree is made of the same packages.
RECIPE_VERSION = 1
TOOLS, SEAL = "tools", "tree.json"
QEMU = "qemu-system-x86_64"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
#: The loader under each QEMU's name, in a folder beside `bin`: QEMU looks for firmware and modules from where its
#: process's file is, and the process has that file's name.
LOADERS = "usr/loader"
NO_WAY = "the tools tree cannot be entered: neither bubblewrap nor proot runs here"
#: Folders of / that are the tree's in a build; Debian 12's packages have files in all of them.
MERGED = ("bin", "sbin", "lib", "lib32", "lib64")
LINKS = {"usr/bin/awk": "gawk"}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NOT_BOUND = {"usr", *MERGED, "libx32", "etc", "proc", "dev"}
#: Of the host's environment: what would lead the tree's loader and programs to the host's files.
UNSET = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PERL5LIB", "GCC_EXEC_PREFIX", "COMPILER_PATH", "LIBRARY_PATH", "CPATH")


@dataclass(frozen=True)
class Tools:
    """The tools of this process: those of a tree, or with `root` None the host's own."""

    root: Path | None = None
    key: str = ""

    @property
    def told(self) -> str:
        """Where the bits come from, for a result set."""
        return f"tree {self.key}" if self.root else "host"

    def qemu(self, name: str = QEMU) -> list[str]:
        """The words that a command line of the QEMU called `name` begins with."""
        if self.root is None:
            return [name]
        return [str(self.root / LOADERS / name), *self._loading(name), str(self.root / "usr/bin" / name)]

    def run_words(self, argv: Sequence[str | Path], cwd: Path | None = None) -> list[str]:
        """The command line that runs `argv` among these tools, in the folder `cwd` or this process's own."""
        words = [str(word) for word in argv]
        return words if self.root is None else [*_way(self.root).into(self, cwd or Path.cwd()), *words]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """`given` as a build among these tools has it."""
        if self.root is None:
            return dict(given)
        return {**{key: value for key, value in given.items() if key not in UNSET}, "PATH": PATH}

    def run(self, argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run a short command among these tools and give what it prints. OSError, CalledProcessError when it fails."""
        environment = self.environment({**os.environ, "LC_ALL": "C"})
        return subprocess.run(self.run_words(argv), capture_output=True, text=True, check=True, env=environment)

    def own(self, program: str) -> list[str]:
        """The words that run a program of the tree as a process of the host, by the tree's loader."""
        assert self.root is not None
        return [str(self.root / LOADER), *self._loading(program), str(self.root / "usr/bin" / program)]

    def _loading(self, name: str) -> list[str]:
        return ["--library-path", str(self.root / LIBRARIES), "--argv0", name] if self.root else []


def tools(cross: str = "") -> Tools:
    """The tools of this process: the host's with the setting `host_tools`, else the tree, made if need be.

    `cross`: with those for guests of another architecture (`Arch.cross`), which are in a tree of their own beside all
    others. RunError when a package of the tree cannot be had.
    """
    if debian.host_tools():
        return Tools()
    return _tree(Store.default().root, cross)


@cache
def _tree(root: Path, cross: str = "") -> Tools:
    home = tree_home(root, cross)
    store = Store(root)
    store.use(TOOLS, home.name, home / SEAL)
    if _damage(home) is not None:
        with store.lock(TOOLS, home.name, "tree"), usable(root):
            damage = _damage(home)
            if damage is not None:
                if home.exists():
                    warn(f"the tools tree {home.name[:12]} is damaged ({damage}); it is deleted and made again")
                    remove_tree(home)
                _make(store, home, list(fetch(store, load().tool_entries(cross)).values()))
    return Tools(home, home.name)


def ready(cross: str = "") -> bool:
    """Whether this process's tools are there, so that asking for them fetches nothing."""
    return debian.host_tools() or _damage(tree_home(Store.default().root, cross)) is None


def tree_home(root: Path, cross: str = "") -> Path:
    """The folder of the locked tools' tree in the store at `root`, whether it is there or not."""
    debs = sorted(entry.sha256 for entry in load().tool_entries(cross))
    return root / TOOLS / hash_of({"recipe": RECIPE_VERSION, "debs": debs})[:32]


def _make(store: Store, home: Path, debs: Sequence[Path]) -> None:
    with store.scratch("tools") as folder:
        for name in MERGED:
            (folder / "usr" / name).mkdir(parents=True)
            (folder / name).symlink_to(f"usr/{name}")
        with step("unpacking the tools", total=len(debs)) as bar, ThreadPoolExecutor() as pool:
            for _ in pool.map(lambda deb: unpack(deb, folder, place), debs):
                bar.advance(1)
        for name, goal in LINKS.items():
            (folder / name).symlink_to(goal)
        (folder / LOADERS).mkdir()
        for qemu in {QEMU, *(path.name for path in folder.glob("usr/bin/qemu-system-*"))}:
            shutil.copy2(folder / LOADER, folder / LOADERS / qemu)
        (folder / SEAL).write_text(json.dumps(_listing(folder)))
        home.parent.mkdir(exist_ok=True)
        folder.rename(home)


def place(name: str) -> str | None:
    """Where a package's file goes in the tree: all below usr/; None for what no tool needs."""
    first, _, rest = name.partition("/")
    below = rest if first == "usr" else name if first in MERGED else ""
    return None if not below or f"{below}/".startswith(UNUSED) else f"usr/{below}"


def _listing(home: Path) -> dict[str, list[int]]:
    """Size and time of every file: what any change of one changes, and quickly looked at."""
    found = {}
    todo = [str(home / "usr")]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    state = entry.stat(follow_symlinks=False)
                    found[entry.path.removeprefix(f"{home}/")] = [state.st_size, state.st_mtime_ns]
    return found


def _damage(home: Path) -> str | None:
    try:
        expected = json.loads((home / SEAL).read_text())
        actual = _listing(home)
    except (OSError, ValueError):
        return f"{SEAL} cannot be read"
    changed = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
    return f"{changed[0]} is not what was unpacked" if changed else None


def finding() -> tuple[bool, str]:
    """For `doctor`: whether builds can enter the tree on this host, and by which way; what must be fetched for it."""
    entries = load().tool_entries()
    home = tree_home(Store.default().root)
    others = "".join(map(_other_finding, load().cross))
    if _damage(home) is not None:
        size = sum(entry.size for entry in entries) / 1e6
        return True, f"not here yet: the first run fetches {len(entries)} packages ({size:.0f} MB){others}"
    way = find_way(Tools(home, home.name))
    if way is None:
        return False, NO_WAY
    here = f"{home.name[:12]}, {len(entries)} packages; QEMU by the tree's loader, builds by {way.name}"
    return True, f"{here}{others}"


def _other_finding(cross: str) -> str:
    """Whether the tools for guests of another architecture are here, as the end of a sentence."""
    if ready(cross):
        return f"; for guests of {cross}: {tree_home(Store.default().root, cross).name[:12]}"
    more = load().tool_entries(cross)[len(load().tools) :]
    size = sum(entry.size for entry in more) / 1e6
    return f"; for guests of {cross}: {len(more)} packages more ({size:.0f} MB), fetched for their first kernel"


# -- ways for builds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How a build gets to see the tree as its /usr. `name`: for people."""

    name: str
    program: tuple[str, ...]
    proot: bool = False

    def into(self, tree: Tools, cwd: Path) -> list[str]:
        """The words before a command."""
        assert tree.root is not None
        outside = [entry for entry in sorted(Path("/").iterdir()) if entry.name not in NOT_BOUND]
        _check_visible(cwd)
        if self.proot:
            words = [*self.program, "-r", str(tree.root), "-w", str(cwd)]
            return [*words, *(word for path in (*outside, "/dev", "/proc") for word in ("-b", str(path)))]
        words = [*self.program, "--die-with-parent", "--ro-bind", str(tree.root / "usr"), "/usr"]
        for name in MERGED:
            words += ["--symlink", f"usr/{name}", f"/{name}"]
        words += ["--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc"]
        for path in outside:
            if path.is_symlink():
                words += ["--symlink", str(path.readlink()), str(path)]
            else:
                words += ["--bind-try", str(path), str(path)]
        # bubblewrap is killed with its parent, and what it runs is then told to end: make removes what is half done.
        return [*words, "--chdir", str(cwd), "--", "setpriv", "--pdeathsig", "TERM"]


@cache
def _way(root: Path) -> Way:
    way = find_way(Tools(root))
    if way is None:
        hint = "allow user namespaces or ptrace, or build with the host's own tools: KREPRO_HOST_TOOLS=1"
        raise UsageError(NO_WAY, hint=hint)
    return way


def find_way(tree: Tools) -> Way | None:
    """The first way that works on this host: bubblewrap (the tree's, then the host's own), then proot."""
    names = ("bubblewrap", "the host's bubblewrap")
    ways = [Way(name, words) for name, words in zip(names, bubblewraps(tree), strict=False)]
    ways.append(Way("proot, which is slower: the host allows no user namespaces", tuple(tree.own("proot")), proot=True))
    return next((way for way in ways if _works(way, tree)), None)


def bubblewraps(used: Tools) -> list[tuple[str, ...]]:
    """The words of each bubblewrap there is: the tree's, then the host's; whether one works is to be tried."""
    own = [tuple(used.own("bwrap"))] if used.root is not None else []
    return own + [("bwrap",)] * bool(shutil.which("bwrap"))  # some systems allow namespaces to their own alone


def _works(way: Way, tree: Tools) -> bool:
    command = [*way.into(tree, Path("/")), "make", "--version"]
    environment = tree.environment(os.environ)
    try:
        done = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _check_visible(cwd: Path) -> None:
    """UsageError when a folder that a build needs is where the tree's own files are seen instead."""
    for path in (cwd, ROOT, Store.default().root, Path(tempfile.gettempdir())):
        first = path.resolve().parts[1:2]
        if first and first[0] in NOT_BOUND - {"proc", "dev"}:
            raise UsageError(
                f"builds see the tools tree in place of /{first[0]}, so nothing of theirs can be there",
                where=str(path),
                hint="use another folder, or KREPRO_HOST_TOOLS=1",
            )
