# SPDX-License-Identifier: MIT
"""A damaged kernel or image in the store is noticed, built again, and said so; the new one has the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.experiment.prepare import build_for
from harness.paths import EXPERIMENTS
from tests.faults.rows import fault

pytestmark = pytest.mark.timeout(1800)


def _flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


@fault("one bit of a built kernel or image is flipped in the store", "built again with the same bits, with a warning")
@pytest.mark.parametrize(("kind", "name"), [("kernel", "bzImage"), ("kernel", "System.map"), ("image", "image.cpio")])
def test_one_flipped_bit_is_built_again(store, classic, capfd, kind, name):
    artefact = getattr(classic, kind)
    _flip_a_bit(artefact.file(name))
    again = getattr(build_for(store, "classic", EXPERIMENTS / "irq-hotspot"), kind)
    said = " ".join(capfd.readouterr().err.split())
    assert f"{kind} {artefact.key[:12]} in the store is damaged ({name} differs from what was written)" in said
    assert "it is deleted and built again" in said
    assert again.files == artefact.files
