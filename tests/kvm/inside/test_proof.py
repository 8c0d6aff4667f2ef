# SPDX-License-Identifier: MIT
"""This host has KVM, and the project's own proof finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.machine.accelerator import kvm_finding

pytestmark = pytest.mark.timeout(900)


def test_kvm_is_proven_by_a_boot():
    assert os.access("/dev/kvm", os.R_OK | os.W_OK)
    works, reason = kvm_finding(Store.default())
    assert works, reason


def test_nested_paging_is_used():
    assert Path("/sys/module/kvm_amd/parameters/npt").read_text().strip() in {"1", "Y"}
