# SPDX-License-Identifier: MIT
"""A command in a guest, for scripts: its streams, its exit status, files in and out."""

from __future__ import annotations

import os
import posixpath
import shlex
import shutil
import sys
import tarfile
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artefacts.store import Store
from harness.cli.declaration import check_writable, expanded
from harness.errors import RunError, UsageError
from harness.guest.pipe import Feed
from harness.guest.ssh import SshSession
from harness.machine.machine import GuestLost
from harness.program.interactive import BootRequest, guest
from harness.progress import note, warn

#: Where ssh lets a command begin, and so what names of the guest are relative to.
HOME = "/root"
#: For a boot and a login: generous, as a host that is itself emulated takes a minute for either.
READY_S = 300.0
#: For files on their way, each way.
COPY_S = 600.0
CONSOLE_LINES = 12
BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class Copied:
    """A file or folder and where it goes."""

    source: str
    target: str


@dataclass(frozen=True)
class Script:
    """What is run in the guest, in seconds at most, and which files go in before and come out after."""

    command: str
    timeout_s: float
    copy_in: tuple[Copied, ...]
    copy_out: tuple[Copied, ...]


def script_of(command: str, timeout_s: float, copy_in: Sequence[str], copy_out: Sequence[str]) -> Script:
    """A script of what the command line says: `F`, or `F:TARGET`. UsageError for a file that is not there to go in."""
    into = []
    for text in copy_in:
        source, _, target = text.partition(":")
        if not Path(source).exists():
            raise UsageError("--in: is not there", where=source)
        name = Path(source).resolve().name
        place = posixpath.join(HOME, target or name)
        into.append(Copied(source, f"{place}{name}" if place.endswith("/") else place))
    out = [Copied(source, expanded(target)) for source, _, target in (text.partition(":") for text in copy_out)]
    for one in (*into, *out):
        if not one.source:
            raise UsageError("--in and --out name a file first: F, or F:TARGET")
    for one in out:
        if not Path(one.source).name:
            raise UsageError(f"--out {one.source}: name a file or a folder in it")
        taken = Path(one.target).absolute()
        if not taken.parent.is_dir():
            raise UsageError("--out: its folder is not there", where=str(taken))
        check_writable("--out", taken, "either")
    return Script(command, timeout_s, tuple(into), tuple(out))


def run_script(store: Store, request: BootRequest, script: Script) -> int:
    """Boot, and run the script's command over ssh; its exit status.

    Its output is this process's, stream by stream, and so is its input, unless that is a terminal. RunError when the
    guest does not boot, ends early or takes too long, and when a file that was to come out is not there after a command
    that went well.
    """
    with guest(store, request, "ssh") as booted:
        assert booted.keys is not None
        machine = booted.machine
        try:
            machine.wait_ready(READY_S)
            session = SshSession(machine, booted.keys, READY_S)
            try:
                return _run(session, script, booted.scratch)
            finally:
                session.close()
        except GuestLost as error:
            for line in machine.console().splitlines()[-CONSOLE_LINES:]:
                note(f"console: {line}")
            raise GuestLost(error.message) from error  # without its hint: the machine's folder is removed


def _run(session: SshSession, script: Script, scratch: Path) -> int:
    session.command("echo 1 >/sys/bus/pci/rescan")  # where a state may be saved, the device edu is taken out at boot
    if script.copy_in:
        _copy_in(session, script.copy_in)
    feed = None if sys.stdin is None or sys.stdin.isatty() else Feed(_standard_input)
    # In a shell of its own: of one that is killed, sshd would tell no status.
    text = f"sh -c {shlex.quote(script.command)}; exit $?"
    what = f"finish {script.command!r}"
    status = session.pipe(text, feed, sys.stdout.buffer, sys.stderr.buffer, script.timeout_s, what)
    if script.copy_out:
        missing = _copy_out(session, script.copy_out, scratch / "copied")
        if missing and status == 0:
            raise RunError(f"--out: the guest has no {', '.join(missing)}")
        for path in missing:
            warn(f"--out: the guest has no {path}")
    return status


def _standard_input() -> bytes:
    return os.read(sys.stdin.fileno(), BLOCK_BYTES)


def _copy_in(session: SshSession, copies: Sequence[Copied]) -> None:
    reader, writer = os.pipe()
    failed: list[OSError | tarfile.TarError] = []

    def pack() -> None:
        try:
            with os.fdopen(writer, "wb") as sink, tarfile.open(fileobj=sink, mode="w|", dereference=True) as archive:
                for one in copies:
                    archive.add(one.source, arcname=one.target.lstrip("/"), filter=_roots)
        except (OSError, tarfile.TarError) as error:
            failed.append(error)

    packing = threading.Thread(target=pack, daemon=True)
    packing.start()
    try:
        feed = Feed(lambda: os.read(reader, BLOCK_BYTES))
        with tempfile.TemporaryFile() as problems:
            status = session.pipe("tar -C / -x", feed, sys.stdout.buffer, problems, COPY_S, "take its files")
            problems.seek(0)
            said = problems.read().decode(errors="replace").strip()
    finally:
        os.close(reader)
    packing.join(READY_S)
    if failed and not isinstance(failed[0], BrokenPipeError):
        raise RunError(f"--in: {failed[0]}")
    if status != 0:
        raise RunError(f"--in: the guest could not unpack the files: {said}")


def _roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """In the guest everything is root's."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _copy_out(session: SshSession, copies: Sequence[Copied], scratch: Path) -> list[str]:
    missing = session.fetch([one.source for one in copies], scratch, COPY_S)
    for index, one in enumerate(copies):
        for path in sorted((scratch / str(index)).glob("*")):
            target = Path(one.target or path.name)
            if target.is_dir() and not path.is_dir():
                target /= path.name
            try:
                if path.is_dir():
                    shutil.copytree(path, target, dirs_exist_ok=True)
                else:
                    shutil.copyfile(path, target)
            except (OSError, shutil.Error) as error:
                raise RunError(f"--out: {one.source} cannot be written: {error}", where=str(target)) from error
    return missing
