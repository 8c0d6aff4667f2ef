# SPDX-License-Identifier: MIT
"""The tests that need KVM themselves, run in the KVM host: one case here for each file of `tests/kvm/inside`."""

from __future__ import annotations

import sys

import pytest

from harness.artefacts.store import Store
from harness.image.keys import image_keys
from harness.paths import ROOT
from harness.trial.prepare import build_for
from tests.kvmbox.host import KvmHost

pytestmark = pytest.mark.timeout(3600)

FILES = sorted(path.name for path in (ROOT / "tests/kvm/inside").glob("test_*.py"))


@pytest.mark.parametrize("name", FILES)
def test_tests_pass_under_kvm(kvm_host: KvmHost, store: Store, name: str):
    for kernel in ("classic", "modern-6.1"):  # what experiments without programs of their own boot from
        base = build_for(store, kernel, None)
        image_keys(store, base.image)
    options = ["-q", "-p", "no:cacheprovider", "--durations=0"]
    words = [sys.executable, "-m", "pytest", f"tests/kvm/inside/{name}", *options]
    ended = kvm_host.run(words, timeout_s=3000, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    print(ended.stdout, ended.stderr)
    assert ended.status == 0
