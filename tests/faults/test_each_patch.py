# SPDX-License-Identifier: MIT
"""Every patch of every series by itself: `git am`, a small kernel with all that is there by then, and its boot.

A version has one tree, and its series come in the order in which kernels have them: so make builds what changed.
After each series the kernel is built without its options too. A patch that fails does not hide those behind it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.artefacts.store import Store
from harness.artefacts.uses import release
from harness.errors import KreproError
from harness.image.cpio import write_cpio
from harness.kernel.build import configure, kernel_environment, make_argv, parse_config, unmet_options
from harness.kernel.load import find_feature, load_kernel
from harness.kernel.patching import git_alone, touched_files
from harness.kernel.series import mailbox
from harness.kernel.source import fetch_source, patched_tree, source_identity
from harness.kernel.spec import KernelRecipe
from harness.machine.board import board_of
from harness.machine.stale import stale_plugin
from harness.packages.buildtool import tool
from harness.packages.tree import tools
from harness.paths import PATCHES
from harness.scratch import remove_tree
from tests.compiling import run
from tests.page_trace_suite import SPLAT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * 3600)]

#: In the order in which kernels have them; the last ones are of classic-peers alone.
FEATURES = list(dict.fromkeys(load_kernel("modern-6.1").spec.patches + load_kernel("classic-peers").spec.patches))
#: As a tinyconfig, and what the options need, a console, an init, and what page-trace has code for. Some have another
#: name in another version, or none.
SMALL = """
    EXPERT 64BIT SMP MODULES KALLSYMS PROFILING JUMP_LABEL HIGH_RES_TIMERS DEBUG_KERNEL PROC_FS PROC_SYSCTL SYSCTL SYSFS
    DEBUG_FS PCI BLK_DEV_INITRD BINFMT_ELF MULTIUSER PRINTK KUNIT RUNTIME_TESTING_MENU BUG TTY SERIAL_8250
    SERIAL_8250_CONSOLE FUTEX POSIX_TIMERS MODIFY_LDT_SYSCALL CPU_MITIGATIONS PAGE_TABLE_ISOLATION
    MITIGATION_PAGE_TABLE_ISOLATION
"""
#: Without them the test would show less than it says.
ALWAYS = {f"CONFIG_{name}": "y" for name in ("WERROR", "64BIT", "SMP", "MODULES", "JUMP_LABEL")}
#: An option that a user can switch on. What a patch prepares and a later one asks for is off until then.
OPTION = re.compile(r"^config (KREPRO_\w+)\n\t(?:bool|tristate) \"", re.MULTILINE)
PATIENCE_S = 180
INIT = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <termios.h>

int main(void)
{
	struct utsname name;
	cpu_set_t cpus;

	uname(&name);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	printf("alive: %s, %d CPUs\n", name.release, CPU_COUNT(&cpus));
	fflush(stdout);
	tcdrain(1);
	return reboot(RB_AUTOBOOT);
}
"""


