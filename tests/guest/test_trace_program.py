# SPDX-License-Identifier: MIT
"""`./inv trace` as a newcomer calls it: the commands of its page in docs/, on programs that nobody here wrote, and
programs of one's own; the page in a browser.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from itertools import pairwise

import pytest
from experiments.page_trace.report.spaces import Spaces
from experiments.page_trace.trace.records import Trace
from experiments.page_trace.trace.visits import visit_table, visits

from harness.paths import ROOT
from tests.chromium import Chromium
from tests.compiling import run
from tests.experiments.page_trace.pictures import drawn
from tests.newcomer import inv, report_of

PAGE = ROOT / "docs/tracing-a-program.md"
PRINTED = re.findall(r"^\./inv (trace .*)$", PAGE.read_text(), re.MULTILINE)

#: A program that starts itself, and its child walks.
AGAIN = """\
#include <sys/wait.h>
#include <unistd.h>
static char table[64][4096];
static __attribute__((noinline)) void walk(void)
{
	for (int again = 0; again < 100; again++)
		for (int page = 0; page < 64; page++) table[page][again]++;
}
int main(int argc, char **argv)
{
	if (argc > 1)
		walk();
	else if (!fork())
		execl(argv[0], argv[0], "child", (char *)0);
	wait(0);
	return 0;
}
"""

#: One array is changed, one read, one written; it prints where they are.
WRITING = """\
#include <stdio.h>
static volatile struct { char at[4096]; } __attribute__((aligned(4096))) changed[256], taken[256], put[256];
int main(void)
{
	int sum = 0;
	for (int page = 0; page < 256; page++) changed[page].at[0] = taken[page].at[0] = put[page].at[0] = 1;
	for (int again = 0; again < 4; again++)
		for (int page = 0; page < 256; page++) {
			changed[page].at[7]++;
			sum += taken[page].at[0];
			put[page].at[11] = 1;
		}
	printf("%p %p %p\\n", (void *)changed, (void *)taken, (void *)put);
	return sum == 4 * 256 ? 0 : 1;
}
"""

#: b by its column, whose elements are two pages apart.
MATMUL = """\
static volatile double a[48][1024], b[48][1024], c[48][1024];

