# SPDX-License-Identifier: MIT
"""A program of its own: makes a TCP socket in the network of another process, and sends it through a descriptor.

    python enter.py PID DESCRIPTOR

A socket stays in the network that it was made in, whoever has it. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import sys

#: ioctl of a namespace: a descriptor of the user namespace that owns it (linux/nsfs.h).
NS_GET_USERNS = 0xB701


def main() -> None:
    """Enter the user namespace that owns the network first: who made it may, and may then enter the network.

    The process itself may be in another one below: bubblewrap gives it one more for users other than root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    network = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY)
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    for name, handle in (("user", owner), ("net", network)):
        if libc.setns(handle, 0) != 0:
            raise OSError(ctypes.get_errno(), f"setns {name}")
        os.close(handle)
    with socket.socket(fileno=int(sys.argv[2])) as channel, socket.socket() as made:
        socket.send_fds(channel, [b"s"], [made.fileno()])


if __name__ == "__main__":
    main()