@dataclass(frozen=True)
class Place:
    """A source tree under git, the series that are in it by now, and what else builds and boots need."""

    store: Store
    recipe: KernelRecipe
    tree: Path
    scratch: Path
    initrd: Path
    boxes: dict[str, Path]
    touched: list[str]
    applied: list[str] = field(default_factory=list)

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=krepro", "-c", "user.email=krepro@localhost", "-c", "commit.gpgsign=false")
        done = git_alone(self.tree, *identity, *words)
        assert done.returncode == 0, (words, done.stderr.decode())

    def build(self, name: str, options: dict[str, str], log: Path) -> Path:
        """The folder of a kernel with these options; KreproError where they do not hold, or it does not build."""
        out, asked = self.tree / f"build-{name}", self.scratch / f"{name}.config"
        wanted = ALWAYS | options
        lines = [f"CONFIG_{option}=y" for option in SMALL.split() if f"CONFIG_{option}" not in wanted]
        lines += [f"{option}={value}" if value == "y" else f"# {option} is not set" for option, value in wanted.items()]
        asked.write_text("\n".join(lines))
        configure(dataclasses.replace(self.recipe, fragments=(asked,), lenient=True), self.tree, out, log)
        unmet = unmet_options(wanted, parse_config((out / ".config").read_text()))
        if unmet or "unmet direct dependencies" in log.read_text(errors="replace"):
            raise KreproError(f"options do not hold: {', '.join(unmet) or 'something selects what cannot be'}")
        jobs = len(os.sched_getaffinity(0))
        make = [*make_argv(self.tree, out, "x86_64"), f"-j{jobs}", "bzImage"]
        tool(make, log=log, env=kernel_environment(self.store), what="make")
        return out

    def boot(self, out: Path) -> str | None:
        """What is wrong with a boot of this kernel, if anything."""
        machine = "-nodefaults -no-user-config -no-reboot -display none -serial stdio -machine pc -accel tcg"
        # Without ACPI there is the table for multiprocessors, which has one CPU of each socket.
        kernel = ["-smp", "2,sockets=2", "-m", "128", "-kernel", out / "arch/x86/boot/bzImage", "-initrd", self.initrd]
        # A busy host may not come to the timer's interrupt in the time that the kernel allows.
        told = "console=ttyS0 panic=-1 tsc=reliable mitigations=off pti=on no_timer_check"
        stale = ["-plugin", f"file={stale_plugin(Store.default(), board_of('pc'))}"]
        try:
            argv = [*tools().qemu(), *machine.split(), *stale, *map(str, kernel), "-append", told]
            printed = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False).stdout
        except subprocess.TimeoutExpired as error:
            printed = error.stdout or b""
        lines = printed.decode(errors="replace").splitlines()
        splat = next((line for line in lines if SPLAT.search(line) or "call trace" in line.lower()), None)
        line = f"alive: {(out / 'include/config/kernel.release').read_text().strip()}, 2 CPUs"
        if splat is not None or line not in lines:
            print(*lines[-60:], sep="\n")
            return f"does not boot: {splat or ''.join(lines[-1:]) or 'no word'}"
        return None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, version: str) -> Iterator[Place]:
    scratch = tmp_path_factory.mktemp(version)
    recipe = load_kernel(f"modern-{version}-stock")
    own = Store(scratch / "store")
    own.root.mkdir()
    (own.root / "ccache").symlink_to(Store.default().root / "ccache")
    archive = fetch_source(Store.default(), recipe.spec.source)
    assert archive is not None
    tree = patched_tree(own, recipe, archive, source_identity(recipe.spec.source, archive))
    (scratch / "root").mkdir()
    (scratch / "init.c").write_text(INIT)
    run("gcc", "-static", "-O2", "-o", scratch / "root/init", scratch / "init.c")
    write_cpio(scratch / "root", scratch / "initrd")

    boxes = {name: scratch / name for name in FEATURES}
    for name, box in boxes.items():
        box.write_text(mailbox(find_feature(name, version)), errors="surrogateescape")
    touched = sorted({name for box in boxes.values() for name in touched_files(box)})
    made = Place(own, recipe, tree, scratch, scratch / "initrd", boxes, touched)
    # Under git is what patches touch: to add all 80,000 files takes longer than a build.
    made.git("init", "-q")
    made.git("add", "-f", "--", *(name for name in touched if (tree / name).is_file()))
    made.git("commit", "-q", "-m", "source")
    yield made
    release(own.root)
    remove_tree(own.root)


def test_no_series_is_left_out():
    assert sorted(FEATURES) == sorted(path.parent.name for path in PATCHES.glob("*/README.md"))


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("version", sorted({path.name for path in PATCHES.glob("*/[0-9]*")}), scope="module")
def test_each_patch_builds_and_boots_by_itself(place: Place, version: str, feature: str):
    for before in FEATURES[: FEATURES.index(feature)]:
        if before not in place.applied:
            list(apply(place, before))
    wrong: list[str] = []
    options: list[str] = []
    for _, patch in zip(apply(place, feature), find_feature(feature, version).patches, strict=True):
        files = [place.tree / name for name in place.touched if Path(name).name.startswith("Kconfig")]
        found = [OPTION.findall(file.read_text()) for file in files if file.is_file()]
        options = sorted(f"CONFIG_{name}" for names in found for name in names)
        wrong += try_one(place, f"{feature} {patch.name}", "with", dict.fromkeys(options, "y"))
    wrong += try_one(place, f"{feature} without options", "without", dict.fromkeys(options, "n"))
    assert options
    assert wrong == []


def apply(place: Place, feature: str) -> Iterator[str]:
    """`git am` of a series, mail by mail; each is in the tree when its name comes."""
    mails = place.scratch / f"{feature}-mails"
    mails.mkdir()
    place.applied.append(feature)
    place.git("mailsplit", f"-o{mails}", str(place.boxes[feature]))
    for mail in sorted(mails.iterdir()):
        place.git("am", "-q", "--no-3way", str(mail))
        yield mail.name


def try_one(place: Place, what: str, name: str, options: dict[str, str]) -> Iterator[str]:
    """What is wrong with the tree as it is now."""
    log = place.scratch / f"{what.replace(' ', '-')}.log"
    try:
        problem = place.boot(place.build(name, options, log))
    except KreproError as error:
        problem = str(error)
    print(f"{what}: {len(options)} options {name}, {problem or 'builds and boots'}")
    if problem:
        yield f"{what}: {problem}"
