# SPDX-License-Identifier: MIT
"""Debian's own kernels: which one a name means, what is taken out of its packages, in which order drivers load."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from harness.errors import RunError, UsageError
from harness.kernel import packaged
from harness.kernel.build import note_of
from harness.kernel.lines import debug_package, source_line
from harness.kernel.load import load_kernel
from harness.kernel.modules import loading_order, read_module, without_signature
from harness.kernel.packaged import IMAGE_PACKAGE, Packaged, find_packaged, packaged_kernels, several_packaged
from harness.packages.lock import Entry, Lock
from tests.compiling import run

RELEASES = {
    "6.1.0-9-cloud-amd64": "6.1.90-1",
    "6.1.0-10-cloud-amd64": "6.1.100-1",
    "6.1.0-10-rt-amd64": "6.1.100-1",
    "6.1.0-10-amd64": "6.1.100-1",
    "6.1.0-8-686-pae": "6.1.80-1",
    "6.1.0-8-686": "6.1.80-1",
    "6.12.9+deb13-cloud-amd64": "6.12.9-1",
    "6.12.10+deb12-cloud-amd64": "6.12.10-1~deb12u1",
    "6.12.10+deb13-cloud-amd64": "6.12.10-1",
}


@pytest.fixture
def lock(tmp_path, monkeypatch):
    entries = [
        Entry(
            package=f"linux-image-{release}",
            version=version,
            architecture="i386" if "686" in release else "amd64",
            archive="debian",
            path=f"pool/main/l/linux/{index}.deb",
            size=1,
            sha256=f"{index:064d}",
            needs=(),
        )
        for index, (release, version) in enumerate(RELEASES.items())
    ]
    path = tmp_path / "kernels.lock"
    path.write_text(Lock(suites=(), snapshot="20260101T000000Z", tools=(), packages=tuple(entries)).dump())
    monkeypatch.setattr(packaged, "KERNELS_LOCK", path)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("6.1", "6.1.0-10-cloud-amd64"),
        ("6.1-rt", "6.1.0-10-rt-amd64"),
        ("6.1-generic", "6.1.0-10-amd64"),
        ("6.1-686-pae", "6.1.0-8-686-pae"),
        ("686", "6.1.0-8-686"),
        ("6.1.0-9", "6.1.0-9-cloud-amd64"),
        ("6.1.90", "6.1.0-9-cloud-amd64"),
        ("6.12", "6.12.10+deb13-cloud-amd64"),
        ("6.12.10+deb12", "6.12.10+deb12-cloud-amd64"),
        ("6.12+deb12", "6.12.10+deb12-cloud-amd64"),
        ("6.12+deb13", "6.12.10+deb13-cloud-amd64"),
        ("6.12.9", "6.12.9+deb13-cloud-amd64"),
        ("cloud", "6.12.10+deb13-cloud-amd64"),
        ("rt", "6.1.0-10-rt-amd64"),
        ("6.1.0-10-cloud-amd64", "6.1.0-10-cloud-amd64"),
    ],
)
def test_a_name_means_the_newest_that_fits(lock, text, release):
    assert find_packaged(text).release == release


def test_several_are_one_of_each_version_flavour_and_machine_or_all(lock):
    names = several_packaged("debian:newest")
    assert names is not None
    assert {name.removeprefix("debian:") for name in names} == {
        *("6.1.0-8-686", "6.1.0-8-686-pae", "6.1.0-10-amd64", "6.1.0-10-cloud-amd64", "6.1.0-10-rt-amd64"),
        "6.12.10+deb13-cloud-amd64",
    }
    assert len(several_packaged("debian:all")) == len(RELEASES)
    assert several_packaged("debian:6.1") is None


@pytest.mark.parametrize(
    "text", ["", "6.2", "6.1+deb12", "6.12+deb1", "6.1.0-1", "6", "cloud-686", "../x", "6.1 rt", "latest"]
)
def test_what_is_not_there_is_told_with_what_is(lock, text):
    with pytest.raises(UsageError, match=r"debian:.*\(.*debian:6\.1, debian:6\.12"):
        find_packaged(text)


def test_the_oldest_is_first_and_a_tilde_is_older_than_nothing(lock):
    order = [kernel.release for kernel in packaged_kernels() if "cloud" in kernel.release]
    assert order == [release for release in RELEASES if "cloud" in release]


def test_a_recipe_is_a_machine_and_a_command_line_and_nothing_to_build(lock):
    recipe = load_kernel("debian:6.1")
    assert (recipe.spec.name, recipe.version) == ("debian:6.1.0-10-cloud-amd64", "6.1")
    assert (recipe.spec.source.package, recipe.patches, recipe.fragments) == ("6.1.0-10-cloud-amd64", (), ())
    assert "nokaslr" in recipe.spec.cmdline
    assert (load_kernel("debian:686").spec.arch, load_kernel("debian:686").spec.hardware.smp) == ("i386", False)


def test_every_kernel_of_the_projects_lock_has_a_machine_and_a_name_of_its_own():
    kernels = packaged_kernels()
    assert len(kernels) > 100
    for kernel in kernels:
        recipe = load_kernel(kernel.name)
        assert recipe.spec.name == kernel.name
        assert kernel.entries()


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("linux-image-6.1.0-56-cloud-amd64", True),
        ("linux-image-7.3.4+deb13-rt-amd64", True),
        ("linux-image-6.1.0-50-686-pae", True),
        ("linux-image-amd64", False),
        ("linux-image-6.12-amd64", False),
        ("linux-image-6.1.0-56-amd64-unsigned", False),
        ("linux-image-6.1.0-56-amd64-dbg", False),
    ],
)
def test_which_packages_of_the_archive_are_kernels(name, fits):
    assert bool(IMAGE_PACKAGE.fullmatch(name)) == fits


@pytest.fixture
def modules(tmp_path):
    """Modules of C files: a needs b and c, c needs b; d is packed; e is none."""
    made = {}
    for name, depends in {"a": "b,c", "b": "", "c": "b", "d": ""}.items():
        texts = f"license=GPL\\0depends={depends}"
        text = f'static const char texts[] __attribute__((section(".modinfo"), used)) = "{texts}";\n'
        (tmp_path / f"{name}.c").write_text(text)
        made[name] = tmp_path / f"{name}.ko"
        run("gcc", "-c", "-o", made[name], tmp_path / f"{name}.c", cwd=tmp_path)
    packed = tmp_path / "d.ko.xz"
    packed.write_bytes(lzma.compress(made["d"].read_bytes()))
    return {**made, "d": packed}


def test_a_driver_is_loaded_after_all_that_it_needs(modules):
    assert loading_order(["a", "d", "absent"], modules) == ["b", "c", "a", "d"]
    assert read_module(modules["d"]).startswith(b"\x7fELF")


def test_a_module_goes_into_a_guest_without_its_signature():
    signature = b"s" * 679
    signed = b"\x7fELF module" + signature + bytes(8) + len(signature).to_bytes(4, "big")
    assert without_signature(signed + b"~Module signature appended~\n") == b"\x7fELF module"
    assert without_signature(b"\x7fELF module") == b"\x7fELF module"


def test_a_damaged_module_is_told(tmp_path):
    (tmp_path / "x.ko").write_bytes(b"none")
    (tmp_path / "y.ko.xz").write_bytes(b"none")
    for name in ("x.ko", "y.ko.xz"):
        with pytest.raises(RunError, match=f"{name}: is"):
            loading_order(["m"], {"m": tmp_path / name})


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("boot/vmlinuz-R", "boot/vmlinuz"),
        ("boot/config-R", "boot/config"),
        ("boot/System.map-R", None),
        ("usr/lib/modules/R/vmlinuz", "boot/vmlinuz"),
        ("usr/lib/modules/R/config", "boot/config"),
        ("lib/modules/R/kernel/drivers/virtio/virtio.ko", "modules/kernel/drivers/virtio/virtio.ko"),
        ("usr/lib/modules/R/kernel/net/core/failover.ko.xz", "modules/kernel/net/core/failover.ko.xz"),
        ("lib/modules/R/kernel/sound/x.ko", None),
        ("lib/modules/other/kernel/net/x.ko", None),
        ("usr/share/doc/linux-image-R/copyright", None),
    ],
)
def test_where_a_file_of_a_package_goes(name, place):
    assert packaged.wanted_file(name, "R") == place


def test_a_kernels_packages_are_those_that_its_image_needs():
    kernel = next(kernel for kernel in packaged_kernels() if kernel.release.startswith("7."))
    assert [re.match(r"linux-[a-z]+", entry.package)[0] for entry in kernel.entries()] == [  # type: ignore[index]
        "linux-base", "linux-binary", "linux-image", "linux-modules",
    ]  # fmt: skip


def test_modules_can_be_built_for_the_kernels_that_debian_12_has():
    newest = {find_packaged(text).release for text in ("6.1", "6.1-rt", "6.1-generic", "686", "6.12+deb12")}
    with_headers = [kernel for kernel in packaged_kernels() if kernel.headers()]
    assert newest <= {kernel.release for kernel in with_headers}
    for kernel in with_headers:
        own, common, kbuild = kernel.headers()
        assert own.package == f"linux-headers-{kernel.release}"
        assert "+deb13" not in kernel.release
        assert ("-common" in common.package, common.architecture) == (True, "all")
        assert (kbuild.package.startswith("linux-kbuild-"), kbuild.architecture) == (True, "amd64")


def test_newest_kernels_have_debug_information_which_is_no_kernel_itself():
    for text in ("6.1", "6.12", "7.3", "6.12+deb12", "6.1-rt"):
        kernel = find_packaged(text)
        assert debug_package(load_kernel(kernel.name))[1].package == f"linux-image-{kernel.release}-dbg"
    assert not [kernel for kernel in packaged_kernels() if "dbg" in kernel.release]
    for name in ("debian:6.12.43", "classic"):
        with pytest.raises(UsageError, match=r"no debug information of kernel .* is locked \(such as"):
            debug_package(load_kernel(name))


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("debian/build/build_amd64_none_cloud-amd64/mm/memory.c:1797", "mm/memory.c:1797"),
        ("/build/x/debian/build/build_i386_none_686/arch/x86/lib/memset_64.S:46", "arch/x86/lib/memset_64.S:46"),
        ("./include/linux/seq_file.h:130 (discriminator 3)", "include/linux/seq_file.h:130"),
        ("usercopy_64.c:?", ""),
        ("??:0", ""),
    ],
)
def test_a_line_of_source_by_its_place_in_the_tree(told, line):
    assert source_line(told) == line


def test_a_build_id_among_notes():
    other = b"\x04\0\0\0\x03\0\0\0\x06\0\0\0Xen\0abc\0"
    assert note_of(other + b"\x04\0\0\0\x02\0\0\0\x03\0\0\0GNU\0\xab\xcd\0\0") == "abcd"
    assert note_of(other) is None
    assert note_of(b"") is None


def test_a_kernel_without_its_packages_kernel_is_told(tmp_path):
    with pytest.raises(RunError, match="debian:R: its packages have no vmlinuz"):
        packaged._take(Packaged("R", "1"), tmp_path, Path(tmp_path))
