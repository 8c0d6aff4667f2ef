// SPDX-License-Identifier: GPL-2.0-or-later
#include "check.h"

#include "region.h"

#include <inttypes.h>

void check_done(struct check *check, uint64_t counted)
{
	unsigned int i = regions[KIND_WORKLOAD].begun; /* that which comes next */

	if (i >= sizeof(check->least) / sizeof(check->least[0]))
		return;
	if (check->n <= i || counted < check->least[i])
		check->least[i] = counted;
	if (check->n <= i)
		check->n = i + 1;
}

void check_report(const struct check *check, FILE *json)
{
	fputs("[", json);
	for (unsigned int i = 0; i < check->n; i++)
		fprintf(json, "%s%" PRIu64, i ? ", " : "", check->least[i]);
	fputs("]", json);
}
