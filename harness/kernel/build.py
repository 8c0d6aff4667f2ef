# SPDX-License-Identifier: MIT
"""Kernel builds: merged fragments, checked options, reproducible output, an artefact per set of inputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from harness.artefacts.store import Artefact, Store, hash_file, hash_of, usable
from harness.errors import RunError, UsageError
from harness.kernel.arch import ARCHES, ArchName
from harness.kernel.fragments import requested_options
from harness.kernel.localtree import local_build, local_tree
from harness.kernel.source import fetch_source, patched_tree, source_identity
from harness.kernel.spec import KernelRecipe
from harness.packages.buildtool import HOST, build_environment, tool
from harness.packages.tree import Tools, tools
from harness.progress import note, step

#: Raised when the way of building changes in a manner that changes its output.
RECIPE_VERSION = 1
#: Raised when `base_config` makes something else of a config.
BASE_VERSION = 1
#: Where files lie that no kernel is made of: what they say does not void it.
NOT_COMPILED = ("Documentation/", "tools/testing/")
#: Objects that take in a file by `.incbin`, which is in no list of what they include: ccache would give that of a build
#: whose file had another content and the same size. piggy.o is the kernel itself, packed.
TAKING_IN = ("piggy", "rmpiggy", "kexec-purgatory")
#: Keeps what the preprocessor makes beside the object; with it ccache does nothing.
UNCACHED = "-save-temps=obj"
#: What would otherwise tell builder, host and moment (Documentation/kbuild/reproducible-builds.rst).
FIXED_IDENTITY = {
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_USER": "krepro",
    "KBUILD_BUILD_HOST": "krepro",
    "KBUILD_BUILD_VERSION": "1",
}
NT_GNU_BUILD_ID = 3
STEP_LINE = re.compile(r"^\s+(?:CC|AS|LD|AR|HOSTCC|HOSTLD|CHECK|UPD|GEN|OBJCOPY|VOFFSET|ZOFFSET)\b")
DEFAULT_STEPS = 1500
#: In a build's folder: the key of the kernel that it is, empty while it is not.
BUILT = ".krepro-built"
#: Options that name files of the distribution's own build, or what only its tools can make.
DISTRIBUTIONS_OWN = ("SYSTEM_TRUSTED_KEYS", "SYSTEM_REVOCATION_KEYS", "MODULE_SIG_KEY", "BUILD_SALT", "LOCALVERSION")


def build_kernel(store: Store, recipe: KernelRecipe) -> Artefact:
    """The built kernel: bzImage, vmlinux, System.map, config and Module.symvers; of a packaged one what its packages
    have (`harness.kernel.packaged`).

    Raises UsageError for a config option that did not survive or a patch that does not apply, RunError for a
    failing compiler, with the log's path.
    """
    archive = fetch_source(store, recipe.spec.source, recipe.beside)
    if recipe.spec.source.built:
        assert archive is not None
        return archive
    identity = source_identity(recipe.spec.source, archive)
    inputs = kernel_inputs(recipe, identity)
    return store.obtain(
        "kernel", recipe.spec.name, inputs, lambda folder: _build(store, recipe, archive, inputs, folder)
    )


def kernel_is_built(store: Store, recipe: KernelRecipe) -> bool:
    """Whether `build_kernel` would find this kernel. Its source is fetched to tell."""
    archive = fetch_source(store, recipe.spec.source, recipe.beside)
    return store.has("kernel", kernel_inputs(recipe, source_identity(recipe.spec.source, archive)))


def kernel_inputs(recipe: KernelRecipe, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that decides the bytes of a kernel, as it goes into its key."""
    merged = recipe.fragments if recipe.config is None else (recipe.config, *recipe.fragments)
    inputs = {
        "recipe": RECIPE_VERSION,
        "arch": recipe.spec.arch,
        "source": identity,
        "patches": [
            {"name": name, "sha256": hash_file(path)}
            for name, path in recipe.added()
            if not name.startswith(NOT_COMPILED)
        ],
        "fragments": [{"name": path.name, "sha256": hash_file(path)} for path in merged],
        "compiler": toolchain(recipe.spec.arch),
    }
    if recipe.config is not None:  # not an empty field: the keys of kernels without one stay as they were
        inputs["base"] = BASE_VERSION
    return inputs


