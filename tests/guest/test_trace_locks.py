# SPDX-License-Identifier: MIT
"""`./inv locks` as a newcomer calls it: the commands of its page, and a program whose threads want one lock."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from harness.paths import ROOT
from tests.compiling import run
from tests.newcomer import inv, report_of

PAGE = ROOT / "docs/tracing-locks.md"
#: What the page has its reader write before the command with a module.
MODULE = re.findall(r"^```sh\n(mkdir pair\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
PRINTED = re.findall(r"^\./inv (locks .*)$", PAGE.read_text(), re.MULTILINE)

#: Two threads write into one file, under its inode's rwsem, and are named after what they do.
WRITERS = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>
static char block[1 << 16];
static int file;
static pthread_barrier_t begin;
static volatile int done[2];
/* A busy host may run much of one before the other's CPU has a turn: who is through goes on until the other is, too. */
static void *writes(void *name)
{
	int me = *(char *)name == 'a';

	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 400 || !done[!me]; i++) {
		if (pwrite(file, block, sizeof(block), 0) < 0)
			_exit(1);
		done[me] = i >= 399;
	}
	return 0;
}
int main(void)
{
	pthread_t one;
	file = open("/run/both", O_RDWR | O_CREAT, 0600);
	pthread_barrier_init(&begin, 0, 2);
	pthread_create(&one, 0, writes, "anna");
	writes("bert");
	pthread_join(one, 0);
	return 5;
}
"""

WAKERS = """\
#include <pthread.h>
#include <unistd.h>
static int there[2], back[2];
static void *answers(void *unused)
{
	char byte;
	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			_exit(1);
	return unused;
}
int main(void)
{
	pthread_t other[4];
	char byte = 0;
	if (pipe(there) || pipe(back))
		return 1;
	for (int i = 0; i < 4; i++)
		pthread_create(other + i, 0, answers, 0);
	for (int i = 0; i < 4; i++)
		if (write(there[1], &byte, 1) != 1)
			return 1;
	for (int i = 0; i < 20000; i++)
		if (read(back[0], &byte, 1) != 1 || write(there[1], &byte, 1) != 1)
			return 1;
	return 0;
}
"""


def text_of(page: Path) -> str:
    return (page / "report.html").read_text()


def test_the_page_in_docs_has_commands():
    assert (len(PRINTED), len(MODULE)) == (4, 1)


@pytest.mark.deep
@pytest.mark.parametrize("printed", PRINTED)
def test_a_printed_command_gives_a_page(tmp_path, printed):
    if "--module" in printed:
        run("sh", "-c", MODULE[0], cwd=tmp_path)
    done = inv(tmp_path, *shlex.split(printed))
    page = report_of(done)
    assert re.search(
        r"^[\d,]+ waits for [\d,]+ locks, .* events were kept\. The program ended with status 0\.$",
        done.stdout,
        re.MULTILINE,
    )
    seconds = [
        float(text) for text in re.findall(r"^([\d.]+) s: [\d,]+ waits (?:so far|in )", done.stdout, re.MULTILINE)
    ]
    assert bool(seconds) == ("--verbose" in printed)
    assert seconds == sorted(set(seconds))
    if "--module" in printed:
        line = r"waits for pair_mutex \[pair\] \(mutex\): pair_thread\+\S+ \[pair\] for pair_thread\+\S+ \[pair\]$"
        assert re.search(line, done.stdout, re.MULTILINE), done.stdout
    assert "<h2>Blame</h2>" in text_of(page)
    json.loads((page / "perfetto.json").read_text())


