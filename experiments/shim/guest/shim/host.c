// SPDX-License-Identifier: MIT
#include "host.h"

#include <errno.h>
#include <stdlib.h>

const char *host_open(struct host *host)
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

void host_write(const struct host *host, FILE *out)
{
	fputs("tsc,observer_run_ns,observer_wait_ns,run_ns,wait_ns\n", out);
	for (int i = 0; i < host->n; i++) {
		const struct host_reading *at = &host->readings[i];

		fprintf(out, "%llu,%llu,%llu,%llu,%llu\n", (unsigned long long)at->tsc,
			(unsigned long long)at->observer.run, (unsigned long long)at->observer.wait,
			(unsigned long long)at->target.run, (unsigned long long)at->target.wait);
	}
}
