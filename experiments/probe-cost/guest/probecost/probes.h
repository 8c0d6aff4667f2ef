/* SPDX-License-Identifier: MIT */
/* probes.h: what one run of probecost enables, through tracefs, perf_event_open and bpf(2), and takes away again. */
#ifndef PROBES_H
#define PROBES_H

#include "util.h"

enum { MAX_PROBES = 12, MAX_CONSUMERS = 8 };

/* One consumer of a probe: a tracefs instance that records, filters, aggregates; or an eBPF program. */
struct consumer {
	bool record, stack, program;
	char filter[128], hist[160];
	long additions, aggregate;
	int bpf, event, passes; /* descriptors; 0: none */
	uint64_t passed;
};

struct probe {
	char provider[32], target[64], definition[256], event[96];
	struct consumer consumers[MAX_CONSUMERS];
	int n_consumers, counter, link, sampler;
	char *ring;
	uint64_t firings;
	long long hits, misses;
};

extern struct probe probes[MAX_PROBES];
extern int n_probes;

bool is(const struct probe *probe, const char *prefix);
bool is_user(const struct probe *probe);

/* A file of instance `number`; the text is overwritten by the next call. */
const char *in_instance(int number, const char *format, const char *event);

/* Where in the file of this program an address of it lies. */
uint64_t file_offset(uint64_t address);
const char *own_path(void);
void define_all(void);
void start_all(void);
void stop_all(void);

/* Count firings without a consumer, and how many of them pass each consumer's filter. */
void start_counting(void);

/* What the kernel says of hits and misses; -1 where it says nothing. */
void read_hits(void);

#endif
