"""Guest programs and scripts: static C programs and shell scripts from a folder, modules against a kernel."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.build.kernel import kernel_environment, make_argv
from harness.build.run import tool
from harness.build.spec import Arch
from harness.build.store import Store
from harness.errors import RunError, UsageError
from harness.paths import IMAGES

CFLAGS = ("-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-g0")
MACHINE_FLAGS: dict[Arch, tuple[str, ...]] = {"i386": ("-m32", "-march=i686"), "x86_64": ("-m64",)}
LINK_FLAGS = ("-lm", "-lpthread")


def program_sources(folders: Sequence[Path]) -> dict[str, Path]:
    """Program name to its .c or .sh file; UsageError when two files would make the same program."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted([*folder.glob("*.c"), *folder.glob("*.sh")]):
            if path.stem in found:
                raise UsageError(f"guest program {path.stem} has two sources", where=f"{found[path.stem]}, {path}")
            found[path.stem] = path
    return found


def source_files(folders: Sequence[Path]) -> list[Path]:
    """Every file that guest programs and modules are made of, headers included."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def build_programs(arch: Arch, sources: dict[str, Path], target: Path, log: Path) -> None:
    """Put every program, executable, into `target`; RunError with the compiler's first error otherwise."""
    target.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        out = target / name
        if source.suffix == ".sh":
            shutil.copyfile(source, out)
            out.chmod(0o755)
            continue
        prefix_map = f"-ffile-prefix-map={source.parent}=."
        command: list[str | Path] = [
            "gcc",
            *CFLAGS,
            *MACHINE_FLAGS[arch],
            prefix_map,
            "-I",
            source.parent,
            "-I",
            IMAGES / "guest",
            "-o",
            out,
            source,
            *LINK_FLAGS,
        ]
        try:
            tool(command, log=log, cwd=source.parent, what=f"compiling {source.name}")
        except RunError as error:
            # The user's own C is an input like any other: exit code 2, and gcc's line has file and line number.
            raise UsageError(error.message, where=str(source), hint=error.hint) from error


def module_sources(folders: Sequence[Path]) -> list[Path]:
    """Folders with out-of-tree modules: `guest/modules/NAME/` with a Kbuild or Makefile."""
    return sorted(
        {
            path.parent
            for folder in folders
            for path in folder.glob("modules/*/*")
            if path.name in {"Kbuild", "Makefile"}
        }
    )


def build_modules(
    store: Store, arch: Arch, tree: Path, build: Path, sources: Sequence[Path], target: Path, log: Path
) -> None:
    """Build each module folder against the kernel in `build` and put the .ko files into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for source in sources:
        scratch = store.scratch("module")
        try:
            copy = scratch / source.name
            shutil.copytree(source, copy)
            command = [*make_argv(tree, build, arch), f"M={copy}", "modules"]
            try:
                tool(command, log=log, env=kernel_environment(store), what=f"building module {source.name}")
            except RunError as error:
                raise UsageError(error.message, where=str(source), hint=error.hint) from error
            built = sorted(copy.glob("*.ko"))
            if not built:
                raise UsageError("the module's Kbuild makes no .ko file", where=str(source))
            for module in built:
                shutil.copyfile(module, target / module.name)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def safe_name(name: str) -> bool:
    """Whether gen_init_cpio's list format can carry this file name."""
    return re.fullmatch(r"[\w.+@%,:=/\[-]+", name) is not None
