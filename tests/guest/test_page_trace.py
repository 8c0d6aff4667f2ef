# SPDX-License-Identifier: MIT
"""Page traces in a guest: each known sequence exactly, in every shape of machine; nothing else is different."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.page_trace.trace.stats import TraceStats

from harness.measure.raw import read_answer
from tests.experiments.page_trace.known import EXPERIMENT
from tests.page_trace_suite import complaints, run_in_guest

pytestmark = pytest.mark.timeout(1800)

#: Each value of CPUs, page table isolation and levels is there; all combinations are in tests/faults.
SHAPES = [("modern-6.1", 1, True, 4), ("modern-6.1", 2, False, 4), ("modern-6.1-la57", 2, True, 5)]


@pytest.mark.deep
@pytest.mark.parametrize(("kernel", "cpus", "pti", "levels"), SHAPES)
def test_page_traces_are_exact_and_change_nothing(kernel: str, cpus: int, pti: bool, levels: int, tmp_path: Path):
    folder = run_in_guest(tmp_path, "pt-suite 150", kernel, cpus, pti=pti, timeout_s=900)
    shape = f"levels {levels} cpus {cpus}\n" + ("pti=on\n" if pti else "")
    assert (folder / "shape").read_text() == shape
    assert list(complaints(folder)) == []


def test_a_trace_with_gathers_of_several_pages_does_not_say_that_it_is_exact(tmp_path: Path):
    """20 gathers of 8 pages: of each, all visits but the first are by the instruction of the one before.

    On the virtual clock: a gather that a tick interrupts is begun anew, and has one visit more.
    """
    trace = "pagetrace -m $at/maps -o /dev/null -s $at/{0} pageknown {0} >/dev/null"
    both = "; ".join(trace.format(case) for case in ("gather", "push-straddle"))
    command = f"at=/run/krepro/out/suite; {both}; dmesg >$at/dmesg.end"
    folder = run_in_guest(tmp_path, command, "modern-6.1-avx", 1, clock="virtual", beside=EXPERIMENT)
    gather, push = (read_answer(folder / case, TraceStats) for case in ("gather", "push-straddle"))
    assert (gather.gathers, gather.exact) == (140, False)
    assert (push.gathers, push.exact) == (0, True)
    assert "140 visits are of gathers or scatters" in (folder / "stderr").read_text()
