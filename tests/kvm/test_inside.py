# SPDX-License-Identifier: MIT
"""The tests that need KVM themselves, run in the KVM host: one case here for each file of `tests/kvm/inside`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from harness.machine.kvmhost import KvmHost
from harness.paths import ROOT

pytestmark = pytest.mark.timeout(3600)

FILES = sorted(path.name for path in (ROOT / "tests/kvm/inside").glob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_tests_pass_under_kvm(kvm_host: KvmHost, built: Callable, name: str):
    built("irq-hotspot")
    words = [sys.executable, "-m", "pytest", f"tests/kvm/inside/{name}", "-q", "-p", "no:cacheprovider"]
    ended = kvm_host.run(words, timeout_s=3000, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    print(ended.stdout, ended.stderr)
    assert ended.status == 0
