/* SPDX-License-Identifier: MIT */
/*
 * How the host ran the CPUs meanwhile: it may take one away, which no clock of the guest shows. The oracle tells on
 * demand (krepro-counter.h). Its figures include no wait that goes on, so what another CPU waits for may be told late.
 */
#ifndef SHIM_HOST_H
#define SHIM_HOST_H

#include <stdint.h>
#include <stdio.h>

#include "clock.h"
#include "krepro-counter.h"
#include "krepro-roi.h"

enum { HOST_MOST = 1 << 16 };

struct host {
	const volatile unsigned char *map; /* NULL: nobody tells */
	int observer_cpu, cpu;
	uint64_t every, due, lost; /* cycles, clock, readings */
	struct host_reading {
		uint64_t tsc;
		struct counter_host observer, target;
	} *readings;
	int n;
};

/* Why nobody tells, or NULL. */
const char *host_open(struct host *host);

/* Inline: the observer's loop calls it. */
static inline void host_read(struct host *host)
{
	if (!host->map)
		return;
	if (host->n == HOST_MOST) { /* pieces are no longer told apart, nor believed */
		host->lost++;
	} else {
		struct host_reading *reading = &host->readings[host->n++];

		roi_host();
		reading->observer = counter_host(host->map, (unsigned int)host->observer_cpu);
		reading->target = counter_host(host->map, (unsigned int)host->cpu);
		reading->tsc = clock_begin();
	}
	host->due = clock_begin() + host->every;
}

void host_write(const struct host *host, FILE *out);

#endif
