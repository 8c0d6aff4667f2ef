/* SPDX-License-Identifier: MIT */
/*
 * The observer as a library: what a thread, or another CPU, counts between two moments, and whether that may be believed.
 * libshim.3 is its manual page.
 *
 * A reading lies between two clocks. Two readings make a window: what the counters rose by is trusted if the interval
 * between the begin clocks and that between the end clocks agree (trust.h).
 */
#ifndef SHIM_LIBSHIM_H
#define SHIM_LIBSHIM_H

#include "clock.h"
#include "ppid.h"
#include "signals.h"
#include "trust.h"

/* In place of a CPU: the calling thread looks at itself. */
enum { SHIM_SELF = -1, SHIM_TAGS = 4 };

struct shim_probe;

/* What a program knows of itself, such as the number of the request that it works on: at most SHIM_TAGS values; how many. */
typedef int shim_tagger(uint64_t *values, const struct shim_probe *probe);

struct shim_probe {
	int cpu;			 /* which is looked at; SHIM_SELF */
	const struct ppid_line *line;	 /* its line, or NULL: who runs there is not known */
	struct signal_source signals[SIGNALS];
	int n_signals;
	struct bounds bounds;
	shim_tagger *tags;		 /* or NULL */
	char reason[160];		 /* why the last event was refused */
};

struct shim_reading {
	uint64_t begin, end;		 /* cycles of the clock */
	struct ppid_now slot;		 /* ids PPID_NONE: no line */
	uint64_t signals[SIGNALS], tags[SHIM_TAGS];
	int n_tags;
};

/* A probe of a CPU, or of oneself, without events, with the bounds 0.99 to 1.01; false with errno: there is no such CPU. */
bool shim_open(struct shim_probe *probe, int cpu);

/* Another event, by any of the names of `shim list`; false: refused, probe->reason says why. It has counted a known loop. */
bool shim_add_event(struct shim_probe *probe, const char *name);

/* Another word of memory, which somebody else writes; false: there is no room. */
bool shim_add_word(struct shim_probe *probe, const char *name, const volatile uint64_t *word);

/* To be called in a loop that waits: it lets the other thread of the core, or the emulated CPU, go first. */
static inline void relax_cpu(void)
{
#if defined(__aarch64__)
	__asm__ volatile("yield" : : : "memory");
#else
	__asm__ volatile("pause" : : : "memory");
#endif
}

/* Inline: what it does between the clocks is in every window. */
static inline __attribute__((always_inline)) void shim_read(const struct shim_probe *probe, struct shim_reading *reading)
{
	reading->begin = clock_begin();
	if (probe->line)
		reading->slot = ppid_read(probe->line);
	else
		reading->slot.ids = PPID_NONE;
	for (int i = 0; i < probe->n_signals; i++)
		reading->signals[i] = signal_read(&probe->signals[i]);
	reading->n_tags = probe->tags ? probe->tags(reading->tags, probe) : 0;
	reading->end = clock_end();
}

/* Whether the window between two readings may be believed. */
static inline bool shim_trusted(const struct shim_probe *probe, const struct shim_reading *from,
				const struct shim_reading *to)
{
	return trusted(&probe->bounds, from->begin, from->end, to->begin, to->end);
}

#endif
