/* SPDX-License-Identifier: MIT */
/* /dev/ppid_map (modules/ppid): which thread runs on which CPU. */
#ifndef SHIM_PPID_H
#define SHIM_PPID_H

#include <stdbool.h>
#include <stdint.h>

#define PPID_DEVICE "/dev/ppid_map"
#define PPID_NONE (~0ull)

struct ppid_line {
	volatile uint64_t ids, begun, tsc, done;
	uint64_t zero[4];
};

struct ppid_now {
	uint64_t ids, begun, tsc;
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

/* All lines; NULL with errno. */
const struct ppid_line *ppid_map(void);

/*
 * A line at rest. x86 neither reorders the writer's stores nor these loads. A writer that stays in the middle (its CPU was
 * taken away by the host) is not waited for. Inline: the observer reads it between its clocks.
 */
static inline struct ppid_now ppid_read(const struct ppid_line *line)
{
	struct ppid_now now;

	for (int i = 0; i < 4; i++) {
		uint64_t done = line->done;

		now.ids = line->ids;
		now.tsc = line->tsc;
		now.begun = line->begun;
		now.torn = now.begun != done;
		if (!now.torn)
			break;
	}
	return now;
}

/* Which module publishes: "callback", "tracepoint", or NULL when none is switched on. */
const char *ppid_source(void);

#endif
