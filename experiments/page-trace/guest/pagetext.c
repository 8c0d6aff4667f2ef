/* pagetext LINES [SEED]: lines of pseudo-random words, decided by the seed (default: KREPRO_SEED, else 1). */
#include "tool.h"

enum { WORDS = 512, MAX_WORD = 10, MAX_LINE = 10 };

int main(int argc, char **argv)
{
	const char *seed = argc == 3 ? argv[2] : getenv("KREPRO_SEED");
	uint64_t state = seed ? argument("SEED", seed, 0, UINT64_MAX) : 1;
	static char words[WORDS][MAX_WORD + 1];
	uint64_t lines;

	if (argc != 2 && argc != 3)
		usage_die("usage: pagetext LINES [SEED]");
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
	if (fflush(stdout))
		die_errno("writing");
	return 0;
}
