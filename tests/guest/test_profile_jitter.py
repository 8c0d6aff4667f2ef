# SPDX-License-Identifier: MIT
"""The jittered tick in a guest: its switch, and one sample in each period in place of the tick's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.experiment.model import Workload, load_experiment
from harness.experiment.scalar import Scalar
from harness.paths import EXPERIMENTS
from harness.run.prepared import prepare_trials
from harness.trial.execution import run_trial
from harness.trial.model import TrialRecord
from harness.trial.plan import PlannedTrial
from harness.trial.prepare import build_for
from tests.compiling import run

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]
SWITCH = "/proc/sys/kernel/profile_jitter"
#: The sum of all counters, at profile=12 so that a shell can add them up; and the seconds since boot.
TOTAL = (
    "hexdump -v -s 4 -e '1/4 \"%u\\n\"' /proc/profile | awk '{ n += $1 } END { print n }'; cut -d' ' -f1 /proc/uptime"
)


def shell(
    target: Path, command: str, cmdline: dict[str, Scalar], name: str, collect: Sequence[str] = ()
) -> TrialRecord:
    """Shell text in a guest of this arm, under the virtual clock; collected from, with the arm's oracle."""
    folder = EXPERIMENTS / "irq-hotspot"
    experiment = load_experiment(folder)
    changed = {"cmdline": cmdline, "workloads": ["shell"]} | ({} if collect else {"oracle": []})
    arms = {name: experiment.arms[name].model_copy(update=changed)}
    workloads = {"shell": Workload(command=command)}
    experiment = experiment.model_copy(
        update={"arms": arms, "workloads": workloads, "collect": list(collect), "claims": []}
    )
    plan = [PlannedTrial(name, 0, 11)]
    return run_trial(prepare_trials(Store.default(), experiment, folder, plan, target, "tcg").trials[0])


def said(target: Path, command: str, cmdline: dict[str, Scalar]) -> str:
    """What shell text prints in a guest under the virtual clock."""
    record = shell(target, command, cmdline, "map-tick")
    assert record.status == "ok", record.reason
    return (target / record.path / "shell" / "stdout").read_text()


SWITCHES = [f"/proc/sys/kernel/{name}" for name in ("irq_hotspot", "nmi_profile", "profile_jitter")]


def code(vmlinux: Path, function: str) -> list[str]:
    """A function's instructions, addresses left out."""
    lines = run("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", vmlinux).splitlines()
    words = [line.split("\t")[1].strip() for line in lines if line.startswith("c") and "\t" in line]
    return [re.sub(r"\b(0x)?c1[0-9a-f]{6}\b( <.*>)?", "ADDRESS", word) for word in words]


def test_off_is_the_code_of_the_tick_behind_a_nop(store, classic):
    peers = build_for(store, "classic-peers", EXPERIMENTS / "irq-hotspot").kernel.file("vmlinux")
    stock = code(classic.kernel.file("vmlinux"), "profile_tick")
    assert len(stock) > 20
    assert code(peers, "profile_sample") == stock
    nop, *rest = code(peers, "profile_tick")
    assert nop == "lea    %ds:0x0(%esi,%eiz,1),%esi"
    assert rest[:5] == ["push   %ebp", "mov    %esp,%ebp", "call   ADDRESS", "pop    %ebp", "ret"]


def test_one_sample_in_each_period_on_and_off(tmp_path):
    count = f"cat {SWITCH}; {TOTAL}; sleep 3; {TOTAL}"
    words = said(tmp_path, f"echo 1 >{SWITCH}; {count}; echo 0 >{SWITCH}; {count}", {"profile": 12}).split()
    for state, (value, before, begin, after, end) in zip("10", (words[:5], words[5:]), strict=True):
        assert value == state
        # An idle machine is hardly ever in user mode, where neither takes a sample.
        assert (int(after) - int(before)) / (float(end) - float(begin)) == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(
    ("cmdline", "value", "says"),
    [
        ({"profile": 12}, 2, "Invalid argument"),
        ({}, 1, "No such device"),
        ({"profile": "schedule"}, 1, "busy"),
        ({"profile": 12, "highres": "off"}, 1, "not supported"),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path, cmdline, value, says):
    text = said(tmp_path, f"(echo {value} >{SWITCH} || echo refused; cat {SWITCH}) 2>&1", cmdline)
    assert says in text
    assert text.split()[-2:] == ["refused", "0"]


def test_one_source_at_a_time_has_the_buffer(tmp_path):
    tries = [
        f"echo 1 >{first}; (echo 1 >{second} || echo refused) 2>&1; echo 0 >{first}; echo 1 >{second}; echo 0 >{second}"
        for first in SWITCHES
        for second in SWITCHES
        if first != second
    ]
    text = said(tmp_path, "; ".join([*tries, f"cat {' '.join(SWITCHES)}"]), {"profile": 12})
    assert text.count("busy") == text.count("refused") == len(tries)
    assert text.split()[-3:] == ["0", "0", "0"]


def test_an_nmi_that_nobody_knows_is_left_to_the_panic(tmp_path):
    """The collector switches nmi_profile on; from the workload's begin on the oracle sends NMIs."""
    for cmdline, ended in (({"profile": 12}, True), ({"profile": 12, "unknown_nmi_panic": True}, False)):
        target = tmp_path / str(ended)
        target.mkdir()
        record = shell(target, "sleep 1", cmdline, "peer-nmi", collect=["profile"])
        assert (record.status == "ok") == ended, record.reason
        assert ended or "panic" in (record.reason or "")