@pytest.fixture(scope="module", params=["modern-6.1", pytest.param("modern-6.1-stacks", marks=pytest.mark.deep)])
def written(tmp_path_factory, request):
    """The page of the two threads that write, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("locks")
    (folder / "writers.c").write_text(WRITERS)
    run("gcc", "-O1", "-static", "-pthread", "-o", str(folder / "writers"), str(folder / "writers.c"))
    done = inv(
        folder,
        "locks",
        "--kernel",
        request.param,
        "--filter",
        "type=rwsem:W",
        "--filter",
        "lock=*.i_rwsem",
        "--",
        "./writers",
    )
    if done.stdout.startswith("0 waits"):
        pytest.fail(done.stdout)
    return report_of(done), done.stdout


def test_two_writers_wait_for_each_other_at_the_lock_of_their_file(written):
    page, told = written
    line = r"waits for shmem_inode_info\.vfs_inode\.i_rwsem \(rwsem:W\): \S*write\S* for \S*write"
    assert re.search(line, told), told
    stacks = [line.rpartition(" ") for line in (page / "folded.txt").read_text().splitlines()]
    frames = [(stack.split(";")[0], stack.split(";")[-1]) for stack, _, _ in stacks]
    assert {who.split(" ")[0] for who, _ in frames} == {"anna", "bert"}
    assert any(stack.startswith("anna") and "holds it (bert (pid" in stack for stack, _, _ in stacks)
    assert all(int(weight) > 0 for _, _, weight in stacks)


@pytest.mark.deep
def test_per_cpu_locks_are_told_by_their_variable(tmp_path):
    """Each wakes the other over and over: they meet at the lock of a run queue."""
    (tmp_path / "wakers.c").write_text(WAKERS)
    run("gcc", "-static", "-pthread", "-O2", "-o", "wakers", "wakers.c", cwd=tmp_path)
    page = report_of(inv(tmp_path, "locks", "--", "./wakers"))
    assert "runqueues.__lock (per CPU)" in text_of(page)
    assert "(percpu)" not in text_of(page)


@pytest.mark.deep
@pytest.mark.parametrize("written", ["modern-6.1-stacks"], indirect=True)
def test_both_sides_have_their_callers_up_to_the_system_call(written):
    page, _ = written
    rows = [line.rpartition(" ")[0].split(";") for line in (page / "folded.txt").read_text().splitlines()]
    for frames in rows:
        waits = next(i for i, frame in enumerate(frames) if " waits for " in frame)
        assert "__x64_sys_pwrite64" in frames[:waits], "outermost first"
        assert "__x64_sys_pwrite64" in frames[waits:], "the holder's, innermost first"
        assert frames.index("__x64_sys_pwrite64") < frames.index("vfs_write")
    assert re.search(r"<h2>Callers</h2>.*write\S* ← .*vfs_write ← .*__x64_sys_pwrite64", text_of(page), re.DOTALL)


@pytest.mark.parametrize("written", ["modern-6.1"], indirect=True)
def test_a_kernel_without_stacks_gives_a_page_without_callers(written):
    assert "<h2>Callers</h2>" not in text_of(written[0])


@pytest.mark.deep
def test_a_program_that_takes_too_long_is_ended_and_its_trace_kept(tmp_path):
    (tmp_path / "on.sh").write_text("while :; do echo >>/run/both; done & while :; do echo >>/run/both; done\n")
    done = inv(tmp_path, "locks", "--timeout", "2", "--", "sh", "on.sh")
    report = report_of(done)
    assert "The program was ended after 2 s (--timeout): this is what it did until then." in done.stdout
    assert "The program was ended after 2 s" in (report / "report.html").read_text()
    assert "The program ended with status -15." in done.stdout


def test_arrows_go_from_holders_to_waiters(written):
    events = json.loads((written[0] / "perfetto.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begins.keys() == ends.keys()
    assert begins
    for number, event in begins.items():
        for end, word in ((event, "holds"), (ends[number], "waits for")):
            inside = [s for s in slices if s["tid"] == end["tid"] and s["ts"] <= end["ts"] <= s["ts"] + s["dur"]]
            assert any(s["cat"] == word for s in inside), (number, word)


def test_the_page_says_how_the_program_ended(written):
    assert "status 5" in text_of(written[0])


@pytest.mark.parametrize("text", ["inode", "colour=red", "lock"])
def test_a_filter_that_is_none_is_refused_before_anything_runs(tmp_path, text):
    done = inv(tmp_path, "locks", "--filter", text, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"krepro: --filter {text}: must be KEY=GLOB")
    assert not list(tmp_path.glob("*.locks"))


def test_a_module_that_is_none_is_refused_before_anything_runs(tmp_path):
    done = inv(tmp_path, "locks", "--module", "gone", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"krepro: {tmp_path}/gone: --module: is no folder with a Kbuild\n"


def test_a_module_that_does_not_compile_is_named_by_its_line(tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/Kbuild").write_text("obj-m := bad.o\n")
    (tmp_path / "bad/bad.c").write_text("int x = ;\n")
    done = inv(tmp_path, "locks", "--kernel", "modern-6.1", "--module", "bad", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"^krepro: .*/bad: building module bad failed: .*bad\.c:1:", done.stderr, re.MULTILINE), (
        done.stderr
    )
    assert not list(tmp_path.glob("*.locks"))


@pytest.mark.deep
def test_a_module_that_is_not_loaded_is_named(tmp_path):
    (tmp_path / "shy").mkdir()
    (tmp_path / "shy/Kbuild").write_text("obj-m := shy.o\n")
    (tmp_path / "shy/shy.c").write_text(
        "#include <linux/module.h>\nstatic int __init shy(void) { return -ENODEV; }\nmodule_init(shy);\n"
        'MODULE_LICENSE("GPL");\n'
    )
    done = inv(tmp_path, "locks", "--module", "shy", "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("krepro: module shy.ko was not loaded (insmod: "), done.stderr
    assert "No such device" in last
    assert not list(tmp_path.glob("*.locks"))


@pytest.mark.deep
def test_a_module_of_ones_own_keeps_its_names_when_it_is_gone(tmp_path):
    run("sh", "-c", MODULE[0], cwd=tmp_path)
    gone = "sleep 1; /run/krepro/busybox rmmod pair"
    done = inv(tmp_path, "locks", "--module", "pair", "--", "sh", "-c", gone)
    report_of(done)
    assert re.search(r"waits for pair_mutex \[pair\] \(mutex\): pair_thread\+\S+ \[pair\] for pair_thread", done.stdout)


#: Rounds in which one thread surely waits for another, for each kind of lock that is not traced.
UNTRACED = """\
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu-rwsem.h>
#include <linux/rtmutex.h>
#include <linux/semaphore.h>

