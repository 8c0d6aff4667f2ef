/*
 * The arena: pages at a fixed address that nothing touches but what a program states. It is filled and looked at through
 * /proc/self/mem, which goes by the kernel's own addresses, so neither a tracer nor the oracle sees that.
 */
#ifndef ARENA_H
#define ARENA_H

#include "krepro-roi.h"
#include "tool.h"

#include <fcntl.h>

#define ARENA 0x10000000000ull

static int arena_fd;

static inline uint64_t at(unsigned int page, int offset)
{
	return ARENA + (uint64_t)page * PAGE + (uint64_t)(int64_t)offset;
}

/* Everything there and dirty: a fault would repeat an access, and a first write would be a fault of its own. */
static inline void make_arena(unsigned int pages)
{
	void *arena = mmap((void *)ARENA, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);

	if (arena != (void *)ARENA)
		die_errno("no arena");
	arena_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (arena_fd < 0)
		die_errno("/proc/self/mem");
}

static inline void put(uint64_t address, uint64_t value)
{
	if (pwrite(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("writing the arena");
}

static inline uint64_t peek(uint64_t address)
{
	uint64_t value;

	if (pread(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("reading the arena");
	return value;
}

static inline uint32_t xorshift(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ (x << 5);
}

#endif