def toolchain(arch: ArchName = "x86_64") -> dict[str, str]:
    """First line of what each tool for `arch` says of its version; UsageError when there is none."""
    return dict(_toolchain(tools(ARCHES[arch].cross), ARCHES[arch].prefix))


@cache
def _toolchain(used: Tools, prefix: str) -> dict[str, str]:
    versions = {}
    for name in ("gcc", "ld"):
        try:
            done = used.run([f"{prefix}{name}", "--version"])
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"{prefix}{name} does not run: {error}", hint="./inv doctor") from error
        versions[name] = done.stdout.splitlines()[0]
    return versions


def parse_config(text: str) -> dict[str, str]:
    """Options of a .config, as Kconfig wrote it; comments other than `is not set` are ignored."""
    options = {}
    for match in re.finditer(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$", text, re.MULTILINE):
        options[match[1] or match[3]] = match[2].strip() if match[1] else "n"
    return options


def base_config(text: str) -> str:
    """A distribution's .config as a base: without modules, which no guest of ours loads, and without its own keys."""
    options = parse_config(text)
    dropped = {f"CONFIG_{name}" for name in DISTRIBUTIONS_OWN}
    return "".join(
        f"# {option} is not set\n" if value in ("m", "n") else f"{option}={value}\n"
        for option, value in options.items()
        if option not in dropped
    )


def unmet_options(wanted: Mapping[str, str], final: Mapping[str, str]) -> list[str]:
    """Those requests that the final config does not fulfil, each as `OPTION=wanted (is actual)`."""
    return [
        f"{option}={value} (is {final.get(option, 'n')})"
        for option, value in wanted.items()
        if final.get(option, "n") != value
    ]


def make_argv(tree: Path, out: Path, arch: ArchName) -> list[str]:
    """The start of every make call for one kernel.

    `out` is a folder in `tree`: kbuild then calls the source "..", so no path of this host reaches the compiler,
    the objects, or ccache's keys.
    """
    prefix = ARCHES[arch].prefix
    return [
        "make",
        "-C",
        str(tree),
        f"O={out}",
        f"ARCH={ARCHES[arch].make}",
        f"CC={cached()}{prefix}gcc",
        f"HOSTCC={cached()}gcc",
        "LOCALVERSION=",
        *(f"AFLAGS_{name}.o={UNCACHED}" for name in TAKING_IN),
        *([f"CROSS_COMPILE={prefix}"] * bool(prefix)),
    ]


def cached() -> str:
    """What stands before a compiler's name in make's words."""
    return "" if tools() == HOST and shutil.which("ccache") is None else "ccache "


def build_directory(tree: Path, inputs: Mapping[str, Any]) -> Path:
    """Where a kernel is compiled; kept, because modules are built against it."""
    return tree / f"build-{hash_of(inputs)[:16]}"


@contextmanager
def build_place(
    store: Store, recipe: KernelRecipe, archive: Artefact | None, inputs: Mapping[str, Any], *, check: bool = False
) -> Iterator[tuple[Path, Path]]:
    """The patched source tree of a kernel with these inputs, and the folder in it where it is compiled.

    That of an archive is the kernel's own. That of a local tree is shared by all states of this tree, one at a time,
    so that only what was edited is compiled anew; `is_built` says of which kernel it is. `check`: see `patched_tree`.
    """
    if archive is not None:
        tree = patched_tree(store, recipe, archive, inputs["source"], check=check)
        yield tree, build_directory(tree, inputs)
    else:
        with local_tree(store, recipe, inputs["source"]) as tree:
            lasting = {name: value for name, value in inputs.items() if name not in {"source", "patches"}}
            yield tree, local_build(tree, build_directory(tree, lasting).name)


def is_built(out: Path, kernel: Artefact) -> bool:
    """Whether the folder `out` is what is left of this kernel's build, and modules can be built against it."""
    built = out / BUILT
    fits = not built.exists() or built.read_text() == kernel.key  # builds of older versions have no such file
    return fits and (out / "Module.symvers").is_file()


@contextmanager
def place_of_build(store: Store, recipe: KernelRecipe, kernel: Artefact) -> Iterator[tuple[Path, Path]]:
    """The source tree of a kernel of the store, and the folder of its build, against which modules are built.

    A folder that is gone is made again: its tree was unpacked anew, or pruned. RunError where that cannot be, as a
    local tree has changed, or makes another kernel.
    """
    archive = fetch_source(store, recipe.spec.source, recipe.beside)
    if archive is not None:
        _make_again(store, recipe, archive, kernel)
    with build_place(store, recipe, archive, kernel.inputs) as (tree, out):
        if not is_built(out, kernel):
            raise RunError(
                "the kernel's build folder is gone, and modules need it",
                where=str(out),
                hint=f"remove {kernel.path} to build the kernel again",
            )
        yield tree, out


def _make_again(store: Store, recipe: KernelRecipe, archive: Artefact, kernel: Artefact) -> None:
    with store.lock("kernel", kernel.key, recipe.spec.name):
        with build_place(store, recipe, archive, kernel.inputs) as (_, out):
            if is_built(out, kernel):
                return
        note(f"the folder of {recipe.spec.name}'s build is gone, and modules need it: it is compiled again")
        log = store.root / "logs" / f"kernel-{recipe.spec.name}.log"
        with usable(store.root), build_place(store, recipe, archive, kernel.inputs, check=True) as (tree, out):
            log.parent.mkdir(exist_ok=True)
            _make(store, recipe, tree, out, kernel.inputs, log)
            if (out / "System.map").read_bytes() != kernel.file("System.map").read_bytes():
                (out / BUILT).write_text("")


def configure(recipe: KernelRecipe, tree: Path, out: Path, log: Path) -> None:
    """Write the final .config into `out` and check every requested option against it."""
    out.mkdir(parents=True, exist_ok=True)
    make = make_argv(tree, out, recipe.spec.arch)
    among = tools(ARCHES[recipe.spec.arch].cross)
    files = list(recipe.fragments)
    if recipe.config is not None:
        files.insert(0, out / "base.config")
        files[0].write_text(base_config(recipe.config.read_text()))
    merge: list[str | Path] = [tree / "scripts/kconfig/merge_config.sh", "-m", "-O", out, *files]
    # It makes temporary files where it is called: another build may just be checking the tree that both share.
    tool(["sh", *merge], log=log, cwd=out, env=FIXED_IDENTITY, what="merge_config.sh")
    if recipe.config is not None:  # what a base does not name has its default, as where the base comes from
        tool([*make, "olddefconfig"], log=log, env=FIXED_IDENTITY, what="make olddefconfig", among=among)
    else:
        merged = out / "merged.config"
        (out / ".config").rename(merged)
        all_no = [*make, f"KCONFIG_ALLCONFIG={merged}", "allnoconfig"]
        tool(all_no, log=log, env=FIXED_IDENTITY, what="make allnoconfig", among=among)
    unmet = unmet_options(requested_options(recipe.fragments), parse_config((out / ".config").read_text()))
    if unmet and recipe.lenient:
        note(f"kernel {recipe.spec.name}: without {', '.join(unmet)}", once=True)  # bisect builds many of them
    elif unmet:
        raise UsageError(
            f"kernel {recipe.spec.name}: {len(unmet)} requested options are not in the final config: "
            f"{', '.join(unmet[:5])}{' …' if len(unmet) > 5 else ''}",
            where=", ".join(path.name for path in recipe.fragments),
            hint="a dependency is missing from the fragments",
        )


def _build(
    store: Store,
    recipe: KernelRecipe,
    archive: Artefact | None,
    inputs: Mapping[str, Any],
    folder: Path,
) -> dict[str, Any]:
    (store.root / "logs").mkdir(exist_ok=True)
    log = store.root / "logs" / f"kernel-{recipe.spec.name}.log"
    log.unlink(missing_ok=True)
    with usable(store.root), build_place(store, recipe, archive, inputs, check=True) as (tree, out):
        steps = _make(store, recipe, tree, out, inputs, log)
        products = {
            "bzImage": ARCHES[recipe.spec.arch].boot,
            "vmlinux": "vmlinux",
            "System.map": "System.map",
            "config": ".config",
            "Module.symvers": "Module.symvers",
        }
        for name, source in products.items():
            if (out / source).is_file():
                shutil.copy2(out / source, folder / name)
            elif name != "Module.symvers":
                raise RunError(f"kernel {recipe.spec.name}: the build made no {source}", hint=f"log: {log}")
        return {
            "steps": steps,
            "release": (out / "include/config/kernel.release").read_text().strip(),
            "build_id": build_id(folder / "vmlinux"),
            "config_sha256": hash_file(folder / "config"),
        }


def _make(store: Store, recipe: KernelRecipe, tree: Path, out: Path, inputs: Mapping[str, Any], log: Path) -> int:
    """Configure and compile in the folder `out`, and write down there which kernel it is of; steps of make."""
    out.mkdir(parents=True, exist_ok=True)
    (out / BUILT).write_text("")
    configure(recipe, tree, out, log)
    steps = _compile(store, recipe, tree, out, log)
    (out / BUILT).write_text(hash_of(inputs)[:32])
    return steps


def _compile(store: Store, recipe: KernelRecipe, tree: Path, out: Path, log: Path) -> int:
    history = store.root / "history" / f"kernel-{recipe.spec.name}.json"
    try:
        expected = int(json.loads(history.read_text())["steps"])
    except (OSError, ValueError, KeyError):
        expected = recipe.spec.steps or DEFAULT_STEPS
    jobs = len(os.sched_getaffinity(0))
    modules = ["modules"] * ("CONFIG_MODULES=y" in (out / ".config").read_text())
    targets = [ARCHES[recipe.spec.arch].target, *modules]
    count = 0
    with step(f"building kernel {recipe.spec.name}", total=expected, leads=True) as bar:

        def on_line(line: str) -> None:
            nonlocal count
            if STEP_LINE.match(line):
                count += 1
                bar.advance(1)

        make = [*make_argv(tree, out, recipe.spec.arch), f"-j{jobs}", *targets]
        among, what = tools(ARCHES[recipe.spec.arch].cross), f"building kernel {recipe.spec.name}"
        tool(make, log=log, env=_environment(store), on_line=on_line, what=what, among=among)
    if count > expected // 2:  # an interrupted build that was taken up again says nothing of a whole one
        history.parent.mkdir(exist_ok=True)
        history.write_text(json.dumps({"steps": count}))
    return count


def build_id(vmlinux: Path) -> str | None:
    """GNU build id of an ELF file, hex; None when it has no such note."""
    with vmlinux.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            if isinstance(section, NoteSection):
                for entry in section.iter_notes():
                    if entry["n_name"] == "GNU" and entry["n_type"] == "NT_GNU_BUILD_ID":  # Xen has a note 3 too
                        return str(entry["n_desc"])
    return None


def note_of(notes: bytes) -> str | None:
    """GNU build id among ELF notes as /sys/kernel/notes has them (elf(5), "Notes"), hex; None when it is not there."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        at += 12 + name_size + -name_size % 4
        if (name, kind) == (b"GNU\0", NT_GNU_BUILD_ID):
            return notes[at : at + size].hex()
        at += size + -size % 4
    return None


def kernel_environment(store: Store) -> dict[str, str]:
    """Environment of out-of-tree module builds: the identity and caches of kernel builds."""
    return build_environment(_environment(store))


def _environment(store: Store) -> dict[str, str]:
    """Kbuild gives ccache a list of the files that each object includes. Going by it (CCACHE_DEPEND) saves running the
    preprocessor first, which is a quarter of a first build; objects of another configuration are not found then.
    """
    return {
        **FIXED_IDENTITY,
        "CCACHE_DIR": str(store.root / "ccache"),
        "CCACHE_DEPEND": "1",
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": "5G",
    }
