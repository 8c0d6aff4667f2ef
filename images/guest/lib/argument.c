// SPDX-License-Identifier: MIT
/* Arguments. */
#include "krepro.h"

uint64_t argument(const char *name, const char *text, uint64_t lowest, uint64_t highest)
{
	unsigned long long value;
	char *end;

	if (!text)
		die_usage("%s needs a value", name);
	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull would take blanks and signs. */
	if (errno || *text < '0' || *text > '9' || *end || value < lowest || value > highest)
		die_usage("%s: %s is not a number from %llu to %llu", name, text, (unsigned long long)lowest,
			  (unsigned long long)highest);
	return value;
}

unsigned int choice(const char *name, const char *text, const char *const words[], unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(text, words[i]))
			return i;
	die_usage("%s: %s is none of %s to %s", name, text, words[0], words[count - 1]);
}

uint64_t default_seed(void)
{
	const char *text = getenv("KREPRO_SEED");

	return text ? argument("KREPRO_SEED", text, 0, UINT32_MAX) : 1;
}
