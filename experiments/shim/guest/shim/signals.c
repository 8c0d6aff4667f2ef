// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "krepro-counter.h"
#include "signals.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { KNOWN_LOOPS = 1000000, KNOWN_INSTRUCTIONS = 2 * KNOWN_LOOPS, KNOWN_TRIES = 5 };

const char *const source_names[] = { "oracle", "pmu", "memory" };

static void known_loop(unsigned long loops)
{
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(loops) : : "cc");
}

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

void signal_check(struct signal_source *signal, int cpu)
{
	signal->expected = KNOWN_INSTRUCTIONS;
	signal->counted = UINT64_MAX;
	if (!pin(cpu)) {
		snprintf(signal->reason, sizeof(signal->reason), "the known loop cannot run on CPU %d: %s", cpu,
			 strerror(errno));
		signal->expected = signal->counted = 0;
		return;
	}
	fifo(1);
	for (int i = 0; i < KNOWN_TRIES; i++) {
		uint64_t before = signal_read(signal), counted;

		known_loop(KNOWN_LOOPS);
		counted = signal_read(signal) - before;
		if (counted < signal->counted)
			signal->counted = counted;
	}
	fifo(0);
	if (signal->source == SOURCE_PMU) {
		struct perf_reading now = perf_page_read(signal->page);

		if (!now.live || now.torn || !now.whole) {
			snprintf(signal->reason, sizeof(signal->reason), "%s",
				 now.torn  ? "the page of the event does not come to rest" :
				 !now.live ? "the event is on no counter, or rdpmc is not allowed" :
					     "the event shares its counter with others");
			return;
		}
	}
	if (!known_right(signal->expected, signal->counted))
		snprintf(signal->reason, sizeof(signal->reason), "known work of %llu instructions was counted as %llu",
			 (unsigned long long)signal->expected, (unsigned long long)signal->counted);
}

void signal_pmu(struct signal_source *signal, const struct event *event)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.exclude_hv = 1,
	};
	void *page;
	long fd;

	snprintf(signal->name, sizeof(signal->name), "%s", event->name);
	signal->source = SOURCE_PMU;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
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
	if (errno || end == at + 1 || *end || offset % 8 || offset > 1ul << 40)
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
