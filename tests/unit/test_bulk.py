# SPDX-License-Identifier: MIT
"""Frames of a guest's bulk port: whole or refused, and never outside their folder."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import RunError
from harness.guest.bulk import Bulk
from harness.guest.session import collect

FILES = {"job.exit": b"3\n", "load/profile": bytes(range(256)) * 5, "empty": b""}


def archive(files: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in special:
            tar.addfile(info)
    return buffer.getvalue()


def sparse(name: str, size: int) -> tarfile.TarInfo:
    """A file that says, as GNU tar does, that it is mostly holes."""
    info = tarfile.TarInfo(name)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": str(size),
        "GNU.sparse.realsize": str(size),
        "GNU.sparse.name": name,
    }
    return info


def pax(name: str) -> tarfile.TarInfo:
    """A member whose true name is in an extended header, where any bytes may be."""
    info = tarfile.TarInfo("short")
    info.pax_headers = {"path": name}
    return info


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def frame(data: bytes) -> bytes:
    return b"krepro-bulk 1 %d\n" % len(data) + data


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def bulk(tmp_path: Path):
    def make(data: bytes) -> Bulk:
        (tmp_path / "bulk").write_bytes(data)
        return Bulk(tmp_path / "bulk")

    return make


WHOLE = frame(archive(FILES))


def test_a_whole_frame(bulk, tmp_path):
    reader = bulk(WHOLE)
    assert reader.complete()
    assert reader.unpack(tmp_path / "out") == len(archive(FILES))
    assert contents(tmp_path / "out") == FILES
    assert not reader.complete()


def test_frames_follow_one_another(bulk, tmp_path):
    reader = bulk(WHOLE + frame(archive({"second": b"2"})))
    reader.unpack(tmp_path / "1")
    assert reader.complete()
    reader.unpack(tmp_path / "2")
    assert contents(tmp_path / "1") == FILES
    assert contents(tmp_path / "2") == {"second": b"2"}


def test_a_frame_that_grows_is_complete_when_its_last_byte_is_there(bulk, tmp_path):
    reader = bulk(b"")
    with reader.path.open("ab", buffering=0) as port:
        for byte in range(40):
            assert not reader.complete()
            port.write(WHOLE[byte : byte + 1])
        port.write(WHOLE[40:-1])
        assert not reader.complete()
        port.write(WHOLE[-1:])
    assert reader.complete()
    reader.unpack(tmp_path / "out")


@given(st.integers(0, len(WHOLE) - 1))
def test_a_frame_cut_anywhere_is_incomplete(bulk, tmp_path, length):
    reader = bulk(WHOLE[:length])
    assert not reader.complete()
    with pytest.raises(RunError, match=f"the guest's data ends early, after {length} bytes"):
        reader.unpack(tmp_path / "out")


@given(st.integers(0, archive(FILES).rstrip(b"\0").__len__()))
def test_an_archive_cut_anywhere_inside_its_frame_is_refused(bulk, tmp_path, length):
    """A guest without memory left frames what tar could write; members must not be missing silently."""
    with pytest.raises(RunError, match="not a whole tar archive"):
        bulk(frame(archive(FILES)[:length])).unpack(tmp_path / "cut")
    assert not (tmp_path / "cut").exists()


def test_nothing_there_yet(tmp_path):
    reader = Bulk(tmp_path / "absent")
    assert not reader.complete()
    with pytest.raises(RunError, match="ends early, after 0 bytes"):
        reader.unpack(tmp_path / "out")


@pytest.mark.parametrize(
    "data",
    [b"\n", b"garbage\n", b"x" * 64, b"krepro-bulk 2 10\n", b"krepro-bulk 1 -5\n", b"krepro-bulk 1 \n", b"\0" * 99],
)
def test_what_is_no_frame_is_refused(bulk, data):
    with pytest.raises(RunError, match="does not start with a frame"):
        bulk(data).complete()


@given(st.binary(max_size=100))
def test_any_bytes_are_awaited_unpacked_or_refused(bulk, tmp_path, data):
    for whole in (data, frame(data), frame(data + bytes(1024))):
        with suppress(RunError):
            bulk(whole).unpack(tmp_path / "any")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (archive({"../evil": b"x"}), "outside the destination"),
        (archive({"a/../../evil": b"x"}), "outside the destination"),
        (archive({}, member("link", tarfile.SYMTYPE, "/etc/passwd")), "link, neither file nor folder"),
        (archive({}, member("link", tarfile.SYMTYPE, "inside")), "link, neither file nor folder"),
        (archive({}, member("link", tarfile.LNKTYPE, "job.exit")), "link, neither file nor folder"),
        (archive({}, member("node", tarfile.CHRTYPE)), "node, neither file nor folder"),
        (archive({}, member("node", tarfile.FIFOTYPE)), "node, neither file nor folder"),
        (archive({}, pax("a\0b")), "not a tar archive: embedded null byte"),
        (archive({}, pax("../evil")), "outside the destination"),
        (b"garbage" * 300 + bytes(1024), "not a tar archive"),
        (archive({"caf\udce9": b"x"}), "whose name is not UTF-8"),
        (archive({"d/" * 65 + "x": b""}), "66 levels deep; 64 are taken"),
        (archive({}, sparse("hole", 1 << 24)), "hole, a sparse file"),
    ],
)
def test_hostile_archives_are_refused_and_write_nothing_outside(bulk, tmp_path, data, says):
    with pytest.raises(RunError, match=says):
        bulk(frame(data)).unpack(tmp_path / "out")
    assert contents(tmp_path).keys() == {"bulk"}


def test_absolute_names_stay_below_the_target(bulk, tmp_path):
    bulk(frame(archive({str(tmp_path / "evil"): b"x"}))).unpack(tmp_path / "out")
    assert not (tmp_path / "evil").exists()
    assert [path.name for path in (tmp_path / "out").rglob("evil")] == ["evil"]


def test_a_job_is_collected_with_its_exit_status(bulk, tmp_path):
    result = collect(bulk(WHOLE), tmp_path / "deep/out")
    assert (result.exit_status, result.folder, result.bulk_bytes) == (3, tmp_path / "deep/out", len(archive(FILES)))


@pytest.mark.parametrize("files", [{}, {"other": b""}, {"job.exit": b""}, {"job.exit": b"x\n"}])
def test_a_job_without_an_exit_status_is_an_error(bulk, tmp_path, files):
    with pytest.raises(RunError, match=r"has no job\.exit"):
        collect(bulk(frame(archive(files))), tmp_path / "out")
