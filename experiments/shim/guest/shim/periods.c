// SPDX-License-Identifier: MIT
#include "periods.h"

uint64_t periods_low(unsigned int bucket)
{
	unsigned int octave = bucket >> PERIODS_SUB;

	if (!octave)
		return bucket;
	return ((1ull << PERIODS_SUB) + (bucket & ((1u << PERIODS_SUB) - 1))) << (octave - 1);
}

void periods_write(const struct periods *periods, FILE *out)
{
	fprintf(out, "low,high,windows,trusted\n");
	for (unsigned int i = 0; i < PERIODS; i++)
		if (periods->of[i].windows)
			fprintf(out, "%llu,%llu,%llu,%llu\n", (unsigned long long)periods_low(i),
				(unsigned long long)periods_low(i + 1), (unsigned long long)periods->of[i].windows,
				(unsigned long long)periods->of[i].trusted);
}
