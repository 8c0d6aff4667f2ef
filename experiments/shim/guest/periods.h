/* Intervals counted by size: 16 buckets to the octave, exact below 16 cycles. */
#ifndef SHIM_PERIODS_H
#define SHIM_PERIODS_H

#include <stdint.h>
#include <stdio.h>

enum { PERIODS_SUB = 4, PERIODS = 64 << PERIODS_SUB };

struct periods {
	struct {
		uint64_t windows, trusted;
	} of[PERIODS];
};

static inline unsigned int periods_bucket(uint64_t cycles)
{
	unsigned int octave;

	if (cycles < 1u << PERIODS_SUB)
		return (unsigned int)cycles;
	octave = 63u - (unsigned int)__builtin_clzll(cycles);
	return ((octave - PERIODS_SUB + 1) << PERIODS_SUB) + (unsigned int)(cycles >> (octave - PERIODS_SUB)) -
	       (1u << PERIODS_SUB);
}

/* The least interval of a bucket. */
static inline uint64_t periods_low(unsigned int bucket)
{
	unsigned int octave = bucket >> PERIODS_SUB;

	if (!octave)
		return bucket;
	return ((1ull << PERIODS_SUB) + (bucket & ((1u << PERIODS_SUB) - 1))) << (octave - 1);
}

static inline void periods_write(const struct periods *periods, FILE *out)
{
	fprintf(out, "low,high,windows,trusted\n");
	for (unsigned int i = 0; i < PERIODS; i++)
		if (periods->of[i].windows)
			fprintf(out, "%llu,%llu,%llu,%llu\n", (unsigned long long)periods_low(i),
				(unsigned long long)periods_low(i + 1), (unsigned long long)periods->of[i].windows,
				(unsigned long long)periods->of[i].trusted);
}

#endif
