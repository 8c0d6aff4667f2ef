/* SPDX-License-Identifier: MIT */
/*
 * Whether a sample may be believed: the interval between two begin clocks and the one between their end clocks agree.
 * In integers throughout. Nothing is divided, so equal clocks are no special case: they are not trusted.
 */
#ifndef SHIM_TRUST_H
#define SHIM_TRUST_H

#ifndef __SIZEOF_INT128__
#error this program is for CPUs of 64 bits
#endif

#include <stdbool.h>
#include <stdint.h>

struct ratio {
	uint32_t up, down;
};

struct bounds {
	struct ratio low, high; /* both included */
};

/* Clocks that stand still or run backwards are not trusted. Inline: one for each window. */
static inline bool trusted(const struct bounds *bounds, uint64_t begin0, uint64_t end0, uint64_t begin1, uint64_t end1)
{
	uint64_t b = begin1 - begin0, e = end1 - end0;
	unsigned __int128 wide_b = b, wide_e = e;

	if (begin1 <= begin0 || end1 < end0)
		return false;
	if (!((b | e) >> 32)) /* bounds have 32 bits too: 64 are enough, and faster */
		return bounds->low.up * b <= e * bounds->low.down && e * bounds->high.down <= bounds->high.up * b;
	return bounds->low.up * wide_b <= wide_e * bounds->low.down &&
	       wide_e * bounds->high.down <= bounds->high.up * wide_b;
}

/* "LOW,HIGH", LOW not above HIGH. */
bool bounds_parse(const char *text, struct bounds *out);

#endif
