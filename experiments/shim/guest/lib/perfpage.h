/* SPDX-License-Identifier: MIT */
/*
 * A hardware counter read without a system call: the page that perf maps for its event, guarded by the page's sequence
 * number, and rdpmc (arm64: the counter's system register). Counters are those of the CPU that reads.
 */
#ifndef SHIM_PERFPAGE_H
#define SHIM_PERFPAGE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

enum { PERF_PAGE_TRIES = 1000 };

struct perf_reading {
	uint64_t count;
	bool live;	/* on the PMU now; else count is what was when it last was, and no sample */
	bool whole;	/* time_running == time_enabled: never had to share the PMU */
	bool torn;	/* the page did not come to rest */
};

#if defined(__aarch64__)
#define PERF_COUNTER(n)                                                              \
	case n:                                                                      \
		__asm__ volatile("mrs %0, pmevcntr" #n "_el0" : "=r"(count) : : "memory"); \
		break

/* 31 is the cycle counter (tools/lib/perf/mmap.c). The machine that is emulated has 6 others. */
static inline uint64_t perf_rdpmc(uint32_t index)
{
	uint64_t count = 0;

	switch (index) {
		PERF_COUNTER(0);
		PERF_COUNTER(1);
		PERF_COUNTER(2);
		PERF_COUNTER(3);
		PERF_COUNTER(4);
		PERF_COUNTER(5);
		PERF_COUNTER(6);
		PERF_COUNTER(7);
	case 31:
		__asm__ volatile("mrs %0, pmccntr_el0" : "=r"(count) : : "memory");
		break;
	}
	return count;
}
#else
static inline uint64_t perf_rdpmc(uint32_t index)
{
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index) : "memory");
	return (uint64_t)high << 32 | low;
}
#endif

#define PERF_BARRIER() __atomic_thread_fence(__ATOMIC_ACQUIRE)

/* `rdpmc` is a parameter for tests: this host may have no counters. The index is never kept: it changes. */
static inline __attribute__((always_inline)) struct perf_reading
perf_page_read_by(const volatile struct perf_event_mmap_page *page, uint64_t (*rdpmc)(uint32_t))
{
	struct perf_reading now = { .torn = true };

	for (int i = 0; i < PERF_PAGE_TRIES; i++) {
		uint32_t sequence = page->lock, index;
		int64_t pmc = 0;

		if (sequence & 1)
			continue;
		PERF_BARRIER();
		now.whole = page->time_enabled == page->time_running;
		index = page->index;
		now.count = (uint64_t)page->offset;
		now.live = index && page->cap_user_rdpmc && page->pmc_width && page->pmc_width <= 64;
		if (now.live) {
			unsigned int unused = 64 - page->pmc_width;

			/* The counter has pmc_width bits, the topmost of which is its sign. */
			pmc = (int64_t)(rdpmc(index - 1) << unused) >> unused;
		}
		PERF_BARRIER();
		if (page->lock == sequence) {
			now.count += (uint64_t)pmc;
			now.torn = false;
			break;
		}
	}
	return now;
}

static inline struct perf_reading perf_page_read(const volatile struct perf_event_mmap_page *page)
{
	return perf_page_read_by(page, perf_rdpmc);
}

#endif
