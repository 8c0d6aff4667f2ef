# SPDX-License-Identifier: MIT
"""Page traces in a guest: each known sequence exactly, in every shape of machine; nothing else is different."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.page_trace_suite import complaints, run_in_guest

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]

#: Each value of CPUs, page table isolation and levels is there; all combinations are in tests/faults.
SHAPES = [("modern-6.1", 1, True, 4), ("modern-6.1", 2, False, 4), ("modern-6.1-la57", 2, True, 5)]


@pytest.mark.parametrize(("kernel", "cpus", "pti", "levels"), SHAPES)
def test_page_traces_are_exact_and_change_nothing(kernel: str, cpus: int, pti: bool, levels: int, tmp_path: Path):
    folder = run_in_guest(tmp_path, "pt-suite 150", kernel, cpus, pti=pti, timeout_s=900)
    shape = f"levels {levels} cpus {cpus}\n" + ("pti=on\n" if pti else "")
    assert (folder / "shape").read_text() == shape
    assert list(complaints(folder)) == []