int main(void)
{
	for (int i = 0; i < 48; i++)
		for (int j = 0; j < 48; j++)
			for (int k = 0; k < 48; k++)
				c[i][j] += a[i][k] * b[k][j];
	return 7;
}
"""
THREADS = """\
#include <pthread.h>
static volatile long both[2];
static char own[2][64 * 4096];
static void *work(void *arg)
{
	long me = (long)arg;
	for (long i = 0; i < 3000; i++) {
		both[me]++;
		own[me][i * 4096 % sizeof(own[me])]++;
	}
	return 0;
}
int main(void)
{
	pthread_t thread[2];
	for (long i = 0; i < 2; i++)
		pthread_create(&thread[i], 0, work, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], 0);
	return 0;
}
"""


def visits_told(done: subprocess.CompletedProcess[str]) -> int:
    match = re.match(r"([\d,]+) visits of", done.stdout)
    assert match, done.stdout
    return int(match[1].replace(",", ""))


#: A page that is written and executed in turn.
WRITES_CODE = """\
#include <sys/mman.h>
int main(void)
{
	unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 64; i++) {
		code[0] = 0xc3;
		((void (*)(void))code)();
	}
	return 0;
}
"""


def test_a_program_that_was_not_traced_whole_ends_with_3(tmp_path):
    run("gcc", "-x", "c", "-", "-static", "-O1", "-o", tmp_path / "jit", text=WRITES_CODE)
    done = inv(tmp_path, "trace", "--exit-code", "--", "./jit")
    assert done.returncode == 3, done.stderr
    assert "1 threads were not seen whole: they have executable data" in done.stdout
    assert "needs no advice on what to keep" in done.stdout
    assert (tmp_path / "jit.trace/report.html").is_file()


def test_the_page_in_docs_has_commands():
    assert len(PRINTED) == 2


@pytest.mark.parametrize("command", PRINTED)
def test_the_commands_of_its_page_are_run_as_they_stand_there(command, tmp_path):
    shutil.copy(ROOT / "README.md", tmp_path)
    done = inv(tmp_path, *shlex.split(command))
    report = report_of(done)
    stats = json.loads((report / "trace.json").read_text())
    assert stats["exit_status"] == 0
    assert stats["exact"] is True
    # Only the visits before the program's exec are not the program's.
    assert 0 <= stats["records"] - visits_told(done) < 2000
    printed = (report / "stdout").read_text()
    if "sqlite3" in command:
        assert printed == "3\n"
        assert "libsqlite3.so.0.8.6: data" in (report / "report.html").read_text()  # the package's, not the host's
    else:
        assert sorted(printed.splitlines()) == sorted((ROOT / "README.md").read_text().splitlines())


@pytest.mark.deep
def test_a_walk_by_column_is_told_with_line_and_array_and_the_page_is_drawn(tmp_path):
    (tmp_path / "matmul.c").write_text(MATMUL)
    run("gcc", "-g", "-O1", "-static", "-o", tmp_path / "matmul", tmp_path / "matmul.c")
    done = inv(tmp_path, "trace", "--out", "told", "--", "./matmul")
    report = report_of(done)
    assert "It ended with status 7." in done.stdout
    assert re.search(r"^order: matmul\.c:8 \(main\) walks b\[\] by column: 2 pages apart", done.stdout, re.MULTILINE)
    if shutil.which("chromium") is None:
        pytest.skip("there is no chromium here; ./inv test installs it as root")
    with Chromium() as browser:
        browser.open(report / "report.html")
        seen = [drawn(browser)]
        for _ in range(3):
            browser.click("#in")
        seen.append(drawn(browser))
        browser.click("#all")
        seen.append(drawn(browser))
        # That the test reads the picture is what the browser may complain of.
        assert not [text for text in browser.problems if "willReadFrequently" not in text]
        assert all(url.startswith("file:") for url in browser.requests)
    assert int(seen[0][0]) < int(seen[1][0])
    assert seen[0] == seen[2] != seen[1]
    assert seen[0][2] > 500


def test_a_visit_that_begins_with_a_read_and_writes_is_told_from_one_that_reads(tmp_path):
    (tmp_path / "writing.c").write_text(WRITING)
    run("gcc", "-O1", "-static", "-o", "writing", "writing.c", cwd=tmp_path)
    done = inv(tmp_path, "trace", "--to", "perfetto", "--", "./writing")
    report = report_of(done)
    first = [int(word, 16) >> 12 for word in (report / "stdout").read_text().split()]
    table = visit_table(visits(Spaces(Trace(report / "trace")).chunks()))
    seen = [table[table["page"].between(page, page + 255)] for page in first]
    # Once to be set, four times in the loop.
    assert [(len(part), int(part["write"].sum())) for part in seen] == [(1280, 1280), (1280, 256), (1280, 1280)]
    assert done.stdout.splitlines()[-2] == str(report / "perfetto.json")
    events = json.loads((report / "perfetto.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert sum(event["args"]["visits"] for event in slices) == len(table)
    assert sum(event["args"]["pages first touched"] for event in slices) == table["page"].nunique()
    longest = max(slices, key=lambda event: event["args"]["visits"])
    assert (longest["name"], longest["args"]["pages"] >= 3 * 256) == ("main", True)
    for before, behind in pairwise(slices):  # of one thread
        assert behind["ts"] >= round(before["ts"] + before["dur"], 3)
    assert max(event["args"]["pages"] for event in events if event["ph"] == "C") > 3


@pytest.mark.deep
def test_threads_are_told_what_they_share_and_what_is_their_own(tmp_path):
    (tmp_path / "threads.c").write_text(THREADS)
    run("gcc", "-g", "-O1", "-o", tmp_path / "threads", tmp_path / "threads.c", "-pthread")
    done = inv(tmp_path, "trace", "--", "./threads")
    report_of(done)
    assert re.search(r"^place: threads: zeroed data: 1 page with writes, shared by up to 2", done.stdout, re.MULTILINE)
    assert len(re.findall(r"^place: 6\d pages of own\[\] are thread \d+'s alone", done.stdout, re.MULTILINE)) == 2


@pytest.mark.deep
def test_input_programs_that_are_started_and_a_window(tmp_path):
    words = ["trace", "--window", "16", "--", "sh", "-c", "sort | wc -l"]
    done = inv(tmp_path, *words, stdin=b"b\na\n")
    report = report_of(done)
    assert (report / "stdout").read_text() == "2\n"
    assert "A window of 16 pages: visits between them are not in the trace." in done.stdout
    page = (report / "report.html").read_text()
    assert all(re.search(rf"program [23]: {name}: data", page) for name in ("sort", "wc"))


@pytest.mark.deep
def test_a_child_that_executes_its_own_file_has_functions_and_lines(tmp_path):
    (tmp_path / "again.c").write_text(AGAIN)
    run("gcc", "-g", "-O1", "-o", tmp_path / "again", tmp_path / "again.c")
    done = inv(tmp_path, "trace", "--", "./again")
    report = report_of(done)
    assert re.search(r"^order: again\.c:7 \(walk\) walks table\[\] page by page", done.stdout, re.MULTILINE)
    page = (report / "report.html").read_text()
    assert "program 2: again: zeroed data" in page
    assert "of program 2<" not in page


@pytest.mark.deep
def test_a_trace_that_has_no_room_says_how_much_is_missing(tmp_path):
    (tmp_path / "in").write_text("".join(f"{n * 7919 % 10007}\n" for n in range(6000)))
    done = inv(tmp_path, "trace", "--", "sort", "-n", "in", KREPRO_OUTPUT_MIB="1")
    report_of(done)
    missing = re.search(r"^([\d,]+) visits at the end are left out", done.stdout, re.MULTILINE)
    assert missing
    stats = json.loads((tmp_path / "sort.trace/trace.json").read_text())
    assert int(missing[1].replace(",", "")) == stats["left_out"] > 0
    assert 0 <= stats["records"] - stats["left_out"] - visits_told(done) < 2000


@pytest.mark.deep
@pytest.mark.parametrize("ignored", [False, True])
def test_a_program_that_takes_too_long_is_ended_and_its_trace_kept(ignored, tmp_path):
    (tmp_path / "on.sh").write_text(
        f"{'trap true TERM' if ignored else ''}\nwhile :; do :; done & while :; do :; done\n"
    )
    done = inv(tmp_path, "trace", "--timeout", "1", "--", "sh", "on.sh")
    report = report_of(done)
    assert "The program was ended after 1 s (--timeout): this is what it did until then." in done.stdout
    assert "The program was ended after 1 s" in (report / "report.html").read_text()
    stats = json.loads((tmp_path / "sh.trace/trace.json").read_text())
    assert (stats["exit_status"], stats["exact"]) == (128 + (9 if ignored else 15), True)
    # The second begins with the shell that starts the trace, so the program has a little less.
    assert 0.5e9 < stats["elapsed_ns"] < 12e9


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["trace"], 2, "krepro: no program to trace (give it after --, as in -- PROGRAM ARGUMENTS)"),
        (["trace", "--", "./absent"], 2, "krepro: ./absent: is not there (a program's path, or its name)"),
        (["trace", "--in", "no-such-package", "--", "x"], 2, "no-such-package"),
        (["trace", "--kernel", "classic", "--", "true"], 2, "--kernel classic: is for i386, and the tracer for x86_64"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(words, code, message, tmp_path):
    done = inv(tmp_path, *words)
    assert done.returncode == code
    last = done.stderr.splitlines()[-1]
    assert message in last
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == [".stdin"]
