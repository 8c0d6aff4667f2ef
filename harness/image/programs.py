# SPDX-License-Identifier: MIT
"""Guest programs and scripts: static C programs and shell scripts from a folder, modules against a kernel.

A guest folder has `NAME.sh`, `NAME.c` or a folder `NAME/` of C files for each program, and `lib/`: a library of its
own for these programs. The library of all guests is `images/guest/lib`. What an architecture has in its overlay comes
before what all guests have.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.kernel.arch import ARCHES, ArchName
from harness.kernel.build import kernel_environment
from harness.kernel.spec import KernelSpec
from harness.packages.buildtool import tool
from harness.packages.tree import tools
from harness.paths import IMAGES, PACKAGED

CFLAGS = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-g0")
LINK_FLAGS = ("-lm", "-lpthread")
#: Folders of a guest folder that are no programs.
#: A folder of a module has one of them.
KBUILDS = ("Kbuild", "Makefile")
LIBRARY, MODULES = "lib", "modules"


def program_sources(folders: Sequence[Path]) -> dict[str, Path]:
    """Program name to its .c or .sh file or its folder of C files.

    Raises UsageError when two sources would make the same program, and for a folder without C.
    """
    sources: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                if path.name in {LIBRARY, MODULES} or path.name.startswith("."):
                    continue
                if not any(path.glob("*.c")):
                    raise UsageError(
                        f"guest program {path.name} has no .c file",
                        where=str(path),
                        hint=f"a folder is a program; what programs share goes into {LIBRARY}/",
                    )
            elif path.suffix not in {".c", ".sh"}:
                continue
            name = path.name if path.is_dir() else path.stem
            if name in sources:
                raise UsageError(f"guest program {name} has two sources", where=f"{sources[name]}, {path}")
            sources[name] = path
    return sources


def with_overlay(folders: Sequence[Path], overlay: Path | None) -> dict[str, Path]:
    """`program_sources` of these folders, with those of an architecture's overlay in place of what has their names."""
    return {**program_sources(folders), **(program_sources([overlay]) if overlay else {})}


def overlay_of(arch: ArchName) -> Path | None:
    """The guest folder of an architecture that needs other programs than images/guest has; None for the others."""
    name = ARCHES[arch].overlay
    return IMAGES / name if name else None


def overlay_for(kernel: KernelSpec) -> Path | None:
    """The same of a kernel; of a packaged one the folder with what its configuration asks for."""
    return PACKAGED if kernel.source.built else overlay_of(kernel.arch)


def source_files(folders: Sequence[Path]) -> list[Path]:
    """Every file that guest programs and modules are made of, headers included."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def build_programs(arch: ArchName, sources: dict[str, Path], target: Path, log: Path) -> None:
    """Put every program, executable, into `target`; UsageError with the compiler's first error otherwise."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".objects-") as scratch:
        compiler = _Compiler(arch, Path(scratch), log)
        for name, source in sources.items():
            if source.suffix == ".sh":
                shutil.copyfile(source, target / name)
                (target / name).chmod(0o755)
            else:
                compiler.program(source, target / name)


def build_program(arch: ArchName, source: Path, out: Path, log: Path, extra: Sequence[str | Path] = ()) -> None:
    """One C program as `out`, made with `extra` C files and linker's words: a test's stand-in for a device.

    Raises UsageError as `build_programs` does.
    """
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".objects-") as scratch:
        _Compiler(arch, Path(scratch), log).program(source, out, extra)


def include_folders(source: Path, arch: ArchName = "x86_64") -> list[Path]:
    """Where the C of a program, `guest/NAME.c` or `guest/NAME/`, finds its headers, in this order."""
    own = [source] if source.is_dir() else []
    return [*own, *_homes(source), *library_folders(source, arch)]


def library_folders(source: Path, arch: ArchName = "x86_64") -> list[Path]:
    """The libraries of a program: its own guest folder's first, then the architecture's, then that of all guests."""
    everybodys = [*filter(None, [overlay_of(arch)]), IMAGES / "guest"]
    own = [home for home in _homes(source) if home not in everybodys]
    return [home / LIBRARY for home in (*own, *everybodys) if (home / LIBRARY).is_dir()]


