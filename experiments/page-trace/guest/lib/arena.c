// SPDX-License-Identifier: MIT
#include "arena.h"

static int arena_fd;

void make_arena(unsigned int pages)
{
	void *arena = mmap((void *)ARENA, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);

	if (arena != (void *)ARENA)
		die_errno("no arena");
	arena_fd = open_or_die("/proc/self/mem", O_RDWR);
}

void put(uint64_t address, uint64_t value)
{
	if (pwrite(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("writing the arena");
}

uint64_t peek(uint64_t address)
{
	uint64_t value;

	if (pread(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("reading the arena");
	return value;
}
