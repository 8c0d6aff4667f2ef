# SPDX-License-Identifier: MIT
"""Files of Debian packages in an image: there without the rest of their packages, and they run."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.packages.choice import Package
from harness.trial.prepare import build_for

pytestmark = pytest.mark.timeout(600)

LACKEY = "usr/libexec/valgrind/lackey-amd64-linux"
CHOICE = (Package(name="valgrind", files=(LACKEY,)), Package(name="gzip", files=("bin/gzip",)))


def test_chosen_files_are_in_the_guest_without_their_packages_and_run(store, modern, ssh_guest):
    built = build_for(store, "modern-6.1", None, CHOICE)
    plain = build_for(store, "modern-6.1", None)
    grown = built.image.info["bytes"] - plain.image.info["bytes"]
    assert 2_300_000 < grown < 2_600_000
    assert set(built.image.info["versions"]) - set(plain.image.info["versions"]) == {"valgrind", "gzip"}
    _, session = ssh_guest(built)
    status, said, _ = session.command("/bin/gzip --version | head -n 1; ls /usr/libexec/valgrind /usr/bin/valgrind")
    assert said.splitlines()[0].startswith("gzip 1."), "busybox's says BusyBox"
    assert said.splitlines()[1:] == ["/usr/libexec/valgrind:", "lackey-amd64-linux"]
    assert status == 1, "there is no /usr/bin/valgrind"
    _, out, complaint = session.command(f"/{LACKEY} --tool=lackey /bin/busybox true")
    assert "valgrind: You cannot run" in out + complaint, "it runs, and asks for what its launcher sets"


def test_a_file_that_a_real_package_does_not_have(store, modern):
    with pytest.raises(UsageError, match="package valgrind has no file usr/bin/nothing"):
        build_for(store, "modern-6.1", None, [Package(name="valgrind", files=("usr/bin/nothing",))])


def test_a_program_whose_libraries_are_not_there(store, modern):
    with pytest.raises(UsageError, match=r"usr/bin/sqlite3 of package sqlite3 cannot run: .* library libsqlite3"):
        build_for(store, "modern-6.1", None, [Package(name="sqlite3", files=("usr/bin/sqlite3",))])
