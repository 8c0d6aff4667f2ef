/* SPDX-License-Identifier: MIT */
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

/* Inline: one for each window. */
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
uint64_t periods_low(unsigned int bucket);
void periods_write(const struct periods *periods, FILE *out);

#endif
