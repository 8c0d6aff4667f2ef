// SPDX-License-Identifier: MIT
/* pagetext LINES [SEED]: lines of pseudo-random words, decided by the seed (default: KREPRO_SEED, else 1). */
#include "krepro.h"

enum { WORDS = 512, MAX_WORD = 10, MAX_LINE = 10 };

int main(int argc, char **argv)
{
	uint64_t state = argc == 3 ? argument("SEED", argv[2], 0, UINT64_MAX) : default_seed();
	static char words[WORDS][MAX_WORD + 1];
	uint64_t lines;

	if (argc != 2 && argc != 3)
		die_usage("usage: pagetext LINES [SEED]");
	lines = argument("LINES", argv[1], 1, 1 << 28);
	for (unsigned int i = 0; i < WORDS; i++)
		for (uint64_t left = 2 + random_below(&state, MAX_WORD - 1); left--;)
			words[i][left] = (char)('a' + random_below(&state, 26));
	while (lines--) {
		for (uint64_t left = random_below(&state, MAX_LINE); left--;) {
			/* the product makes some words far more frequent than others */
			const uint64_t word = random_below(&state, WORDS) * random_below(&state, WORDS) / WORDS;

			fputs(words[word], stdout);
			putchar(' ');
		}
		printf("%llu\n", (unsigned long long)random_below(&state, 100000));
	}
	flush_or_die();
	return 0;
}
