# SPDX-License-Identifier: MIT
"""A kernel of an edited local tree: only what was edited is compiled, and the bits are those of a clean build."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.artefacts.holdings import remove_holding
from harness.artefacts.store import Store, hash_of, hash_tree
from harness.artefacts.uses import release
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source, patched_tree, source_identity
from harness.kernel.spec import KernelRecipe, Source
from harness.scratch import remove_tree
from harness.sets.resultset import link_or_copy

pytestmark = [pytest.mark.soak, pytest.mark.timeout(2400)]

PRODUCTS = ("bzImage", "vmlinux", "System.map", "config")
#: A clean build of `classic` has more than ten times as many.
FEW_STEPS = 60


@pytest.fixture
def local(tmp_path: Path) -> Iterator[tuple[KernelRecipe, Store, Path]]:
    """The recipe of a kernel like `classic`, but of a local tree; a store with this host's ccache; and the tree."""
    store = Store.default()
    recipe = load_kernel("classic")
    archive = fetch_source(store, recipe.spec.source)
    assert archive is not None
    patched = patched_tree(store, recipe, archive, source_identity(recipe.spec.source, archive))
    tree = tmp_path / "linux"
    shutil.copytree(patched, tree, symlinks=True, copy_function=_link, ignore=_builds)
    own = Store(tmp_path / "store")
    own.root.mkdir()
    (own.root / "ccache").symlink_to(store.root / "ccache")
    spec = recipe.spec.model_copy(update={"source": Source(tree=tree)})
    yield dataclasses.replace(recipe, spec=spec, patches=()), own, tree
    release(own.root)
    remove_tree(own.root)
    remove_tree(tree)


def _builds(folder: str, names: list[str]) -> set[str]:
    """What is built in the store's tree; sources further down have such names too."""
    return {name for name in names if name.startswith("build-") and "Kconfig" in names and folder.endswith("/linux")}


def _link(source: str, target: str) -> None:
    link_or_copy(Path(source), Path(target))


def edit(path: Path, text: str) -> None:
    """Append to a file, which shares its bytes with the store's own tree until then."""
    old = path.read_text()
    path.unlink()
    path.write_text(old + text)


def test_an_edited_tree_is_built_incrementally_with_the_bits_of_a_clean_build(
    local: tuple[KernelRecipe, Store, Path], classic
):
    recipe, own, tree = local
    first = build_kernel(own, recipe)
    assert {name: first.files[name] for name in PRODUCTS} == {name: classic.kernel.files[name] for name in PRODUCTS}
    (copy,) = (own.root / "local").glob("*/linux")

    edit(tree / "kernel/profile.c", "int krepro_edited(void)\n{\n\treturn 1;\n}\n")
    edit(tree / "kernel/Makefile", "obj-y += krepro_new.o\n")
    edit(tree / "kernel/workqueue_internal.h", "#define KREPRO_EDITED 2\n")
    (tree / "kernel/krepro_new.c").write_text(
        '#include "workqueue_internal.h"\nint krepro_new(void)\n{\n\treturn KREPRO_EDITED;\n}\n'
    )
    second = build_kernel(own, recipe)
    assert second.key != first.key
    assert second.info["steps"] < FEW_STEPS < first.info["steps"] / 5
    assert "krepro_edited" in second.file("System.map").read_text()
    (build,) = copy.glob("build-*")
    same = hash_of(hash_tree(copy, {build.name})) == hash_of(hash_tree(tree))
    assert same, "as hashes: pytest would compare dictionaries of 80,000 files for minutes"

    incremental = dict(second.files)
    release(own.root)
    assert remove_holding(own, "kernel", second.key)
    remove_tree(build)
    clean = build_kernel(own, recipe)
    assert clean.info["steps"] > 5 * FEW_STEPS
    assert dict(clean.files) == incremental
