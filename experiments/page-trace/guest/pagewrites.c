// SPDX-License-Identifier: MIT
/*
 * pagewrites: are written pages still as written after the kernel has paged them out?
 *
 * Hardware notes a write in the page table that it uses. If the kernel does not see that note, it takes the page for
 * clean and drops it. Two kinds of pages where only this note tells: those of a shared mapping of a tmpfs file that
 * were read before they were written, and private ones that were given up with MADV_FREE and written again. Needs swap
 * space (page-swap). Exit 3 if a page was lost, 125 if too few were paged out to tell.
 */
#include "page.h"

enum { PAGES = 32, ROUNDS = 3 };

struct result {
	unsigned int evicted, lost;
};

static int pagemap;

static uint64_t value_of(unsigned int page, unsigned int round)
{
	uint64_t state = page * 1000 + round;

	return random_u64(&state);
}

/* How many pages the table no longer has. */
static unsigned int absent(const volatile uint8_t *memory)
{
	uint64_t entries[PAGES];
	unsigned int n = 0;

	if (pread(pagemap, entries, sizeof(entries), (off_t)((uintptr_t)memory / PAGE * 8)) != sizeof(entries))
		die_errno("/proc/self/pagemap");
	for (unsigned int i = 0; i < PAGES; i++)
		n += !(entries[i] >> 63);
	return n;
}

static void one_round(volatile uint8_t *memory, unsigned int round, bool give_up, struct result *result)
{
	for (unsigned int i = 0; i < PAGES; i++)
		(void)memory[i * PAGE];
	if (give_up && madvise((void *)memory, PAGES * PAGE, MADV_FREE))
		die_errno("MADV_FREE");
	for (unsigned int i = 0; i < PAGES; i++)
		*(volatile uint64_t *)(memory + i * PAGE + 64) = value_of(i, round);
	/* Twice: a given up page that was written again only becomes one to page out at the first. */
	for (int i = 0; i < 2; i++)
		if (madvise((void *)memory, PAGES * PAGE, MADV_PAGEOUT))
			die_errno("MADV_PAGEOUT");
	result->evicted += absent(memory);
	for (unsigned int i = 0; i < PAGES; i++)
		result->lost += *(volatile uint64_t *)(memory + i * PAGE + 64) != value_of(i, round);
}

static volatile uint8_t *map(int flags, int fd)
{
	void *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (memory == MAP_FAILED)
		die_errno("mmap");
	return memory;
}

int main(int argc, char **argv)
{
	struct result shared = { 0, 0 }, freed = { 0, 0 };

	(void)argv;
	if (argc != 1)
		die_usage("usage: pagewrites");
	pagemap = open_or_die("/proc/self/pagemap", O_RDONLY);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		const int fd = memfd_create("pagewrites", MFD_CLOEXEC);
		volatile uint8_t *memory;

		if (fd < 0 || ftruncate(fd, PAGES * PAGE))
			die_errno("memfd_create");
		one_round(map(MAP_SHARED, fd), round, false, &shared);
		memory = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
		for (unsigned int i = 0; i < PAGES; i++)
			memory[i * PAGE] = 1;
		one_round(memory, round, true, &freed);
	}
	printf("{\"pages\": %d, \"shared\": {\"evicted\": %u, \"lost\": %u}, \"freed\": {\"evicted\": %u, \"lost\": %u}}\n",
	       ROUNDS * PAGES, shared.evicted, shared.lost, freed.evicted, freed.lost);
	if (shared.lost || freed.lost)
		return EXIT_WRONG;
	if (shared.evicted < ROUNDS * PAGES / 2 || freed.evicted < ROUNDS * PAGES / 2)
		die("too few pages were paged out; is there swap space (page-swap)?");
	return 0;
}
