# SPDX-License-Identifier: MIT
"""The kernel's own tests of memory management have the same outcome with a page trace running."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source, patched_tree, source_identity
from tests.page_trace_suite import run_in_guest, splats

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

#: Program and arguments; those that need hugetlbfs, protection keys, NUMA nodes or test modules are left out.
TESTS = {
    "map_fixed_noreplace": [""],
    "map_populate": [""],
    "mlock2-tests": [""],
    "mremap_test": ["-t 1"],
    "mremap_dontunmap": [""],
    "madv_populate": [""],
    "soft-dirty": [""],
    "split_huge_page_test": [""],
    "userfaultfd": ["anon 4 2", "shmem 4 2"],
    "khugepaged": ["all:anon"],
}
WITH_UTIL = {"khugepaged", "madv_populate", "soft-dirty", "split_huge_page_test", "userfaultfd"}
SCRIPT = """\
#!/bin/sh
# mm-tests: run each test alone and traced.
cd /run/krepro/out/$KREPRO_WORKLOAD || exit 1
echo always >/sys/kernel/mm/transparent_hugepage/enabled
mkdir -p /run/mm && cd /run/mm && mount -t tmpfs tmpfs /run/mm
run() {
	file=$out/$1
	shift
	timeout 900 "$@" >"$file.out" 2>&1 </dev/null
	echo $? >"$file.exit"
}
out=/run/krepro/out/$KREPRO_WORKLOAD
while read -r name words; do
	run "$name.alone" $words
	run "$name.traced" pagetrace -f -o /dev/null -s "$out/$name.stats" $words
done <<END
LINES
END
dmesg >"$out/dmesg.end"
exit 0
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Sources for the guest: each test in a system header, where gcc's warnings do not count, and a script."""
    store, recipe = Store.default(), load_kernel("modern-6.1")
    archive = fetch_source(store, recipe.spec.source)
    tree = patched_tree(store, recipe, archive, source_identity(recipe.spec.source, archive))
    selftests = tree / "tools" / "testing" / "selftests"
    folder = tmp_path / "programs"
    vm = folder / "lib/vm"  # found as headers are, and not built: a folder of C beside lib/ would be a program
    shutil.copytree(selftests / "vm", vm, ignore=shutil.ignore_patterns("*.sh"))
    for header in selftests.glob("kselftest*.h"):
        shutil.copy2(header, folder / "lib")
    lines = []
    for name, arguments in TESTS.items():
        util = '#include "vm_util.c"\n' if name in WITH_UTIL else ""
        (vm / f"mm-{name}.h").write_text(f'#pragma GCC system_header\n#include "{name}.c"\n{util}')
        (folder / f"mm-{name}.c").write_text(f'#include "vm/mm-{name}.h"\n')
        for i, words in enumerate(arguments):
            lines.append(f"{name}-{i} mm-{name} {words}")
    (folder / "mm-tests.sh").write_text(SCRIPT.replace("LINES", "\n".join(lines)))
    return folder


def outcome(folder: Path, name: str) -> tuple[str, list[str]]:
    """Exit status, and what the test says of its parts without numbers and addresses."""
    said = (folder / f"{name}.out").read_text(errors="replace")
    parts = [re.sub(r"0x[0-9a-f]+|\d+", "N", line) for line in said.splitlines()]
    status = (folder / f"{name}.exit").read_text().strip()
    return status, [line for line in parts if re.search(r"\b(ok|PASS|FAIL|SKIP|OK|Success|Fail)\b", line)]


@pytest.mark.parametrize("kernel", ["modern-6.1", "modern-6.1-debug"])
def test_mm_selftests_end_as_they_do_untraced(kernel: str, programs: Path, tmp_path: Path):
    folder = run_in_guest(tmp_path / "run", "mm-tests", kernel, 2, timeout_s=3600, programs=programs)
    names = [f"{name}-{i}" for name, arguments in TESTS.items() for i in range(len(arguments))]
    alone, traced = ({name: outcome(folder, f"{name}.{side}") for name in names} for side in ("alone", "traced"))
    print({name: status for name, (status, _) in alone.items()})
    assert traced == alone
    assert sum(status == "0" for status, _ in alone.values()) >= 6, "more than half of the tests pass here"
    assert list(splats(folder)) == []