def _homes(source: Path) -> list[Path]:
    """The guest folder of a program; for one of `guest-KERNEL/` that of all kernels' guests too."""
    home = source.parent
    return [home, home.parent / "guest"] if home.name.startswith("guest-") else [home]


def c_files(folder: Path) -> list[Path]:
    """The C files of a program's or a library's folder; folders in it are not looked into."""
    return sorted(folder.glob("*.c"))


class _Compiler:
    """Compiles one C file at a time, so that an error names it; libraries once."""

    def __init__(self, arch: ArchName, scratch: Path, log: Path) -> None:
        self._arch, self._scratch, self._log = arch, scratch, log
        self._row = ARCHES[arch]
        self._archives: dict[Path, Path | None] = {}

    def program(self, source: Path, out: Path, extra: Sequence[str | Path] = ()) -> None:
        files = c_files(source) if source.is_dir() else [source]
        include = include_folders(source, self._arch)
        objects = self._objects(files, include)
        archives = [archive for folder in library_folders(source, self._arch) if (archive := self._archive(folder))]
        self._gcc(["-o", out, *objects, *extra, *archives, *LINK_FLAGS], source, include)

    def _archive(self, folder: Path) -> Path | None:
        """The static library of a folder, or None for one of headers alone."""
        if folder not in self._archives:
            objects = self._objects(c_files(folder), include_folders(folder, self._arch))
            archive = self._new("a")
            if objects:
                # D: without times and owners, so that the same sources give the same bits.
                words: list[str | Path] = [f"{self._row.prefix}ar", "rcsD", archive, *objects]
                tool(words, log=self._log, what=f"making {folder}", among=tools(self._row.cross))
            self._archives[folder] = archive if objects else None
        return self._archives[folder]

    def _objects(self, files: Sequence[Path], include: Sequence[Path]) -> list[Path]:
        objects = []
        for file in files:
            objects.append(self._new("o"))
            self._gcc(["-c", "-o", objects[-1], file], file, include)
        return objects

    def _new(self, suffix: str) -> Path:
        return self._scratch / f"{len(list(self._scratch.iterdir()))}.{suffix}"

    def _gcc(self, words: Sequence[str | Path], source: Path, include: Sequence[Path]) -> None:
        flags = [word for folder in include for word in (f"-ffile-prefix-map={folder}=.", "-I", folder)]
        command = [f"{self._row.prefix}gcc", *CFLAGS, *self._row.flags, *flags, *words]
        try:
            among = tools(self._row.cross)
            tool(command, log=self._log, cwd=source.parent, what=f"compiling {source.name}", among=among)
        except RunError as error:
            # The user's own C is an input like any other: exit code 2, and gcc's line has file and line number.
            raise UsageError(error.message, where=str(source), hint=error.hint) from error


def module_sources(folders: Sequence[Path]) -> list[Path]:
    """Folders with out-of-tree modules: `guest/modules/NAME/` with a Kbuild or Makefile."""
    return sorted({path.parent for folder in folders for path in folder.glob("modules/*/*") if path.name in KBUILDS})


def build_modules(
    store: Store, arch: ArchName, make: Sequence[str], sources: Sequence[Path], target: Path, log: Path
) -> None:
    """Build each module folder with the words of `make` and put the .ko files into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for source in sources:
        with store.scratch("module") as scratch:
            copy = scratch / source.name
            shutil.copytree(source, copy)
            command = [*make, f"M={copy}", "modules"]
            among, what = tools(ARCHES[arch].cross), f"building module {source.name}"
            try:
                tool(command, log=log, env=kernel_environment(store), what=what, among=among)
            except RunError as error:
                raise UsageError(error.message, where=str(source), hint=error.hint) from error
            built = sorted(copy.glob("*.ko"))
            if not built:
                raise UsageError("the module's Kbuild makes no .ko file", where=str(source))
            for module in built:
                shutil.copyfile(module, target / module.name)


def safe_name(name: str) -> bool:
    """Whether a file of this name goes into an image: no blank, and nothing that a shell would read otherwise."""
    return re.fullmatch(r"[\w.+@%,:=/\[-]+", name) is not None
