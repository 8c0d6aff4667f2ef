# SPDX-License-Identifier: MIT
"""The same inputs give the same kernel, wherever it is built and whatever the compiler cache remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.paths import EXPERIMENTS
from harness.trial.prepare import build_for

pytestmark = [pytest.mark.deep, pytest.mark.timeout(2400)]


def test_classic_built_elsewhere_without_a_cache_is_bit_for_bit_the_same(store, classic, tmp_path, monkeypatch):
    elsewhere = Store(tmp_path / "a-store-in-another-place")
    for kind in ("debs", "download"):  # what was fetched is an input, not a product
        (elsewhere.root / kind).mkdir(parents=True)
        for artefact in store.all(kind):
            (elsewhere.root / kind / artefact.key).symlink_to(artefact.path)
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    again = build_kernel(elsewhere, load_kernel("classic"))
    assert again.path != classic.kernel.path
    same = ("bzImage", "vmlinux", "System.map", "config")
    assert {name: again.files[name] for name in same} == {name: classic.kernel.files[name] for name in same}
    assert again.key == classic.kernel.key


def test_an_image_built_elsewhere_is_bit_for_bit_the_same(store, classic, tmp_path):
    elsewhere = Store(tmp_path / "elsewhere")
    for kind in ("debs", "kernel"):
        (elsewhere.root / kind).mkdir(parents=True)
        for artefact in store.all(kind):
            (elsewhere.root / kind / artefact.key).symlink_to(artefact.path)
    (elsewhere.root / "trees").symlink_to(store.root / "trees")  # its modules are built against the kernel's folder
    again = build_for(elsewhere, "classic", EXPERIMENTS / "irq-hotspot")
    assert again.image.path != classic.image.path
    assert again.image.files == classic.image.files


def test_every_requested_option_is_in_the_final_config(classic, modern):
    for built in (classic, modern):
        config = Path(built.kernel.file("config")).read_text()
        assert "CONFIG_KREPRO_IRQ_HOTSPOT=y" in config
        assert "CONFIG_KREPRO_EDU=y" in config
