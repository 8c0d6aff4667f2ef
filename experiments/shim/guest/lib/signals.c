// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "krepro-counter.h"
#include "known.h"
#include "signals.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { KNOWN_LOOPS = 1000000, KNOWN_INSTRUCTIONS = 2 * KNOWN_LOOPS, KNOWN_TRIES = 5, SETTLE_NS = 200000 };

const char *const source_names[] = { "oracle", "pmu", "memory", "slot" };

/* Within one part in a hundred. */
static bool known_right(uint64_t expected, uint64_t counted)
{
	uint64_t off = counted > expected ? counted - expected : expected - counted;

	return off * 100 <= expected;
}

bool fifo(int priority)
{
	const struct sched_param how = { .sched_priority = priority };

	return !sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &how);
}

/*
 * The known loop's own thread. It waits asleep: its CPU switches before and behind each loop, and publishes counters.
 * What is counted per CPU whoever reads it, it reads itself: waking up and going to sleep are no part of the loop.
 */
struct worker {
	const struct signal_source *signal;
	uint64_t counted;
	int cpu, go[2], done[2], error;
	bool reads;
};

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	char byte = 0;

	worker->error = pin(worker->cpu) ? 0 : errno;
	fifo(1);
	while (write(worker->done[1], &byte, 1) == 1 && read(worker->go[0], &byte, 1) == 1 && byte) {
		uint64_t before = worker->reads ? signal_read(worker->signal) : 0;

		known_loop(KNOWN_LOOPS);
		worker->counted = worker->reads ? signal_read(worker->signal) - before : 0;
	}
	return NULL;
}

static void count_loops(struct signal_source *signal, struct worker *worker)
{
	char go = 1;

	for (int i = 0; i < KNOWN_TRIES && !worker->error; i++) {
		uint64_t before = signal_read(signal), counted;

		if (write(worker->go[1], &go, 1) != 1 || read(worker->done[0], &go, 1) != 1)
			die_errno("the known loop's thread");
		go = 1;
		sleep_ns(SETTLE_NS); /* it goes to sleep */
		counted = worker->reads ? worker->counted : signal_read(signal) - before;
		if (counted < signal->counted)
			signal->counted = counted;
	}
}

void signal_check(struct signal_source *signal, int cpu)
{
	struct worker worker = { .signal = signal, .cpu = cpu, .reads = signal->source == SOURCE_ORACLE };
	pthread_t thread;
	char byte = 0;

	signal->expected = KNOWN_INSTRUCTIONS;
	signal->counted = UINT64_MAX;
	if (pipe2(worker.go, O_CLOEXEC) || pipe2(worker.done, O_CLOEXEC))
		die_errno("a pipe");
	errno = pthread_create(&thread, NULL, worker_main, &worker);
	if (errno)
		die_errno("the known loop's thread");
	if (read(worker.done[0], &byte, 1) != 1)
		die_errno("the known loop's thread");
	sleep_ns(SETTLE_NS);
	count_loops(signal, &worker);
	byte = 0;
	if (write(worker.go[1], &byte, 1) != 1)
		die_errno("the known loop's thread");
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		close(worker.go[i]);
		close(worker.done[i]);
	}
	if (worker.error) {
		snprintf(signal->reason, sizeof(signal->reason), "the known loop cannot run on CPU %d: %s", cpu,
			 strerror(worker.error));
		signal->expected = signal->counted = 0;
		return;
	}
	if (signal->source == SOURCE_SLOT) {
		const struct ppid_counts now = ppid_counts(signal->line);
		const char *refusal = ppid_refusal(&now, signal->counter);

		if (refusal) {
			snprintf(signal->reason, sizeof(signal->reason), "%s", refusal);
			if (!signal->counted) /* on no counter: the loop says nothing of it */
				signal->expected = 0;
			return;
		}
	}
	if (!known_right(signal->expected, signal->counted))
		snprintf(signal->reason, sizeof(signal->reason),
			 "known work of %llu instructions on CPU %d was counted as %llu",
			 (unsigned long long)signal->expected, cpu, (unsigned long long)signal->counted);
}

