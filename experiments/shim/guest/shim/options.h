/* SPDX-License-Identifier: MIT */
/* The options of shim run. */
#ifndef SHIM_OPTIONS_H
#define SHIM_OPTIONS_H

#include "signals.h"

#include <stdbool.h>
#include <stdint.h>

#define USAGE "; usage: shim run [OPTION VALUE...] | shim list [json]"

struct options {
	int cpu, observer_cpu, known_cpu;
	double seconds;
	const char *period, *min_window, *bounds, *out, *samples, *switches;
	const char *events[SIGNALS], *memory[SIGNALS];
	int n_events, n_memory;
	uint64_t limit, ring, drain, host, priority, inject_every, inject_ns, seed;
};

struct options read_options(int argc, char **argv);

/* A time in nanoseconds or cycles; which of the two is told by *is_cycles. */
uint64_t duration(const char *option, const char *text, bool *is_cycles);

#endif
