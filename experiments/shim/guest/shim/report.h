/* SPDX-License-Identifier: MIT */
/* What shim says, as JSON and CSV. */
#ifndef SHIM_REPORT_H
#define SHIM_REPORT_H

#include "shim.h"

/* Of one observation, besides what the observer counted. */
struct answer {
	int observer_cpu;
	struct clock_pair begin, end;
	double hz;
	const char *ppid_reason, *host_reason; /* why there is none, or NULL */
	const struct signal_source *refused;
	int n_refused;
};

/* JSON text out of messages, which may hold a user's file name. */
void print_text(FILE *out, const char *text);
void print_signal(FILE *out, const struct signal_source *signal);

void report(FILE *out, const struct shim *shim, const struct answer *answer);
void write_threads(FILE *out, const struct shim *shim);

#endif
