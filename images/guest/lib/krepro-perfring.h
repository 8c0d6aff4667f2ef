/* SPDX-License-Identifier: MIT */
/* The ring that the kernel puts records of perf events in, of one thread or one CPU, and a file that they are put into. */
#ifndef KREPRO_PERFRING_H
#define KREPRO_PERFRING_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_ring {
	int event;
	size_t size;	/* of the data: a power of two */
	struct perf_event_mmap_page *page;
	const char *data;
	uint64_t bytes, samples, lost;	/* what has come out of it so far */
};

/*
 * An event of a process that is yet to be run, counted from its exec; `cpu` -1 is any. The attributes lack their size and
 * what says so. Records wake who polls the event when its ring of `size` bytes is half full.
 */
int perf_open(struct perf_event_attr attr, pid_t pid, int cpu, size_t size);

/* The ring of an event that perf_open has opened. */
struct perf_ring perf_ring_of(int event, size_t size);

/* All that is there now, into the file. */
void perf_ring_drain(struct perf_ring *ring, int output, const char *path);

#endif
