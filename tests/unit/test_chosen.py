# SPDX-License-Identifier: MIT
"""Some files of Debian packages: which .deb, what goes into the image and its key, and what is wrong with a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.artefacts.store import Artefact, Store, hash_file
from harness.errors import RunError, UsageError
from harness.image import build as image
from harness.image.build import BASE_PACKAGES, ImageRecipe, build_image
from harness.kernel.load import load_kernel
from harness.packages import debs
from harness.packages.choice import Package
from harness.packages.chosen import Chosen, choose, install_chosen
from tests.conftest import needs_guest_packages
from tests.packages import entry_of, lock_of, make_deb
from tests.unit.test_libraries import TRIPLET, compiled

pytestmark = needs_guest_packages

YAML = Path("/x/experiment.yaml")


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., Path]:
    """Installs files of packages, given as folders, beside an empty base: the guest's root."""

    def go(packages: Mapping[str, Path], files: Mapping[str, tuple[str, ...]], base: Path | None = None) -> Path:
        root = tmp_path / "root"
        chosen = []
        for name, names in files.items():
            deb = make_deb(tmp_path, name, packages[name])
            chosen.append(Chosen(Package(name=name, files=names), deb, hash_file(deb), "1"))
        install_chosen(chosen, base or tmp_path / "none", tmp_path / "scratch", root, TRIPLET, YAML)
        return root

    return go


def names_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A package with a static tool, a link to it, one out of the package, and files that nobody asked for."""
    tree = tmp_path / "tool"
    compiled(tree / "usr/libexec/tool/static", "-static")
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/tool").symlink_to("/usr/libexec/tool/static")
    (tree / "usr/bin/host").symlink_to("/etc/passwd")
    (tree / "usr/share").mkdir()
    (tree / "usr/share/large").write_text("large")
    return tree


def test_named_files_and_no_others(install, tool):
    root = install({"tool": tool}, {"tool": ("usr/libexec/tool/static",)})
    assert names_below(root) == ["usr/libexec/tool/static"]
    target = root / "usr/libexec/tool/static"
    assert target.read_bytes() == (tool / "usr/libexec/tool/static").read_bytes()
    assert target.stat().st_mode & 0o111


def test_a_link_becomes_its_file(install, tool):
    root = install({"tool": tool}, {"tool": ("usr/bin/tool",)})
    assert names_below(root) == ["usr/bin/tool"]
    assert not (root / "usr/bin/tool").is_symlink()
    assert (root / "usr/bin/tool").read_bytes() == (tool / "usr/libexec/tool/static").read_bytes()


@pytest.mark.parametrize("name", ["usr/bin/tol", "usr/bin", "usr/bin/host", "DEBIAN/control"])
def test_a_file_that_the_package_does_not_have_is_named(install, tool, tmp_path, name):
    deb = tmp_path / "tool_1+2-3_amd64.deb"
    with pytest.raises(UsageError) as caught:
        install({"tool": tool}, {"tool": (name,)})
    said = f"field packages: package tool has no file {name} (dpkg-deb -c {deb} lists what it has)"
    assert str(caught.value) == f"{YAML}: {said}"


def test_a_link_of_a_whole_package_is_replaced_and_not_followed(install, tool, tmp_path):
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text("the host's")
    (tmp_path / "root/usr/bin/tool").symlink_to(outside)
    assert not (install({"tool": tool}, {"tool": ("usr/bin/tool",)}) / "usr/bin/tool").is_symlink()
    assert outside.read_text() == "the host's"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Unpacked packages with a loader and a libc."""
    home = tmp_path / "base"
    (home / "lib64").mkdir(parents=True)
    (home / "lib64/ld-linux-x86-64.so.2").touch()
    (home / "lib" / TRIPLET).mkdir(parents=True)
    (home / "lib" / TRIPLET / "libc.so.6").touch()
    return home


@pytest.fixture
def dynamic(tmp_path: Path) -> dict[str, Path]:
    """A package whose program needs the library of another."""
    flags = ("-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libown.so.1")
    library = compiled(
        tmp_path / "libown/usr/lib" / TRIPLET / "libown.so.1", *flags, text="int own(void) { return 0; }"
    )
    text = "int own(void); int main(void) { return own(); }"
    compiled(tmp_path / "user/usr/bin/user", library, text=text)
    (tmp_path / "libown/usr/share").mkdir()
    (tmp_path / "libown/usr/share/other").touch()
    return {"user": tmp_path / "user", "libown": tmp_path / "libown"}


