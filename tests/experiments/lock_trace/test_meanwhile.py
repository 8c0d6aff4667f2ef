# SPDX-License-Identifier: MIT
"""What `./inv locks --verbose` shows of the kernel's sums, part after part."""

from __future__ import annotations

import pytest
from experiments.lock_trace.report.meanwhile import meanwhile

from harness.errors import RunError

LOCKS = """\
entry	address	generation	kind	name	offset	init_site
1	0xffff888000000100	0	slab	shmem_inode_cache	264	-
2	0xffffffff82000000	0	static	tasklist_lock+0x0/0x8	0	-
"""
SITES = "lock\ttype\tsite\tsymbol\tacquisitions\tcontended\tfailed\tabandoned\tkept\twait_total\n"


def part(uptime: float, *rows: tuple[int, int, str, int, int]) -> str:
    """One part of the stream, of a TSC of 1 MHz: lock, type, symbol, contended and cycles waited."""
    lines = [
        f"{lock:#x}\t{kind}\t0x1\t{symbol}\t99\t{contended}\t0\t0\t1\t{cycles}\n"
        for lock, kind, symbol, contended, cycles in rows
    ]
    return f'{uptime} 1.00\n "tsc_khz": 1000,\n{LOCKS}{SITES}{"".join(lines)}'


INODE, TASKS = 0xFFFF888000000100, 0xFFFFFFFF82000000


def test_a_part_is_less_what_was_there_before():
    first = part(5.0, (INODE, 6, "write+0x2d/0x80", 3, 3000), (TASKS, 2, "do_wait+0x92/0x300", 1, 10))
    later = part(6.5, (INODE, 6, "write+0x2d/0x80", 3, 3000), (TASKS, 2, "do_wait+0x92/0x300", 5, 60))
    assert meanwhile(first, None) == [
        "5.0 s: 4 waits so far, 3.01 ms in all",
        "     3 ms  3 waits for shmem_inode_cache+0x108 (rwsem:W): write+0x2d",
        "    10 µs  1 waits for tasklist_lock (rwlock:R): do_wait+0x92",
    ]
    assert meanwhile(later, first) == [
        "6.5 s: 4 waits in 1.5 s, 50 µs in all",
        "    50 µs  4 waits for tasklist_lock (rwlock:R): do_wait+0x92",
    ]


def test_cpus_and_locks_of_a_class_are_one_line():
    rows = [(INODE, 6, "write+0x2d/0x80", 1, 1), (INODE, 6, "write+0x2d/0x80", 2, 5), (0xABC, 1, "spin", 1, 1)]
    assert meanwhile(part(1.0, *rows), None)[1:] == [
        "     6 µs  3 waits for shmem_inode_cache+0x108 (rwsem:W): write+0x2d",
        "     1 µs  1 waits for 0xabc (spinlock): spin",
    ]


def test_nobody_waits():
    assert meanwhile(part(2.0), part(1.0)) == ["2.0 s: 0 waits in 1 s, 0 ns in all"]


@pytest.mark.parametrize(
    "text", ["", "1.0 2\n", part(1.0).replace("tsc_khz", "x"), part(1.0) + "0x1\t1\n", part(1.0).replace("entry", "x")]
)
def test_what_is_no_part_is_refused(text):
    with pytest.raises(RunError, match="the guest's stream"):
        meanwhile(text, None)
