# SPDX-License-Identifier: MIT
"""Libraries of programs in an image: from the packages, never from the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import RunError
from harness.packages.libraries import inside, install_libraries
from tests.compiling import run
from tests.conftest import needs_guest_packages

TRIPLET = "x86_64-linux-gnu"
LOADER = "lib64/ld-linux-x86-64.so.2"


def compiled(path: Path, *flags: str | Path, text: str = "int main(void) { return 0; }") -> Path:
    """An x86_64 program or library at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    run("gcc", "-m64", "-x", "c", "-", "-x", "none", "-o", path, *flags, text=text)
    return path


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Packages as libc6 is: the loader's well-known place is an absolute link."""
    home = tmp_path / "unpacked"
    library = home / "lib" / TRIPLET
    library.mkdir(parents=True)
    (library / "ld-linux-x86-64.so.2").write_text("the package's loader")
    (library / "libc.so.6").write_text("the package's libc")
    (home / "lib64").mkdir()
    (home / LOADER).symlink_to(f"/lib/{TRIPLET}/ld-linux-x86-64.so.2")
    return home


@needs_guest_packages
def test_the_loader_is_that_of_the_package_and_not_of_the_host(unpacked, tmp_path):
    root = tmp_path / "root"
    install_libraries(compiled(root / "bin/x"), [unpacked], root, TRIPLET)
    assert (root / LOADER).read_text() == "the package's loader"
    assert not (root / LOADER).is_symlink()
    assert (root / "lib" / TRIPLET / "libc.so.6").read_text() == "the package's libc"


@needs_guest_packages
def test_a_package_is_asked_in_all_its_folders_before_the_next_one_in_any(unpacked, tmp_path):
    """Else a host's newer library in /lib would be taken for a package's in /usr/lib, and want the host's libc."""
    host, root = tmp_path / "host", tmp_path / "root"
    ours = compiled(unpacked / "usr/lib" / TRIPLET / "libown.so", "-shared", "-Wl,-soname,libown.so", text="int own;")
    compiled(host / "lib" / TRIPLET / "libown.so", "-shared", text="int own = 2;")
    program = compiled(root / "bin/x", "-Wl,--no-as-needed", ours)
    install_libraries(program, [unpacked, host], root, TRIPLET)
    assert not (root / "lib" / TRIPLET / "libown.so").exists()
    assert (root / "usr/lib" / TRIPLET / "libown.so").read_bytes() == ours.read_bytes()


@needs_guest_packages
def test_a_library_that_no_package_has_is_named(unpacked, tmp_path):
    (unpacked / "lib" / TRIPLET / "libc.so.6").unlink()
    with pytest.raises(RunError, match=r"no package of the image has the library libc\.so\.6"):
        install_libraries(compiled(tmp_path / "root/bin/x"), [unpacked], tmp_path / "root", TRIPLET)


@needs_guest_packages
@pytest.mark.parametrize(
    "way",
    [
        "$ORIGIN/../private",
        "${ORIGIN}/../private",
        "$ORIGIN/../../../usr/private",
        "/usr/private",
        "/none:/usr/private",
    ],
)
def test_libraries_are_looked_for_where_the_program_says(unpacked, tmp_path, way):
    home, root = tmp_path / "second", tmp_path / "root"
    flags = ("-shared", "-fPIC", "-Wl,-soname,libown.so")
    library = compiled(home / "usr/private/libown.so", *flags, text="int own(void) { return 0; }")
    text = "int own(void); int main(void) { return own(); }"
    binary = compiled(root / "usr/bin/x", library, f"-Wl,-rpath,{way}", text=text)
    install_libraries(binary, [unpacked, home], root, TRIPLET)
    assert (root / "usr/private/libown.so").read_bytes() == library.read_bytes()


def test_files_without_needs_need_nothing(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    install_libraries(tmp_path / "script", [tmp_path], tmp_path, TRIPLET)
    assert [path.name for path in tmp_path.iterdir()] == ["script"]


@pytest.mark.parametrize(
    ("link", "name", "found"),
    [
        ("real", "link", "real"),
        ("/real", "link", "real"),
        ("../../../real", "link", "real"),
        ("/folder/../real", "link", "real"),
        ("/folder", "link/file", "folder/file"),
        ("folder", "link/../real", "real"),
        ("folder", "link", None),
        ("/etc/passwd", "link", None),
        ("link", "link", None),
        ("real", "none", None),
    ],
)
def test_links_stay_inside(tmp_path, link, name, found):
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "real").touch()
    (home / "folder/file").touch()
    (home / "link").symlink_to(link)
    assert inside(home, name) == (home / found if found else None)
