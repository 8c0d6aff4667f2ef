# SPDX-License-Identifier: MIT
"""What the plugin's mode `paths` wrote: the calls of each thread, and in each of them the code that executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError
from harness.oracle.reader import Oracle, OracleAbsent, PathsReport

#: What a node is: the numbering of plugin/paths.c.
THREAD, CALL, SYSTEM_CALL, EXCEPTION, INTERRUPT, SOFTIRQ, NMI = range(7)
PAGE = 4096
#: The image that is no program's.
KERNEL_IMAGE = 1 << 30

_NODE = np.dtype([("target", "<u8"), ("calls", "<u8"), ("parent", "<u4"), ("what", "<u4")])
_LEAF = np.dtype([("code", "<u8"), ("instructions", "<u8"), ("node", "<u4"), ("context", "<u4")])
_CODE = np.dtype([("image", "<u8"), ("page", "<u8"), ("bytes", f"V{PAGE}")])


class Paths:
    """Of one trial: the calls and the code of its first lap.

    nodes   (n,) target uint64, calls uint64, parent uint32, what uint32: a node's parent lies before it, and 0 is none.
            Target: of a THREAD its number, and above 32 bits its image's; of a CALL the function, of a SYSTEM_CALL its
            number.
    leaves  (m,) code uint64, instructions uint64, node uint32, context uint32: code is a kernel function's address, 0
            for code of the kernel that has no name, or the first address of a block of user code.
    lost    instructions that are in no leaf, for there is more code than the plugin keeps apart.
    code    {image: {address: PAGE bytes}}: the pages of user code that executed, of KERNEL_IMAGE the kernel's.
    images  names, by number: each a program that a process was, as it calls itself.
    """

    def __init__(self, oracle: Oracle) -> None:
        """OracleAbsent when the mode has nothing to report, RunError when its files are damaged."""
        oracle.need("paths")
        report = oracle.report.paths
        if report is None:
            raise OracleAbsent("the oracle did not run in mode paths", where=str(oracle.folder))
        self.report: PathsReport = report
        self.images = [bytes.fromhex(name).decode(errors="replace") for name in report.images]
        self.nodes = _records(oracle.folder / "paths.nodes", _NODE)
        leaves = _records(oracle.folder / "paths.leaves", _LEAF)
        numbers = np.arange(self.nodes.size)
        if (self.nodes["parent"][1:] >= numbers[1:]).any() or (leaves["node"] >= self.nodes.size).any():
            raise RunError("names nodes that are not there", where=str(oracle.folder / "paths.nodes"))
        nowhere = leaves["node"] == 0
        self.leaves = leaves[~nowhere]
        self.lost = int(leaves["instructions"][nowhere].sum())
        self.code: dict[int, dict[int, bytes]] = {}
        for record in _records(oracle.folder / "paths.code", _CODE):
            self.code.setdefault(int(record["image"]), {})[int(record["page"])] = record["bytes"].tobytes()

    def threads_of_program(self) -> set[int]:
        """Numbers of the program's threads: the first that executed a file in the lap, and all that come of it."""
        program = self.report.program
        ours = {program} if program else set()
        for number, (parent, _) in enumerate(self.report.threads):
            if parent in ours:
                ours.add(number)
        return ours


def _records(path: Path, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) % kind.itemsize:
        raise RunError("is cut short", where=str(path))
    return np.frombuffer(data, dtype=kind)
