// SPDX-License-Identifier: GPL-2.0-or-later
#include "region.h"

#include "isa.h"
#include "registers.h"

struct region regions[KINDS];

static unsigned int mismatched;
static bool from_user = true;

bool mark_of(const struct instruction *instruction, struct mark *mark)
{
	int number = isa_mark(instruction->code, instruction->size);

	*mark = (struct mark){ (enum kind)(number >> 8 & 0xff), (enum operation)(number & 0xff) };
	return number >= 0 && (number >> 8) < KINDS && (number & 0xff) < OPERATIONS;
}

bool mark_executed(unsigned int cpu, struct mark mark)
{
	struct region *region = &regions[mark.kind];
	bool begin = mark.operation == OP_BEGIN;

	if (registers_known() && !isa_in_user(cpu))
		from_user = false;
	if (!begin && mark.operation != OP_END)
		return true;
	if (region->open == begin) {
		mismatched++;
		return false;
	}
	region->begun += begin;
	region->open = begin;
	return true;
}

bool region_measured(void)
{
	return regions[KIND_WORKLOAD].open || regions[KIND_WINDOW].open;
}

void region_report(FILE *json)
{
	fprintf(json, " \"marks\": {\"mismatched\": %u, \"from_user\": %s, \"workloads\": %u, \"laps\": %u", mismatched,
		from_user ? "true" : "false", regions[KIND_WORKLOAD].begun, regions[KIND_LAP].begun);
	if (regions[KIND_WINDOW].begun) /* left out where no collector has one: their files stay as they were */
		fprintf(json, ", \"windows\": %u", regions[KIND_WINDOW].begun);
	fputs("},\n", json);
}
