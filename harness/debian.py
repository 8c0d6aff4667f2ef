# SPDX-License-Identifier: MIT
"""Debian packages that runs with the host's own tools need, and the tests' browser, and how they get onto the host.

Standard library only: `inv` imports this before the virtual environment exists.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import settings
from harness.errors import EXIT_USAGE

#: What building and booting guests takes, beyond an essential Debian 12 system.
GUEST_PACKAGES = (
    "bc",
    "bison",
    "ccache",
    "cpio",
    "flex",
    "gcc",
    "gcc-multilib",
    "git",
    "kmod",
    "libc6-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "patch",
    "perl",
    "qemu-system-x86",
    "xz-utils",
)

#: How long apt waits while another program installs.
LOCK_S = 300
#: What the tests take besides: the reports are opened in a browser.
TEST_PACKAGES = ("chromium", "openssh-client")


def host_tools() -> bool:
    """Whether this process uses the host's QEMU and compiler, not the tools tree."""
    return settings.switch(settings.HOST_TOOLS)


def missing(packages: Sequence[str]) -> list[str]:
    """Those of `packages` that dpkg does not report as installed, in the given order."""
    query = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in query.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in packages if name not in installed]


def install(packages: Sequence[str]) -> None:
    """Install `packages` with one apt-get call when root; otherwise print that call and exit with 2.

    Raises SystemExit when the call cannot be made or fails.
    """
    if not packages:
        return
    lock = ["-o", f"DPkg::Lock::Timeout={LOCK_S}"]  # on a new machine another program often holds it
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if os.geteuid() != 0:
        print(
            f"krepro: {len(packages)} Debian packages are missing; install them with: sudo {' '.join(command)}",
            file=sys.stderr,
        )
        raise SystemExit(EXIT_USAGE)
    print(f"krepro: installing {len(packages)} Debian packages: {' '.join(packages)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    if not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        subprocess.run(["apt-get", "-qq", "update"], env=environment, check=False)
    done = subprocess.run(
        [command[0], "-qq", *lock, *command[1:]], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        print(
            f"krepro: apt-get install failed: {reason} (run it yourself: apt-get update && {' '.join(command)})",
            file=sys.stderr,
        )
        raise SystemExit(EXIT_USAGE)


def ensure_guest_packages() -> None:
    """Install what building and booting guests needs and is missing; see `install`. Without dpkg nothing is known."""
    if shutil.which("dpkg-query"):
        install(missing(GUEST_PACKAGES))