def test_libraries_come_along_from_the_base_and_from_chosen_packages(install, dynamic, base):
    root = install(dynamic, {"user": ("usr/bin/user",), "libown": ("usr/share/other",)}, base)
    assert names_below(root) == [
        f"lib/{TRIPLET}/libc.so.6",
        "lib64/ld-linux-x86-64.so.2",
        "usr/bin/user",
        f"usr/lib/{TRIPLET}/libown.so.1",
        "usr/share/other",
    ]


def test_a_missing_library_is_named_with_the_file_that_needs_it(install, dynamic, base):
    with pytest.raises(UsageError) as caught:
        install(dynamic, {"user": ("usr/bin/user",)}, base)
    assert str(caught.value) == (
        f"{YAML}: field packages: usr/bin/user of package user cannot run: no package of the image has the library "
        "libown.so.1 (name the package that has it too, whole or with that file)"
    )


def test_a_missing_interpreter_is_named(install, dynamic):
    with pytest.raises(UsageError, match=r"cannot run: .* has the library /lib64/ld-linux-x86-64\.so\.2 "):
        install(dynamic, {"user": ("usr/bin/user",), "libown": ("usr/share/other",)})


# -- packages and keys -------------------------------------------------------------------------------------


BASE = {"busybox-static": "1", "dropbear-bin": "1", "libc6": "1"}
NEEDS = {"dropbear-bin": ("libc6",), "tool": ("libc6", "libtool"), "libtool": ()}


@pytest.fixture
def store(tmp_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store, and a lock of packages that are at hand."""
    home = tmp_path / "mirror"
    home.mkdir()
    entries = []
    for name, version in {**BASE, "tool": "2", "libtool": "1"}.items():
        tree = tmp_path / "trees" / name
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / name).write_text(version)
        entries.append(entry_of(make_deb(home, name, tree, version), needs=NEEDS.get(name, ())))
    monkeypatch.setattr(debs, "lock_for", lambda _folder: lock_of(*entries))
    monkeypatch.setenv("KREPRO_MIRRORS", str(home))
    return tmp_store


def test_the_deb_is_that_of_the_whole_packages_where_they_have_it(store):
    whole = debs.fetch(store, "amd64", [*BASE_PACKAGES], dependencies=True)
    assert whole.info["versions"] == BASE
    base, tool = choose(
        store, "amd64", [Package(name="libc6", files=("bin/libc6",)), Package(name="tool", files=("bin/tool",))], whole
    )
    assert (base.deb.name, base.version) == ("libc6_1_amd64.deb", "1")
    assert (tool.deb.name, tool.version) == ("tool_2_amd64.deb", "2")
    assert {base.deb.parent} == {whole.path} != {tool.deb.parent}
    assert tool.sha256 == hash_file(tool.deb)


def test_a_package_that_is_not_there_is_an_error(store):
    given = debs.fetch(store, "amd64", ["tool"], dependencies=False)
    assert debs.deb_of(given, "tool") == "tool_2_amd64.deb"
    with pytest.raises(RunError, match="there is no package called too"):
        debs.deb_of(given, "too")


@pytest.fixture
def built(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Artefact]:
    """The image artefact of some packages, with no image in it: its inputs and what it says of itself."""
    monkeypatch.setattr(image, "_build", lambda *arguments: (arguments[-1] / "image.cpio").touch())
    kernel = Artefact("kernel", "k", tmp_path, {}, {}, {})

    def go(*packages: str | Package) -> Artefact:
        return build_image(store, ImageRecipe(load_kernel("modern-6.1"), (), packages), kernel)

    return go


def test_the_key_has_the_choice(built):
    def choice(*files: str) -> Package:
        return Package(name="tool", files=files)

    inputs = built(choice("b", "a")).inputs
    assert inputs["packages"] == []
    assert inputs["debs"] == built().inputs["debs"]
    assert inputs["files"]["tool"]["files"] == ["a", "b"]
    assert len(inputs["files"]["tool"]["deb"]) == 64
    assert built(choice("b", "a")).key == built(choice("a", "b", "a")).key
    others = [built().key, built("tool").key, built(choice("a")).key, built(choice("a", "b")).key]
    assert len(set(others)) == 4


def test_an_image_says_the_versions_of_chosen_packages_too(built):
    assert built(Package(name="tool", files=("bin/tool",))).info["versions"] == {**BASE, "tool": "2"}
