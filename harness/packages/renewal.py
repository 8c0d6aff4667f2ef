# SPDX-License-Identifier: MIT
"""Making a lock: what apt chooses today for what is asked for, from archives whose signatures apt has checked."""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.packages.deb import fields
from harness.packages.fetch import MIRROR
from harness.packages.lock import Entry, Lock
from harness.progress import step, warn

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("bookworm", "bookworm-updates", "bookworm-security")
UPDATE_TRIES = 3
#: The archive takes a picture of the mirror several times a day: the next one has what the mirror has now.
NEXT_PICTURE = timedelta(hours=12)
KBUILD, DEBUG = "linux-kbuild-", "-dbg"
WORD = re.compile(r"^([a-z0-9][a-z0-9+.-]*)(?::\w+)?(?:\s*\(.*\))?$")


@dataclass(frozen=True)
class Wanted:
    """What a lock is to have, by Debian architecture.

    `whole`: packages with all they depend on. `alone`: without. `followed`: with those of them whose name fits, and so
    on. `sources`: of kernels, those that the archive has. `tools` are for the tools tree, with all they depend on less
    `left_out`, which no tool of the tree is used with; `cross` those that a tree has besides for guests of another
    architecture.
    """

    whole: Mapping[str, Sequence[str]]
    alone: Mapping[str, Sequence[str]]
    followed: Mapping[str, tuple[Sequence[str], re.Pattern[str]]] = field(default_factory=dict)
    sources: Sequence[str] = ()
    tools: Sequence[str] = ()
    left_out: Sequence[str] = ()
    cross: Mapping[str, Sequence[str]] = field(default_factory=dict)


def renew(store: Store, wanted: Wanted) -> Lock:
    """A lock of what the distribution's archive has today. UsageError where there is no apt, RunError when it fails."""
    _check_apt()
    entries: dict[tuple[str, str], Entry] = {}
    tools: list[Entry] = []
    cross: dict[str, list[Entry]] = {}
    with step("asking the archive what it has"):
        for arch in sorted({"amd64", *wanted.whole, *wanted.alone, *wanted.followed}):
            with store.scratch("apt") as home:
                apt = _Apt(home, arch, SUITES)
                found = apt.alone(wanted.alone.get(arch, ()))
                if arch == "amd64":
                    found += apt.there(wanted.sources)
                    tools = apt.whole(wanted.tools, wanted.left_out)
                    # Asked for by themselves: installed together, a cross compiler and gcc-multilib exclude each other.
                    cross = {name: apt.whole(packages, wanted.left_out) for name, packages in wanted.cross.items()}
                    found += [entry.model_copy(update={"needs": None}) for entry in sum(cross.values(), tools)]
                found += apt.followed(*wanted.followed[arch]) if arch in wanted.followed else []
                found += apt.whole(wanted.whole.get(arch, ()))  # the last word: these know what they need
            entries |= {(entry.package, entry.architecture): entry for entry in found}
    moment = datetime.now(UTC) + NEXT_PICTURE
    have = dict.fromkeys(entry.package for entry in tools)
    return Lock(
        suites=SUITES,
        snapshot=f"{moment:%Y%m%dT%H%M%SZ}",
        tools=tuple(have),
        cross={name: tuple(one.package for one in more if one.package not in have) for name, more in cross.items()},
        packages=tuple(entries[key] for key in sorted(entries)),
    )


def renew_kernels(
    store: Store,
    suites: Sequence[str],
    wanted: Mapping[str, re.Pattern[str]],
    headers: tuple[str, str, re.Pattern[str]],
    sources: Sequence[str],
) -> Lock:
    """A lock of all packages of these suites whose names fit, by architecture, of what they were split into, of those
    with their debug information, and of these `sources`.

    `headers`: what the names of these packages begin with, and in place of it those of their headers; a package that
    fits what these must need, the compiler.
    """
    _check_apt()
    entries: list[Entry] = []
    with step("asking the archive which kernels it has"):
        for arch, fitting in sorted(wanted.items()):
            with store.scratch("apt") as home:
                apt = _Apt(home, arch, suites)
                kernels = apt.parted(fitting)
                entries += [*kernels, *apt.headers(kernels, *headers), *apt.debug(kernels, headers[0])]
                entries += apt.there(sources) if arch == "amd64" else []
    moment = datetime.now(UTC) + NEXT_PICTURE
    found = {(entry.package, entry.architecture): entry for entry in entries}
    packages = tuple(found[key] for key in sorted(found))
    return Lock(suites=tuple(suites), snapshot=f"{moment:%Y%m%dT%H%M%SZ}", tools=(), packages=packages)


def _check_apt() -> None:
    """UsageError where a lock cannot be made."""
    if shutil.which("apt-get") is None or not KEYRING.exists():
        hint = "a Debian system has both; ./inv run needs neither"
        raise UsageError(f"a lock is made with apt-get and {KEYRING}, which are not here", hint=hint)


