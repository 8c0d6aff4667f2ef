// SPDX-License-Identifier: MIT
#include "trust.h"

#include <stddef.h>
#include <string.h>

/* "0.99" or "99/100", exactly as it is written; false for anything else, and above 32 bits. */
static bool ratio_parse(const char *text, size_t length, struct ratio *out)
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

bool bounds_parse(const char *text, struct bounds *out)
{
	const char *comma = strchr(text, ',');

	return comma && ratio_parse(text, (size_t)(comma - text), &out->low) &&
	       ratio_parse(comma + 1, strlen(comma + 1), &out->high) &&
	       (uint64_t)out->low.up * out->high.down <= (uint64_t)out->high.up * out->low.down;
}
