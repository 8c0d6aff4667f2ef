/* SPDX-License-Identifier: MIT */
/* Names of events, as perf and libpfm4's model `perf` spell them, and perf's raw ones. */
#ifndef SHIM_EVENTS_H
#define SHIM_EVENTS_H

#include <stdint.h>

enum { EVENTS = 8 };

struct event {
	const char *name;
	uint32_t type;
	uint64_t config;
	const char *other; /* libpfm4's name */
};

extern const struct event events[EVENTS];

/* Libpfm4 says perf::INSTRUCTIONS and PERF_COUNT_HW_INSTRUCTIONS, perf says cpu-cycles and branch-instructions too. */
const struct event *event_named(const char *name);

#endif
