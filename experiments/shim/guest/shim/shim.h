/* SPDX-License-Identifier: MIT */
/* What an observer is asked for, and what came of it. */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "host.h"
#include "periods.h"
#include "ppid.h"
#include "ring.h"
#include "signals.h"
#include "trust.h"

enum { THREADS = 256, IN_A_SWITCH = -2, MANY = -3, WARM_CYCLES = 2500 };
enum { F_TRUSTED = 1, F_DELAYED = 2, F_LOST = 4, F_FIRST = 8, F_ZERO = 16 }; /* of samples */
enum { F_TORN = 1 };							     /* of switches; F_LOST and F_FIRST too */

struct sample_record {
	uint64_t begin, end, ids, begun;
	uint32_t flags, number;
	uint64_t signals[];
};

struct switch_record {
	uint64_t seen, ids, begun, tsc;
	uint32_t flags, cpu;
};

struct delay_record {
	uint64_t number, begin, cycles;
};

struct by_thread {
	uint64_t ids, cycles, windows, trusted, trusted_cycles, signals[SIGNALS];
};

/* A sample as the next window needs it. */
struct sample {
	uint64_t begin, end;
	struct ppid_now slot;
	uint64_t signals[SIGNALS];
	uint64_t delay;
};

struct shim {
	/* What is asked for. */
	const struct ppid_line *line; /* NULL: no slot */
	int cpu;
	struct signal_source signals[SIGNALS];
	int n_signals;
	uint64_t period, min_window; /* cycles; 0: none */
	struct bounds bounds;
	uint64_t stop_at;	     /* clock */
	struct ring *samples, *switches; /* or NULL */
	uint64_t delay_every, delay;	 /* 0: none; every so many windows or so, from so many cycles to twice */
	uint64_t random;
	struct delay_record *delays;
	uint64_t max_delays;
	struct host host;

	/* What came of it. */
	uint64_t n_samples, windows, trusted, zero, seen, missed, torn, n_delays, delayed_windows, delayed_trusted,
		delayed_long;
	uint64_t first_begun, last_begun;
	struct periods periods;
	struct by_thread threads[THREADS];
	int n_threads;
};

#endif
