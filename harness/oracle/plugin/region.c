// SPDX-License-Identifier: GPL-2.0-or-later
#include "region.h"

#include "registers.h"

#include <string.h>

struct region regions[KINDS];

static unsigned int mismatched;
static bool from_user = true;

/* nopl disp32(%eax): 0f 1f 80 and the displacement. */
bool mark_of(const struct instruction *instruction, struct mark *mark)
{
	const uint8_t *code = instruction->code;
	uint32_t displacement, kind, operation;

	if (instruction->size != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return false;
	memcpy(&displacement, code + 3, sizeof(displacement));
	kind = displacement >> 8 & 0xff;
	operation = displacement & 0xff;
	*mark = (struct mark){ (enum kind)kind, (enum operation)operation };
	return (displacement & 0xffff0000u) == MARK && kind < KINDS && operation < OPERATIONS;
}

bool mark_executed(unsigned int cpu, struct mark mark)
{
	struct region *region = &regions[mark.kind];
	bool begin = mark.operation == OP_BEGIN;

	if (registers_known() && (read_register_of(cpu, REGISTER_CS) & 3) != 3)
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

void region_report(FILE *json)
{
	fprintf(json, " \"marks\": {\"mismatched\": %u, \"from_user\": %s, \"workloads\": %u, \"laps\": %u},\n",
		mismatched, from_user ? "true" : "false", regions[KIND_WORKLOAD].begun, regions[KIND_LAP].begun);
}
