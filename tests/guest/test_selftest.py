# SPDX-License-Identifier: MIT
"""The self-test on real guests: a kind that works, one whose guest panics, and Ctrl-C in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from harness.artefacts.store import Store, hash_file
from harness.errors import RunError
from harness.experiment.model import load_experiment
from harness.host import selftest as fieldkit
from harness.host.kernelkit import OFFERS
from harness.host.kindwork import Absent
from harness.host.request import SelftestRequest
from harness.host.selftest import Kit, selftest
from harness.paths import EXPERIMENTS, ROOT
from harness.sets.reference import DIGEST, REFERENCES
from tests.folders import experiment
from tests.processes import DEFAULT_SIGNALS, PATIENCE_S, eventually, machines

pytestmark = pytest.mark.timeout(1800)

EXPERIMENT = """\
name: kinds
paper: {authors: [Nobody], year: 2024, title: A kind that works and one that does not}
workloads:
  never: {command: "exit 1"}
arms:
  works: {kernel: classic, clock: virtual, devices: [edu], oracle: [functions, pages]}
  # Without its first process a kernel panics, in any state of health.
  panics: {kernel: classic, clock: virtual, cmdline: {rdinit: /nowhere}}
"""


@pytest.fixture
def kinds(tmp_path: Path) -> Path:
    return experiment(tmp_path / "kinds", EXPERIMENT, "")


def test_a_kind_that_works_is_ok_and_a_panic_is_told_in_the_kernels_words(kinds, tmp_path):
    console = Console(width=80, record=True)
    out = tmp_path / "kit.json"
    options = SelftestRequest(experiment=(str(kinds),), out=out)
    with pytest.raises(RunError, match="1 of 4 failed; the first: tcg virtual classic mailbox rdinit") as caught:
        selftest(options, Store.default(), console)
    assert caught.value.exit_code == 3
    kernel, works, panics, pmu = json.loads(out.read_text())["rows"]
    assert (kernel["name"], kernel["status"]) == ("kernel classic", "ok")
    assert (works["name"], works["status"]) == ("tcg virtual classic mailbox edu oracle:functions+pages", "ok")
    assert works["detail"].startswith("restored, ready in ")
    assert "two runs equal, digest " in works["detail"]
    assert panics["status"] == "failed"
    assert panics["detail"].startswith("Kernel panic - not syncing: ")
    assert any(panics["detail"] in line for line in panics["console"]), "the console came with it"
    assert pmu["status"] == "absent"
    text = console.export_text()
    assert "Kernel panic - not" in text
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert str(tmp_path) not in out.read_text()


def test_bits_that_are_not_the_references_fail(tmp_path, monkeypatch):
    home = EXPERIMENTS / "irq-hotspot"
    (tmp_path / home.name).mkdir()
    text = (REFERENCES / home.name / DIGEST).read_text()

    def bits(text: str) -> str:
        (tmp_path / home.name / DIGEST).write_text(text)
        monkeypatch.setattr(fieldkit, "REFERENCES", tmp_path)
        kit = Kit(Store.default(), [(home, load_experiment(home))], SelftestRequest())
        (action,) = (action for group, _, _, action in kit._tasks if group == "bits")
        return action()[0]

    try:
        assert bits(text).startswith("the reference's ")
    except Absent as error:
        pytest.skip(error.message)
    reference = json.loads(text)
    reference["inputs"]["experiment"]["experiment.yaml"] = hash_file(
        home / "experiment.yaml"
    )  # else this may be what differs
    reference["trials"] = dict.fromkeys(reference["trials"], "0" * 64)
    with pytest.raises(RunError, match=r"not the reference's: raw/[\w-]+/0 differs"):
        bits(json.dumps(reference))
    reference["inputs"]["qemu"] = "QEMU emulator version 1"
    with pytest.raises(Absent, match="the reference is of another qemu: QEMU emulator version 1 there"):
        bits(json.dumps(reference))


def test_ctrl_c_ends_it_with_what_was_tried(tmp_path):
    scratch, out = tmp_path / "tmp", tmp_path / "kit.json"
    scratch.mkdir()
    words = ["selftest", "--experiment", "irq-hotspot", "--kind", "tcg classic", "--out", str(out)]
    process = subprocess.Popen(
        [*DEFAULT_SIGNALS, sys.executable, "-m", "harness.commands.program", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert eventually(lambda: machines(scratch)), process.stderr and process.stderr.read()
        process.send_signal(signal.SIGINT)
        said, problems = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, problems
    assert "interrupted; what was tried until then is in" in problems
    rows = json.loads(out.read_text())["rows"]
    assert [row["status"] for row in rows if row["group"] != "kernels"][:1] == ["untried"]
    kernels = {row["name"]: row["status"] for row in rows if row["group"] == "kernels"}
    for name in ("kernel classic-peers", "kernel classic-stock"):  # built or not: no quick arm needs them
        assert kernels.pop(name, "absent") in {"ok", "absent"}
    assert set(kernels.values()) == {"ok"}
    assert "untried" in said
    assert not machines(scratch)


def test_one_kernel_is_tried_by_kinds_of_its_own_and_says_what_it_offers(tmp_path):
    out = tmp_path / "kit.json"
    request = SelftestRequest(kernel="debian:6.12", kind=("virtual functions",), out=out)
    assert selftest(request, Store.default(), Console(width=80, quiet=True)) == 0
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    kind = rows["tcg virtual debian:6.12 mailbox oracle:functions+pages+sampler"]
    assert kind["status"] == "ok"
    assert "two runs equal" in kind["detail"]
    offered = {name: rows[name]["status"] for name in OFFERS}
    assert offered == {name: "absent" if name == "statistics of locks" else "ok" for name in OFFERS}
