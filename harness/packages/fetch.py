# SPDX-License-Identifier: MIT
"""Fetching locked packages: from folders and mirrors, whichever has those very bits, into the store."""

from __future__ import annotations

import http.client
import logging
import os
import shutil
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from harness import settings
from harness.artefacts.store import Store, hash_file, usable
from harness.errors import RunError, UsageError
from harness.packages.lock import UPDATE, Entry
from harness.paths import CAPSULE
from harness.progress import Step, step, warn

log = logging.getLogger(__name__)

#: The distribution's mirror, and its archive of all that it ever had.
MIRROR = "http://deb.debian.org"
SNAPSHOT = "http://snapshot.debian.org/archive"
#: The folder in the store: SHA256.deb.
PACKAGES = "packages"
AT_ONCE = 6
TIMEOUT_S = 60
TRIES = 3
BLOCK = 1 << 18
ABSENT = "does not have it"


def fetch(store: Store, entries: Sequence[Entry], *, offline: bool | None = None) -> dict[str, Path]:
    """The .deb file of each entry, by its sha256. Every byte is checked, whether it was there or is fetched now.

    `offline` (the setting unless told): only the store and the folders among the mirrors are looked into.
    RunError when a package is nowhere to be had.
    """
    home = store.root / PACKAGES
    paths = {entry.sha256: home / f"{entry.sha256}.deb" for entry in entries}
    if _missing(entries, paths):
        with store.lock(PACKAGES, "fetch", "of the lock"), usable(store.root):
            home.mkdir(parents=True, exist_ok=True)
            missing = _missing(entries, paths)
            if missing:
                _fetch_all(home, missing, places(is_offline() if offline is None else offline))
    return paths


def is_offline() -> bool:
    """Whether this process is to ask no network."""
    return settings.switch(settings.OFFLINE)


@dataclass
class Place:
    """Somewhere packages may be. `broken`: why it is not asked again in this run.

    `any`: a folder or URL with a mirror's layout, or with all files side by side, named by name or by sha256.
    """

    base: str
    layout: Literal["any", "mirror", "archive"] = "any"
    broken: str = field(default="", compare=False)

    @property
    def remote(self) -> bool:
        return self.base.startswith(("http://", "https://"))

    def addresses(self, entry: Entry) -> list[str]:
        """Where in it a package may be."""
        path = urllib.parse.quote(entry.path, safe="/%+~") if self.remote else entry.path
        if self.layout == "archive":
            return [f"{self.base}/{entry.archive}/{entry.snapshot}/{path}"]
        names = [f"{entry.archive}/{path}"]
        if self.layout == "any":
            names += [path, path.rpartition("/")[2], entry.file, f"{entry.sha256}.deb", entry.sha256]
        return [f"{self.base}/{name}" for name in dict.fromkeys(names)]


def places(offline: bool) -> list[Place]:
    """All places in the order in which they are asked: a capsule, the setting `mirrors`, the mirror, the archive.

    UsageError for a folder among the mirrors that is not there.
    """
    own = [Place(str(CAPSULE / "packages"))] if CAPSULE else []
    for word in settings.text(settings.MIRRORS).split():
        place = Place(word.removeprefix("file://").rstrip("/"))
        if not place.remote:
            place = Place(str(Path(place.base or "/").expanduser()))
            if not Path(place.base).is_dir():
                raise UsageError(f"{settings.MIRRORS.variable}: {word} is neither a folder nor an http address")
        own.append(place)
    if offline:
        return [place for place in own if not place.remote]
    return [*own, Place(MIRROR, "mirror"), Place(SNAPSHOT, "archive")]


def _missing(entries: Sequence[Entry], paths: dict[str, Path]) -> list[Entry]:
    """Those whose file is not there whole, the largest first: it takes the longest."""
    absent = {entry.sha256: entry for entry in entries if not _whole(paths[entry.sha256], entry)}
    return sorted(absent.values(), key=lambda entry: -entry.size)


def _whole(path: Path, entry: Entry) -> bool:
    return path.is_file() and path.stat().st_size == entry.size and hash_file(path) == entry.sha256


def _fetch_all(home: Path, entries: Sequence[Entry], asked: Sequence[Place]) -> None:
    _addresses_of.cache_clear()  # a mirror may have moved since this process last asked
    total = sum(entry.size for entry in entries) / 2**20
    label = f"fetching {len(entries)} packages" if len(entries) > 1 else f"fetching {entries[0].package}"
    with step(label, total=total) as bar, ThreadPoolExecutor(AT_ONCE) as pool:
        count = _Count(bar)
        try:
            for job in [pool.submit(_fetch_one, home, entry, asked, count) for entry in entries]:
                job.result()
        except BaseException:
            count.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class _Count:
    """Progress of several threads, which end soon after `stop`."""

    def __init__(self, bar: Step) -> None:
        self._bar, self._guard = bar, threading.Condition()
        self._open: set[http.client.HTTPResponse] = set()
        self._stopped = False

    def add(self, amount: int, name: str) -> None:
        self.check()
        with self._guard:
            self._bar.advance(amount / 2**20, f"MiB, {name}")

    def check(self) -> None:
        """RunError after `stop`."""
        if self._stopped:
            raise RunError("another download failed")

    @contextmanager
    def reading(self, stream: http.client.HTTPResponse) -> Iterator[None]:
        """While this is read: a thread that waits for more of it sees its end when all are to stop."""
        with self._guard:
            self._open.add(stream)
        try:
            self.check()
            yield
        finally:
            with self._guard:
                self._open.remove(stream)
                self._guard.notify_all()

    def stop(self) -> None:
        """Let no thread go on; what has come is in its file then. The pool does not wait for a thread in whose start
        an interrupt fell.
        """
        self._stopped = True
        with self._guard:
            for stream in self._open:
                with suppress(OSError, ValueError, AttributeError):  # read to its end meanwhile
                    handle = os.dup(stream.fileno())
                    with socket.socket(fileno=handle) as connection:
                        connection.shutdown(socket.SHUT_RDWR)
            self._guard.wait_for(lambda: not self._open)


