# SPDX-License-Identifier: MIT
"""The fix's peers: what each profiler's files tell of the handler's time, and their cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.irq_hotspot.peers import PROFILERS, peer_row

from harness.errors import RunError
from harness.measure.analysis import Analysis
from harness.measure.symbols import read_system_map
from harness.oracle.reader import Oracle
from harness.paths import EXPERIMENTS
from harness.trial.model import TrialRecord
from tests.experiments.irq_hotspot.test_analysis import EDU, Lab, address, measured
from tests.oracle_files import write_oracle

#: 1,000 interrupts of 40,000 instructions of 8 ns.
EXACT_NS = 1000 * 40_000 * 8.0
WORK, IRQ, READ = (address(name) for name in ("krepro_edu_work", "krepro_edu_irq", "vfs_read"))
LAP = {
    (WORK, "interrupt"): (39_900_000, 1000),
    (IRQ, "interrupt"): (100_000, 1000),
    (READ, "task"): (40_000_000, 9),
    (READ, "nmi"): (7, 1),
    (0, "user"): (50_000, 0),
}
HEAD = "# tracer: nop\n#\n# entries-in-buffer/entries-written: {}/{}   #P:1\n#\n"
ENTRY = " peerload-7 [000] d.h1. {}: irq_handler_entry: irq=11 name=krepro-edu\n"
EXIT = " peerload-7 [000] d.h1. {}: irq_handler_exit: irq=11 ret=handled\n"
STAT = "cpu  1 0 {} 9 0 {} 3 0 0 0\ncpu0 1 0 1 9 0 1 3 0 0 0\n"


def beside(root: Path, profiler: str, lap: Any = LAP, more: int = 0, counts: Any = None) -> TrialRecord:
    """A trial of arm peer-PROFILER: the files of the collector, the oracle, and the profiler's own by `files`."""
    root.mkdir(exist_ok=True)
    lab = Lab(root)
    answer = EDU | {"raised_kernel": 1000, "handled": 1000}
    trial = lab.trial(f"peer-{profiler}", sampling="nmi", peers={"answer": answer, "counts": counts or {}})
    laps = [lap | {(0, "user"): (50_000 + more, 0)}] if lap else []
    write_oracle(trial.path, [LAP], laps=laps, shift=3)
    return trial.model_copy(update={"params": {"irq_sampling": "nmi", "profiler": profiler}})


