/* SPDX-License-Identifier: MIT */
/* What the test programs of page traces share: the device, a started trace, small helpers. */
#ifndef TRACE_H
#define TRACE_H

#include "page.h"
#include "page_trace.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#define DEVICE "/dev/page_trace"

enum { RECORDS = 4096, RING_BYTES = PAGE + RECORDS * 24 };

static inline int open_device(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die_errno(DEVICE);
	return fd;
}

/* 0 or an errno. */
static inline int start_trace(int fd, pid_t pid, uint32_t flags)
{
	struct page_trace_start start = { .pid = pid, .window = 1, .flags = flags, .records = RECORDS };

	return ioctl(fd, PAGE_TRACE_START, &start) ? errno : 0;
}

static inline struct page_trace_stats get_stats(int fd)
{
	struct page_trace_stats stats;

	if (ioctl(fd, PAGE_TRACE_STATS, &stats))
		die_errno("PAGE_TRACE_STATS");
	return stats;
}

static inline bool balanced(const struct page_trace_stats *s)
{
	return s->faults == s->records + s->lost + s->code + s->slow + s->upgrades + s->spurious;
}

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void nap_us(unsigned int us)
{
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	nanosleep(&t, NULL);
}

#endif
