// SPDX-License-Identifier: MIT
/*
 * shortwork NAME --PAGES ...: programs for a machine with too little memory, with advice about them followed or not.
 *
 *   shortwork columns PAGES COLUMNS column|row    sum COLUMNS numbers of each of PAGES rows, a row a page
 *   shortwork scan PAGES HOT none|keep|drop       go through PAGES once; every 4th takes one of HOT pages at random too
 *
 * keep: the HOT pages are locked. drop: a page that was gone through is given up as cold. The answer is the same.
 */
#include "page.h"

enum { WORDS = PAGE / 8, SCANNED_PER_HOT = 4 };

static volatile uint64_t *memory(uint64_t pages)
{
	void *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die_errno("no %llu pages of memory", (unsigned long long)pages);
	return at;
}

static volatile uint64_t *filled(uint64_t pages, uint64_t seed)
{
	volatile uint64_t *words = memory(pages);

	for (uint64_t page = 0; page < pages; page++)
		for (uint64_t i = 0; i < WORDS; i += 8)
			words[page * WORDS + i] = random_u64(&seed);
	return words;
}

static uint64_t columns(uint64_t pages, uint64_t n, bool by_column)
{
	volatile uint64_t *matrix = filled(pages, default_seed());
	uint64_t sum = 0;

	if (by_column) {
		for (uint64_t column = 0; column < n; column++)
			for (uint64_t row = 0; row < pages; row++)
				sum += matrix[row * WORDS + column];
	} else {
		for (uint64_t row = 0; row < pages; row++)
			for (uint64_t column = 0; column < n; column++)
				sum += matrix[row * WORDS + column];
	}
	return sum;
}

static uint64_t scan(uint64_t pages, uint64_t hot, bool keep, bool drop)
{
	volatile uint64_t *table = filled(hot, default_seed()), *passed;
	uint64_t state = default_seed(), sum = 0;

	if (keep && mlock((const void *)table, hot * PAGE))
		die_errno("mlock");
	passed = filled(pages, default_seed() + 1);
	for (uint64_t page = 0; page < pages; page++) {
		for (uint64_t i = 0; i < WORDS; i++)
			sum += passed[page * WORDS + i];
		if (page % SCANNED_PER_HOT == 0)
			sum += table[random_below(&state, (uint32_t)hot) * WORDS];
		if (drop && madvise((void *)(passed + page * WORDS), PAGE, MADV_COLD))
			die_errno("MADV_COLD");
	}
	return sum;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "columns", "scan" };
	static const char *const orders[] = { "column", "row" };
	static const char *const advices[] = { "none", "keep", "drop" };
	uint64_t pages, n, sum;

	if (argc != 5)
		die_usage("usage: shortwork columns PAGES COLUMNS column|row | scan PAGES HOT none|keep|drop");
	pages = argument("PAGES", argv[2], 1, 1 << 20);
	if (choice("NAME", argv[1], names, 2) == 0) {
		n = argument("COLUMNS", argv[3], 1, WORDS);
		sum = columns(pages, n, choice("order", argv[4], orders, 2) == 0);
	} else {
		const unsigned int advice = choice("advice", argv[4], advices, 3);

		n = argument("HOT", argv[3], 1, 1 << 20);
		sum = scan(pages, n, advice == 1, advice == 2);
	}
	printf("{\"workload\": \"%s\", \"sum\": %llu}\n", argv[1], (unsigned long long)sum);
	flush_or_die();
	return 0;
}
