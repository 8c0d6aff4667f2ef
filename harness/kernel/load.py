# SPDX-License-Identifier: MIT
"""Kernels by the words that users have for them: a spec's name, `debian:VERSION`, a path."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from harness.errors import UsageError
from harness.kernel.arch import ArchName
from harness.kernel.fragments import read_fragment
from harness.kernel.given import find_given, is_package, is_tree, package_release
from harness.kernel.packaged import PREFIX, find_packaged, series_of
from harness.kernel.series import Series, read_series
from harness.kernel.spec import Hardware, KernelRecipe, KernelSpec, Source
from harness.kernel.versions import SOURCE, version_in, written_for
from harness.packages.choice import Name
from harness.paths import FRAGMENTS, KERNELS, PACKAGED, PATCHES
from harness.yamlfile import Strict, load_model

#: What a tree of the user's is built like, and called; what stands between a kernel's name and a tree's path.
LIKE, TREE, AT = "modern-6.1-stock", "given-tree", "@"
#: Merged between a base config and the spec's own fragments: what guests of krepro need and no distribution builds in.
DISTRIBUTION: Name = "distribution"


def kernel_word(text: str, folder: Path) -> str:
    """A kernel as commands name it: a name, or a path, which is made whole; `folder`: where a path begins."""
    name, at, path = text.partition(AT) if not _is_path(text.partition(AT)[0]) else ("", "", text)
    return f"{name}{at}{os.path.normpath(folder / Path(path).expanduser())}" if _is_path(path) else text


def from_tree(name: str, text: str) -> str:
    """The word for what kernel `name` is, made of the tree that the word `text` is the path of; else `text`."""
    return f"{name}{AT}{text}" if _is_path(text) and is_tree(Path(text)) else text


def _is_path(text: str) -> bool:
    return "/" in text or text in (".", "..", "~")


def kernel_names(beside: Path | None = None) -> list[str]:
    """Names of the kernels that an experiment's folder `beside` brings, then of those that come with the project."""
    own = sorted(path.stem for path in (beside / "kernels").glob("*.yaml")) if beside else []
    return list(dict.fromkeys([*own, *sorted(path.stem for path in KERNELS.glob("*.yaml"))]))


def load_kernel(name: str, beside: Path | None = None) -> KernelRecipe:
    """The recipe of kernel `name`.

    An experiment's folder `beside` may bring its own `kernels/NAME.yaml`, `kernels/fragments/` and
    `kernel-patches/`; they come before the project's. UsageError naming the known kernels when there is none,
    or the file, line and field that does not fit, or the fragment or patch series that does not exist. `debian:…` is
    one of Debian's own builds (`harness.kernel.packaged`), what has a / is a path (`harness.kernel.given`), and
    NAME@PATH is kernel NAME, made of the user's tree.
    """
    like, at, tree = name.partition(AT)
    if at and not _is_path(like):
        return _of_tree(load_kernel(like, beside), Path(tree), beside)
    if _is_path(name):
        return _at_path(Path(name))
    if name.startswith(PREFIX):
        return _packaged(name.removeprefix(PREFIX))
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UsageError(f"{name!r} is not a kernel name", hint=f"known: {', '.join(kernel_names(beside))}")
    homes = [beside] if beside else []
    known = kernel_names(beside)
    written = name if name in known else written_for(name, known)
    path = _first([home / f"{written}.yaml" for home in (*(home / "kernels" for home in homes), KERNELS)])
    if path is None:
        raise UsageError(f"unknown kernel {name!r}", hint=f"known: {', '.join(known)}")
    spec = load_model(path, KernelSpec)
    if spec.name != written:
        raise UsageError(f"field name: is {spec.name!r}, but the file is called {path.name}", where=str(path))
    if written != name:
        spec = _in_version(spec, name, path)
    if spec.source.tree is not None and not spec.source.tree.is_absolute():
        spec = spec.model_copy(update={"source": Source(tree=(path.parent / spec.source.tree).resolve())})
    version = _version(spec, path)
    config = _config(spec, path)
    names = spec.fragments if config is None else [DISTRIBUTION, *(f for f in spec.fragments if f != DISTRIBUTION)]
    fragments: list[Path] = []
    for fragment in names:
        folders = [*(home / "kernels" / "fragments" for home in homes), FRAGMENTS]
        places = [folder / f"{fragment}.config" for folder in folders]
        fragments.append(_found(places, f"field fragments: no config fragment {fragment!r}", path))
        own = _first([folder / f"{fragment}-{version}.config" for folder in folders])
        fragments += [own] if own else []
    for file in fragments:
        read_fragment(file)  # told before anything is fetched
    series = [_find_series(feature, version, path, beside) for feature in spec.patches]
    return _patched(KernelRecipe(spec, version, tuple(fragments), (), config, beside), series)


