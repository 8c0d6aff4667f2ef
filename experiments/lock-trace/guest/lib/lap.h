/* SPDX-License-Identifier: MIT */
/* Laps of a workload, and what it says at its end. */
#ifndef LAP_H
#define LAP_H

#ifndef __x86_64__
#error this program is for x86_64
#endif

#include "krepro.h"
#include "krepro-roi.h"

/*
 * A lap: the part that the oracle counts by itself, and by which a log is cut. The TSC is read by the very next
 * instruction after the mark.
 */
struct lap {
	uint64_t begin, end;		/* TSC */
	uint64_t begin_ns, elapsed_ns;
	bool marked;
};

#define LAP_MARK(operation, tsc) do {							\
	uint32_t low__, high__;								\
	__asm__ volatile(ROI_MARK(2, operation) "rdtsc" : "=a"(low__), "=d"(high__) : : "memory");	\
	(tsc) = (uint64_t)high__ << 32 | low__;						\
} while (0)

/* Inline: nothing but the mark and the reading of the TSC is to lie at a lap's ends. */
static inline void lap_begin(struct lap *lap, bool marked)
{
	lap->marked = marked;
	lap->begin_ns = now_ns();
	if (marked)
		LAP_MARK(0, lap->begin);
	else
		lap->begin = 0;
}

static inline void lap_end(struct lap *lap)
{
	if (lap->marked)
		LAP_MARK(1, lap->end);
	else
		lap->end = 0;
	lap->elapsed_ns = now_ns() - lap->begin_ns;
}

/* FOLDER/lap.tsv: a line per lap, TSC; nothing without a folder. */
void write_lap(const char *folder, const struct lap *lap);

/* What every workload says: what it did, and the time it took. */
void print_times(const char *workload, uint64_t operations, uint64_t elapsed_ns, uint64_t cycles);

#endif
