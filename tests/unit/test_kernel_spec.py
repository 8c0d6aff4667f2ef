# SPDX-License-Identifier: MIT
"""Kernel specs: found by name, the experiment's own first, and every file that they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.kernel.fragments import requested_options
from harness.kernel.load import DISTRIBUTION, kernel_names, load_kernel
from harness.paths import EXPERIMENTS, FRAGMENTS, KERNELS, PATCHES

SPEC = """\
name: own
arch: i386
source: {tree: ../linux}
fragments: [base, mine]
patches: [feature]
"""
MAKEFILE = "# SPDX-License-Identifier: GPL-2.0\nVERSION = 5\nPATCHLEVEL = 19\nSUBLEVEL = 0\n"


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """An experiment's folder with a kernel, a fragment, a patch series and a kernel tree of its own."""
    files = {
        "kernels/own.yaml": SPEC,
        "kernels/fragments/mine.config": "CONFIG_MINE=y\n",
        "kernel-patches/feature/5.19/0002-second.patch": "",
        "kernel-patches/feature/5.19/0001-first.patch": "",
        "linux/Makefile": MAKEFILE,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_own_kernel_with_own_fragments_patches_and_tree(beside):
    recipe = load_kernel("own", beside)
    assert recipe.version == "5.19"
    assert recipe.spec.source.tree == beside / "linux"
    assert recipe.fragments == (FRAGMENTS / "base.config", beside / "kernels/fragments/mine.config")
    assert [path.name for path in recipe.patches] == ["0001-first.patch", "0002-second.patch"]


def test_the_experiments_own_comes_before_the_projects(beside):
    (beside / "kernels/classic.yaml").write_text(SPEC.replace("name: own", "name: classic"))
    (beside / "kernels/fragments/base.config").touch()
    recipe = load_kernel("classic", beside)
    assert recipe.version == "5.19"
    assert recipe.fragments[0] == beside / "kernels/fragments/base.config"
    assert load_kernel("classic").version == "6.1"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("arch: i386", "arch: arm", "own.yaml:2: field arch: Input should be 'i386', 'x86_64' or 'arm64', got 'arm'"),
        ("name: own", "name: other", "own.yaml: field name: is 'other', but the file is called own.yaml"),
        ("mine]", "yours]", "own.yaml: field fragments: no config fragment 'yours'"),
        ("[base, mine]", "[]", "own.yaml:4: field fragments: List should have at least 1 item"),
        ("[feature]", "[future]", "own.yaml: field patches: 'future' has no series for 5.19"),
        ("patches: [feature]", "patches: [feature]\nversion: '5.4'", "field patches: 'feature' has no series for 5.4"),
        ("../linux", "../minix", "own.yaml: field source.tree: "),
        ("{tree: ../linux}", "{}", "own.yaml:3: field source: give exactly one of debian, url, tree"),
        ("{tree: ../linux}", "{tree: ../linux, debian: x}", "own.yaml:3: field source: give exactly one of"),
        ("{tree: ../linux}", "{url: 'http://x/y.tar'}", "own.yaml:3: field source: url and sha256 go together"),
        ("{tree: ../linux}", f"{{tree: ../linux, sha256: {'a' * 64}}}", "own.yaml:3: field source: url and sha256 go"),
        ("{tree: ../linux}", "{url: 'http://x', sha256: abc}", "own.yaml:3: field source.sha256: String should match"),
        ("{tree: ../linux}", "{debian: linux-source}", "own.yaml: field version: say which kernel this is, for exa"),
    ],
)
def test_slips_name_file_and_field(beside, old, new, says):
    path = beside / "kernels/own.yaml"
    assert SPEC.count(old) == 1
    path.write_text(SPEC.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_kernel("own", beside)
    assert says in str(caught.value)
    assert str(caught.value).startswith(str(beside))


def test_a_base_config_lies_under_the_fragments_and_brings_one_of_its_own(beside):
    path = beside / "kernels/own.yaml"
    path.write_text(SPEC + "config: configs/config-5.19-amd64\n")
    with pytest.raises(UsageError, match=r"own.yaml: field config: .*config-5.19-amd64 cannot be read: No such file"):
        load_kernel("own", beside)
    config = beside / "kernels/configs/config-5.19-amd64"
    config.parent.mkdir()
    config.write_bytes(b"\x1f\x8b\x08\xff")
    with pytest.raises(UsageError, match=r"is no text \(a .config as it is in /boot; unpack /proc/config.gz first\)"):
        load_kernel("own", beside)
    config.write_text("words\n")
    with pytest.raises(UsageError, match="has no option of a kernel"):
        load_kernel("own", beside)
    config.write_text("CONFIG_A=y\n")
    recipe = load_kernel("own", beside)
    assert recipe.config == config
    assert [path.stem for path in recipe.fragments] == [DISTRIBUTION, "base", "mine"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("0002-more.diff", r"0002-more.diff: is no patch of the series \(a series has files \*.patch and \*.mbox"),
        ("notes", "notes: is no patch of the series"),
        ("more", "more: is no patch of the series"),
    ],
)
def test_a_file_among_patches_that_is_none_is_told(beside, name, says):
    series = beside / "kernel-patches/feature/5.19"
    (series / name).mkdir() if name == "more" else (series / name).touch()
    with pytest.raises(UsageError, match=says):
        load_kernel("own", beside)