def changes(old: Lock | None, new: Lock) -> list[str]:
    """What is other in a new lock, one line a package, in words."""
    before = {(entry.package, entry.architecture): entry for entry in old.packages} if old else {}
    after = {(entry.package, entry.architecture): entry for entry in new.packages}
    lines = []
    for key in sorted(before.keys() | after.keys()):
        name = f"{key[0]} ({key[1]})"
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            lines.append(f"new      {name} {now.version}")
        elif was is not None and now is None:
            lines.append(f"gone     {name} {was.version}")
        elif was is not None and now is not None and was.version != now.version:
            lines.append(f"changed  {name} {was.version} -> {now.version}")
        elif was is not None and now is not None and was.sha256 != now.sha256:
            lines.append(f"changed  {name} {now.version}: other bits under the same version")
    return lines


class _Apt:
    """apt for one architecture, with a state of its own: nothing of the host's packages is read or changed."""

    def __init__(self, home: Path, arch: str, suites: Sequence[str]) -> None:
        self._arch, self._home = arch, home
        self._known: dict[str, dict[str, str]] = {}
        for part in ("state/lists/partial", "cache/archives/partial"):
            (home / part).mkdir(parents=True)
        (home / "status").touch()
        signed = f"deb [signed-by={KEYRING}]"
        sources = [f"{signed} {MIRROR}/{archive_of(suite)} {suite} main\n" for suite in suites]
        (home / "sources.list").write_text("".join(sources))
        self._update()

    def _update(self) -> None:
        """Fetch the archive's lists, signatures checked; a mirror in the middle of a sync is asked again."""
        for attempt in range(UPDATE_TRIES):
            try:
                self._run("apt-get", "update", "--error-on=any")
            except RunError as error:
                if attempt == UPDATE_TRIES - 1:
                    warn(f"{self._arch}: {error.message}; the lock is made of the lists that came, newer ones may miss")
            else:
                return

    def whole(self, names: Sequence[str], left_out: Sequence[str] = ()) -> list[Entry]:
        """`names` and all that apt takes with them, each with what it needs; nothing is only there for `left_out`."""
        if not names:
            return []
        lines = self._run("apt-get", "install", "-y", "--print-uris", *names).splitlines()
        files = [line.split()[1] for line in lines if line.startswith("'")]
        chosen = {one["Package"]: one for one in self._paragraphs([_identify(file) for file in files])}
        needs = {name: resolved(paragraph, chosen, left_out) for name, paragraph in chosen.items()}
        kept: dict[str, None] = {}
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in kept:
                kept[name] = None
                todo += needs[name]
        return [_entry(chosen[name], needs[name]) for name in sorted(kept)]

    def alone(self, names: Sequence[str]) -> list[Entry]:
        """The newest version of each, without what it needs."""
        return [_entry(one, None) for one in self._paragraphs(sorted(set(names)))]

    def there(self, names: Sequence[str]) -> list[Entry]:
        """The newest version of each that the archive has, without what it needs."""
        return [_entry(one, None) for one in self._there(sorted(set(names))).values()] if names else []

    def followed(self, names: Sequence[str], fitting: re.Pattern[str]) -> list[Entry]:
        """The newest version of each, and of those that they depend on by a fitting name, in turn."""
        found: dict[str, Entry] = {}
        todo = set(names)
        while todo:
            paragraphs = self._paragraphs(sorted(todo))
            found |= {one["Package"]: _entry(one, None) for one in paragraphs}
            others = {name for one in paragraphs for name in _names(one.get("Depends", "")) if fitting.match(name)}
            todo = others - found.keys()
        return list(found.values())

    def parted(self, fitting: re.Pattern[str]) -> list[Entry]:
        """All packages whose name fits, each with those that it needs in its very version: what it was split into.

        Without those of which the archive has a part only.
        """
        names = [name for name in self._run("apt-cache", "pkgnames").split() if fitting.fullmatch(name)]
        found: dict[str, Entry] = {}
        todo: set[str] = set(names)
        asked: set[str] = set()
        while todo:
            found |= {name: _entry(one, split_into(one)) for name, one in self._there(sorted(todo)).items()}
            asked |= todo
            todo = {name for entry in found.values() for name in entry.needs or ()} - asked
        return whole_ones(names, found)

    def headers(self, kernels: Sequence[Entry], image: str, prefix: str, compiler: re.Pattern[str]) -> list[Entry]:
        """The headers of these kernels that the archive has for this compiler, with the parts that they need."""
        names = [f"{prefix}{one.package.removeprefix(image)}" for one in kernels if one.package.startswith(image)]
        found: dict[str, Entry] = {}
        for name, paragraph in self._there(names).items():
            parts = header_parts(paragraph, prefix, compiler)
            if parts:
                found[name] = _entry(paragraph, parts)
                found |= {part: _entry(one, ()) for part, one in self._there(parts).items()}
        # Programs of the build run here, whatever the kernel's architecture is.
        return [one for one in found.values() if not one.package.startswith(KBUILD) or one.architecture == "amd64"]

    def debug(self, kernels: Sequence[Entry], image: str) -> list[Entry]:
        """The packages with debug information of these kernels that the archive has."""
        names = [f"{one.package}{DEBUG}" for one in kernels if one.package.startswith(image)]
        return [_entry(one, ()) for one in self._there(names).values()]

    def _paragraphs(self, words: Sequence[str]) -> list[dict[str, str]]:
        """What apt knows of packages: NAME for its newest version, or NAME=VERSION. UsageError when one is missing."""
        if not words:
            return []
        found = self._there(words)
        missing = [word for word in words if word.partition("=")[0] not in found]
        if missing:
            raise UsageError(f"the archive has no package {missing[0]} for {self._arch}")
        return list(found.values())

    def _there(self, words: Sequence[str]) -> dict[str, dict[str, str]]:
        """The same, by name, of those that the archive has."""
        text = self._run("apt-cache", "show", "--no-all-versions", *words)
        return {one["Package"]: one for one in map(fields, text.split("\n\n")) if one}

    def _run(self, *words: str) -> str:
        settings: dict[str, Any] = {
            "APT::Architecture": self._arch,
            "APT::Architectures::": self._arch,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "",
            "Dir::State": self._home / "state",
            "Dir::State::status": self._home / "status",
            "Dir::Cache": self._home / "cache",
            "Dir::Etc::SourceList": self._home / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Debug::NoLocking": "1",
            "DPkg::Lock::Timeout": "60",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        done = subprocess.run(
            [words[0], "-q", *options, *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
        if done.returncode != 0:
            reason = [line for line in done.stderr.splitlines() if line.startswith("E: ")] or [done.stderr.strip()]
            raise RunError(f"{words[0]} {words[1]}: {reason[0].removeprefix('E: ')}")
        return done.stdout


def archive_of(suite: str) -> str:
    """Which of the mirror's archives has a suite."""
    return "debian-security" if suite.endswith("-security") else "debian"


def resolved(
    paragraph: Mapping[str, str], chosen: Mapping[str, Mapping[str, str]], left_out: Sequence[str] = ()
) -> tuple[str, ...]:
    """Which of the `chosen` packages one depends on: of each group of alternatives the first that is there."""
    provides: dict[str, str] = {}
    for name, other in chosen.items():
        for virtual in _names(other.get("Provides", "").replace("|", ",")):
            provides.setdefault(virtual, name)
    found: dict[str, None] = {}
    for group in ", ".join(paragraph.get(key, "") for key in ("Pre-Depends", "Depends")).split(","):
        alternatives = [name for word in group.split("|") for name in _names(word)]
        met = next((name for name in alternatives if name in chosen), None)
        met = met or next((provides[name] for name in alternatives if name in provides), None)
        if met is not None and not _any(left_out, met) and met != paragraph["Package"]:
            found[met] = None
    return tuple(sorted(found))


def split_into(paragraph: Mapping[str, str]) -> list[str]:
    """The packages that one needs in its very version: what its source was split into."""
    same = rf"([a-z0-9][a-z0-9+.-]*) \(= {re.escape(paragraph['Version'])}\)"
    return sorted(set(re.findall(same, paragraph.get("Depends", ""))))


def header_parts(paragraph: Mapping[str, str], prefix: str, compiler: re.Pattern[str]) -> list[str]:
    """What modules need beside a package of headers: the headers of all flavours, and the build's programs.

    Nothing where they are for another compiler.
    """
    needs = _names(paragraph["Depends"])
    fits = any(compiler.fullmatch(need) for need in needs)
    return [need for need in needs if need.startswith((prefix, KBUILD))] if fits else []


def whole_ones(names: Sequence[str], found: Mapping[str, Entry]) -> list[Entry]:
    """Those of `names` of which every part is there, and then these parts."""
    whole = [found[name] for name in names if name in found and found.keys() >= set(found[name].needs or ())]
    parts = dict.fromkeys(part for entry in whole for part in entry.needs or ())
    return [*whole, *(found[name] for name in parts)]


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _names(text: str) -> list[str]:
    found = (WORD.match(word.strip()) for word in text.split(","))
    return [match[1] for match in found if match is not None]


def _identify(file: str) -> str:
    name, version, _ = urllib.parse.unquote(file).split("_")
    return f"{name}={version}"


def _entry(paragraph: Mapping[str, str], needs: Sequence[str] | None) -> Entry:
    path = paragraph["Filename"]
    return Entry(
        package=paragraph["Package"],
        version=paragraph["Version"],
        architecture=cast(Any, paragraph["Architecture"]),
        archive="debian-security" if path.startswith("pool/updates/") else "debian",
        path=path,
        size=int(paragraph["Size"]),
        sha256=paragraph["SHA256"],
        needs=tuple(needs) if needs is not None else None,
    )
