/*
 * How the host ran the CPUs meanwhile: it may take one away, which no clock of the guest shows. The oracle tells on
 * demand (krepro-counter.h). Its figures include no wait that goes on, so what another CPU waits for may be told late.
 */
#ifndef SHIM_HOST_H
#define SHIM_HOST_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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
static inline const char *host_open(struct host *host)
{
	host->due = UINT64_MAX;
	host->map = counter_map();
	if (!host->map)
		return errno == ENODATA ? "nobody tells: the trial has no oracle: [counters]" :
					  "no device: the machine has no devices: [counters]";
	roi_host();
	if (!counter_host(host->map, (unsigned int)host->cpu).run) {
		host->map = NULL;
		return "the host keeps no figures, or the guest's clock is not its";
	}
	host->readings = calloc(HOST_MOST, sizeof(*host->readings));
	if (!host->readings) {
		host->map = NULL;
		return "no memory";
	}
	host->due = 0;
	return NULL;
}

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

static inline void host_write(const struct host *host, FILE *out)
{
	fputs("tsc,observer_run_ns,observer_wait_ns,run_ns,wait_ns\n", out);
	for (int i = 0; i < host->n; i++) {
		const struct host_reading *at = &host->readings[i];

		fprintf(out, "%llu,%llu,%llu,%llu,%llu\n", (unsigned long long)at->tsc,
			(unsigned long long)at->observer.run, (unsigned long long)at->observer.wait,
			(unsigned long long)at->target.run, (unsigned long long)at->target.wait);
	}
}

#endif
