// SPDX-License-Identifier: MIT
/*
 * krepro-roi begin|end: mark where the part of a trial begins and ends that the oracle counts.
 *
 * begin first does known work, by which the oracle checks itself: CHECKS times a loop of CHECK_LOOPS times two
 * instructions (on the host's clock one of them may be interrupted by another process), and CHECK_ACCESSES
 * pseudo-random accesses over CHECK_PAGES pages. Without an oracle all of it is a moment's work and nothing else, so a
 * guest's bits do not depend on whether it is watched.
 */
#include "krepro.h"
#include "krepro-roi.h"

enum { CHECKS = 3, CHECK_LOOPS = 100000, CHECK_PAGES = 16, CHECK_ACCESSES = 4096, PAGE = 4096 };

static volatile uint8_t pages[CHECK_PAGES][PAGE] __attribute__((aligned(4096)));

static void check_count(void)
{
	unsigned long left = CHECK_LOOPS;

	__asm__ volatile(ROI_MARK(1, 0) "1: dec %0\n\tjnz 1b\n\t" ROI_MARK(1, 1) : "+r"(left) : : "cc");
}

static void check_pages(void)
{
	uint32_t x = 0x12345678;

	for (int i = 0; i < CHECK_PAGES; i++)
		pages[i][0] = 1; /* there before the check: a fault would repeat an access */
	ROI(1, 2);
	(void)pages[0][0]; /* tells where the pages are */
	for (int i = 0; i < CHECK_ACCESSES; i++) {
		volatile uint8_t *at = &pages[x >> 8 & (CHECK_PAGES - 1)][x & (PAGE - 1)];

		if (x >> 20 & 1)
			*at = 1;
		else
			(void)*at;
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
	}
	ROI(1, 3);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "begin")) {
		for (int i = 0; i < CHECKS; i++)
			check_count();
		check_pages();
		roi_begin();
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "end")) {
		roi_end();
		return 0;
	}
	die_usage("usage: krepro-roi begin|end");
}
