# SPDX-License-Identifier: MIT
"""Kernels by their path: what is one, what lies beside it, and what is said of what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.kernel.given import BUILT, find_given, given_kernel, package_release
from harness.kernel.load import from_tree, kernel_word, load_kernel

SYMBOLS = "".join(f"{number:016x} T function_{number}\n" for number in range(200))


def bzimage(path: Path, release: str = "6.5.0-mine", bits: int = 64) -> Path:
    """The first bytes of a bzImage, whose header says this."""
    head = bytearray(0x1000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x800 - 0x200).to_bytes(2, "little")
    head[0x236] = 1 if bits == 64 else 0
    text = f"{release} (who@where) #1 SMP\0".encode()
    head[0x800 : 0x800 + len(text)] = text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(head))
    return path


def test_a_bare_image_says_its_release_and_its_bits(tmp_path):
    for bits, arch in ((64, "x86_64"), (32, "i386")):
        path = bzimage(tmp_path / f"kernel{bits}", bits=bits)
        found = find_given(path)
        assert (found.image, found.release, found.bits) == (path, "6.5.0-mine", bits)
        assert (found.config, found.symbols, found.modules) == (None, None, None)
        recipe = load_kernel(str(path))
        assert (recipe.spec.arch, recipe.version, recipe.spec.source.given) == (arch, "6.5", path)


def test_what_lies_beside_an_image_goes_with_it_and_a_stub_does_not(tmp_path):
    path = bzimage(tmp_path / "vmlinuz-6.5.0-mine")
    (tmp_path / "config-6.5.0-mine").write_text("CONFIG_A=y\n")
    (tmp_path / "System.map-6.5.0-mine").write_text("ffffffffffffffff B The real System.map is elsewhere\n")
    (tmp_path / "modules").mkdir()
    found = find_given(path)
    assert (found.config, found.symbols, found.modules) == (
        tmp_path / "config-6.5.0-mine", None, tmp_path / "modules",
    )  # fmt: skip
    (tmp_path / "System.map-6.5.0-mine").write_text(SYMBOLS)
    assert find_given(path).symbols == tmp_path / "System.map-6.5.0-mine"


def test_a_build_folder_its_image_and_its_vmlinux_are_the_same_kernel(tmp_path):
    image = bzimage(tmp_path / BUILT)
    (tmp_path / ".config").write_text("CONFIG_A=y\n")
    (tmp_path / "System.map").write_text(SYMBOLS)
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF")
    whole = find_given(tmp_path)
    assert (whole.image, whole.config, whole.symbols) == (image, tmp_path / ".config", tmp_path / "System.map")
    assert find_given(image) == whole
    assert find_given(tmp_path / "vmlinux") == whole


def test_the_artefact_has_what_there_is_and_another_config_is_another(tmp_path):
    store = Store(tmp_path / "store")
    path = bzimage(tmp_path / "bzImage")
    bare = given_kernel(store, path)
    assert (sorted(bare.files), bare.info["release"], bare.info["drivers"]) == (["bzImage"], "6.5.0-mine", [])
    (tmp_path / "config").write_text("CONFIG_A=y\n")
    assert sorted(given_kernel(store, path).files) == ["bzImage", "config"]
    assert given_kernel(store, path).key != bare.key


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "is not there"),
        (lambda path: path.write_text("words"), "is no kernel for x86"),
        (lambda path: path.write_bytes(b"\x7fELF"), "is a vmlinux, which QEMU boots by its bzImage alone"),
        (lambda path: path.mkdir(), f"has no {BUILT}, and no source of a kernel"),
    ],
)
def test_what_is_no_kernel_is_told_with_what_would_be_one(tmp_path, make, says):
    make(tmp_path / "it")
    with pytest.raises(UsageError, match=rf"it: {says} \(a bzImage, a linux-image \.deb, a build folder, or a sou"):
        load_kernel(str(tmp_path / "it"))


def test_a_tree_is_built_as_the_kernels_of_today_are_without_patches(tmp_path):
    (tmp_path / "Makefile").write_text("# SPDX\nVERSION = 6\nPATCHLEVEL = 12\n")
    (tmp_path / "Kconfig").touch()
    recipe = load_kernel(str(tmp_path))
    assert (recipe.spec.source.tree, recipe.version, recipe.patches, recipe.lenient) == (tmp_path, "6.12", (), True)
    assert recipe.fragments == load_kernel("modern-6.1-stock").fragments


@pytest.mark.parametrize(("version", "series"), [("6.1", "6.1"), ("6.12", "6.4"), ("6.4", "6.4"), ("5.9", "6.1")])
def test_a_kernel_of_the_users_tree_has_the_series_that_is_nearest(tmp_path, version, series):
    home, tree = tmp_path / "home", tmp_path / "tree"
    tree.mkdir()
    major, minor = version.split(".")
    (tree / "Makefile").write_text(f"VERSION = {major}\nPATCHLEVEL = {minor}\n")
    (tree / "Kconfig").touch()
    for name in ("6.1", "6.4"):
        (home / "kernel-patches/mine" / name).mkdir(parents=True)
        (home / "kernel-patches/mine" / name / "0001-x.patch").touch()
    (home / "kernels/fragments").mkdir(parents=True)
    (home / "kernels/fragments/mine.config").write_text("CONFIG_A=y\n")
    (home / "kernels/own.yaml").write_text(
        "name: own\narch: x86_64\nsource: {debian: linux-source-6.1}\nfragments: [mine]\npatches: [mine]\n"
    )
    recipe = load_kernel(from_tree("own", str(tree)), home)
    assert recipe.patches == (home / "kernel-patches/mine" / series / "0001-x.patch",)
    assert (recipe.version, recipe.spec.source.tree, recipe.lenient) == (version, tree, True)
    assert from_tree("own", "debian:6.1") == "debian:6.1"
    with pytest.raises(UsageError, match="absent: is no kernel's source tree"):
        load_kernel(f"own@{tmp_path}/absent", home)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("linux-image-6.12.118+deb13-cloud-amd64_6.12.118-1_amd64.deb", "6.12.118+deb13-cloud-amd64"),
        ("linux-image-unsigned-6.8.0-31-generic_6.8.0-31.31_amd64.deb", "6.8.0-31-generic"),
        ("linux-binary-7.3.4+deb13-amd64_7.3.4-1~bpo13+1_amd64.deb", "7.3.4+deb13-amd64"),
        ("linux-image-amd64_6.12_amd64.deb", None),
        ("gzip_1.12-1_amd64.deb", None),
    ],
)
def test_the_release_of_a_package_is_in_its_name(name, release):
    if release is not None:
        assert package_release(Path(name)) == release
        return
    with pytest.raises(UsageError, match="is no package of a kernel by its name"):
        package_release(Path(name))


def test_a_path_is_made_whole_and_a_name_is_not(tmp_path):
    assert [kernel_word(text, tmp_path) for text in ("classic", "debian:6.1", "./vmlinuz", "a/b", "..")] == [
        "classic", "debian:6.1", str(tmp_path / "vmlinuz"), str(tmp_path / "a/b"), str(tmp_path.parent),
    ]  # fmt: skip
    assert kernel_word("~/k", tmp_path) == str(Path.home() / "k")
    assert kernel_word("modern-6.1@./a", tmp_path) == f"modern-6.1@{tmp_path}/a"
    assert kernel_word("a@b/c", tmp_path) == f"a@{tmp_path}/b/c"
    assert kernel_word("./a@b", tmp_path) == str(tmp_path / "a@b")
