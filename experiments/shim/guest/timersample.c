// SPDX-License-Identifier: MIT
/*
 * timersample CPU SECONDS [PERIOD_NS [READER_CPU]]: what perf record -e cpu-clock does, at its highest rate: samples of who
 * runs on CPU, by a timer there. Prints one line of JSON. PERIOD_NS 1, the default, is as fast as the kernel lets it.
 */
#include "krepro.h"
#include "clock.h"

#include <ctype.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGES = 256, PAGE = 4096, BYTES = PAGES * PAGE, TIDS = 64 };

static struct {
	uint32_t tid;
	uint64_t samples;
} tids[TIDS];
static int n_tids;
static uint64_t samples, lost, throttled;

static void count(uint32_t tid)
{
	samples++;
	for (int i = 0; i < n_tids; i++) {
		if (tids[i].tid == tid) {
			tids[i].samples++;
			return;
		}
	}
	if (n_tids < TIDS) {
		tids[n_tids].tid = tid;
		tids[n_tids++].samples = 1;
	}
}

static void copy(void *to, const unsigned char *ring, uint64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((unsigned char *)to)[i] = ring[(at + i) % BYTES];
}

static void drain(struct perf_event_mmap_page *page)
{
	const unsigned char *ring = (const unsigned char *)page + PAGE;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail;

	while (tail < head) {
		struct perf_event_header header;
		uint32_t ids[2];
		uint64_t n[2];

		copy(&header, ring, tail, sizeof(header));
		if (header.type == PERF_RECORD_SAMPLE) {
			copy(ids, ring, tail + sizeof(header), sizeof(ids));
			count(ids[1]);
		} else if (header.type == PERF_RECORD_LOST) {
			copy(n, ring, tail + sizeof(header), sizeof(n));
			lost += n[1];
		} else if (header.type == PERF_RECORD_THROTTLE) {
			throttled++;
		}
		tail += header.size;
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.disabled = 1,
	};
	struct perf_event_mmap_page *page;
	struct clock_pair a, b;
	unsigned long long period;
	double seconds, taken;
	char *end = "", *end2 = "";
	long fd;
	int cpu;

	seconds = argc > 2 ? strtod(argv[2], &end) : 0;
	period = argc > 3 ? strtoull(argv[3], &end2, 10) : 1;
	if (argc < 3 || argc > 5 || !isdigit((unsigned char)*argv[1]) || *end || *end2 || !(seconds > 0) || !period)
		die_usage("usage: timersample CPU SECONDS [PERIOD_NS [READER_CPU]]");
	cpu = atoi(argv[1]);
	pin(argc > 4 ? atoi(argv[4]) : 0);
	attr.sample_period = period;
	fd = TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0));
	page = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (page == MAP_FAILED) {
		printf("{\"cpu\": %d, \"period_ns\": %llu, \"samples\": null, \"reason\": \"%s\"}\n", cpu, period,
		       strerror(errno));
		return 0;
	}
	a = clock_pair_now();
	ioctl((int)fd, PERF_EVENT_IOC_ENABLE, 0);
	do {
		sleep_ns(5000000);
		drain(page);
		b = clock_pair_now();
	} while ((double)(b.mono_ns - a.mono_ns) < seconds * 1e9);
	ioctl((int)fd, PERF_EVENT_IOC_DISABLE, 0);
	b = clock_pair_now();
	drain(page);
	taken = (double)(b.mono_ns - a.mono_ns) / 1e9;
	printf("{\"cpu\": %d, \"period_ns\": %llu, \"samples\": %llu, \"lost\": %llu, \"throttled\": %llu, ", cpu, period,
	       (unsigned long long)samples, (unsigned long long)lost, (unsigned long long)throttled);
	clock_print_both(stdout, a, b);
	printf(", \"samples_per_s\": %.3f, \"tids\": {", (double)(samples + lost) / taken);
	for (int i = 0; i < n_tids; i++)
		printf("%s\"%u\": %llu", i ? ", " : "", tids[i].tid, (unsigned long long)tids[i].samples);
	printf("}, \"reason\": null}\n");
	return 0;
}