def write(trial: TrialRecord, **files: str | bytes) -> TrialRecord:
    for name, content in files.items():
        path = trial.path / "peers" / name.replace("_", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return trial


def told(trial: TrialRecord) -> float:
    return measured(trial)[trial.arm, "peer_told"][0]


def test_counts_of_the_buffer_stand_for_the_time_between_two_samples(tmp_path):
    for profiler in ("tick", "jitter", "entry"):
        trial = beside(tmp_path / profiler, profiler, counts={"krepro_edu_work": 16, "vfs_read": 16})
        assert told(trial) == 0.16e9 / EXACT_NS, "10 ms each"
        assert measured(trial)[trial.arm, "peer_error"][0] == pytest.approx(0.5)
        assert measured(trial)[trial.arm, "peer_profile_error"][0] == pytest.approx(0, abs=2e-3)
    trial = beside(tmp_path / "nmi", "nmi", counts={"krepro_edu_work": 3})
    assert told(trial) == pytest.approx(3 * Oracle(trial.path).report.period_ns / EXACT_NS)


def test_samples_of_the_clock_stand_for_a_millisecond(tmp_path):
    samples = np.array([WORK + 4] * 160 + [READ] * 40 + [0] * 9, dtype="<u8")
    trial = write(beside(tmp_path, "perf"), cpuclock=samples.tobytes())
    assert told(trial) == 0.5
    assert measured(trial)["peer-perf", "peer_profile_error"][0] == pytest.approx(0.3, abs=2e-3)


def test_events_tell_the_time_between_entry_and_exit(tmp_path):
    pairs = [ENTRY.format("1.000100") + EXIT.format("1.160100"), ENTRY.format("9.999900") + EXIT.format("10.159900")]
    assert told(write(beside(tmp_path, "trace"), trace=HEAD.format(4, 4) + "".join(pairs))) == 1
    assert measured(beside(tmp_path / "b", "trace"))["peer-trace", "peer_told"][1].endswith("No such file or directory")


def test_accounted_time_is_that_of_interrupts_in_units_of_10_ms(tmp_path):
    trial = write(beside(tmp_path, "account"), stat_before=STAT.format(5, 100), stat_after=STAT.format(50, 132))
    assert told(trial) == 1


def test_the_repaired_fix_has_the_handlers_own_line(tmp_path):
    before = "0 9 1000 timer_interrupt\n0 2 640000 krepro_edu_irq\n"
    after = "0 90 99000 timer_interrupt\n0 1002 320640000 krepro_edu_irq\n0 1 5 (others)\n"
    trial = write(beside(tmp_path, "times"), times_before=before, times_after=after)
    assert told(trial) == 1
    assert "handlers alone" in measured(trial)["peer-times", "peer_profile_error"][1]


def test_the_cost_is_what_the_work_has_more_than_without_a_profiler(tmp_path):
    lines = "0 1 1 krepro_edu_irq\n"
    times = write(beside(tmp_path, "times", more=400_000), times_before=lines, times_after=lines)
    values = measured(beside(tmp_path, "none"), times)
    assert values["peer-times", "peer_cost"] == (400.0, None)
    assert ("peer-none", "peer_cost") not in values
    assert values["peer-none", "peer_told"][1] == "no profiler ran"
    value, reason = measured(times)["peer-times", "peer_cost"]
    assert np.isnan(value)
    assert "peer-none" in reason


@pytest.mark.parametrize(
    ("profiler", "files", "says"),
    [
        ("perf", {"cpuclock": b"1234567"}, "7 bytes"),
        ("perf", {"cpuclock": b"12345678"}, "none of the kernel's"),
        ("perf", {"cpuclock": (0x1000).to_bytes(8, "little")}, "none of the kernel's"),
        ("trace", {"trace": HEAD.format(2, 2) + ENTRY.format("1.000100") * 2}, "two events irq_handler_entry"),
        ("trace", {"trace": HEAD.format(1, 1) + EXIT.format("1.000100")}, "two events irq_handler_exit"),
        ("trace", {"trace": HEAD.format(2, 2) + ENTRY.format("1.000100")}, "has 1 events of 2 that were written"),
        ("trace", {"trace": HEAD.format(1, 2) + ENTRY.format("1.000100")}, "has 1 events of 2 that were written"),
        ("trace", {"trace": ENTRY.format("1.000100") + EXIT.format("1.000200")}, "has 2 events"),
        ("account", {"stat_before": "cpu 1 2\n", "stat_after": "cpu 1 2\n"}, "not that of /proc/stat"),
        ("times", {"times_before": "0 1 krepro_edu_irq\n", "times_after": ""}, "CPU, calls, nanoseconds"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, profiler, files, says):
    trial = write(beside(tmp_path, profiler), **files)
    symbols = read_system_map(trial.system_map)
    with pytest.raises(RunError, match=says):
        peer_row(trial.path / "peers", profiler, Oracle(trial.path), symbols, None, 1000)
    assert says in json.dumps(measured(trial)[trial.arm, "peer_told"][1])


def test_without_the_lap_nothing_is_told(tmp_path):
    trial = beside(tmp_path, "tick", lap=None)
    assert "0 laps, not 1" in measured(trial)["peer-tick", "peer_told"][1]


def test_the_table_has_a_row_per_profiler(tmp_path):
    trials = [beside(tmp_path, "none"), *(beside(tmp_path, name, counts={"vfs_read": 3}) for name in ("tick", "nmi"))]
    analysis = Analysis(EXPERIMENTS / "irq-hotspot")
    tables = analysis.tables(trials)
    summary = analysis.summary(tables, analysis.metrics(tables), [])
    table = next(frame for title, frame in summary.items() if title.startswith("Peers"))
    assert table["profiler"].tolist() == [PROFILERS["tick"], PROFILERS["nmi"]]
    assert table["error"].tolist() == [1, 1]
