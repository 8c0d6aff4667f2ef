# SPDX-License-Identifier: MIT
"""What a guest can do to its trial, each in a real run beside good ones, on the virtual clock and over ssh."""

from __future__ import annotations

import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EXIT_RUN_FAILED
from harness.machine import vitals
from harness.sets.seal import verify_files
from tests.faults.runs import Ended, Place

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

KINDS = ("virtual", "wall")
#: Of a workload, by the guest's clock.
WORKLOAD_S = 5
#: The trial's own limit; and the deadline of each fault, on a machine that is busy.
LIMIT_S = 60 + 4 * WORKLOAD_S
HALTED = f"the guest {vitals.HALTED}"
STARVE = """\
// SPDX-License-Identifier: MIT
#include "krepro.h"
#include <sched.h>

int main(void)
{
	struct sched_param most = { .sched_priority = 99 };

	if (sched_setscheduler(0, SCHED_FIFO, &most))
		die_errno("sched_setscheduler");
	for (;;)
		;
}
"""
BOMB = "b() { b | b & }; b; sleep 1000"


@dataclass(frozen=True)
class Fault:
    """A guest's command, and why its trial fails on the virtual clock and over ssh; None: it is fine.

    `lost`: the guest is gone, and its CPUs' registers are kept. `most_s`: seconds from the trial's start to its end.
    """

    command: str
    virtual: str | None = ""
    wall: str | None = ""
    lost: bool = False
    most_s: float = LIMIT_S


FAULTS = {
    "panic": Fault("echo c >/proc/sysrq-trigger; sleep 100", "the guest panicked", "the guest panicked", lost=True),
    "hang-with-interrupts-off": Fault(
        "echo 1 >/sys/module/deaf/parameters/now",
        "the guest (hung: its interrupts were off for 120 s|did not finish its job within 80 s)",
        "the guest hung: no heartbeat for 30 s",
        lost=True,
        most_s=LIMIT_S + 20,
    ),
    "power-off": Fault("poweroff -f; sleep 100", HALTED, "the guest (hung: no heartbeat for 30 s|ended)", lost=True),
    "halt": Fault("halt -f; sleep 100", HALTED, "the guest (hung: no heartbeat for 30 s|ended)", lost=True),
    "reboot": Fault("reboot -f; sleep 100", "the guest ended during its job", "the guest ended", lost=True),
    "endless-workload": Fault("while :; do :; done", "timed out after 5 s", "timed out after 5 s"),
    "timers-starved": Fault(
        # Real time without a limit: the guest's own timeout never runs.
        "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; starve",
        "the guest did not finish its job within 80 s",
        "the guest (hung: no heartbeat for 30 s|did not finish its job within 80 s)",
        lost=True,
        most_s=LIMIT_S + 20,
    ),
    "out-of-memory": Fault("head -c 2000000000 /dev/zero | tail -n 1", "workload fault: ", "workload fault: "),
    "fork-bomb": Fault(BOMB, ".", "."),
    "disk-full": Fault(
        "cat /dev/zero >big",
        "the guest's data ends early",
        # tar ends by itself where it has no room for its list, or is cut off by the host's limit: who comes first.
        "the guest (filled bulk with 1048576 bytes; all after them is lost|could not send its data)",
    ),
    "exit-255": Fault("exit 255", "workload fault: exit status 255", "workload fault: exit status 255"),
    "children-left": Fault("sleep 1000 & (trap '' HUP TERM; sleep 1000) & echo", None, None),
    "nothing-left": Fault("cd /; rm -rf /run/krepro/out", "the guest's data ends early", "could not send its data"),
    "console-flood": Fault(
        "head -c 1200000 /dev/zero | tr '\\0' '\\101' >/dev/console",
        "the guest filled console.log with 1048576 bytes; all after them is lost",
        "the guest filled console.log with 1048576 bytes; all after them is lost",
    ),
    "bulk-flood": Fault(
        "head -c 3000000 /dev/zero >big",
        "the guest filled bulk with 1048576 bytes; all after them is lost",
        "the guest filled bulk with 1048576 bytes; all after them is lost",
    ),
}
SSH_FAULTS = {
    "sshd-killed": Fault("killall dropbear; sleep 1", wall="the guest (lost|closed) its ssh connection"),
    "ssh-stalled": Fault("killall -STOP dropbear", wall="the guest did not finish its job within 80 s", most_s=200),
}
ALL = {"virtual": FAULTS, "wall": {**FAULTS, **SSH_FAULTS}}


