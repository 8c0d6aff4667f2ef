/* SPDX-License-Identifier: MIT */
/*
 * The arena: pages at a fixed address that nothing touches but what a program states. It is filled and looked at through
 * /proc/self/mem, which goes by the kernel's own addresses, so neither a tracer nor the oracle sees that.
 */
#ifndef ARENA_H
#define ARENA_H

#include "page.h"

#define ARENA 0x10000000000ull

static inline uint64_t at(unsigned int page, int offset)
{
	return ARENA + (uint64_t)page * PAGE + (uint64_t)(int64_t)offset;
}

/* Everything there and dirty: a fault would repeat an access, and a first write would be a fault of its own. */
void make_arena(unsigned int pages);

void put(uint64_t address, uint64_t value);
uint64_t peek(uint64_t address);

static inline uint32_t xorshift(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ (x << 5);
}

#endif
