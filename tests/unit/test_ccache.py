# SPDX-License-Identifier: MIT
"""ccache with a kernel's own settings: what an object takes in beside its source is never that of another build."""

from __future__ import annotations

from harness.artefacts.store import Store
from harness.kernel.build import UNCACHED, cached, kernel_environment
from harness.packages.buildtool import tool
from tests.conftest import needs_guest_packages


@needs_guest_packages
def test_an_object_that_takes_in_a_file_has_the_bytes_that_are_there_now(tmp_path):
    (tmp_path / "piggy.S").write_text('.section .rodata\n.incbin "kernel"\n')
    env = {**kernel_environment(Store.default()), "CCACHE_DIR": str(tmp_path / "ccache")}
    compiler = [*cached().split(), "gcc"]
    for content in (b"old kernel", b"new kernel"):
        (tmp_path / "kernel").write_bytes(content)
        argv = [*compiler, "-Wp,-MMD,piggy.d", UNCACHED, "-c", "-o", "piggy.o", "piggy.S"]
        tool(argv, log=tmp_path / "log", cwd=tmp_path, env=env, what="gcc")
        assert content in (tmp_path / "piggy.o").read_bytes()