def _in_version(spec: KernelSpec, name: str, path: Path) -> KernelSpec:
    """What a spec says of another version than its own; UsageError where its source is not Debian's."""
    version = version_in(name)
    if spec.version is not None or not (spec.source.debian or "").startswith(SOURCE):
        raise UsageError(f"kernel {name}: {spec.name} has a source of one version", where=str(path))
    told = spec.description.replace(_version(spec, path), str(version))
    source = Source(debian=f"{SOURCE}{version}")
    steps = spec.steps and spec.steps * 115 // 100  # 7 % more in 6.12, 15 % in 7.3; an estimate
    return spec.model_copy(update={"name": name, "source": source, "description": told, "steps": steps})


def find_feature(feature: str, version: str) -> Series:
    """The project's series of a feature for a version; UsageError naming those that there are when there is none."""
    known = {path.parent.name: path.parent for path in PATCHES.glob("*/README.md")}
    if feature not in known:
        raise UsageError(f"{feature!r} is no feature", hint=f"known: {', '.join(sorted(known))}")
    versions = {path.name: path for path in known[feature].glob("[0-9]*.*[0-9]")}
    if version not in versions:
        hint = f"for {', '.join(sorted(versions, key=_numbers))}"
        raise UsageError(f"{feature} has no series for {version!r}", hint=hint)
    return read_series(versions[version], known[feature])


def _find_series(feature: str, version: str, path: Path, beside: Path | None) -> Series:
    """The series of a feature for a version; UsageError naming `path`, which asks for it, when there is none."""
    folders = [folder / version for folder in _series_of(feature, beside)]
    return read_series(_found(folders, f"field patches: {feature!r} has no series for {version}", path), path)


def _patched(recipe: KernelRecipe, series: list[Series]) -> KernelRecipe:
    """The recipe with these series: all new files, then all patches."""
    patches = tuple(patch for one in series for patch in one.patches)
    sources = tuple((name, one.home / name) for one in series for name in one.sources)
    return replace(recipe, patches=patches, sources=sources)


def _series_of(feature: str, beside: Path | None) -> list[Path]:
    """The folders with a feature's series, by version."""
    homes = [beside / "kernel-patches"] if beside else []
    return [home / feature for home in (*homes, PATCHES)]


def _first(candidates: list[Path]) -> Path | None:
    return next((path for path in candidates if path.exists()), None)


def _found(candidates: list[Path], message: str, path: Path) -> Path:
    found = _first(candidates)
    if found is None:
        raise UsageError(message, where=str(path), hint=f"looked at {', '.join(map(str, candidates))}")
    return found


def _config(spec: KernelSpec, path: Path) -> Path | None:
    """The spec's base config, which lies relative to the YAML file; UsageError when it is none."""
    if spec.config is None:
        return None
    config = path.parent / spec.config
    try:
        text = config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        hint = "a .config as it is in /boot; unpack /proc/config.gz first"
        raise UsageError(f"field config: {config} cannot be read: {reason}", where=str(path), hint=hint) from error
    if "CONFIG_" not in text:
        raise UsageError(f"field config: {config} has no option of a kernel", where=str(path))
    return config


