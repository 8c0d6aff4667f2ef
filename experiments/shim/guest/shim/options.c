// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "events.h"
#include "options.h"

#include <ctype.h>

uint64_t duration(const char *option, const char *text, bool *is_cycles)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "cycles", 0 } };
	char *end;
	unsigned long long value;

	*is_cycles = false;
	if (!strcmp(text, "fast") || !strcmp(text, "0"))
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (!errno && isdigit((unsigned char)*text) && value < 1000000000ull) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strcmp(end, units[i].unit))
				continue;
			*is_cycles = !units[i].ns;
			return *is_cycles ? value : value * units[i].ns;
		}
	}
	die_usage("%s %s: fast, or a time such as 500ns, 10us, 3000cycles" USAGE, option, text);
}

struct options read_options(int argc, char **argv)
{
	struct options o = { .cpu = 1, .known_cpu = -1, .seconds = 1, .period = "fast", .min_window = "0",
			     .bounds = "0.99,1.01", .ring = 65536, .drain = 20, .seed = 1 };

	for (int i = 2; i < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		char *end;

		if (!value)
			die_usage("%s: no value" USAGE, name);
		if (!strcmp(name, "--cpu")) {
			o.cpu = (int)argument(name, value, 0, 4095);
		} else if (!strcmp(name, "--observer-cpu")) {
			o.observer_cpu = (int)argument(name, value, 0, 4095);
		} else if (!strcmp(name, "--known-cpu")) {
			o.known_cpu = (int)argument(name, value, 0, 4095);
		} else if (!strcmp(name, "--seconds")) {
			o.seconds = strtod(value, &end);
			if (end == value || *end || !(o.seconds > 0 && o.seconds <= 86400))
				die_usage("%s %s: seconds above 0, at most 86400" USAGE, name, value);
		} else if (!strcmp(name, "--period")) {
			o.period = value;
		} else if (!strcmp(name, "--min-window")) {
			o.min_window = value;
		} else if (!strcmp(name, "--bounds")) {
			o.bounds = value;
		} else if (!strcmp(name, "--event")) {
			if (!event_named(value))
				die_usage("%s %s: no such event; see shim list" USAGE, name, value);
			if (o.n_events + o.n_memory == SIGNALS)
				die_usage("%s %s: more than %d signals" USAGE, name, value, SIGNALS);
			o.events[o.n_events++] = value;
		} else if (!strcmp(name, "--signal")) {
			if (o.n_events + o.n_memory == SIGNALS)
				die_usage("%s %s: more than %d signals" USAGE, name, value, SIGNALS);
			o.memory[o.n_memory++] = value;
		} else if (!strcmp(name, "--out")) {
			o.out = value;
		} else if (!strcmp(name, "--samples")) {
			o.samples = value;
		} else if (!strcmp(name, "--switches")) {
			o.switches = value;
		} else if (!strcmp(name, "--limit")) {
			o.limit = argument(name, value, 0, UINT64_MAX);
		} else if (!strcmp(name, "--ring")) {
			o.ring = argument(name, value, 0, 1 << 24);
			if (!o.ring || o.ring & (o.ring - 1))
				die_usage("%s %s: a power of two is wanted" USAGE, name, value);
		} else if (!strcmp(name, "--drain")) {
			o.drain = argument(name, value, 0, 10000);
		} else if (!strcmp(name, "--host")) {
			o.host = argument(name, value, 0, 10000);
		} else if (!strcmp(name, "--priority")) {
			o.priority = argument(name, value, 0, 99);
		} else if (!strcmp(name, "--seed")) {
			o.seed = argument(name, value, 0, UINT64_MAX);
		} else if (!strcmp(name, "--inject")) {
			const char *comma = strchr(value, ',');
			char every[24];

			if (!comma || (size_t)(comma - value) >= sizeof(every))
				die_usage("%s %s: EVERY,NS is wanted" USAGE, name, value);
			snprintf(every, sizeof(every), "%.*s", (int)(comma - value), value);
			o.inject_every = argument(name, every, 0, 1 << 30);
			o.inject_ns = argument(name, comma + 1, 0, 1000000000);
			if (!o.inject_every || !o.inject_ns)
				die_usage("%s %s: both above 0" USAGE, name, value);
		} else {
			die_usage("%s: no such option" USAGE, name);
		}
	}
	return o;
}
