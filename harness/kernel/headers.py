# SPDX-License-Identifier: MIT
"""What out-of-tree modules are built against: the build of a kernel of ours, or the headers that Debian packs with one
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.artefacts.store import Artefact, Store
from harness.errors import UsageError
from harness.kernel.arch import ARCHES
from harness.kernel.build import cached, make_argv, place_of_build
from harness.kernel.packaged import find_packaged
from harness.kernel.spec import KernelRecipe
from harness.packages.deb import unpack
from harness.packages.fetch import fetch
from harness.packages.lock import Entry
from harness.progress import step

#: Debug information would have the scratch folder's name in it, and its tools are not in the tools tree.
BARE = ("KCFLAGS=-g0", "CONFIG_DEBUG_INFO_BTF_MODULES=")


def can_have_modules(recipe: KernelRecipe) -> bool:
    """Whether modules of ours can be built for a kernel: it is built here, or its headers are locked."""
    source = recipe.spec.source
    return not source.built or (source.package is not None and bool(find_packaged(source.package).headers()))


def headers_of(recipe: KernelRecipe, what: str) -> list[Entry]:
    """The packages with a kernel's headers, its own first; none for a kernel that is built here.

    UsageError naming `what` needs them, where a kernel that is not has none in the lock.
    """
    source = recipe.spec.source
    entries = find_packaged(source.package).headers() if source.package is not None else []
    if source.built and not entries:
        raise UsageError(
            f"no module can be built for kernel {recipe.spec.name}: no headers of it are locked",
            where=what,
            hint="take a kernel of images/kernels, or one of Debian 12's own",
        )
    return entries


@contextmanager
def module_make(store: Store, recipe: KernelRecipe, kernel: Artefact) -> Iterator[list[str]]:
    """The words of make that build modules for a kernel of the store, but for those that say which.

    RunError when the kernel can have no more modules.
    """
    entries = headers_of(recipe, kernel.path.name)
    if not entries:
        with place_of_build(store, recipe, kernel) as (tree, out):
            yield make_argv(tree, out, recipe.spec.arch)
        return
    paths = fetch(store, entries)
    with store.scratch("headers") as scratch:
        with step(f"unpacking the headers of {recipe.spec.name}"):
            for entry in entries:
                unpack(paths[entry.sha256], scratch)
        sources = scratch / "usr/src"
        folder = sources / entries[0].package
        makefile = folder / "Makefile"
        # It includes the headers of all flavours by the place where dpkg would put them.
        makefile.write_text(makefile.read_text().replace("/usr/src/", "../"))
        yield [*("make", "-C", str(folder), f"ARCH={ARCHES[recipe.spec.arch].make}", f"CC={cached()}gcc"), *BARE]