def _version(spec: KernelSpec, path: Path) -> str:
    """The version that picks the patch series, for example "6.1"."""
    if spec.version is not None:
        return spec.version
    if spec.source.debian is not None and (match := re.fullmatch(r"linux-source-(\d+\.\d+)", spec.source.debian)):
        return match[1]
    if spec.source.tree is not None:
        try:
            head = (spec.source.tree / "Makefile").read_text()[:200]
        except OSError as error:
            raise UsageError(
                f"field source.tree: {spec.source.tree} is no kernel tree: {error.strerror}", where=str(path)
            ) from error
        if match := re.search(r"^VERSION = (\d+)\nPATCHLEVEL = (\d+)$", head, re.MULTILINE):
            return f"{match[1]}.{match[2]}"
    raise UsageError('field version: say which kernel this is, for example "6.1"', where=str(path))


# -- kernels that are not built here, and trees that are nobody's spec --------------------------------------


class PackagedMachine(Strict):
    """The machine for those of Debian's own kernels whose release ends so."""

    release: str
    arch: ArchName
    hardware: Hardware


class PackagedKernels(Strict):
    """images/packaged/kernels.yaml: the archive's suites, and what machines their kernels boot on."""

    suites: tuple[str, ...]
    machines: tuple[PackagedMachine, ...]
    cmdline: tuple[str, ...]


def packaged_kernels_file() -> PackagedKernels:
    """What images/packaged/kernels.yaml says; UsageError with file and field where it does not fit."""
    return load_model(PACKAGED / "kernels.yaml", PackagedKernels)


def _packaged(text: str) -> KernelRecipe:
    """The recipe of one of Debian's own builds: nothing is compiled, patched or configured."""
    kernel, file = find_packaged(text), packaged_kernels_file()
    machine = next((one for one in file.machines if kernel.release.endswith(one.release)), None)
    if machine is None:
        raise UsageError(f"no machine for kernel {kernel.release}", where=str(PACKAGED / "kernels.yaml"))
    about = f"Debian's own build, package version {kernel.version}"
    return _built(kernel.name, about, Source(package=kernel.release), machine, kernel.version)


def _built(name: str, about: str, source: Source, machine: PackagedMachine, version: str) -> KernelRecipe:
    spec = KernelSpec.model_construct(
        name=name,
        description=about,
        arch=machine.arch,
        source=source,
        fragments=[],
        cmdline=list(packaged_kernels_file().cmdline),
        hardware=machine.hardware,
    )
    return KernelRecipe(spec, series_of(version), (), ())


def _at_path(path: Path) -> KernelRecipe:
    """The recipe of what the user has: something that is built, or a tree."""
    if path.is_dir() and is_tree(path):
        return _of_tree(load_kernel(LIKE), path)
    if is_package(path):
        release, bits = package_release(path), 32 if "686" in path.name or "_i386" in path.name else 64
    else:
        found = find_given(path)
        release, bits = found.release, found.bits
    arch = "x86_64" if bits == 64 else "i386"
    machine = next(one for one in packaged_kernels_file().machines if one.arch == arch)
    return _built(f"given-{release.lower()}", f"from {path}", Source(given=path), machine, release)


def _of_tree(like: KernelRecipe, path: Path, beside: Path | None = None) -> KernelRecipe:
    """What `like` is, of the user's tree: its options, as far as the tree has them, and of its patches the series for
    the tree's version, else for the one next below, else the oldest.
    """
    if not path.is_dir() or not is_tree(path):
        raise UsageError("is no kernel's source tree", where=str(path))
    spec = like.spec.model_copy(update={"name": TREE, "source": Source(tree=path), "description": f"from {path}"})
    version = _version(spec.model_copy(update={"version": None}), path)
    spec = spec.model_copy(update={"version": version})
    found: list[Series] = []
    for feature in spec.patches:
        # Of two series for one version the experiment's comes first, and stays.
        folders = [folder for home in reversed(_series_of(feature, beside)) for folder in home.glob("[0-9]*.*[0-9]")]
        series = {tuple(_numbers(folder.name)): folder for folder in folders}
        below = [number for number in series if number <= tuple(_numbers(version))]
        found.append(read_series(series[max(below) if below else min(series)], path))
    return _patched(replace(like, spec=spec, version=version, lenient=True), found)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
