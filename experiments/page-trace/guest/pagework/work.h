/* SPDX-License-Identifier: MIT */
/* What the workloads of pagework share: options, memory, and the answer of one. */
#ifndef WORK_H
#define WORK_H

#include "page.h"

struct options {
	uint64_t seed, pages, rounds, n, bytes;
	bool store, touch;
	const char *order, *algorithm;
};

struct answer {
	uint64_t operations, checksum;
	uint64_t page; /* the first of its memory, where a reader has to know; else 0 */
};

/* prepare() gets memory and fills it, run() is what is measured and allocates nothing, finish() looks at the result. */
struct workload {
	const char *name;
	struct options usual;
	void (*prepare)(const struct options *options);
	struct answer (*run)(const struct options *options);
	void (*finish)(const struct options *options, struct answer *answer);
};

void *memory(uint64_t bytes, bool touch);

/* Inline: it is in the loops that are measured. */
static inline uint64_t mix(uint64_t checksum, uint64_t value)
{
	return (checksum ^ value) * 0x9e3779b97f4a7c15ull;
}

/* walks.c */
void walk_prepare(const struct options *o);
struct answer stream_run(const struct options *o);
struct answer stride_run(const struct options *o);
struct answer random_run(const struct options *o);
void chase_prepare(const struct options *o);
struct answer chase_run(const struct options *o);
void turns_prepare(const struct options *o);
struct answer turns_run(const struct options *o);
/* arrays.c */
void matmul_prepare(const struct options *o);
struct answer matmul_run(const struct options *o);
void matmul_finish(const struct options *o, struct answer *answer);
void sort_prepare(const struct options *o);
struct answer sort_run(const struct options *o);
void sort_finish(const struct options *o, struct answer *answer);
void hashjoin_prepare(const struct options *o);
struct answer hashjoin_run(const struct options *o);
/* btree.c */
void btree_prepare(const struct options *o);
struct answer btree_run(const struct options *o);

#endif