static DEFINE_RT_MUTEX(rt);
static DEFINE_SEMAPHORE(semaphore);
DEFINE_STATIC_PERCPU_RWSEM(percpu);
static DECLARE_COMPLETION(held);
static DECLARE_COMPLETION(done);
static atomic_t at = ATOMIC_INIT(0);

#define WAIT(take, give) do { wait_for_completion(&held); atomic_inc(&at); take; give; complete(&done); } while (0)

static int waits(void *unused)
{
	int i;

	for (i = 0; i < 3; i++)
		WAIT(rt_mutex_lock(&rt), rt_mutex_unlock(&rt));
	for (i = 0; i < 5; i++)
		WAIT(down(&semaphore), up(&semaphore));
	for (i = 0; i < 7; i++)
		WAIT(percpu_down_read(&percpu), percpu_up_read(&percpu));
	return 0;
}

static struct task_struct *waiter;

/* Lets go when the other sleeps: then he waits. */
#define HOLD(take, give) do {						\\
	int before = atomic_read(&at);					\\
	take;								\\
	complete(&held);						\\
	while (atomic_read(&at) == before || task_is_running(waiter))	\\
		usleep_range(100, 200);					\\
	give;								\\
	wait_for_completion(&done);					\\
} while (0)

static int __init untraced_init(void)
{
	int i;

	waiter = kthread_run(waits, NULL, "waits");
	if (IS_ERR(waiter))
		return PTR_ERR(waiter);
	for (i = 0; i < 3; i++)
		HOLD(rt_mutex_lock(&rt), rt_mutex_unlock(&rt));
	for (i = 0; i < 5; i++)
		HOLD(down(&semaphore), up(&semaphore));
	for (i = 0; i < 7; i++)
		HOLD(percpu_down_write(&percpu), percpu_up_write(&percpu));
	return 0;
}
module_init(untraced_init);
MODULE_LICENSE("GPL");
"""


@pytest.mark.deep
def test_waits_for_locks_that_are_not_traced_are_counted(tmp_path):
    (tmp_path / "untraced").mkdir()
    (tmp_path / "untraced/Kbuild").write_text("obj-m := untraced.o\n")
    (tmp_path / "untraced/untraced.c").write_text(UNTRACED)
    done = inv(tmp_path, "locks", "--module", "untraced", "--", "true")
    page = report_of(done)
    # Each writer of a percpu-rwsem waits, too: for a grace period of RCU.
    said = "Not traced, but counted: 14 waits for percpu-rwsems, 3 waits for rt-mutexes, 5 waits for semaphores."
    assert said in done.stdout
    assert said in text_of(page)
