# SPDX-License-Identifier: MIT
"""Debian's own kernels: which there are, by kernels.lock, and what a guest needs of one, out of its packages."""

from __future__ import annotations

import gzip
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artefacts.store import Artefact, Store
from harness.errors import RunError, UsageError
from harness.kernel.modules import DRIVERS, copy_drivers, drivers_among
from harness.packages.deb import unpack
from harness.packages.fetch import fetch as fetch_entries
from harness.packages.lock import Entry, load
from harness.paths import ROOT
from harness.progress import step

KERNELS_LOCK = ROOT / "kernels.lock"
PREFIX = "debian:"
IMAGE, HEADERS, DEBUG = "linux-image-", "linux-headers-", "-dbg"
#: What is packed otherwise, or put elsewhere, in another manner than before.
RECIPE_VERSION = 2
#: A release, as in linux-image-RELEASE: version, then flavour and architecture.
RELEASE = re.compile(
    r"(?P<version>\d+\.\d+\.\d[\w.+~]*(?:-\d+)?)-(?:(?P<flavour>cloud|rt)-)?(?P<machine>amd64|686-pae|686)"
)
IMAGE_PACKAGE = re.compile(IMAGE + RELEASE.pattern)
#: What a user may say of it: a version, or its beginning, then a flavour and a machine.
ASKED = re.compile(
    r"(?P<version>\d+\.\d[\w.+~]*(?:-\d+)?)?-?(?:(?P<flavour>cloud|rt|generic)(?:-|$))?(?P<machine>amd64|686-pae|686)?"
)
CHANGELOG = re.compile(r"/doc/[^/]+/changelog(\.Debian)?\.gz$")
#: Behind such words: not the newest, but every one.
ALL_BUILDS = ".*"
#: Where nobody says another: the smallest, made for guests.
FLAVOURS = {"amd64": "cloud", "686-pae": "", "686": ""}


@dataclass(frozen=True)
class Packaged:
    """One of Debian's kernels: `release` as `uname -r` says it, `version` of the package."""

    release: str
    version: str

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.release}"

    @property
    def machine(self) -> str:
        """amd64, 686-pae or 686."""
        return str(_parts(self.release)["machine"])

    @property
    def flavour(self) -> str:
        """cloud, rt or generic."""
        return str(_parts(self.release)["flavour"] or "generic")

    @property
    def arch(self) -> str:
        """Of the packages, as Debian says it."""
        return "amd64" if self.machine == "amd64" else "i386"

    def entries(self) -> list[Entry]:
        """The packages that it is made of, from the lock."""
        return load(KERNELS_LOCK).closure(self.arch, [f"{IMAGE}{self.release}"])

    def headers(self) -> list[Entry]:
        """The packages against which modules are built, its own first; none where the lock has none."""
        lock, name = load(KERNELS_LOCK), f"{HEADERS}{self.release}"
        own = next((entry for entry in lock.packages if entry.package == name), None)
        return [own, *(lock.entry("amd64", need) for need in own.needs or ())] if own else []

    def changes(self, store: Store, since: str) -> list[str]:
        """What its changelog says was changed after version `since` of the package, a line each; the newest first."""
        (path,) = fetch_entries(
            store, [entry for entry in self.entries() if entry.package.startswith(IMAGE)][:1]
        ).values()
        with store.scratch("changelog") as scratch:
            unpack(
                path, scratch, lambda name: name if re.search(r"/doc/[^/]+/changelog(\.Debian)?\.gz$", name) else None
            )
            found = next(iter(sorted(scratch.rglob("changelog*.gz"))), None)
            if found is None:
                return []
            text = gzip.decompress(found.read_bytes()).decode(errors="replace")
        return changes_since(text, since)

    def debug(self) -> Entry | None:
        """The package with its debug information; None where the lock has none."""
        name = f"{IMAGE}{self.release}{DEBUG}"
        return next((entry for entry in load(KERNELS_LOCK).packages if entry.package == name), None)


def changes_since(changelog: str, version: str) -> list[str]:
    """The entries of a Debian changelog that lie above that of a version, one line each, without who and when."""
    lines: list[str] = []
    for line in changelog.splitlines():
        head = re.match(r"\S+ \(([^)]+)\)", line)
        # A signed kernel's own entries end in +, where the kernel's end in -.
        if head is not None and head[1].replace("+", "-") == version.replace("+", "-"):
            return lines
        if entry := re.match(r"\s+[-*] (.*)", line):
            lines.append(entry[1])
        elif lines and line.startswith("      ") and not head:
            lines[-1] += f" {line.strip()}"
    return lines


def packaged_kernels() -> list[Packaged]:
    """All in the lock, the oldest first."""
    found = [
        Packaged(entry.package.removeprefix(IMAGE), entry.version)
        for entry in load(KERNELS_LOCK).packages
        if IMAGE_PACKAGE.fullmatch(entry.package)
    ]
    return sorted(found, key=_age)


def find_packaged(text: str) -> Packaged:
    """The newest kernel that `debian:TEXT` means; UsageError when the lock has none.

    TEXT is a version or its beginning (6.1, 6.12.107, 6.1.0-56, 6.12+deb12), a flavour (cloud, rt, generic), a machine
    (amd64, 686-pae), these with `-` between, or a whole release. The cloud kernel of amd64 is meant where they are not
    said.
    """
    return _fitting(text)[-1]


