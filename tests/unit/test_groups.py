# SPDX-License-Identifier: MIT
"""pytest-xdist keeps tests of one group together: those of tests/faults share what they pay for."""

from __future__ import annotations

import subprocess
import sys

import pytest

GROUPED = """\
import os
import time

import pytest

@pytest.fixture(scope="module", params=[pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in "ab"])
def kind(request):
    return request.param

@pytest.mark.parametrize("number", range(6))
def test_one(kind, number):
    time.sleep(0.05)
    with open(kind, "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.deep
def test_tests_of_a_group_stay_with_one_worker(tmp_path):
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    words = ["-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "-q"]
    subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, check=True, capture_output=True)
    for kind in "ab":
        workers = (tmp_path / kind).read_text().split()
        assert len(workers) == 6
        assert len(set(workers)) == 1
