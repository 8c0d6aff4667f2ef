// SPDX-License-Identifier: MIT
/* krepro-known loop N | pages SEED N PAIR: work whose instructions or page accesses are known to the last one. */
#include "krepro.h"
#include "krepro-roi.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 64, PAGE = 4096 };
#define PLACE ((volatile uint8_t *)0x20000000)

static uint32_t next(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ (x << 5);
}

static void walk(uint32_t x, unsigned long n)
{
	for (unsigned long i = 0; i < n; i++, x = next(x)) {
		volatile uint8_t *at = PLACE + (size_t)(x >> 8 & (PAGES - 1)) * PAGE + (x & (PAGE - 1));

		if (x >> 20 & 1)
			*at = (uint8_t)x;
		else
			(void)*at;
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "loop")) {
		unsigned long left = strtoul(argv[2], NULL, 10) / 2;

		__asm__ volatile(ROI_MARK(2, 0) "1: dec %0\n\tjnz 1b\n\t" ROI_MARK(2, 1) : "+r"(left) : : "cc");
		return 0;
	}
	if (argc == 5 && !strcmp(argv[1], "pages")) {
		uint32_t seed = (uint32_t)strtoul(argv[2], NULL, 10);
		unsigned long n = strtoul(argv[3], NULL, 10);
		pid_t child = 0;

		if (mmap((void *)PLACE, PAGES * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			die_errno("mmap");
		if (!strcmp(argv[4], "pair")) {
			child = fork();
			if (child < 0)
				die_errno("fork");
		}
		for (int i = 0; i < PAGES; i++)
			PLACE[i * PAGE] = 1; /* there, and not shared: a fault would repeat an access */
		if (!child && !strcmp(argv[4], "pair")) { /* the same addresses in another address space */
			walk(seed + 1, 40 * n);
			return 0;
		}
		roi_select();
		walk(seed, n);
		roi_deselect();
		if (child && waitpid(child, NULL, 0) < 0)
			die_errno("waitpid");
		return 0;
	}
	die_usage("usage: krepro-known loop N | krepro-known pages SEED N alone|pair");
}
