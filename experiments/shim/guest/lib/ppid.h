/* SPDX-License-Identifier: MIT */
/* /dev/ppid_map (modules/ppid), or the map of a BPF program (ppidbpf.c): which thread runs on which CPU. */
#ifndef SHIM_PPID_H
#define SHIM_PPID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PPID_DEVICE "/dev/ppid_map"
/* The same lines where a BPF program writes them (ppidbpf.c): a pinned map. */
#define PPID_BPF "/sys/fs/bpf/ppid_map"
#define PPID_NONE (~0ull)

struct ppid_line {
	volatile uint64_t ids, begun, tsc, done, total[2];
	volatile uint32_t slice[2];
	volatile uint64_t state;
};

/* Of counter i in `state`, as modules/ppid/ppid_map.h has it. */
enum { PPID_ASKED = 1, PPID_LIVE = 2, PPID_WHOLE = 4, PPID_EVENTS = 2 };
#define PPID_SLICE_MOST UINT32_MAX

struct ppid_now {
	uint64_t ids, begun, tsc; /* tsc 0: who publishes cannot read that clock */
	bool torn; /* the fields are of two switches that follow each other */
};

static inline int32_t ppid_pid(uint64_t ids)
{
	return (int32_t)(uint32_t)ids;
}

static inline int32_t ppid_tgid(uint64_t ids)
{
	return (int32_t)(ids >> 32);
}

/* What the CPU's counters stood at at its latest switch, and what of it the outgoing thread counted. */
struct ppid_counts {
	uint64_t ids, begun, total[PPID_EVENTS], state;
	uint32_t slice[PPID_EVENTS];
	bool torn;
};

/* CPUs that there can ever be, online or not: the device has a line of each. */
int ppid_cpus(void);

/* Bytes of so many lines, in whole pages. */
static inline size_t ppid_bytes(int cpus, size_t page)
{
	return ((size_t)cpus * sizeof(struct ppid_line) + page - 1) / page * page;
}

/* The line of every CPU that there can be; NULL with errno. */
const struct ppid_line *ppid_map(void);
size_t ppid_map_size(void);

/* A line at rest, with its counters. */
struct ppid_counts ppid_counts(const struct ppid_line *line);

/* Why counter i of a reading is no count of what its CPU did; NULL: it is one. */
const char *ppid_refusal(const struct ppid_counts *counts, int i);

/* Loads before it are done before those behind it: an instruction on arm64, none on x86. */
#define PPID_BARRIER() __atomic_thread_fence(__ATOMIC_ACQUIRE)

/*
 * A line at rest. A writer that stays in the middle (its CPU was
 * taken away by the host) is not waited for. Inline: the observer reads it between its clocks.
 */
static inline struct ppid_now ppid_read(const struct ppid_line *line)
{
	struct ppid_now now;

	for (int i = 0; i < 4; i++) {
		uint64_t done = line->done;

		PPID_BARRIER();
		now.ids = line->ids;
		now.tsc = line->tsc;
		PPID_BARRIER();
		now.begun = line->begun;
		now.torn = now.begun != done;
		if (!now.torn)
			break;
	}
	return now;
}

/* The hardware events that the module which publishes counts; false when none does. */
bool ppid_asked(int events[PPID_EVENTS]);

/* Who publishes: a module ("callback", "tracepoint", "original"), "bpf", or NULL when nobody does. */
const char *ppid_source(void);

#endif
