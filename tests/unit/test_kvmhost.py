# SPDX-License-Identifier: MIT
"""What of the emulated KVM host needs no boot: the modules it loads, how a command is told, what is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import RunError, UsageError
from tests.kvmbox.host import Echo, command_text, shared
from tests.kvmbox.image import MODULES, load_order

DEPENDENCIES = """\
kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio.ko:
kernel/drivers/char/virtio_console.ko.xz: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko kernel/drivers/virtio/virtio.ko
kernel/net/9p/9pnet.ko:
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko
kernel/arch/x86/kvm/kvm-amd.ko: kernel/arch/x86/kvm/kvm.ko
kernel/arch/x86/kvm/kvm.ko:
"""
BUILT_IN = "kernel/fs/overlayfs/overlay.ko\n"


def test_every_module_loads_after_what_it_needs():
    paths = load_order(DEPENDENCIES, BUILT_IN)
    names = [Path(path).name.partition(".ko")[0] for path in paths]
    assert len(names) == len(set(names)) == 9
    assert set(names) >= set(MODULES) - {"overlay"}
    for line in DEPENDENCIES.splitlines():
        module, _, needs = line.partition(":")
        assert all(paths.index(need) < paths.index(module) for need in needs.split())


def test_a_kernel_without_a_module_is_told():
    with pytest.raises(RunError, match="no module kvm-amd"):
        load_order(DEPENDENCIES.replace("kvm-amd.ko", "kvm-intel.ko"), BUILT_IN)


def test_a_command_keeps_its_words_its_folder_and_its_environment(tmp_path: Path):
    folder = tmp_path / "a 'b'"
    folder.mkdir()
    words = ["sh", "-c", 'pwd; echo "$X"; printf "%s|" "$@"', "sh", "c d", "", "$HOME"]
    text = command_text(words, folder, {"X": "y\nz"})
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, env={}, check=False)
    assert done.stdout == f"{folder}\ny\nz\nc d||$HOME|", done


@pytest.mark.parametrize("name", ["a,b", "a b"])
def test_a_folder_that_qemu_cannot_be_told_is_refused(name: str):
    with pytest.raises(UsageError, match="QEMU takes no comma or blank"):
        shared("tag", Path("/tmp") / name, "readonly=on")


def test_an_echo_shows_each_byte_once(tmp_path: Path, capfdbinary):
    path = tmp_path / "stdout"
    with Echo([(path, sys.stdout)]) as echo:
        echo.look()
        path.write_bytes(b"one\n\xff")
        echo.look()
        echo.look()
        with path.open("ab") as file:
            file.write(b"two")
    assert capfdbinary.readouterr().out == b"one\n\xfftwo"
