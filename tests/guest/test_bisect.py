# SPDX-License-Identifier: MIT
"""`./inv bisect`: commits of a program, and of a kernel, of which one alone makes it dearer."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tarfile

import pandas as pd
import pytest

from harness.artefacts.store import Store
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source
from harness.packages import debs
from harness.paths import ROOT
from tests.newcomer import inv, report_of
from tests.repositories import git

COMMANDS = re.findall(r"^\./inv (bisect .*)$", (ROOT / "docs/profiling.md").read_text(), re.MULTILINE)
PROGRAM = """\
#include <unistd.h>
__attribute__((noinline)) static void work(int n)
{
	__asm__ volatile("1: dec %%0\\n\\tjnz 1b" : "+r"(n) : : "cc");
}
int main(void)
{
	%s
	%s
	return 0;
}
"""
#: What each commit has in its program: nothing to see, what does not compile, one that costs, nothing to see.
COMMITS = {
    "first": ("work(10);", ""),
    "say why": ("work(10);", "/* because */"),
    "begin": ("work(10);", "oops"),
    "go back": ("work(10);", "/* so */"),
    "ask twice": ("work(10); getppid();", "/* so */"),
    "say more": ("work(10); getppid();", "/* so it is */"),
}


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "Makefile").write_text("prog: prog.c\n\tgcc -O1 -static -o prog prog.c\n")
    for subject, parts in COMMITS.items():
        (folder / "prog.c").write_text(PROGRAM % parts)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", subject)
    git(folder, "tag", "v1.2", "HEAD~5")
    return folder


def test_the_commit_that_costs_is_found_and_what_does_not_build_is_skipped(repository):
    (repository / "prog.c").write_text("not committed\n")
    done = inv(repository, "bisect", "v1.2", "HEAD", "--repetitions", "1", "--out", "b", "--", "./prog", "1")
    report = report_of(done)
    assert "ask twice" in done.stdout.splitlines()[0]
    assert "ask twice" in (report / "commit.txt").read_text()
    steps = pd.read_csv(report / "steps.csv").set_index("subject")
    assert steps.loc["first", "verdict"] == "good"
    assert steps.loc[["ask twice", "say more"], "verdict"].dropna().eq("bad").all()
    assert set(steps.loc[steps["verdict"] == "skipped"].index) <= {"begin"}
    functions = pd.read_csv(report / "functions.csv").set_index("function")
    assert functions.loc["main", "why"] == "code"
    assert functions.loc["__getppid", "why"] == "new"
    assert (repository / "prog.c").read_text() == "not committed\n"
    assert not (repository / "prog").exists()


@pytest.mark.deep
def test_commits_that_cost_the_same_are_told_and_no_page_is_written(repository):
    done = inv(repository, "bisect", "HEAD~5", "HEAD~4", "--out", "b", "--to", "json", "--", "./prog")
    assert done.returncode == 1, done.stderr
    assert "cost the same" in done.stdout
    assert not (repository / "b").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing", "HEAD"), "nothing: is no commit"),
        (("HEAD", "HEAD~1"), "does not come after"),
        (("HEAD", "HEAD"), "are one commit"),
        (
            ("HEAD~1", "HEAD", "--with", "echo is broken; false"),
            "cannot be tried: echo is broken; false: exit",
        ),
    ],
)
def test_what_cannot_be_searched_is_told_in_one_line(words, told, repository):
    done = inv(repository, "bisect", *words, "--", "./prog")
    assert done.returncode in (2, 3)
    assert told in done.stderr.splitlines()[-1]


def test_outside_a_repository_there_is_nothing_to_search(tmp_path):
    done = inv(tmp_path, "bisect", "HEAD~1", "HEAD", "--", "true")
    assert done.returncode == 2
    assert "is in no git repository" in done.stderr


@pytest.mark.deep
@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_its_page_are_run_as_they_stand_there(command, repository, tmp_path):
    if "--kernel" in command:
        kernel_with_two_commits(tmp_path / "linux")
        subprocess.run(["make", "prog"], cwd=repository, check=True)
        shutil.copy(repository / "prog", repository / "loop")
    report = report_of(inv(repository, *shlex.split(command)))
    functions = pd.read_csv(report / "functions.csv").set_index("function")
    assert "getppid" in " ".join(functions.index)
    assert len(pd.read_csv(report / "steps.csv")) >= 3


def kernel_with_two_commits(folder):
    """Linux 6.1 with a getppid that does more in the second commit, and a third one."""
    recipe = load_kernel("modern-6.1-stock")
    archive = fetch_source(Store.default(), recipe.spec.source)
    scratch = folder.parent / "deb"
    scratch.mkdir()
    debs.unpack(archive, scratch)
    (tarball,) = scratch.rglob("linux-source-*.tar.*")
    with tarfile.open(tarball) as tar:
        tar.extractall(folder.parent, filter="tar")
    next(path for path in folder.parent.glob("linux-source-*") if path.is_dir()).rename(folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "tag", "v6.12")
    source = folder / "kernel/sys.c"
    text = source.read_text()
    begin = "SYSCALL_DEFINE0(getppid)\n{\n\tint pid;\n"
    assert begin in text
    source.write_text(text.replace(begin, f"{begin}\n\tcond_resched();\n\tsmp_mb();\n"))
    git(folder, "commit", "-q", "-a", "-m", "sys: rest before getppid")
    source.write_text(source.read_text() + "\n/* the end */\n")
    git(folder, "commit", "-q", "-a", "-m", "sys: tell the end")
    git(folder, "tag", "v6.13")
