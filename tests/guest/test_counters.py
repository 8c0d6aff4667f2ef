# SPDX-License-Identifier: MIT
"""`./inv counters`: threads whose instructions are known, on kernels with modules of ours and without."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import pandas as pd
import pytest

from harness.paths import ROOT
from tests.compiling import run
from tests.newcomer import inv, report_of

PRINTED = re.findall(r"^\./inv (counters .*)$", (ROOT / "docs/profiling.md").read_text(), re.MULTILINE)
#: Two instructions a turn: `long` has 60 million, `short` 20 million, one after the other.
LOOPS = """\
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
static void turns(unsigned long n)
{
	__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
}
static void *two(void *unused)
{
	prctl(PR_SET_NAME, "long");
	turns(30000000);
	return unused;
}
int main(void)
{
	pthread_t thread;
	prctl(PR_SET_NAME, "short");
	turns(10000000);
	pthread_create(&thread, 0, two, 0);
	pthread_join(thread, 0);
	return 3;
}
"""


@pytest.mark.parametrize("kernel", ["debian:6.12", pytest.param("debian:6.12+deb12", marks=pytest.mark.deep)])
def test_each_thread_has_the_instructions_that_a_person_counts(kernel, tmp_path):
    (tmp_path / "loops.c").write_text(LOOPS)
    run("gcc", "-static", "-O1", "-o", "loops", "loops.c", "-lpthread", cwd=tmp_path)
    done = inv(tmp_path, "counters", "--kernel", kernel, "--to", "json", "--out", "c", "--", "./loops")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "exit status 3" in told["said"][-1]
    threads = pd.read_csv(tmp_path / "c/threads.csv").set_index("name")
    ours = threads[threads["of the program"]]["instructions"]
    assert sorted(ours.index) == ["long", "short"]
    unclear = threads["instructions"].get("(switching)", 0)
    # Ticks add to each; a switch hides what lies between two readings, and no more.
    for name, known in (("long", 60e6), ("short", 20e6)):
        assert known - unclear <= ours[name] < 1.5 * known
    phases = pd.read_csv(tmp_path / "c/phases.csv")
    assert [name for name in ("short", "long") if phases["thread"].str.startswith(name).any()] == ["short", "long"]
    sources = pd.read_csv(tmp_path / "c/counters.csv").set_index(["counter", "from"])
    assert sources.loc[("instructions", "oracle")]["counted"] == "yes"
    # Where a module can be built, it asks the PMU, of which an emulated CPU has none.
    why = sources.loc[("instructions", "slot")]["why not"]
    assert ("nobody publishes" in why) == (kernel == "debian:6.12")
    events = json.loads((tmp_path / "c/perfetto.json").read_text())["traceEvents"]
    assert {"long", "short"} <= {event["name"] for event in events if event["ph"] == "X"}


@pytest.mark.parametrize("command", PRINTED)
def test_the_commands_of_its_page_are_run_as_they_stand_there(command, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    report = report_of(inv(tmp_path, *shlex.split(command)))
    assert "<h2>Phases</h2>" in (report / "report.html").read_text()
