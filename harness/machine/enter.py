# SPDX-License-Identifier: MIT
"""A program of its own: makes a TCP socket in the network of another process, and sends it through a descriptor.

    python enter.py PID DESCRIPTOR

A socket stays in the network that it was made in, whoever has it. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys


def main() -> None:
    """Enter the user namespace first: in it, its owner may enter the network."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("user", "net"):
        handle = os.open(f"/proc/{sys.argv[1]}/ns/{name}", os.O_RDONLY)
        if libc.setns(handle, 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns {name}")
        os.close(handle)
    with socket.socket(fileno=int(sys.argv[2])) as channel, socket.socket() as made:
        socket.send_fds(channel, [b"s"], [made.fileno()])


if __name__ == "__main__":
    main()
