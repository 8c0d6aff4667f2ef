# SPDX-License-Identifier: MIT
"""tools.lock: what it may hold, what it gives, how it is renewed, and that the project's own is whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.packages import lock as locks
from harness.packages.lock import Entry, Lock, load, lock_for
from harness.packages.renewal import archive_of, changes, header_parts, resolved, split_into, whole_ones
from harness.run import locking
from tests.packages import MOMENT, lock_of


def entry(name: str, *needs: str, arch: str = "amd64", version: str = "1", alone: bool = False) -> Entry:
    return Entry(
        package=name,
        version=version,
        architecture=arch,
        archive="debian",
        path=f"pool/main/{name[0]}/{name}/{name}_{version}_{arch}.deb",
        size=1,
        sha256=f"{sum(name.encode()):064x}",
        needs=None if alone else needs,
    )


SHELL = lock_of(
    entry("shell", "libc", "data"),
    entry("shell", "libc", "data", arch="i386"),
    entry("libc"),
    entry("libc", arch="i386"),
    entry("data", "shell", arch="all"),
    entry("source", alone=True, arch="all"),
)


def written(tmp_path: Path, lock: Lock, name: str = "tools.lock") -> Path:
    (tmp_path / name).write_text(lock.dump())
    return tmp_path / name


def test_what_is_written_is_read_and_has_a_line_a_package(tmp_path):
    read = load(written(tmp_path, SHELL))
    assert [one.model_copy(update={"snapshot": ""}) for one in read.packages] == list(SHELL.packages)
    assert {one.snapshot for one in read.packages} == {MOMENT}
    assert read.dump() == SHELL.dump()
    assert sum('"package"' in line for line in SHELL.dump().splitlines()) == len(SHELL.packages)


def test_all_that_a_package_depends_on_for_its_architecture():
    assert [(one.package, one.architecture) for one in SHELL.closure("i386", ["shell"])] == [
        ("data", "all"),
        ("libc", "i386"),
        ("shell", "i386"),
    ]


def test_what_is_not_locked_is_told_with_what_to_do():
    with pytest.raises(UsageError, match=r"tools.lock has no package tool for amd64 \(./inv lock --update adds"):
        SHELL.closure("amd64", ["shell", "tool"])
    with pytest.raises(UsageError, match=r"has package source for amd64 without what it depends on"):
        SHELL.closure("amd64", ["source"])
    assert SHELL.entry("i386", "source").architecture == "all"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "pool/../../etc/x.deb"),
        ("path", "/pool/x.deb"),
        ("path", "pool/x.deb?y"),
        ("path", "pool/x"),
        ("package", "../x"),
        ("package", "X"),
        ("version", "1/2"),
        ("version", ""),
        ("sha256", "abc"),
        ("size", 0),
        ("architecture", "riscv64"),
        ("archive", "elsewhere"),
        ("surprise", 1),
    ],
)
def test_a_damaged_lock_is_told_with_its_field(tmp_path, field, value):
    path = written(tmp_path, SHELL)
    plain = json.loads(path.read_text())
    plain["packages"][2][field] = value
    path.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match=rf"{path}: field packages\.2\.{field}: "):
        load(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is no lock"), ("[]", "field"), ('{"format": 1, "format": 1}', "is there twice"), ("\udcff", "is no lock")],
)
def test_what_is_no_lock(tmp_path, text, says):
    (tmp_path / "x").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=says):
        load(tmp_path / "x")
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "y")


def test_a_package_twice_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="package libc for amd64 is there twice"):
        load(written(tmp_path, lock_of(entry("libc"), entry("libc", version="2"))))


def test_an_experiments_own_lock_comes_before_the_projects(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "PROJECT", written(tmp_path, SHELL))
    folder = tmp_path / "mine"
    folder.mkdir()
    assert lock_for(folder) == lock_for(None) == load()
    written(folder, lock_of(entry("tool", "libc"), entry("libc", version="2")))
    merged = lock_for(folder)
    assert [(one.package, one.version) for one in merged.closure("amd64", ["tool", "shell"])] == [
        ("data", "1"),
        ("libc", "2"),
        ("shell", "1"),
        ("tool", "1"),
    ]
    assert merged.entry("i386", "libc").version == "1"


# -- renewing ----------------------------------------------------------------------------------------------


def test_alternatives_provided_names_and_what_is_left_out():
    chosen = {
        "a": {
            "Package": "a",
            "Pre-Depends": "libc (>= 2)",
            "Depends": "x | b, virtual:any | c (<< 3), gone, libx32z, a",
        },
        "b": {"Package": "b"},
        "c": {"Package": "c"},
        "d": {"Package": "d", "Provides": "virtual (= 1), other"},
        "libc": {"Package": "libc"},
        "libx32z": {"Package": "libx32z"},
    }
    assert resolved(chosen["a"], chosen, ["libx32*"]) == ("b", "c", "libc")
    assert resolved(chosen["a"], chosen) == ("b", "c", "libc", "libx32z")
    del chosen["c"]
    assert resolved(chosen["a"], chosen, ["libx32*"]) == ("b", "d", "libc")


def test_what_a_package_was_split_into_is_what_it_needs_in_its_very_version():
    depends = "libc6 (>= 2), linux-base-7 (= 7.1-1+b1), linux-modules-7 (= 7.1-1+b1), other (= 7.1-1), dracut | x"
    assert split_into({"Version": "7.1-1+b1", "Depends": depends}) == ["linux-base-7", "linux-modules-7"]
    assert split_into({"Version": "7.1-1+b1"}) == []


def test_a_package_of_which_the_archive_has_a_part_only_is_left_out():
    found = {
        one.package: one for one in (entry("a", "a1", "a2"), entry("a1"), entry("b", "a1"), entry("a1"), entry("c"))
    }
    assert [one.package for one in whole_ones(["a", "b", "c", "gone"], found)] == ["b", "c", "a1"]


def test_headers_are_taken_with_what_modules_need_for_this_compiler():
    depends = "linux-headers-6-common (= 6-1), linux-kbuild-6 (>= 6-1), linux-image-6-amd64 (= 6-1) | x, gcc-12"
    needed = ["linux-headers-6-common", "linux-kbuild-6"]
    assert header_parts({"Depends": depends}, "linux-headers-", locking.COMPILER) == needed
    old = depends.replace("gcc-12", "linux-compiler-gcc-12-x86")
    assert header_parts({"Depends": old}, "linux-headers-", locking.COMPILER) == needed
    assert header_parts({"Depends": depends.replace("12", "14")}, "linux-headers-", locking.COMPILER) == []


def test_what_changed_is_said():
    old = lock_of(entry("a"), entry("b"), entry("c"))
    new = lock_of(entry("a"), entry("b", version="2"), entry("c").model_copy(update={"sha256": "1" * 64}), entry("d"))
    assert changes(old, new) == [
        "changed  b (amd64) 1 -> 2",
        "changed  c (amd64) 1: other bits under the same version",
        "new      d (amd64) 1",
    ]
    assert changes(new, lock_of(entry("a")))[-1] == "gone     d (amd64) 1"
    assert changes(None, old) == [f"new      {name} (amd64) 1" for name in "abc"]
    assert changes(old, old) == []
    assert archive_of("bookworm-security") == "debian-security"


# -- the project's own -------------------------------------------------------------------------------------


def test_the_projects_lock_has_all_that_is_asked_for():
    assert re.fullmatch(r"\d+ packages are locked, \d+ of them are the tools tree \(\d+ MB\)", locking.check(None))


@pytest.mark.deep
def test_a_lock_that_lacks_a_tool_or_a_guests_package_is_told(tmp_path, monkeypatch):
    whole = load()
    for name in ("valgrind", "dropbear-bin", "libtommath1", "linux-source-6.1", "linux-image-amd64"):
        less = whole.model_copy(update={"packages": tuple(one for one in whole.packages if one.package != name)})
        monkeypatch.setattr(locks, "PROJECT", written(tmp_path, less, name))
        with pytest.raises(UsageError, match=f"tools.lock has no package {name}"):
            locking.check(None)
    less = whole.model_copy(update={"tools": tuple(name for name in whole.tools if name != "bison")})
    monkeypatch.setattr(locks, "PROJECT", written(tmp_path, less))
    with pytest.raises(UsageError, match=r"tools.lock has no tool bison \(./inv lock --update\)"):
        locking.check(None)


def test_the_projects_lock_is_as_it_would_be_written():
    assert load().dump() == locks.PROJECT.read_text()
    names = [(one.package, one.architecture) for one in load().packages]
    assert names == sorted(names)
