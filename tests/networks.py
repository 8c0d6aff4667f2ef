# SPDX-License-Identifier: MIT
"""Processes as on machines of their own: network namespaces joined by a bridge, and folders that others do not see.

All of it is in a network namespace of its own, and ends with its last process; the host's network is as it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

#: The bridge's address is that of the first machine, on which the scheduler and the run are.
NETWORK = "10.77.0"
FIRST = f"{NETWORK}.1"
PROGRAMS = ("ip", "mount", "nsenter", "unshare")
BRIDGE = f"""
set -e
ip link set lo up
ip link add bridge type bridge
ip address add {FIRST}/24 dev bridge
ip link set bridge up
echo up
exec sleep infinity
"""
#: $1: the first machine's process; $2, $3: name and address; $4: the folder it keeps; then, up to --, those it loses.
MACHINE = """
set -e
first=$1 name=$2 address=$3 own=$4
shift 4
ip link set lo up
ip link add eth0 type veth peer name "$name" netns "$first"
nsenter --target "$first" --net ip link set "$name" master bridge up
ip address add "$address/24" dev eth0
ip link set eth0 up
mount -t tmpfs none /mnt
mkdir /mnt/own
mount --bind "$own" /mnt/own
while [ "$1" != -- ]; do
    mkdir -p "$1"
    mount -t tmpfs none "$1"
    shift
done
shift
mkdir -p "$own"
mount --bind /mnt/own "$own"
umount /mnt/own /mnt
exec "$@"
"""


def unusable() -> str | None:
    """Why no machines can be had here; None where they can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)}: apt-get install iproute2 mount util-linux"
    if os.geteuid() != 0:
        return "only root makes network namespaces here"
    done = subprocess.run(["unshare", "--net", "--mount", "ip", "link"], capture_output=True, text=True, check=False)
    return f"no network namespaces here: {done.stderr.strip()}" if done.returncode else None


class Network:
    """The first machine, and others that reach it by its address alone; use it in `with`."""

    def __init__(self) -> None:
        self._first = subprocess.Popen(["unshare", "--net", "sh", "-c", BRIDGE], stdout=subprocess.PIPE, text=True)
        assert self._first.stdout is not None
        assert self._first.stdout.readline() == "up\n"
        self._machines = 0

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self._first.kill()
        self._first.communicate()

    @property
    def first(self) -> tuple[str, ...]:
        """The words before those of a program that shall run on the first machine; it sees all folders."""
        return ("nsenter", f"--target={self._first.pid}", "--net")

    def machine(self, own: Path, hidden: Sequence[Path]) -> tuple[tuple[str, ...], str]:
        """The words before those of a program on a new machine, and its address.

        It sees the host's folders, but those of `hidden` are empty there, except for `own`.
        """
        self._machines += 1
        address = f"{NETWORK}.{1 + self._machines}"
        words = ("unshare", "--net", "--mount", "sh", "-c", MACHINE, "machine", str(self._first.pid))
        return (*words, f"machine-{self._machines}", address, str(own), *map(str, hidden), "--"), address
