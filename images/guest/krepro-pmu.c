// SPDX-License-Identifier: MIT
/*
 * krepro-pmu: decide by known work whether this guest's hardware counters count.
 *
 * Prints "ok: COUNTED of EXPECTED instructions" or "absent: REASON". A virtual PMU can be there, accept events and
 * count garbage while it claims to have run all the time; so a loop with a known number of instructions decides.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ITERATIONS 10000000ul
#define PER_ITERATION 2ul
/* One part in a thousand: entry, exit and the ioctls around the loop are a few hundred instructions. */
#define TOLERANCE (ITERATIONS * PER_ITERATION / 1000)

int main(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	const uint64_t expected = ITERATIONS * PER_ITERATION;
	struct {
		uint64_t count, enabled, running;
	} value;
	unsigned long left = ITERATIONS;
	uint64_t off;
	long fd;

	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0) {
		printf("absent: perf_event_open: %s\n", strerror(errno));
		return 0;
	}
	ioctl((int)fd, PERF_EVENT_IOC_ENABLE, 0);
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
	ioctl((int)fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read((int)fd, &value, sizeof(value)) != (ssize_t)sizeof(value)) {
		printf("absent: the counter cannot be read: %s\n", strerror(errno));
		return 0;
	}
	off = value.count > expected ? value.count - expected : expected - value.count;
	if (value.running != value.enabled || !value.running)
		printf("absent: the counter ran %llu of %llu ns\n", (unsigned long long)value.running,
		       (unsigned long long)value.enabled);
	else if (off > TOLERANCE)
		printf("absent: known work of %llu instructions was counted as %llu\n", (unsigned long long)expected,
		       (unsigned long long)value.count);
	else
		printf("ok: %llu of %llu instructions\n", (unsigned long long)value.count,
		       (unsigned long long)expected);
	return 0;
}
