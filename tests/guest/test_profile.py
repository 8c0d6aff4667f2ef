# SPDX-License-Identifier: MIT
"""`./inv profile` on Debian's own kernels: a program whose instructions and system calls a person can count."""

from __future__ import annotations

import io
import re
import shlex
import shutil

import pandas as pd
import pytest

from harness.kernel.packaged import find_packaged
from harness.paths import ROOT
from tests.compiling import run
from tests.newcomer import inv, report_of

PAGE = ROOT / "docs/profiling.md"
PRINTED = [
    pytest.param(command, marks=pytest.mark.deep) if "--verbose" in command else command  # fetches 320 MB
    for command in re.findall(r"^\./inv (profile .*)$", PAGE.read_text(), re.MULTILINE)
]
#: LOOPS rounds of two instructions, and CALLS system calls. (strtol takes two instructions more for a digit above 5.)
COUNTED = """\
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	long loops = strtol(argv[1], 0, 10), calls = strtol(argv[2], 0, 10);
	__asm__ volatile("1: dec %0\\n\\tjnz 1b" : "+r"(loops) : : "cc");
	while (calls--)
		syscall(SYS_getppid);
	return 3;
}
"""
KERNELS = (
    "6.12",
    *(pytest.param(text, marks=pytest.mark.deep) for text in ("6.1", "6.1-rt", "6.1-686-pae", "6.12-generic", "7.3")),
)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    (folder / "counted.c").write_text(COUNTED)
    for bits in (32, 64):
        run("gcc", f"-m{bits}", "-static", "-O1", "-o", f"counted{bits}", "counted.c", cwd=folder)
    return folder


def profiled(folder, kernel, program, loops, calls, out):
    report = report_of(inv(folder, "profile", "--kernel", kernel, "--out", out, "--", str(program), loops, calls))
    assert "Exit status 3." in (report / "report.html").read_text()
    return (report / "functions.csv").read_bytes()


def table(text):
    return pd.read_csv(io.BytesIO(text)).set_index("function")


@pytest.mark.parametrize("text", KERNELS)
def test_counts_are_those_that_a_person_counts_and_the_same_each_time(text, counted, tmp_path):
    kernel, program = f"debian:{text}", counted / f"counted{32 if '686' in text else 64}"
    first, again, longer = (
        profiled(tmp_path, kernel, program, loops, calls, out)
        for loops, calls, out in (("1000", "7", "a"), ("1000", "7", "b"), ("5000", "7", "c"))
    )
    assert first == again
    counts, more = table(first), table(longer)
    calls = counts[counts.index.str.endswith("sys_getppid")]  # one function with two names, of which one is told
    assert calls["entries"].tolist() == [7]
    assert more.loc["(user)"]["instructions"] - counts.loc["(user)"]["instructions"] == 2 * 4000


@pytest.mark.parametrize("command", PRINTED)
def test_the_commands_of_its_page_are_run_as_they_stand_there(command, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    done = inv(tmp_path, *shlex.split(command))
    assert "instructions, exact" in done.stdout
    assert (report_of(done) / "functions.csv").is_file()


@pytest.mark.deep
def test_lines_of_source_are_those_of_debians_debug_information(tmp_path):
    report = report_of(inv(tmp_path, "profile", "--verbose", "--", "true"))
    source = pd.read_csv(report / "functions.csv").groupby("function")["source"].first()
    assert re.fullmatch(r"fs/exec\.c:\d+", source["begin_new_exec"])
    assert re.fullmatch(r"arch/x86/mm/fault\.c:\d+", source["exc_page_fault"])


def test_the_kernel_is_debians_own(tmp_path):
    done = inv(tmp_path, "boot", "--kernel", "debian:6.12", "--exec", "uname -r; id -u")
    assert done.stdout.split() == [find_packaged("6.12").release, "0"]


def test_a_tracer_that_needs_patches_says_that_debians_own_have_none(tmp_path):
    done = inv(tmp_path, "locks", "--kernel", "debian:6.12", "--", "true")
    assert done.returncode == 2
    assert "--kernel debian:6.12: has none of the patches that the tracer needs" in done.stderr
