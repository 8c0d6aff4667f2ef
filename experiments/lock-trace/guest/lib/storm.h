/* SPDX-License-Identifier: MIT */
/* Processes that begin together and do a share of the work each. */
#ifndef STORM_H
#define STORM_H

#include "lap.h"

enum { MOST_PROCESSES = 64 };

struct storm {
	uint64_t operations;	/* of each process */
	unsigned int processes;
	uint64_t seed;
	const char *folder;	/* for lap.tsv */
};

/* Its own random numbers for each process. */
static inline uint64_t storm_random(const struct storm *storm, unsigned int index)
{
	return storm->seed << 8 | index;
}

/* Run work() in each process, begun by one byte for each from a pipe; the lap is from there to the end of the last. */
struct lap storm_run(const struct storm *storm,
		     void (*work)(const struct storm *storm, unsigned int index));

#endif
