// SPDX-License-Identifier: MIT
#include "readers.h"
#include "bpf.h"
#include "probes.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PAGE = 4096, READS = 256, HEADER = 16, LEAST_EVENT = 8, MOST_EVENT = 512, MAX_READERS = 32, END_MS = 20 };

struct taken *taken;

static pid_t readers[MAX_READERS];
static int n_readers;

void prepare_readers(void)
{
	taken = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (taken == MAP_FAILED)
		die_errno("mmap");
}

/* Into the ring buffer of a tracefs instance, page by page. */
static void take_pages(int pipe, int other, long more)
{
	static char page[PAGE];
	ssize_t got;

	/* Bounded: where reading itself is traced, every read makes something to read. */
	for (int n = 0; n < READS && (got = TEMP_FAILURE_RETRY(read(pipe, page, sizeof(page)))) > 0; n++) {
		uint64_t commit = *(uint64_t *)(page + 8) & 0xfffff;

		taken->pages++;
		taken->whole += commit + MOST_EVENT > PAGE - HEADER;
	}
	for (long n = 0; n < more; n++, taken->more++)
		got = TEMP_FAILURE_RETRY(read(other, page, sizeof(page)));
	(void)got;
}

static void become_reader(void)
{
	struct sched_param first = { .sched_priority = 1 };

	/* It runs when it is time, not when the scheduler finds it fair. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("sched_setscheduler: %s", strerror(errno));
	prctl(PR_SET_TIMERSLACK, 1);
}

static uint64_t own_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (uint64_t)spent.tv_sec * NSEC_PER_SEC + (uint64_t)spent.tv_nsec;
}

/* As bpftrace reads: each event wakes it up. */
static void wait_for_events(struct ring *ring)
{
	struct epoll_event event = { .events = EPOLLIN };
	int watch = epoll_create1(0);
	uint64_t begin = own_ns();

	if (watch < 0 || epoll_ctl(watch, EPOLL_CTL_ADD, ring->perf ? ring->event : ring->map, &event))
		die_errno("epoll");
	while (!taken->stop)
		if (epoll_wait(watch, &event, 1, END_MS) > 0) {
			taken->wakes++;
			taken->records += ring_take(ring);
		}
	taken->waiter_ns += (long)(own_ns() - begin);
}

static void start_reader(long microseconds, int first, int behind, struct ring *ring, long more)
{
	int pipe[MAX_CONSUMERS], other;
	pid_t child = fork();

	if (child < 0 || n_readers == MAX_READERS)
		die("too many readers, or fork: %s", strerror(errno));
	readers[n_readers++] = child;
	if (child)
		return;
	become_reader();
	for (int i = first; i < behind; i++) {
		char path[128];

		snprintf(path, sizeof(path), TRACEFS "/%s", in_instance(i, "per_cpu/cpu0/trace_pipe_raw%s", ""));
		pipe[i] = (int)TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_NONBLOCK));
	}
	other = more ? open("/dev/zero", O_RDONLY | O_CLOEXEC) : -1;
	if (ring && ring->map <= 0)
		ring = NULL; /* it is to look into what is empty, before there is one */
	if (ring && !ring_of_child(ring))
		die_errno("a ring of perf's");
	__atomic_add_fetch(&taken->ready, 1, __ATOMIC_SEQ_CST);
	if (ring && ring->wakes)
		wait_for_events(ring);
	while (!taken->stop) {
		sleep_ns((uint64_t)microseconds * 1000);
		taken->wakes++;
		for (int i = first; i < behind; i++)
			take_pages(pipe[i], other, more);
		if (ring)
			taken->records += ring_take(ring);
	}
	_exit(0);
}

/* How many tracefs instances record anything; they are numbered from 0. */
static int recording(void)
{
	int instances = 0;

	for (int i = 0; i < n_probes; i++)
		for (int c = instances; c < probes[i].n_consumers; c++)
			if (!probes[i].consumers[c].program.used && !is(&probes[i], "sample"))
				instances = c + 1;
	return instances;
}

void start_readers(long microseconds, bool each, enum reader kind, long more)
{
	int instances = recording();

	memset((void *)taken, 0, sizeof(*taken));
	n_readers = 0;
	if (!microseconds)
		return;
	for (int i = 0; i < instances && kind != OF_RINGS; i += each ? 1 : instances)
		start_reader(microseconds, i, each ? i + 1 : instances, NULL, more);
	for (int i = 0; i < n_probes && kind != OF_INSTANCES; i++)
		for (int c = 0; c < probes[i].n_consumers; c++)
			if (probes[i].consumers[c].program.out)
				start_reader(microseconds, 0, 0, &probes[i].consumers[c].ring, 0);
	/* To yield once is not enough: a child comes first when the scheduler finds it fair. */
	while (taken->ready < n_readers)
		sched_yield();
}

void stop_readers(void)
{
	taken->stop = 1;
	for (int i = 0; i < n_readers; i++)
		TEMP_FAILURE_RETRY(waitpid(readers[i], NULL, 0));
	n_readers = 0;
}