def test_a_series_has_mailboxes_too_and_a_readme_and_at_least_one_patch(beside):
    series = beside / "kernel-patches/feature/5.19"
    (series / "0000-all.mbox").touch()
    (series / "README.md").touch()
    (series / ".hidden").touch()
    assert load_kernel("own", beside).patches[0].name == "0000-all.mbox"
    for path in (*series.glob("*.patch"), *series.glob("*.mbox")):
        path.unlink()
    with pytest.raises(UsageError, match=r"own.yaml: field patches: the series .* is empty"):
        load_kernel("own", beside)


def test_a_line_of_a_fragment_that_is_no_option_is_told_before_anything_is_built(beside):
    (beside / "kernels/fragments/mine.config").write_text("MINE=y\n")
    with pytest.raises(UsageError, match=r"mine.config:1: is no config option: 'MINE=y'"):
        load_kernel("own", beside)


def test_an_experiments_kernels_are_listed_first(beside):
    assert kernel_names(beside) == ["own", *kernel_names()]
    with pytest.raises(UsageError, match=r"\(known: own, classic, "):
        load_kernel("nonsense", beside)


def test_a_tree_without_a_version_is_refused(beside):
    (beside / "linux/Makefile").write_text("all:\n")
    with pytest.raises(UsageError, match="field version: say which kernel this is"):
        load_kernel("own", beside)


@pytest.mark.parametrize("name", ["nonsense", "Classic", "", "classic.yaml"])
def test_unknown_kernels_list_the_known(name):
    with pytest.raises(UsageError, match=r"kernel.*\(known: classic, classic-peers, classic-stock, modern-6.1"):
        load_kernel(name)


@pytest.mark.parametrize("name", kernel_names())
def test_the_projects_own_kernels_are_whole(name):
    recipe = load_kernel(name)
    assert recipe.spec.name == name == (KERNELS / f"{name}.yaml").stem
    assert recipe.spec.description
    assert recipe.patches or name.endswith("-stock"), "each has a series for its version"
    assert all(path.is_file() for path in (*recipe.fragments, *recipe.patches))
    assert recipe.spec.source.sha256 or recipe.spec.source.debian == f"linux-source-{recipe.version}"
    wanted = requested_options(recipe.fragments)
    assert wanted["CONFIG_PROFILING"] == "y"
    assert (recipe.spec.arch != "i386") == (wanted.get("CONFIG_64BIT") == "y")


def test_no_fragment_or_series_is_orphaned():
    folders = sorted(path.parent for path in EXPERIMENTS.glob("*/kernels"))
    recipes = [load_kernel(name, folder) for folder in folders for name in kernel_names(folder)]
    used = {path for recipe in recipes for path in (*recipe.fragments, *recipe.patches)}
    used.add(FRAGMENTS / f"{DISTRIBUTION}.config")
    own = {*EXPERIMENTS.glob("*/kernels/fragments/*.config")}
    # Series and fragments of other versions: test_kernel_versions.py.
    fragments = {path for path in FRAGMENTS.glob("*.config") if not re.search(r"-\d+\.\d+$", path.stem)}
    assert used >= {*fragments, *PATCHES.glob("*/6.1/*.patch"), *own}
    assert all((folder / "README.md").is_file() for folder in PATCHES.iterdir() if folder.is_dir())
