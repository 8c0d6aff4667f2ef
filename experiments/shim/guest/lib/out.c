// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "out.h"

FILE *open_out(const char *prefix, const char *suffix)
{
	char path[512];
	FILE *out;

	if (snprintf(path, sizeof(path), "%s.%s", prefix, suffix) >= (int)sizeof(path))
		die_with(EXIT_TOOL, ENAMETOOLONG, "%s", prefix);
	out = fopen(path, "w");
	if (!out)
		die_errno("%s", path);
	return out;
}
