# SPDX-License-Identifier: MIT
"""The series' own tests, as a kernel has them: KUnit at boot, and kselftests, on a kernel that checks itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source, patched_tree, source_identity
from tests.ktap import complaints
from tests.page_trace_suite import run_in_guest, splats

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

SUITES = ("page_trace_ring", "page_trace_visits", "lock_trace")
#: Program to a test of it that must be among its results.
PROGRAMS = {
    "lock_trace": "device.who_waited_and_for_whom",
    "page_trace": "device.order_of_a_known_sequence",
    "profile": "counts_handlers",
}
#: The kernel's own way to compile them is without -Wextra.
WRAPPER = """\
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"
#include "{name}.inc"
"""
#: What the shell's test becomes another user by.
SETUIDGID = """\
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int id = argc > 2 ? atoi(argv[1]) : 0;

	if (id && !setresgid(id, id, id) && !setresuid(id, id, id))
		execvp(argv[2], argv + 2);
	return 127;
}
"""


def programs(tree: Path, target: Path) -> Path:
    """The kselftests of a patched tree as guest programs, each called kselftest-NAME."""
    selftests, library = tree / "tools/testing/selftests", target / "lib"
    (library / "linux").mkdir(parents=True)
    for path in selftests.glob("kselftest*.h"):
        shutil.copyfile(path, library / path.name)
    for name in ("lock_trace", "page_trace"):
        shutil.copyfile(tree / f"include/uapi/linux/{name}.h", library / f"linux/{name}.h")
        shutil.copyfile(selftests / name / f"{name}.c", library / f"{name}.inc")
        (target / f"kselftest-{name}.c").write_text(WRAPPER.format(name=name))
    shutil.copyfile(selftests / "profile/sources.sh", target / "kselftest-profile.sh")
    (target / "setuidgid.c").write_text(SETUIDGID)
    return target


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.3"])
def test_kunit_and_kselftests(version: str, tmp_path: Path):
    store, kernel = Store.default(), f"modern-{version}-debug"
    recipe = load_kernel(kernel)
    archive = fetch_source(store, recipe.spec.source)
    assert archive is not None
    tree = patched_tree(store, recipe, archive, source_identity(recipe.spec.source, archive))
    # Somebody is interrupted meanwhile, whatever else the guest does.
    noise = "while sleep 0.2; do echo; done > /dev/ttyS0 & noise=$!; "
    command = (
        "dmesg > kunit; "
        + noise
        + "".join(f"kselftest-{name} > {name}; echo $? >> exits; " for name in PROGRAMS)
        + "kill $noise; dmesg > dmesg.end"
    )
    # One CPU: QEMU 7.2 can run old code for ever where it is patched while several run.
    words = {"profile": 2, "kunit.enable": 1, "kunit.autorun": 1}
    folder = run_in_guest(
        tmp_path, f"cd /run/krepro/out/$KREPRO_WORKLOAD; {command}", kernel,
        programs=programs(tree, tmp_path / "programs"), cpus=1, cmdline=words, timeout_s=1800,
    )  # fmt: skip
    found = list(complaints((folder / "kunit").read_text(errors="replace"), SUITES))
    for name, test in PROGRAMS.items():
        said = (folder / name).read_text()
        print(said)
        found += complaints(said, [test])
    assert found == []
    assert (folder / "exits").read_text().split() == ["0"] * len(PROGRAMS)
    assert list(splats(folder)) == []
