# SPDX-License-Identifier: MIT
"""What of the store is needed: asked as a run would ask, followed to what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.artefacts.store import Store
from harness.artefacts.uses import in_use
from harness.experiment.model import experiment_names, find_experiment, load_experiment
from harness.kernel.load import load_kernel
from harness.packages.debs import fetch
from harness.packages.tree import tree_home
from harness.run import needed as needed_module
from harness.run.needed import AbsentError, AskedStore, needed
from harness.trial.prepare import build_for
from tests.result_sets import write_days


def put(store: Store, kind: str, inputs: dict[str, Any], content: bytes) -> tuple[str, str]:
    def build(folder: Path) -> None:
        (folder / "data").write_bytes(content)

    made = store.obtain(kind, kind, inputs, build)
    return kind, made.key


def test_who_asks_builds_nothing_and_leaves_nothing_behind(tmp_store):
    asked = AskedStore(tmp_store.root)
    with pytest.raises(AbsentError):
        fetch(asked, "amd64", ["linux-source-6.1"], dependencies=False)
    assert [kind for kind, _ in asked.asked] == ["debs"]
    assert not tmp_store.root.exists()
    made = put(tmp_store, "thing", {"a": 1}, b"x")
    assert asked.obtain("thing", "other name", {"a": 1}, lambda _: None).key == made[1]
    assert made in asked.asked
    assert len(in_use(tmp_store.root)) == 1, "of the one who built it, not of who asked"


def test_what_a_needed_thing_was_made_of_is_needed_too(tmp_store, tmp_path, monkeypatch):
    deb = put(tmp_store, "debs", {"package": "linux"}, b"deb")
    other = put(tmp_store, "debs", {"package": "other"}, b"another deb")
    (file,) = next(made.files.values() for made in tmp_store.all("debs") if made.key == deb[1])
    kernel = put(tmp_store, "kernel", {"source": {"archive": {"linux.deb": file}}}, b"vmlinux")
    (bzimage,) = tmp_store.all("kernel")[0].files.values()
    keys = put(tmp_store, "keys", {"image": kernel[1]}, b"keys")
    tcg = put(tmp_store, "state", {"kernel": bzimage}, b"state")
    kvm = put(tmp_store, "state", {"kernel": bzimage, "host": "cpu"}, b"state under KVM")
    foreign = put(tmp_store, "state", {"kernel": "0" * 64, "host": "cpu"}, b"state of another kernel")
    monkeypatch.setattr(needed_module, "experiment_names", lambda: ["irq-hotspot"])
    monkeypatch.setattr(needed_module, "_asked", lambda *_: {keys})
    tree = tree_home(tmp_store.root)
    for key in (tree.name, "0" * 32):
        (tree.with_name(key) / "usr").mkdir(parents=True)
    reasons = needed(tmp_store, tmp_path)
    why = "experiment irq-hotspot needs it"
    assert reasons.pop(("tools", tree.name)) == "the project's tools.lock names it"
    assert reasons == {keys: why, kernel: why, deb: why, kvm: "a guest under KVM needs it"}
    assert not {other, tcg, foreign} & reasons.keys()


@pytest.mark.deep
def test_every_experiment_s_kernels_and_images_are_needed_of_a_whole_store(tmp_path, monkeypatch):
    """In the store that this host has: what a run of an experiment asks for, and nobody else."""
    store = Store.default()
    monkeypatch.setattr(needed_module, "set_paths", lambda _results: [])
    reasons = needed(store, tmp_path)
    there = 0
    for name in experiment_names():
        folder = find_experiment(name)
        experiment = load_experiment(folder)
        for kernel in {arm.kernel for arm in experiment.arms.values()}:
            load_kernel(kernel, beside=folder)
            try:
                made = build_for(AskedStore(store.root), kernel, folder, experiment.packages)
            except AbsentError:
                continue
            there += 1
            assert ("kernel", made.kernel.key) in reasons
            assert ("image", made.image.key) in reasons
    if not there:
        pytest.skip("nothing is built yet")


def test_a_kept_set_s_kernel_and_image_are_needed(tmp_path, tmp_store, monkeypatch):
    home = write_days(tmp_path)
    monkeypatch.setattr(needed_module, "experiment_names", lambda: [])
    reasons = needed(tmp_store, home.parent)
    manifests = [needed_module.ResultSet(path).manifest for path in needed_module.set_paths(home.parent)]
    for manifest in manifests:
        for kernel in manifest.kernels.values():
            assert reasons["kernel", kernel.key].startswith("set ")
        for image in manifest.images.values():
            assert reasons["image", image.key].startswith("set ")
    assert any(manifest.kernels for manifest in manifests)