def _fitting(text: str) -> list[Packaged]:
    """All that `debian:TEXT` could mean, the oldest first."""
    exact = next((kernel for kernel in packaged_kernels() if kernel.release == text), None)
    if exact is not None:
        return [exact]
    asked = ASKED.fullmatch(text)
    if asked is None or not text:
        raise UsageError(f"{PREFIX}{text} is no kernel of Debian's", hint=f"as in {_examples()}")
    machine = asked["machine"] or "amd64"
    flavour = asked["flavour"] or FLAVOURS[machine]
    fitting = [
        kernel
        for kernel in packaged_kernels()
        if kernel.machine == machine
        and (_parts(kernel.release)["flavour"] or "") == flavour.removeprefix("generic")
        and (asked["version"] is None or _begins(kernel, asked["version"]))
    ]
    if not fitting:
        raise UsageError(
            f"{KERNELS_LOCK.name} has no kernel {PREFIX}{text}", hint=f"it has {_examples()}; ./inv build lists all"
        )
    return fitting


def several_packaged(text: str) -> list[str] | None:
    """Names of all kernels that `debian:all` means, or `debian:newest`: of each version, flavour and machine one.

    `debian:TEXT.*` means every build that `debian:TEXT` could be, the oldest first. None for the name of one kernel.
    """
    if text.startswith(PREFIX) and text.endswith(ALL_BUILDS):
        return [kernel.name for kernel in _fitting(text.removeprefix(PREFIX).removesuffix(ALL_BUILDS))]
    if text == f"{PREFIX}all":
        return [kernel.name for kernel in packaged_kernels()]
    if text == f"{PREFIX}newest":
        newest = {
            (series_of(kernel.version), kernel.flavour, kernel.machine): kernel.name for kernel in packaged_kernels()
        }
        return list(newest.values())
    return None


def series_of(version: str) -> str:
    """Version and patch level: 6.12."""
    return ".".join(version.split(".")[:2])


def _parts(release: str) -> dict[str, Any]:
    match = RELEASE.fullmatch(release)
    assert match is not None, release
    return match.groupdict()


def _begins(kernel: Packaged, wanted: str) -> bool:
    """Whether a version begins so, by whole numbers: 6.1 is the beginning of 6.1.0-56, not of 6.12.

    Of 6.12+deb12, what is behind the plus must be in the release too.
    """
    beginning, plus, build = wanted.partition("+")
    release = str(_parts(kernel.release)["version"])
    fits = any(re.match(rf"{re.escape(beginning)}(?!\d)", text) is not None for text in (release, kernel.version))
    return fits and (not plus or release.partition("+")[2] == build)


def _age(kernel: Packaged) -> tuple[list[tuple[tuple[int, ...], int]], str]:
    """The package's version as dpkg orders it: by whole numbers, and `~` before everything, the end too."""
    parts = re.findall(r"(\D*)(\d*)", kernel.version)
    words = [((*(-1 if sign == "~" else ord(sign) for sign in text), 0), int(digits or 0)) for text, digits in parts]
    return words, kernel.release


def _examples() -> str:
    versions = dict.fromkeys(re.match(r"\d+\.\d+", kernel.version)[0] for kernel in packaged_kernels())  # type: ignore[index]
    return ", ".join([*(f"{PREFIX}{version}" for version in versions), f"{PREFIX}rt"])


def packaged_kernel(store: Store, kernel: Packaged) -> Artefact:
    """What its packages have for a guest: bzImage, config, and drivers/ in the order in which they are loaded.

    RunError when a package cannot be had, or is without a kernel.
    """
    entries = kernel.entries()
    inputs = {
        "recipe": RECIPE_VERSION,
        "packages": {entry.file: entry.sha256 for entry in entries},
        "drivers": list(DRIVERS),
    }

    def build(folder: Path) -> dict[str, Any]:
        paths = fetch_entries(store, entries)
        with store.scratch("package") as scratch, step(f"unpacking {kernel.name}"):
            for entry in entries:
                unpack(paths[entry.sha256], scratch, lambda name: wanted_file(name, kernel.release))
            return _take(kernel, scratch, folder)

    return store.obtain("package", kernel.release, inputs, build)


def wanted_file(name: str, release: str) -> str | None:
    """Where a file of a package goes: the kernel, its configuration, drivers."""
    if name in {f"boot/vmlinuz-{release}", f"boot/config-{release}"}:
        return name.removesuffix(f"-{release}")
    for place in (f"usr/lib/modules/{release}/", f"lib/modules/{release}/"):
        if name.startswith(place):
            inner = name.removeprefix(place)
            if inner in {"vmlinuz", "config"}:
                return f"boot/{inner}"
            if inner == "modules.builtin" or re.fullmatch(r"kernel/(drivers|net|lib|crypto|fs)/.*\.ko(\.xz)?", inner):
                return f"modules/{inner}"
    return None


def _take(kernel: Packaged, scratch: Path, folder: Path) -> dict[str, Any]:
    for source, target in (("vmlinuz", "bzImage"), ("config", "config")):
        if not (scratch / "boot" / source).is_file():
            raise RunError(f"{kernel.name}: its packages have no {source}")
        shutil.copyfile(scratch / "boot" / source, folder / target)
    drivers = copy_drivers(drivers_among((scratch / "modules").rglob("*.ko*")), folder)
    return {"release": kernel.release, "version": kernel.version, "drivers": drivers}
