# SPDX-License-Identifier: MIT
"""The QMP connection to a QEMU without a guest."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from harness.machine.qmp import Qmp, QmpLost
from harness.packages.tree import tools

#: Longer than a test may take: a wait that ends was ended.
FOREVER_S = 1e5


@pytest.fixture
def qemu() -> Iterator[tuple[subprocess.Popen[bytes], Qmp]]:
    ours, theirs = socket.socketpair()
    with theirs:
        chardev = f"socket,fd={theirs.fileno()},id=qmp"
        process = subprocess.Popen(
            [*tools().qemu(), "-M", "none", "-display", "none", "-chardev", chardev, "-mon", "qmp,mode=control"],
            pass_fds=[theirs.fileno()],
        )
    qmp = Qmp(ours, [])
    try:
        yield process, qmp
    finally:
        qmp.close()
        process.kill()
        process.wait()


def test_the_end_of_qemu_ends_a_wait(qemu):
    process, qmp = qemu
    killer = threading.Timer(0.3, process.kill)
    killer.start()
    with pytest.raises(QmpLost):
        qmp.poll(FOREVER_S)


def test_an_end_that_came_before_the_wait_is_noticed(qemu):
    process, qmp = qemu
    process.kill()
    process.wait()
    with pytest.raises(QmpLost):
        qmp.poll(FOREVER_S)


def test_a_command_to_a_qemu_that_has_ended_says_so(qemu):
    process, qmp = qemu
    process.kill()
    process.wait()
    for _ in range(2):
        with pytest.raises(QmpLost, match="query-status had no answer"):
            qmp.command("query-status")


def test_an_event_ends_a_wait_and_is_given_once(qemu):
    _, qmp = qemu
    assert qmp.poll(0.05) == []
    qmp.command("stop")
    assert [event["event"] for event in qmp.poll(FOREVER_S)] == ["STOP"]
    assert qmp.poll(0) == []
    qmp.command("cont")
    qmp.command("stop")
    qmp.command("query-status")
    assert [event["event"] for event in qmp.poll(0)] == ["RESUME", "STOP"]


def test_what_came_before_the_end_is_still_told(qemu):
    process, qmp = qemu
    qmp.command("quit")
    process.wait()
    assert [event["event"] for event in qmp.poll(FOREVER_S)] == ["SHUTDOWN"]
    with pytest.raises(QmpLost):
        qmp.poll(FOREVER_S)
