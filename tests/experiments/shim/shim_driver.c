// SPDX-License-Identifier: MIT
/*
 * Calls into the observer, experiments/shim/guest/shim without its main(), for tests: one answer a line for each line of
 * standard input, or a whole test by itself.
 *
 *   trust LOW,HIGH     lines: begin0 end0 begin1 end1
 *   bounds             lines: text of bounds; answers up/down up/down, or no
 *   periods            lines: cycles; answers bucket low high
 *   page               lines: lock index offset pmc_width rdpmc_allowed enabled running pmc; answers count live whole torn
 *   page-change N      the page changes during each of the first N reads of the counter; answers count torn reads
 *   page-race READS    a thread that rewrites the page all the time, READS that are whole; answers wrong torn
 *   ring SIZE N FILE   N records of 16 bytes into a ring of SIZE, which is emptied once, at the end
 *   ring-live SIZE N FILE   the same while a thread empties it
 *   event              lines: names; answers the event's name, type and config, or no
 *   ppid-bytes         lines: CPUs; answers the bytes of their lines in pages of 4096
 *   ppid-race READS    a thread that rewrites a line all the time, READS at rest; answers wrong torn
 */
#include "krepro.h"
#include "shim.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>

static uint64_t pmc_value;

static uint64_t fake_rdpmc(uint32_t index)
{
	return index == 7 ? pmc_value : 0xdead;
}

static void page_lines(void)
{
	unsigned int lock, index, width, allowed;
	uint64_t enabled, running;
	int64_t offset;

	while (scanf("%u %u %" SCNd64 " %u %u %" SCNu64 " %" SCNu64 " %" SCNu64, &lock, &index, &offset, &width, &allowed,
		     &enabled, &running, &pmc_value) == 8) {
		struct perf_event_mmap_page page = { .lock = lock, .index = index, .offset = offset, .pmc_width = (uint16_t)width,
						     .time_enabled = enabled, .time_running = running };
		struct perf_reading now;

		page.cap_user_rdpmc = allowed;
		now = perf_page_read_by(&page, fake_rdpmc);
		printf("%" PRIu64 " %d %d %d\n", now.count, now.live, now.whole, now.torn);
	}
}

static struct perf_event_mmap_page racing = { .index = 8, .pmc_width = 48 };
static volatile uint64_t racing_pmc;
static _Atomic bool ended;

static uint64_t racing_rdpmc(uint32_t index)
{
	/* Another index is another counter, which holds something else. */
	return index == 7 ? racing_pmc : 1ull << 40;
}

/* Offset and counter add up to 1000, as the kernel keeps them when it takes a counter away and gives another. */
static void *rewrite_page(void *unused)
{
	volatile struct perf_event_mmap_page *page = &racing;

	(void)unused;
	for (uint64_t i = 0; !ended; i++) {
		page->lock++;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		page->index = i & 1 ? 8 : 0;
		racing_pmc = i & 1 ? i % 1000 : 0;
		page->offset = (int64_t)(1000 - racing_pmc);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		page->lock++;
	}
	return NULL;
}

static unsigned long changes, calls;

/* The kernel comes in between: the event moves to another counter, and offset makes up for what that holds. */
static uint64_t changing_rdpmc(uint32_t index)
{
	calls++;
	if (changes) {
		changes--;
		racing.lock += 2;
		racing.index = 9;
		racing.offset = 700;
	}
	return index == 8 ? 300 : 5;
}

static void page_change(unsigned long n)
{
	struct perf_reading now;

	racing.cap_user_rdpmc = 1;
	racing.offset = 995;
	changes = n;
	now = perf_page_read_by(&racing, changing_rdpmc);
	printf("%" PRIu64 " %d %lu\n", now.count, now.torn, calls);
}

static void page_race(unsigned long reads)
{
	unsigned long wrong = 0, torn = 0;
	pthread_t thread;

	racing.cap_user_rdpmc = 1;
	racing.offset = 1000;
	pthread_create(&thread, NULL, rewrite_page, NULL);
	while (!*(volatile uint32_t *)&racing.lock)
		;
	while (reads--) {
		struct perf_reading now = perf_page_read_by(&racing, racing_rdpmc);

		if (now.torn) { /* the host took the writer's CPU away */
			torn++;
			reads++;
			sched_yield();
		}
		wrong += !now.torn && now.count != 1000;
	}
	ended = true;
	pthread_join(thread, NULL);
	printf("%lu %lu\n", wrong, torn);
}