void signal_slot(struct signal_source *signal, const struct event *event, const struct ppid_line *line)
{
	int asked[PPID_EVENTS] = { -1, -1 };

	snprintf(signal->name, sizeof(signal->name), "%s", event->name);
	signal->source = SOURCE_SLOT;
	signal->line = line;
	if (!line || !ppid_asked(asked)) {
		snprintf(signal->reason, sizeof(signal->reason), "nobody publishes: %s", PPID_DEVICE);
		return;
	}
	for (signal->counter = 0; signal->counter < PPID_EVENTS; signal->counter++)
		if (event->type == PERF_TYPE_HARDWARE && (uint64_t)asked[signal->counter] == event->config)
			break;
	if (signal->counter == PPID_EVENTS)
		snprintf(signal->reason, sizeof(signal->reason), "the module counts no such event");
	else
		signal->at = &line->total[signal->counter];
}

void signal_trust_as(struct signal_source *signal, const struct event *proof, const struct ppid_line *line, int cpu)
{
	const struct ppid_counts now = ppid_counts(line);
	const char *refusal = ppid_refusal(&now, signal->counter);
	struct signal_source known = { 0 };

	if (refusal) {
		snprintf(signal->reason, sizeof(signal->reason), "%s", refusal);
		return;
	}
	signal_slot(&known, proof, line);
	if (!known.reason[0])
		signal_check(&known, cpu);
	if (known.reason[0])
		snprintf(signal->reason, sizeof(signal->reason), "the PMU is not to be trusted: %.120s", known.reason);
}

void signal_pmu(struct signal_source *signal, const struct event *event)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.exclude_hv = 1,
#if defined(__aarch64__)
		.config1 = 3, /* of 64 bits, and to be read by user space (/proc/sys/kernel/perf_user_access) */
#endif
	};
	void *page;
	long fd;

	snprintf(signal->name, sizeof(signal->name), "%s", event->name);
	signal->source = SOURCE_PMU;
	fd = TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
	if (fd < 0) {
		snprintf(signal->reason, sizeof(signal->reason), "perf_event_open: %s", strerror(errno));
		return;
	}
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, (int)fd, 0);
	if (page == MAP_FAILED) {
		snprintf(signal->reason, sizeof(signal->reason), "the event cannot be mapped: %s", strerror(errno));
		close((int)fd);
		return;
	}
	signal->page = page;
	if (!signal->page->cap_user_rdpmc)
		snprintf(signal->reason, sizeof(signal->reason), "rdpmc is not allowed for this event");
}

void signal_oracle(struct signal_source *signal, int cpu)
{
	const volatile unsigned char *map = counter_map();

	snprintf(signal->name, sizeof(signal->name), "instructions");
	signal->source = SOURCE_ORACLE;
	if (!map)
		snprintf(signal->reason, sizeof(signal->reason), "%s",
			 errno == ENODATA ? "nobody publishes counts: the trial has no oracle: [counters]" :
					    "no device: the machine has no devices: [counters]");
	else if ((unsigned int)cpu >= counter_cpus(map))
		snprintf(signal->reason, sizeof(signal->reason), "no counter of CPU %d", cpu);
	else
		signal->at = (const volatile uint64_t *)(map + (1 + cpu) * COUNTER_LINE);
}

bool signal_memory(struct signal_source *signal, const char *words)
{
	const char *equals = strchr(words, '='), *at = strrchr(words, '@');
	char path[256], *end;
	unsigned long offset;
	void *map;
	int fd;

	if (!equals || !at || at < equals || equals == words || (size_t)(equals - words) >= sizeof(signal->name) ||
	    (size_t)(at - equals) > sizeof(path))
		return false;
	errno = 0;
	offset = strtoul(at + 1, &end, 0);
	if (errno || end == at + 1 || *end || offset % 8 || offset > LONG_MAX - 8)
		return false;
	snprintf(signal->name, sizeof(signal->name), "%.*s", (int)(equals - words), words);
	snprintf(path, sizeof(path), "%.*s", (int)(at - equals - 1), equals + 1);
	signal->source = SOURCE_MEMORY;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || lseek(fd, 0, SEEK_END) < (off_t)(offset + 8)) {
		snprintf(signal->reason, sizeof(signal->reason), "%.80s: %s", path,
			 fd < 0 ? strerror(errno) : "shorter than that");
		if (fd >= 0)
			close(fd);
		return true;
	}
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t)(offset & ~4095ul));
	close(fd);
	if (map == MAP_FAILED)
		snprintf(signal->reason, sizeof(signal->reason), "%.80s: %s", path, strerror(errno));
	else
		signal->at = (const volatile uint64_t *)((const volatile char *)map + (offset & 4095));
	return true;
}
