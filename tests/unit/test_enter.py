# SPDX-License-Identifier: MIT
"""A socket in the network of a process that is shut in as bubblewrap does it for an ordinary user."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.machine import enter

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOBODY = 65534
PYTHON = "/usr/bin/python3"  # one that any user may run
#: A network, and then one more user namespace, in which it stays.
SHUT_IN = f"""\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.geteuid(), os.getegid()
if libc.unshare({CLONE_NEWUSER | CLONE_NEWNET}) != 0:
    sys.exit("no namespaces")
for name, text in ("setgroups", "deny"), ("uid_map", f"{{user}} {{user}} 1"), ("gid_map", f"{{group}} {{group}} 1"):
    with open(f"/proc/self/{{name}}", "w") as file:
        file.write(text)
if libc.unshare({CLONE_NEWUSER}) != 0:
    sys.exit("no namespace in a namespace")
print("in", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user may read, with enter.py in it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    shutil.copy(enter.__file__, folder / "enter.py")
    (folder / "enter.py").chmod(0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"no {PYTHON}")
def test_the_network_below_a_further_user_namespace_is_entered(place):
    user = NOBODY if os.geteuid() == 0 else None
    with subprocess.Popen(
        [PYTHON, "-c", SHUT_IN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=user, cwd="/"
    ) as inside:
        assert inside.stdin is not None
        assert inside.stdout is not None
        try:
            if inside.stdout.readline() != "in\n":
                pytest.skip("this host allows no user namespaces")
            ours, theirs = socket.socketpair()
            with ours, theirs:
                words = [PYTHON, "-I", "-S", str(place / "enter.py"), str(inside.pid), str(theirs.fileno())]
                subprocess.run(words, pass_fds=[theirs.fileno()], user=user, cwd="/", check=True)
                _, (handle,), _, _ = socket.recv_fds(ours, 1, 1)
            with socket.socket(fileno=handle) as made:
                made.settimeout(1)
                with pytest.raises(OSError, match="unreachable"):  # its loopback is down: nobody has set it up
                    made.connect(("127.0.0.1", 9))
        finally:
            inside.stdin.close()
