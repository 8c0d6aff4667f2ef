/*
 * Whether a sample may be believed: the interval between two begin clocks and the one between their end clocks agree.
 * In integers throughout. Nothing is divided, so equal clocks are no special case: they are not trusted.
 */
#ifndef SHIM_TRUST_H
#define SHIM_TRUST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ratio {
	uint32_t up, down;
};

struct bounds {
	struct ratio low, high; /* both included */
};

/* Clocks that stand still or run backwards are not trusted. */
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

/* "0.99" or "99/100", exactly as it is written; false for anything else, and above 32 bits. */
static inline bool ratio_parse(const char *text, size_t length, struct ratio *out)
{
	const char *end = text + length, *at = text;
	uint64_t up = 0, down = 0;

	for (; at < end && *at >= '0' && *at <= '9' && up <= UINT32_MAX; at++)
		up = up * 10 + (uint64_t)(*at - '0');
	if (at == text)
		return false;
	if (at == end) {
		down = 1;
	} else if (*at == '.' && at + 1 < end) {
		for (at++, down = 1; at < end && *at >= '0' && *at <= '9' && down <= UINT32_MAX; at++) {
			up = up * 10 + (uint64_t)(*at - '0');
			down *= 10;
		}
	} else if (*at == '/' && at + 1 < end) {
		for (at++; at < end && *at >= '0' && *at <= '9' && down <= UINT32_MAX; at++)
			down = down * 10 + (uint64_t)(*at - '0');
	}
	if (at != end || !down || up > UINT32_MAX || down > UINT32_MAX)
		return false;
	*out = (struct ratio){ (uint32_t)up, (uint32_t)down };
	return true;
}

/* "LOW,HIGH", LOW not above HIGH. */
static inline bool bounds_parse(const char *text, struct bounds *out)
{
	const char *comma = strchr(text, ',');

	return comma && ratio_parse(text, (size_t)(comma - text), &out->low) &&
	       ratio_parse(comma + 1, strlen(comma + 1), &out->high) &&
	       (uint64_t)out->low.up * out->high.down <= (uint64_t)out->high.up * out->low.down;
}

#endif
