# SPDX-License-Identifier: MIT
"""A program of its own: what makes probes on this very host runs below it, and nothing of that stays.

    python -m harness.program.onhost run SECONDS WORD…      WORD… below a shell whose /run is its own
    python -m harness.program.onhost undo                   what a run has left that was killed, this program too

It is in a session of its own, so that no Ctrl-C of a terminal reaches it, and ends when its standard input does: that
is when whoever started it is gone, however that ended. Its processes go with it. Standard library only.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from harness.signals import ENDING

TRACEFS = Path("/sys/kernel/tracing")
#: How all is called that is made in tracefs: instances, and groups of probes.
GROUP = "krepro"
#: What is changed while it runs; and where it is written down what they were, until the next boot.
SETTINGS = (
    *("/proc/sys/debug/kprobes-optimization", "/proc/sys/kernel/perf_cpu_time_max_percent"),
    "/sys/kernel/tracing/options/record-cmd",
)
STATE = Path("/run/krepro-calibrate.json")
EXIT_IN_USE, EXIT_TIMEOUT, EXIT_ABANDONED = 120, 121, 122
#: All its processes see one CPU: probes are counted there.
CPU = 0
#: Others of the host's programs wait, where they would be in what is measured.
_NICE = -20
#: The files that it writes below /run and in tracefs' place are in mounts of its own.
_OWN_MOUNTS = """\
[ -d /sys/kernel/debug/tracing ] || mount -t debugfs debugfs /sys/kernel/debug
mount -t tmpfs tmpfs /run && mkdir -p "$KREPRO_OUT" && exec "$@"
"""
_BELOW = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")
_TRIES, _PAUSE_S = 50, 0.1


def run(seconds: float, words: Sequence[str]) -> int:
    """The exit status of the words, or one of the above."""
    if not _save():
        return EXIT_IN_USE
    try:
        return _kept(seconds, words)
    finally:
        undo()


def _kept(seconds: float, words: Sequence[str]) -> int:
    os.sched_setaffinity(0, {CPU})
    os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    child = subprocess.Popen([*_BELOW, "sh", "-c", _OWN_MOUNTS, "sh", *words], stdin=subprocess.DEVNULL)
    until = time.monotonic() + seconds
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(0, selectors.EVENT_READ)
            while child.poll() is None:
                if ready.select(_PAUSE_S):
                    return EXIT_ABANDONED
                if time.monotonic() > until:
                    return EXIT_TIMEOUT
        return child.returncode
    finally:
        child.kill()
        child.wait()


def _save() -> bool:
    """Write the settings down; False where that was done already and nobody has undone it."""
    was = {name: text for name in SETTINGS if (text := _read(Path(name))) is not None}
    try:
        with STATE.open("x") as file:
            json.dump(was, file)
    except FileExistsError:
        return False
    return True


def undo() -> list[str]:
    """Take away what is there of it, and set back what was changed; what that was, in words."""
    done = [*_instances(), *_events("kprobe_events"), *_events("uprobe_events")]
    with suppress(OSError, ValueError):
        for name, text in json.loads(STATE.read_text()).items():
            if name in SETTINGS and _read(Path(name)) != text:
                Path(name).write_text(text)
                done.append(f"{name} is {text.strip()} again")
    with suppress(OSError):
        STATE.unlink()
    return done


def _instances() -> Iterator[str]:
    for folder in sorted((TRACEFS / "instances").glob(f"{GROUP}*")):
        with suppress(OSError):
            (folder / "events/enable").write_text("0")
        _triggers(folder)
        if _soon(folder.rmdir):
            yield f"instance {folder.name} is gone"


def _soon(action: Callable[[], object]) -> bool:
    """Whether it can be done: whoever was killed may still have it open."""
    for _ in range(_TRIES):
        with suppress(OSError):
            action()
            return True
        time.sleep(_PAUSE_S)
    return False


def _triggers(folder: Path) -> None:
    """An instance with histograms cannot be removed."""
    for file in folder.glob("events/*/*/trigger"):
        for line in (_read(file) or "").splitlines():
            if line and not line.startswith("#"):
                with suppress(OSError):
                    file.write_text(f"!{line.partition(' [')[0]}")


def _events(name: str) -> Iterator[str]:
    for line in (_read(TRACEFS / name) or "").splitlines():
        event = line.partition(" ")[0].partition(":")[2]
        if event.partition("/")[0] not in (GROUP, f"{GROUP}_others"):
            continue
        if _soon(partial(_append, TRACEFS / name, f"-:{event}\n")):
            yield f"probe {event} is gone"


def _append(path: Path, text: str) -> None:
    """In one write, whose error is told."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def main(argv: Sequence[str]) -> int:
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    if argv[0] == "undo":
        print("\n".join(undo()))
        return 0
    return run(float(argv[1]), argv[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
