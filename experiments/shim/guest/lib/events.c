// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "events.h"

#include <ctype.h>
#include <linux/perf_event.h>
#include <strings.h>

const struct event events[EVENTS] = {
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "PERF_COUNT_HW_INSTRUCTIONS" },
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "PERF_COUNT_HW_CPU_CYCLES" },
	{ "ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, "PERF_COUNT_HW_REF_CPU_CYCLES" },
	{ "bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, "PERF_COUNT_HW_BUS_CYCLES" },
	{ "branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "PERF_COUNT_HW_BRANCH_INSTRUCTIONS" },
	{ "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, "PERF_COUNT_HW_BRANCH_MISSES" },
	{ "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, "PERF_COUNT_HW_CACHE_REFERENCES" },
	{ "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, "PERF_COUNT_HW_CACHE_MISSES" },
};

/* r01C2: the CPU's own number of an event, hexadecimal. Events of one model have no other name without libpfm4's tables. */
static const struct event *event_raw(const char *name)
{
	static struct event raw[8];
	static int n;
	char *end;
	uint64_t config;

	if (name[0] != 'r' || !isxdigit((unsigned char)name[1]) || strlen(name) > 17)
		return NULL;
	config = strtoull(name + 1, &end, 16);
	if (*end)
		return NULL;
	for (int i = 0; i < n; i++)
		if (raw[i].config == config)
			return &raw[i];
	if (n == 8)
		return NULL;
	raw[n] = (struct event){ strdup(name), PERF_TYPE_RAW, config, "" };
	return &raw[n++];
}

const struct event *event_named(const char *name)
{
	static const char *const same[][2] = { { "cpu-cycles", "cycles" }, { "branch-instructions", "branches" } };
	char plain[64];

	if (!strncasecmp(name, "perf::", 6))
		name += 6;
	if (strlen(name) >= sizeof(plain))
		return NULL;
	for (size_t i = 0; i <= strlen(name); i++)
		plain[i] = name[i] == '_' ? '-' : name[i];
	for (size_t i = 0; i < 2; i++)
		if (!strcasecmp(plain, same[i][0]))
			strcpy(plain, same[i][1]);
	if (event_raw(name))
		return event_raw(name);
	for (int i = 0; i < EVENTS; i++)
		if (!strcasecmp(plain, events[i].name) || !strcasecmp(name, events[i].other))
			return &events[i];
	return NULL;
}