def _fetch_one(home: Path, entry: Entry, asked: Sequence[Place], count: _Count) -> None:
    part = home / f"{entry.sha256}.part"
    told = []
    for place in asked:
        why = place.broken or _from_place(place, entry, part, count)
        if not why:
            log.debug("%s %s: from %s", entry.package, entry.version, place.base)
            part.rename(home / f"{entry.sha256}.deb")
            return
        told.append(f"{place.base}: {why}")
    raise RunError(
        f"package {entry.package} {entry.version} ({entry.architecture}) is nowhere to be had: "
        f"{'; '.join(told) or f'offline, and {settings.MIRRORS.variable} names no folder'}",
        hint=f"point {settings.MIRRORS.variable} at a folder or a mirror that has {entry.path.rpartition('/')[2]}, "
        f"or take other versions, and so other bits: {UPDATE}",
    )


def _from_place(place: Place, entry: Entry, part: Path, count: _Count) -> str:
    """Try to make `part` the package's whole file; why it is not, else nothing."""
    why = ABSENT
    for address in place.addresses(entry):
        try:
            if place.remote:
                _download(address, entry, part, count)
            else:
                shutil.copyfile(address, part)
                count.add(entry.size, entry.package)
        except FileNotFoundError:
            continue
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            if place.remote and not isinstance(error, urllib.error.HTTPError):
                place.broken = f"does not answer: {reason}"
            return place.broken or str(reason)
        if _whole(part, entry):
            return ""
        part.unlink()
        why = "has other bits under its name"
        warn(f"{address} is not what {entry.package} {entry.version} was when it was locked; not used")
    return why


def _download(address: str, entry: Entry, part: Path, count: _Count) -> None:
    """Write what is at a URL to `part`, behind what an earlier try has left there. OSError when it cannot be had."""
    for attempt in range(TRIES):
        count.check()
        there = part.stat().st_size if part.exists() else 0
        if there >= entry.size:
            part.unlink()
            there = 0
        request = urllib.request.Request(address, headers={"Range": f"bytes={there}-"} if there else {})  # noqa: S310
        try:
            with _opener().open(request, timeout=TIMEOUT_S) as stream, count.reading(stream):
                _write(stream, part, there if stream.status == http.HTTPStatus.PARTIAL_CONTENT else 0, entry, count)
            if part.stat().st_size >= entry.size:
                return
        except urllib.error.HTTPError as error:
            if error.code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.FORBIDDEN, http.HTTPStatus.GONE):
                raise FileNotFoundError(address) from error
            if attempt == TRIES - 1:
                raise
        except (OSError, http.client.HTTPException):
            if attempt == TRIES - 1:
                raise
    raise OSError(f"ended before its {entry.size} bytes")


_asking = threading.Lock()


@cache
def _addresses_of(host: str, port: int) -> list[str]:
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


def _connected(address: tuple[str, int], *options: Any) -> socket.socket:
    """socket.create_connection(), which asks for a name once: some name servers lose every second one of a hundred
    questions at once, and a lost one costs 5 s.
    """
    with _asking:
        found = _addresses_of(*address)
    for number in found[:-1]:
        with suppress(OSError):
            return socket.create_connection((number, address[1]), *options)
    return socket.create_connection((found[-1], address[1]), *options)


def _connection(kind: type[http.client.HTTPConnection]) -> Any:
    """A maker of connections of a kind which look names up by `_connected`."""

    def make(*options: Any, **named: Any) -> http.client.HTTPConnection:
        connection = kind(*options, **named)
        connection._create_connection = _connected  # type: ignore[attr-defined]  # http.client's own seam
        return connection

    return make


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection(http.client.HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection(http.client.HTTPSConnection), req)


@cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_Handler)


def _write(stream: http.client.HTTPResponse, part: Path, begin: int, entry: Entry, count: _Count) -> None:
    with part.open("r+b" if begin else "wb") as sink:
        sink.seek(begin)
        sink.truncate()
        while block := stream.read1(BLOCK):  # what has come: of a slow mirror too little is lost when this ends
            sink.write(block)
            count.add(len(block), entry.package)
            if sink.tell() > entry.size:
                return  # not what was asked for: its hash will tell
