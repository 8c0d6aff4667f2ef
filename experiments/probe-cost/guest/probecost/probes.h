/* SPDX-License-Identifier: MIT */
/* probes.h: what one run of probecost enables, through tracefs, perf_event_open and bpf(2), and takes away again. */
#ifndef PROBES_H
#define PROBES_H

#include "bpf.h"

enum { MAX_PROBES = 12, MAX_CONSUMERS = 8, LOOK_NS = 15013 };

/* How all is called that is made in tracefs: groups of probes, and instances. Whoever cleans up goes by it. */
#define GROUP "krepro"

/* One consumer of a probe: a tracefs instance that records, filters, aggregates; or an eBPF program. */
struct consumer {
	bool record, stack;
	char filter[128], hist[160];
	struct program program;
	struct ring ring;
	int bpf, event, link, passes; /* descriptors; 0: none */
	uint64_t passed;
	double read_passes;
};

struct probe {
	char provider[32], target[64], definition[256], event[96];
	struct consumer consumers[MAX_CONSUMERS];
	int n_consumers, counter, sampler;
	char *ring;
	bool kept; /* the sampler's ring, by the keeper */
	uint64_t firings;
	long long hits, misses;
	/* Of its events and stacks, as a look of a few rounds found them; what readers of empty buffers fire a thousand times. */
	double frames, place, user_frames, in_kernel, found[3], by_wake, by_read, by_ring;
	long size;
	int texts, arrays; /* copies of what a system call's arguments point to: strings, bytes */
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

/* How long the events of the probes that have one are, without strings and stacks; what system calls' copy of a user's. */
void read_sizes(void);

/*
 * One consumer that takes stacks, alone; or a sampler that takes them: the clock's, each LOOK_NS, which is in step with
 * nothing; or of the event of a probe whose program takes them, for perf and programs have the same stacks, or that has
 * no such consumer (-1). `start_one` and stop_all go together.
 */
void start_one(struct probe *probe, int number);

/* The programs alone, which tells what they execute; stop_all closes them. */
void load_programs(void);

/* The mean number of frames of the kernel's and of the user's stacks that a sampler's ring has, and how many have the first. */
void sampled_frames(struct probe *probe);

/* Up to where a sampler has written; and the same of what it wrote between two such places, into `found`. */
uint64_t sampled_until(const struct probe *probe);
void found_frames(struct probe *probe, uint64_t from, uint64_t until);

/* What the kernel says of hits and misses; -1 where it says nothing. */
void read_hits(void);

#endif
