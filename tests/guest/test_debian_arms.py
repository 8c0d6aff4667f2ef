# SPDX-License-Identifier: MIT
"""The papers' arms on Debian's own kernels: each boots, its modules load, and its findings come out as known."""

from __future__ import annotations

import json

import pytest

from harness.experiment.model import load_experiment
from harness.paths import EXPERIMENTS
from tests.newcomer import inv

#: The quickest one, which has a module and a BPF program, is tried each time.
ARMS = {
    "shim": ("debian-tracepoint", "debian-bpf"),
    "irq-hotspot": ("tick-debian",),
    "lock-trace": ("debian-contention",),
    "probe-cost": ("debian-6.1", "debian-6.12"),
}


def test_these_are_all_such_arms():
    arms = {name: load_experiment(EXPERIMENTS / name).arms for name in ARMS}
    assert {
        name: tuple(arm for arm in arms[name] if arms[name][arm].kernel.startswith("debian:")) for name in ARMS
    } == ARMS


@pytest.mark.parametrize("name", ["shim", *(pytest.param(one, marks=pytest.mark.deep) for one in list(ARMS)[1:])])
def test_an_arm_on_debians_kernel_comes_out_as_known(name, tmp_path):
    done = inv(tmp_path, "run", name, "--arms", ",".join(ARMS[name]), "--results", "sets")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "sets" / name / "latest/claims.json").read_text())
    judged = {one["id"]: one["verdict"] for one in told if (one["metric"] or "").partition("/")[2] in ARMS[name]}
    known = {one.id: one.known or "confirmed" for one in load_experiment(EXPERIMENTS / name).claims}
    assert judged
    assert judged == {claim: known[claim] for claim in judged}
