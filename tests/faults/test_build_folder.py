# SPDX-License-Identifier: MIT
"""A kernel whose build folder is gone, while the kernel itself is in the store: modules are built against it."""

from __future__ import annotations

import pytest

from harness.artefacts.store import Store
from harness.image.build import modules_for
from harness.kernel.build import build_kernel
from harness.kernel.load import load_kernel
from harness.paths import EXPERIMENTS
from tests.faults.rows import fault
from tests.faults.runs import SLOW_KINDS, seeded_store

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]
MODULE = EXPERIMENTS / "irq-hotspot/guest/modules/irq-handlers"


@fault("the folder of a kernel's build is gone from the store, and modules need it", "it is compiled again")
def test_a_kernel_whose_build_folder_is_gone_still_gets_modules(tmp_path, capfd):
    store = Store(seeded_store(tmp_path / "store", *SLOW_KINDS, "ccache"))
    recipe = load_kernel("classic")
    kernel = build_kernel(store, recipe)
    again = "it is compiled again"
    assert again not in capfd.readouterr().err
    for place, compiled in (("first", True), ("second", False)):
        modules_for(store, recipe, kernel, [MODULE], tmp_path / place, tmp_path / "log")
        assert (again in capfd.readouterr().err) == compiled
        assert [path.name for path in (tmp_path / place).iterdir()] == ["irq_handlers.ko"]