static struct ppid_line racing_line;

/* As modules/ppid/ppid_map.h does it; every field tells which switch it is of. */
static void *rewrite_line(void *unused)
{
	(void)unused;
	for (uint64_t i = 1; !ended; i++) {
		racing_line.begun = i;
		__atomic_thread_fence(__ATOMIC_RELEASE);
		racing_line.ids = i | i << 32;
		racing_line.tsc = 3 * i;
		__atomic_thread_fence(__ATOMIC_RELEASE);
		racing_line.done = i;
	}
	return NULL;
}

static void line_race(unsigned long reads)
{
	unsigned long wrong = 0, torn = 0;
	pthread_t thread;

	pthread_create(&thread, NULL, rewrite_line, NULL);
	while (!racing_line.done)
		;
	while (reads--) {
		struct ppid_now now = ppid_read(&racing_line);
		uint64_t i = now.begun;

		if (now.torn && ++torn % 100 == 0)
			sched_yield();
		reads += now.torn;
		wrong += !now.torn && (now.ids != (i | i << 32) || now.tsc != 3 * i);
		/* Even then a pid is never one thread's and the tgid another's. */
		wrong += (uint32_t)now.ids != now.ids >> 32;
	}
	ended = true;
	pthread_join(thread, NULL);
	printf("%lu %lu\n", wrong, torn);
}

static void ring_test(uint64_t size, uint64_t n, const char *path, bool live)
{
	static struct ring ring;
	struct drain drain = { .rings = { &ring }, .n = 1, .nap_ms = 0 };

	if (!ring_open(&ring, 16, size, 0, open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666)))
		exit(1);
	if (live)
		drain_begin(&drain);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t *record = ring_slot(&ring);

		if (live && !(i % 512)) /* one that never pauses would lose nearly all */
			usleep(1);
		if (!record)
			continue;
		record[0] = i;
		record[1] = ~i;
		ring_put(&ring);
	}
	if (live) {
		drain_end(&drain);
	}
	ring_drain(&ring);
	printf("%" PRIu64 " %" PRIu64 " %d\n", ring_count(&ring), ring.lost, ring.error);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t a, b, c, d;
	struct bounds bounds;
	char line[256];

	if (!strcmp(what, "trust") && bounds_parse(argv[2], &bounds)) {
		while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c, &d) == 4)
			printf("%d\n", trusted(&bounds, a, b, c, d));
	} else if (!strcmp(what, "bounds")) {
		while (fgets(line, sizeof(line), stdin)) {
			line[strcspn(line, "\n")] = 0;
			if (bounds_parse(line, &bounds))
				printf("%u/%u %u/%u\n", bounds.low.up, bounds.low.down, bounds.high.up, bounds.high.down);
			else
				printf("no\n");
		}
	} else if (!strcmp(what, "periods")) {
		while (scanf("%" SCNu64, &a) == 1)
			printf("%u %" PRIu64 " %" PRIu64 "\n", periods_bucket(a), periods_low(periods_bucket(a)),
			       periods_low(periods_bucket(a) + 1));
	} else if (!strcmp(what, "event")) {
		while (fgets(line, sizeof(line), stdin)) {
			const struct event *event;

			line[strcspn(line, "\n")] = 0;
			event = event_named(line);
			if (event)
				printf("%s %u %" PRIx64 "\n", event->name, event->type, event->config);
			else
				printf("no\n");
		}
	} else if (!strcmp(what, "page")) {
		page_lines();
	} else if (!strcmp(what, "page-change")) {
		page_change(strtoul(argv[2], NULL, 10));
	} else if (!strcmp(what, "page-race")) {
		page_race(strtoul(argv[2], NULL, 10));
	} else if (!strcmp(what, "ppid-bytes")) {
		while (scanf("%" SCNu64, &a) == 1)
			printf("%zu\n", ppid_bytes((int)a, 4096));
	} else if (!strcmp(what, "ppid-race")) {
		line_race(strtoul(argv[2], NULL, 10));
	} else if (!strncmp(what, "ring", 4)) {
		ring_test(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10), argv[4], what[4]);
	} else {
		return 2;
	}
	return 0;
}
