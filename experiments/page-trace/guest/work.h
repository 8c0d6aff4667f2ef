/* What the workloads of pagework share: options, memory, and the answer of one. */
#ifndef WORK_H
#define WORK_H

#include "tool.h"

struct options {
	uint64_t seed, pages, rounds, n, bytes;
	bool store, touch;
	const char *order, *algorithm;
};

struct answer {
	uint64_t operations, checksum;
};

/* prepare() gets memory and fills it, run() is what is measured and allocates nothing, finish() looks at the result. */
struct workload {
	const char *name;
	struct options usual;
	void (*prepare)(const struct options *options);
	struct answer (*run)(const struct options *options);
	void (*finish)(const struct options *options, struct answer *answer);
};

static inline void *memory(uint64_t bytes, bool touch)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die_errno("no %llu bytes of memory", (unsigned long long)bytes);
	for (uint64_t i = 0; touch && i < bytes; i += PAGE)
		at[i] = 0;
	return at;
}

static inline uint64_t mix(uint64_t checksum, uint64_t value)
{
	return (checksum ^ value) * 0x9e3779b97f4a7c15ull;
}

#endif
