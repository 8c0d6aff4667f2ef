# SPDX-License-Identifier: MIT
"""A damaged kernel or image in the store is noticed, built again, and said so; the new one has the same bits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.paths import EXPERIMENTS
from harness.trial.prepare import KernelBuild, build_for
from tests.faults.rows import fault

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


#: Folders of a store that the damaged one has for itself; all others are the user's.
OWN = ("kernel", "image", "tmp", "locks", "uses")


def _apart(store: Store, root: Path, built: KernelBuild) -> Store:
    """A store with a copy of this kernel and image: tests beside this one boot the others."""
    root.mkdir()
    for path in store.root.iterdir():
        if path.name not in OWN:
            (root / path.name).symlink_to(path)
    for artefact in (built.kernel, built.image):
        home = store.root / artefact.kind / artefact.key
        shutil.copytree(home, root / artefact.kind / artefact.key)
    return Store(root)


@fault("one bit of a built kernel or image is flipped in the store", "built again with the same bits, with a warning")
@pytest.mark.parametrize(("kind", "name"), [("kernel", "bzImage"), ("kernel", "System.map"), ("image", "image.cpio")])
def test_one_flipped_bit_is_built_again(store, classic, capfd, kind, name, tmp_path):
    artefact = getattr(classic, kind)
    apart = _apart(store, tmp_path / "store", classic)
    _flip_a_bit(apart.root / kind / artefact.key / name)
    again = getattr(build_for(apart, "classic", EXPERIMENTS / "irq-hotspot"), kind)
    said = " ".join(capfd.readouterr().err.split())
    assert f"{kind} {artefact.key[:12]} in the store is damaged ({name} differs from what was written)" in said
    assert "it is deleted and built again" in said
    assert again.files == artefact.files
    assert again.file(name).is_relative_to(apart.root)
