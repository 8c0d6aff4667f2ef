# SPDX-License-Identifier: MIT
"""Kernels in other versions than their spec's: by name alone, of one build where a spec has all that they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiment.model import load_experiment
from harness.kernel.build import kernel_inputs
from harness.kernel.load import kernel_names, load_kernel
from harness.kernel.source import source_entry
from harness.kernel.versions import in_version, version_in, written_for
from harness.paths import EXPERIMENTS, PATCHES
from harness.trial.plan import make_plan

VERSIONS = sorted({path.name for path in PATCHES.glob("*/[0-9]*.*[0-9]")} - {"6.1"})


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("modern-6.1", "modern-7.3"),
        ("modern-6.1-bare", "modern-7.3-bare"),
        ("classic", "classic-7.3"),
        ("classic-peers", "classic-peers-7.3"),
        ("debian:6.12+deb12", "debian:6.12+deb12"),
        ("./linux", "./linux"),
    ],
)
def test_a_kernels_name_in_another_version(name, there):
    assert in_version(name, "7.3") == there
    assert version_in(there) == (None if there == name else "7.3")


def test_the_spec_is_that_of_the_name_without_its_version():
    known = ["classic", "classic-peers", "modern-6.1", "modern-6.1-bare"]
    assert written_for("modern-7.3-bare", known) == "modern-6.1-bare"
    assert written_for("classic-7.3", known) == "classic"
    assert written_for("classic-7.3-peers", known) == "classic-peers"
    assert written_for("modern-7.3-fast", known) is None
    assert written_for("classic-fast", known) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_series_is_used_by_a_kernel_in_that_version(version):
    folders = sorted(path.parent for path in EXPERIMENTS.glob("*/kernels"))
    names = {(name, folder) for folder in folders for name in kernel_names(folder) if version_in(name) in (None, "6.1")}
    recipes = [load_kernel(in_version(name, version), folder) for name, folder in sorted(names)]
    assert {recipe.version for recipe in recipes} == {version}
    assert {recipe.spec.source.debian for recipe in recipes} == {f"linux-source-{version}"}
    assert {patch for recipe in recipes for patch in recipe.patches} == {*PATCHES.glob(f"*/{version}/*.patch")}
    assert source_entry(f"linux-source-{version}").size > 100_000_000


@pytest.mark.parametrize("version", ["6.1", *VERSIONS])
def test_one_build_serves_all_that_is_called_modern(version):
    """Not what has no patch, or other checks in it."""
    beside = {"swap": EXPERIMENTS / "page-trace", "stacks": EXPERIMENTS / "lock-trace"}

    def build(suffix: str) -> object:
        name = f"modern-{version}-{suffix}" if suffix else f"modern-{version}"
        return kernel_inputs(load_kernel(name, beside.get(suffix)), {})

    assert all(build(suffix) == build("") for suffix in ("bare", "la57", "swap", "stacks"))
    assert build("stock") != build("")
    assert build("lockdep") != build("")
    swap, own = load_kernel(f"modern-{version}-swap", beside["swap"]), load_kernel("modern-6.1-swap", beside["swap"])
    assert (swap.spec.cmdline, swap.spec.hardware) == (own.spec.cmdline, own.spec.hardware)


def test_a_kernel_of_a_tree_has_one_version(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\n")
    text = "name: own\narch: x86_64\nsource: {tree: ../linux}\nfragments: [base]\n"
    (tmp_path / "kernels/own.yaml").write_text(text)
    assert load_kernel("own", tmp_path).version == "6.1"
    with pytest.raises(UsageError, match=r"own.yaml: kernel own-6.12: own has a source of one version"):
        load_kernel("own-6.12", tmp_path)
    with pytest.raises(UsageError, match=r"unknown kernel 'other-6.12'"):
        load_kernel("other-6.12", tmp_path)


def test_an_experiment_runs_on_its_kernels_in_another_version():
    experiment = load_experiment(EXPERIMENTS / "page-trace", {"kernel": ["7.3"]})
    plan = make_plan(experiment, profile="quick", chosen={"kernel": ["7.3"]})
    kernels = {experiment.arms[trial.arm].kernel for trial in plan}
    assert "modern-7.3" in kernels
    assert {version_in(kernel) for kernel in kernels} == {"7.3"}
    own = load_experiment(EXPERIMENTS / "page-trace")
    assert {trial.arm for trial in plan} == {trial.arm for trial in make_plan(own, profile="quick")}


def test_arms_of_debians_own_kernels_are_not_in_a_version_of_ours():
    experiment = load_experiment(EXPERIMENTS / "shim", {"kernel": ["6.12"]})
    plan = make_plan(experiment, profile="full", chosen={"kernel": ["6.12"]})
    assert not any(experiment.arms[trial.arm].kernel.startswith("debian:") for trial in plan)


def test_a_version_stands_alone():
    from harness.experiment.matrix import parse_chosen

    assert parse_chosen(None, ["6.12"]) == {"kernel": ["6.12"]}
    with pytest.raises(UsageError, match="--kernel: a version of all kernels stands alone"):
        parse_chosen(None, ["6.12", "classic"])


def test_a_fragment_of_a_version_lies_over_its_own(tmp_path):
    (tmp_path / "kernels/fragments").mkdir(parents=True)
    (tmp_path / "kernels/fragments/mine.config").write_text("CONFIG_A=y\n")
    (tmp_path / "kernels/fragments/mine-6.12.config").write_text("# CONFIG_A is not set\n")
    for version in ("6.1", "6.12"):
        text = f"name: own-{version}\narch: x86_64\nsource: {{debian: linux-source-{version}}}\nfragments: [mine]\n"
        (tmp_path / f"kernels/own-{version}.yaml").write_text(text)
    names = {v: [path.name for path in load_kernel(f"own-{v}", tmp_path).fragments] for v in ("6.1", "6.12")}
    assert names == {"6.1": ["mine.config"], "6.12": ["mine.config", "mine-6.12.config"]}
    assert Path(load_kernel("own-6.12", tmp_path).fragments[1]).parent == tmp_path / "kernels/fragments"
