# SPDX-License-Identifier: MIT
"""The tools tree: what is in it, when it is made again, and the ways in, which all lead to the same bits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import debian
from harness.artefacts.store import Store, hash_file
from harness.errors import RunError, UsageError
from harness.packages import tree
from harness.packages.buildtool import HOST, tool
from harness.packages.tree import LOADERS, QEMU, SEAL, Tools, Way, find_way, place, tools
from tests.packages import entry_of, lock_of, make_deb

needs_tree = pytest.mark.skipif(debian.host_tools(), reason="the tools are the host's own")


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("usr/bin/gcc", "usr/bin/gcc"),
        ("bin/sh", "usr/bin/sh"),
        ("lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
        ("usr/share/doc/gcc/copyright", None),
        ("usr/share/doc", None),
        ("usr/share/docbook", "usr/share/docbook"),
        ("etc/passwd", None),
        ("libexec/x", None),
        ("usr", None),
    ],
)
def test_where_files_of_packages_go(name, goal):
    assert place(name) == goal


# -- a small tree ------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path, tmp_store: Store, monkeypatch: pytest.MonkeyPatch):
    """Gives the tree of a small lock in a store of its own, as a new process would get it."""
    (tmp_path / "mirror").mkdir()
    loader = tmp_path / "libc6" / tree.LOADER.removeprefix("usr/")
    loader.parent.mkdir(parents=True)
    loader.write_text("the loader")
    (tmp_path / "gawk/usr/bin").mkdir(parents=True)
    (tmp_path / "gawk/usr/bin/gawk").write_text("#!/bin/sh\n")
    (tmp_path / "gawk/usr/share/doc").mkdir(parents=True)
    (tmp_path / "gawk/usr/share/doc/news").write_text("news")
    entries = [entry_of(make_deb(tmp_path / "mirror", name, tmp_path / name)) for name in ("gawk", "libc6")]
    lock = lock_of(*entries).model_copy(update={"tools": ("gawk", "libc6")})
    monkeypatch.setattr(tree, "load", lambda: lock)
    monkeypatch.setenv("KREPRO_MIRRORS", str(tmp_path / "mirror"))
    monkeypatch.setenv("KREPRO_OFFLINE", "1")
    return lambda: tree._tree.__wrapped__(tmp_store.root)


def test_a_tree_is_made_once_of_its_packages(made, monkeypatch):
    root = made().root
    files = sorted(path.relative_to(root).as_posix() for path in (root / "usr").rglob("*") if path.is_file())
    assert files == ["usr/bin/awk", "usr/bin/gawk", tree.LOADER, f"{LOADERS}/{QEMU}"]
    assert (root / "bin/gawk").samefile(root / "usr/bin/gawk")
    assert (root / LOADERS / QEMU).read_text() == "the loader"
    monkeypatch.setattr(tree, "_make", lambda *_arguments: pytest.fail("it is there"))
    assert made() == made() == Tools(root, root.name)


def test_tools_for_other_guests_are_in_a_tree_of_their_own(made, tmp_path, tmp_store, monkeypatch):
    plain, lock = made().root, tree.load()
    (tmp_path / "qemu-system-arm/usr/bin").mkdir(parents=True)
    (tmp_path / "qemu-system-arm/usr/bin/qemu-system-aarch64").touch()
    own = entry_of(make_deb(tmp_path / "mirror", "qemu-system-arm", tmp_path / "qemu-system-arm"))
    more = {"packages": (*lock.packages, own), "cross": {"arm64": ("qemu-system-arm",)}}
    monkeypatch.setattr(tree, "load", lambda: lock.model_copy(update=more))
    assert made().root == plain, "its packages are the same"
    other = Path(tree._tree.__wrapped__(tmp_store.root, "arm64").root)
    assert other != plain
    assert sorted(path.name for path in (other / LOADERS).iterdir()) == ["qemu-system-aarch64", QEMU]
    assert (other / "usr/bin/gawk").is_file()
    with pytest.raises(UsageError, match=r"tools.lock has no tools for guests of riscv64 \(./inv lock --update\)"):
        tree._tree.__wrapped__(tmp_store.root, "riscv64")


def test_a_changed_tree_is_made_again_with_a_warning(made, capsys):
    root = made().root
    for change in (
        lambda: (root / "usr/bin/gawk").write_text("#!/bin/ksh\n"),
        (root / "usr/bin/gawk").unlink,
        (root / "usr/bin/more").touch,
        lambda: (root / SEAL).write_text("{"),
    ):
        change()
        assert made().root == root
        assert f"the tools tree {root.name[:12]} is damaged (" in capsys.readouterr().err
        assert (root / "usr/bin/gawk").read_text() == "#!/bin/sh\n"
        assert not (root / "usr/bin/more").exists()


def test_a_package_that_cannot_be_had_leaves_no_tree(made, tmp_path, tmp_store):
    (tmp_path / "mirror/gawk_1+2-3_amd64.deb").unlink()
    with pytest.raises(RunError, match=r"package gawk .* is nowhere to be had"):
        made()
    assert not (tmp_store.root / "tools").exists()


def test_doctor_says_what_is_to_be_fetched(made, tmp_store, monkeypatch):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_store.root))
    assert tree.finding() == (True, "not here yet: the first run fetches 2 packages (0 MB)")
    made()
    monkeypatch.setattr(tree, "find_way", lambda _tools: None)
    assert tree.finding() == (False, tree.NO_WAY)
    monkeypatch.setattr(tree, "find_way", lambda _tools: Way("a door", ()))
    assert tree.finding()[1].endswith(", 2 packages; QEMU by the tree's loader, builds by a door")


# -- ways in -----------------------------------------------------------------------------------------------


def test_doctor_says_whether_tools_for_other_guests_are_here(made, tmp_store, monkeypatch):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_store.root))
    lock = tree.load()
    monkeypatch.setattr(tree, "load", lambda: lock.model_copy(update={"cross": {"arm64": ("gawk",)}}))
    assert tree.finding()[1].endswith("; for guests of arm64: 1 packages more (0 MB), fetched for their first kernel")
    made()
    monkeypatch.setattr(tree, "find_way", lambda _tools: Way("a door", ()))
    monkeypatch.setattr(tree, "ready", lambda _cross: True)
    other = tree.tree_home(tmp_store.root, "arm64")
    assert tree.finding()[1].endswith(f"; for guests of arm64: {other.name[:12]}")


def ways() -> list[Way]:
    own = tools()
    known = [Way("bubblewrap", tuple(own.own("bwrap"))), Way("proot", tuple(own.own("proot")), proot=True)]
    return [way for way in known if tree._works(way, own)]


@needs_tree
def test_all_ways_make_the_same_bits(tmp_path, monkeypatch):
    (tmp_path / "x.c").write_text("#include <stdio.h>\nint main(void) { return printf(__FILE__); }\n")
    bits = {}
    for way in ways():
        monkeypatch.setattr(tree, "_way", lambda _root, way=way: way)
        command = ["gcc", "-m32", "-g", "-static", "-ffile-prefix-map=/usr=u", "-o", tmp_path / way.name, "x.c"]
        tool(command, log=tmp_path / "log", cwd=tmp_path, what="compiling")
        bits[way.name] = hash_file(tmp_path / way.name)
    assert bits
    assert len(set(bits.values())) == 1, bits
    done = subprocess.run([tmp_path / next(iter(bits))], capture_output=True, text=True, check=False)
    assert done.stdout == "x.c"


@needs_tree
def test_a_build_sees_the_trees_programs_and_the_hosts_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    script = "command -v gcc; test -e /etc || echo no /etc; echo $LD_LIBRARY_PATH; pwd; touch here"
    script += "; test -w /usr/bin || echo read-only"
    tool(["sh", "-c", script], log=tmp_path / "log", cwd=tmp_path, what="looking")
    said = (tmp_path / "log").read_text().splitlines()[1:]
    assert said == ["/usr/bin/gcc", "no /etc", "", str(tmp_path), "read-only"]
    assert (tmp_path / "here").exists()


@needs_tree
def test_qemu_is_the_trees_and_one_process():
    words = tools().qemu()
    process = subprocess.Popen([*words, "-M", "none", "-nodefaults", "-display", "none", "-S"])
    try:
        deadline = 1000
        while f"{tools().root}/usr/bin/{QEMU}" not in Path(f"/proc/{process.pid}/maps").read_text() and deadline:
            deadline -= 1
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert Path(f"/proc/{process.pid}/comm").read_text().strip() == QEMU[:15]
        files = {line.split()[5] for line in maps.splitlines() if len(line.split()) > 5 and "/" in line.split()[5]}
        assert {file for file in files if not file.startswith((str(tools().root), "/dev/", "/memfd"))} == set()
    finally:
        process.kill()
        process.wait()


def test_the_hosts_own_tools_are_started_as_they_are(monkeypatch):
    monkeypatch.setenv("KREPRO_HOST_TOOLS", "1")
    assert tools() == HOST
    assert tools().told == "host"
    assert tools().qemu() == [QEMU]
    assert tools().run_words(["gcc", Path("x.c")]) == ["gcc", "x.c"]
    assert tools().environment({"LD_PRELOAD": "x", "PATH": "y"}) == {"LD_PRELOAD": "x", "PATH": "y"}
    monkeypatch.setenv("KREPRO_HOST_TOOLS", "0")
    monkeypatch.setattr(tree, "_tree", lambda _root, cross: Tools(Path("/t"), f"k{cross}"))
    assert (tools().told, tools("arm64").told) == ("tree k", "tree karm64")


def test_folders_that_a_build_would_not_see_are_told(tmp_path, monkeypatch):
    way = Way("bubblewrap", ("bwrap",))
    way.into(Tools(tmp_path), tmp_path)
    with pytest.raises(UsageError, match=r"/usr/lib: builds see the tools tree in place of /usr"):
        way.into(Tools(tmp_path), Path("/usr/lib"))
    monkeypatch.setenv("KREPRO_STORE", "/etc/krepro")
    with pytest.raises(UsageError, match=r"/etc/krepro: builds see the tools tree in place of /etc"):
        way.into(Tools(tmp_path), tmp_path)


def test_where_no_way_works_the_hint_names_host_tools(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "_works", lambda _way, _tree: False)
    assert find_way(Tools(tmp_path)) is None
    with pytest.raises(UsageError, match=r"neither bubblewrap nor proot runs here \(.*KREPRO_HOST_TOOLS=1\)"):
        tree._way.__wrapped__(tmp_path)


def test_bubblewrap_comes_first_then_the_hosts_own_then_proot(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    refused: list[str] = []
    monkeypatch.setattr(tree, "_works", lambda way, _tree: way.name.partition(",")[0] not in refused)
    for name in ("bubblewrap", "the host's bubblewrap", "proot"):
        way = find_way(Tools(tmp_path))
        assert way is not None
        assert way.name.partition(",")[0] == name
        refused.append(name)