def yaml(kind: str) -> str:
    lines = ["name: faulty", "paper: {authors: [Nobody], year: 2024, title: A guest that fails}", "workloads:"]
    lines.append(f"  good: {{command: echo well, timeout_s: {WORKLOAD_S}}}")
    for name, fault in ALL[kind].items():
        lines.append(f"  {name}: {{command: {quoted(fault.command)}, timeout_s: {WORKLOAD_S}}}")
    lines.append("arms:")
    lines.append(f"  good: {{kernel: classic, clock: {kind}, workloads: [good]}}")
    lines += [f"  {name}: {{kernel: classic, clock: {kind}, workloads: [{name}]}}" for name in ALL[kind]]
    lines.append("repetitions: {quick: 1}")
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Run:
    place: Place
    ended: Ended
    manifest: dict[str, Any]

    def trial(self, arm: str) -> dict[str, Any]:
        (found,) = [trial for trial in self.manifest["trials"] if trial["arm"] == arm]
        return found


@pytest.fixture(scope="module", params=[pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in KINDS])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run with every fault of a kind, an arm each."""
    place = Place(tmp_path_factory.mktemp(request.param), yaml(request.param), {"KREPRO_OUTPUT_MIB": "1"})
    shutil.copytree(Path(__file__).with_name("deaf"), place.folder / "guest/modules/deaf")
    (place.folder / "guest/starve.c").write_text(STARVE)
    ended = place.run()
    return Run(place, ended, place.manifest())


@pytest.mark.parametrize("name", ALL["wall"])
def test_a_fault_costs_its_own_trial_and_is_told(made, name):
    kind = made.trial("good")["clock"]
    if name not in ALL[kind]:
        pytest.skip("a guest without ssh")
    fault = ALL[kind][name]
    trial = made.trial(name)
    expected = fault.virtual if kind == "virtual" else fault.wall
    raw = made.place.sets()[-1] / trial["path"]
    if expected is None:
        assert (trial["status"], trial["reason"]) == ("ok", None)
        return
    assert trial["status"] == "failed"
    assert re.search(expected.replace("fault", name), trial["reason"]), trial["reason"]
    assert "bug of krepro" not in trial["reason"]
    assert trial["seconds"]["trial"] < fault.most_s
    assert (raw / "console.log").stat().st_size > 0
    if fault.lost:
        diagnosis = (raw / "diagnosis.txt").read_text()
        assert "console:" in diagnosis
        assert "EIP=" in diagnosis or "reboot" in name, "registers of a guest that was there to be asked"


def test_the_others_are_kept_and_the_run_says_how_many_failed(made):
    assert made.trial("good")["status"] == "ok"
    assert made.ended.status == EXIT_RUN_FAILED, made.ended.err
    bad = sum(trial["status"] == "failed" for trial in made.manifest["trials"])
    assert f"{bad} of {len(made.manifest['trials'])} trials failed" in made.ended.lines[-1]
    assert "Traceback" not in made.ended.err
    verify_files(made.place.sets()[-1])


def test_nothing_is_left_behind(made):
    made.place.check_nothing_is_left()


def test_the_run_can_be_resumed_and_takes_what_went_well(made):
    first = made.place.sets()[-1].name
    bad = sum(trial["status"] == "failed" for trial in made.manifest["trials"])
    good = len(made.manifest["trials"]) - bad
    process = made.place.start("--resume", first)
    told = ""
    assert process.stderr is not None
    while "trials are those of" not in told and (line := process.stderr.readline()):
        told += line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert f"{good} of {bad + good} trials are those of {first}" in told
    assert process.returncode == 130
    made.place.check_nothing_is_left()
