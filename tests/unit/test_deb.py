# SPDX-License-Identifier: MIT
"""Reading .deb files: what comes out, and what does not: damage, and ways out of the folder."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.errors import RunError
from harness.packages.deb import field, fields, unpack
from tests.packages import ar, control_of, deb_bytes, member, tar


@pytest.fixture
def unpacked(tmp_path: Path):
    """Unpacks a .deb of these bytes into `target`, beside a folder `outside`."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "target").mkdir()

    def go(data: bytes, **options) -> Path:
        (tmp_path / "x.deb").write_bytes(data)
        unpack(tmp_path / "x.deb", tmp_path / "target", **options)
        return tmp_path / "target"

    return go


@pytest.mark.parametrize("packed", ["xz", "gz", "bz2", ""])
def test_files_links_times_and_permissions(unpacked, packed):
    members = [
        member("./", kind=tarfile.DIRTYPE, mode=0o755),
        member("./usr/bin/", kind=tarfile.DIRTYPE, mode=0o755),
        member("./usr/bin/tool", b"bits" * 5000, mode=0o4755),
        member("./usr/bin/same", kind=tarfile.LNKTYPE, to="./usr/bin/tool"),
        member("./usr/bin/link", kind=tarfile.SYMTYPE, to="/etc/alternatives/tool"),
        member("./usr/share/odd name é", b"", mode=0o600),
    ]
    target = unpacked(deb_bytes(tar(members, packed), packed=packed))
    tool = target / "usr/bin/tool"
    assert tool.read_bytes() == b"bits" * 5000
    assert tool.stat().st_mode & 0o7777 == 0o755, "nothing is unpacked as somebody else's program"
    assert tool.stat().st_mtime == 1_700_000_000
    assert tool.samefile(target / "usr/bin/same")
    assert str((target / "usr/bin/link").readlink()) == "/etc/alternatives/tool"
    assert (target / "usr/share/odd name é").stat().st_mode & 0o777 == 0o600


def test_files_can_be_placed_and_left_out(unpacked):
    members = [member("./bin/a", b"a"), member("./doc/b", b"b"), member("./bin/c", kind=tarfile.LNKTYPE, to="./bin/a")]
    target = unpacked(deb_bytes(tar(members)), place=lambda name: f"usr/{name}" if name.startswith("bin/") else None)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()) == [
        "usr/bin/a",
        "usr/bin/c",
    ]


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside/x", b"x")],
        [member("./a/../../outside/x", b"x")],
        [member("/outside/x", b"x")],
        [member("./way", kind=tarfile.SYMTYPE, to="../outside"), member("./way/x", b"x")],
        [member("./d/f", b""), member("./way", kind=tarfile.SYMTYPE, to="../outside"), member("./way/x/y", b"x")],
        [member("./x", kind=tarfile.LNKTYPE, to="../outside/secret")],
        [member("./way", kind=tarfile.SYMTYPE, to="../outside"), member("./x", kind=tarfile.LNKTYPE, to="way/secret")],
    ],
)
def test_no_way_leads_out(unpacked, tmp_path, members):
    (tmp_path / "outside/secret").write_text("secret")
    with pytest.raises(RunError, match=r"is damaged: .*(would be written outside|a link to)"):
        unpacked(deb_bytes(tar(members)))
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert (tmp_path / "outside/secret").stat().st_nlink == 1


def test_a_link_is_replaced_and_not_written_through(unpacked, tmp_path):
    (tmp_path / "outside/x").write_text("mine")
    (tmp_path / "target/x").symlink_to(tmp_path / "outside/x")
    assert unpacked(deb_bytes(tar([member("./x", b"other")]))).joinpath("x").read_text() == "other"
    assert (tmp_path / "outside/x").read_text() == "mine"


def test_devices_are_refused(unpacked):
    with pytest.raises(RunError, match=r"is damaged: \./null is neither file, folder nor link"):
        unpacked(deb_bytes(tar([member("./null", kind=tarfile.CHRTYPE)])))


WHOLE = deb_bytes(tar([member("./x", bytes(range(256)) * 500)]))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is no .deb file"),
        (b"PK" + WHOLE, "is no .deb file"),
        (ar({"debian-binary": b"2.0\n"}), "it has no data.tar"),
        (ar({"debian-binary": b"2.0\n", "data.tar.zst": b"x"}), "is packed as zst"),
        (WHOLE[: len(WHOLE) - 200], "is damaged"),
        (WHOLE[: len(WHOLE) - 300] + b"\0" * 100 + WHOLE[-200:], "is damaged"),
        (deb_bytes(b"", packed="xz"), "is damaged"),
    ],
)
def test_damage_is_told(unpacked, data, says):
    with pytest.raises(RunError, match=says):
        unpacked(data)


def test_control_fields(tmp_path):
    deb = tmp_path / "x.deb"
    deb.write_bytes(deb_bytes(tar([]), control_of("tool", "1:2", "Depends: a (>= 1),\n b | c\n")))
    assert field(deb, "Version") == "1:2"
    assert field(deb, "Depends") == "a (>= 1), b | c"
    assert field(deb, "Provides") == ""
    assert fields("A: 1\n 2\nB:3\n") == {"A": "1 2", "B": "3"}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg here")
def test_the_same_files_as_dpkg(tmp_path):
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@y>\nDescription: x\n"
    )
    (tree / "usr/a b").mkdir(parents=True)
    (tree / "usr/a b/file").write_bytes(b"x" * 100_000)
    (tree / "usr/link").symlink_to("a b/file")
    (tree / ("usr/" + "long" * 40)).write_text("long")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, tmp_path / "x.deb"], check=True, capture_output=True)
    subprocess.run(["dpkg-deb", "-x", tmp_path / "x.deb", tmp_path / "theirs"], check=True)
    unpack(tmp_path / "x.deb", tmp_path / "ours")
    subprocess.run(["diff", "-r", "--no-dereference", tmp_path / "theirs", tmp_path / "ours"], check=True)
