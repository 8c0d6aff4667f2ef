# SPDX-License-Identifier: MIT
"""Worker processes end with the process that started them, whenever it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.paths import ROOT
from harness.run.executor import worker_pool
from tests.processes import eventually

WORKER = """
import sys
from harness.run.executor import die_with_parent

die_with_parent(int(sys.argv[1]))
print("works", flush=True)
"""


def test_a_worker_whose_parent_is_gone_does_no_work():
    def worker(parent: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WORKER, str(parent)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert worker(os.getpid()).stdout == "works\n"
    assert (worker(os.getppid()).returncode, worker(os.getppid()).stdout) == (1, "")


PARENT = """
import os, sys, time
from harness.run.executor import worker_pool

if __name__ == "__main__":
    with worker_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(3600)
"""


def test_a_worker_dies_with_its_parent(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    worker = Path("/proc", parent.stdout.readline().decode().strip())
    assert worker.is_dir()
    parent.kill()
    parent.wait()
    assert eventually(lambda: not worker.is_dir() or "State:\tZ" in (worker / "status").read_text())


def test_a_pool_works_while_its_parent_lives():
    with worker_pool(1) as pool:
        assert pool.submit(os.getppid).result() == os.getpid()
