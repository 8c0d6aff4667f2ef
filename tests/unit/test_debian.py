# SPDX-License-Identifier: MIT
"""Debian packages: which task needs which, and what a user who is not root is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness import debian
from harness.commands.catalogue import missing_packages
from harness.host.examine import examine
from harness.paths import ROOT

PRESENT, ABSENT = "dpkg", "krepro-no-such-package"


def test_missing_keeps_the_order_and_only_what_is_not_installed():
    assert debian.missing([f"{ABSENT}-2", PRESENT, f"{ABSENT}-1"]) == [f"{ABSENT}-2", f"{ABSENT}-1"]
    assert debian.missing([PRESENT]) == []


@pytest.mark.parametrize(
    ("words", "guests"),
    [
        (["run", "experiment=irq-hotspot"], True),
        (["--echo", "run", "x"], True),
        (["boot", "kernel=classic"], True),
        (["test"], True),
        (["test", "--unit"], False),
        (["test", "-k", "digest", "--unit"], False),
        (["run", "unit", "--unit"], True),
        (["doctor", "--debug"], False),
        (["predict", "model.json", "script.yaml"], False),
        (["nonsense"], False),
        (["verify", "latest"], False),
        (["--list"], False),
        ([], False),
    ],
)
def test_only_tasks_with_guests_and_the_hosts_tools_need_packages(monkeypatch, words, guests):
    monkeypatch.setattr(debian, "GUEST_PACKAGES", (ABSENT,))
    monkeypatch.setattr(debian, "TEST_PACKAGES", ())
    monkeypatch.delenv("KREPRO_HOST_TOOLS", raising=False)
    assert missing_packages(words) == []
    monkeypatch.setenv("KREPRO_HOST_TOOLS", "1")
    assert missing_packages(words) == ([ABSENT] if guests else [])


def test_only_the_tests_need_a_browser(monkeypatch):
    monkeypatch.setattr(debian, "GUEST_PACKAGES", ())
    monkeypatch.setattr(debian, "TEST_PACKAGES", (ABSENT,))
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    assert missing_packages(["test", "--unit"]) == [], "who cannot install it has its tests skipped"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert missing_packages(["test", "--unit"]) == [ABSENT]
    assert missing_packages(["run", "x"]) == missing_packages(["report"]) == []


CODE = f"import sys; sys.path.insert(0, sys.argv[1]); from harness import debian; debian.install(['{ABSENT}', 'other'])"


def as_somebody_else(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("python3", path="/usr/bin") or sys.executable, "-c", code, *words]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_who_is_not_root_gets_the_exact_command_and_exit_2():
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path: another user must be able to read it
        home = Path(folder)
        (home / "harness").mkdir()
        for name in ("choices.py", "debian.py", "errors.py", "settings.py"):
            shutil.copyfile(ROOT / "harness" / name, home / "harness" / name)
        home.chmod(0o755)
        done = as_somebody_else(CODE, folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr == (
        "krepro: 2 Debian packages are missing; install them with: "
        f"sudo apt-get install -y --no-install-recommends {ABSENT} other\n"
    )


def found(folder: Path, kvm: tuple[bool, str], tree: tuple[bool, str]) -> dict[str, tuple[str, str]]:
    report = examine(folder, lambda: kvm, lambda: tree, {"a sandbox": lambda: (False, "seccomp (no door)")})
    return {finding.name: (finding.status, finding.detail) for finding in report.findings}


def test_doctor_tells_how_the_tree_is_entered(tmp_path, monkeypatch):
    monkeypatch.delenv("KREPRO_HOST_TOOLS", raising=False)
    told = found(tmp_path, (False, "there is no /dev/kvm"), (True, "by a door"))
    assert told["KVM"] == ("absent", "there is no /dev/kvm")
    assert told["tools tree"] == ("ok", "by a door")
    assert told["a sandbox"] == ("absent", "seccomp (no door)")
    assert not {"gcc", "packages", "apt-get", "dpkg-deb"} & told.keys()
    report = examine(
        tmp_path / "not/yet/there",
        lambda: (True, "a kernel booted"),
        lambda: (False, "no door"),
        {},
    )
    assert not report.usable
    assert ("tools tree", "failed") in [(finding.name, finding.status) for finding in report.findings]


def test_doctor_lists_the_hosts_own_tools_and_what_is_missing_as_one_command(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPRO_HOST_TOOLS", "1")
    monkeypatch.setattr(debian, "GUEST_PACKAGES", (PRESENT, ABSENT))
    told = found(tmp_path, (True, "a kernel booted"), (True, "not asked"))
    assert told["packages"] == ("failed", f"apt-get install -y --no-install-recommends {ABSENT}")
    assert {"gcc", "qemu-system-x86_64"} <= told.keys()
    assert "tools tree" not in told


def test_apt_waits_for_whoever_holds_its_lock(tmp_path, monkeypatch):
    fake = tmp_path / "apt-get"
    fake.write_text(f"#!/bin/sh\necho $@ >>{tmp_path}/asked\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    debian.install([ABSENT])
    (asked,) = [line for line in (tmp_path / "asked").read_text().splitlines() if "install" in line]
    assert asked == f"-qq -o DPkg::Lock::Timeout={debian.LOCK_S} install -y --no-install-recommends {ABSENT}"
