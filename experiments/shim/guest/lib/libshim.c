// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "known.h"
#include "libshim.h"

enum { LOOPS = 1000000, TRIES = 5 };

bool shim_open(struct shim_probe *probe, int cpu)
{
	*probe = (struct shim_probe){ .cpu = cpu };
	bounds_parse("0.99,1.01", &probe->bounds);
	if (cpu == SHIM_SELF)
		return true;
	if (cpu < 0 || cpu >= ppid_cpus()) {
		errno = EINVAL;
		return false;
	}
	probe->line = ppid_map();
	if (probe->line)
		probe->line += cpu;
	return true;
}

/* An event of the calling thread has to count a loop of the calling thread, if it counts instructions. */
static void check_own(struct signal_source *signal)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = signal_read(signal), counted;

		known_loop(LOOPS);
		counted = signal_read(signal) - before;
		least = counted < least ? counted : least;
	}
	signal->expected = 2 * LOOPS;
	signal->counted = least;
	if (least < 2 * LOOPS || (least - 2 * LOOPS) * 100 > 2 * LOOPS)
		snprintf(signal->reason, sizeof(signal->reason), "known work of %d instructions was counted as %llu", 2 * LOOPS,
			 (unsigned long long)least);
}

/* What the line publishes, else for instructions the oracle's page. */
static void open_of_cpu(struct signal_source *signal, const struct event *event, const struct shim_probe *probe)
{
	const bool instructions = event == &events[0];
	struct signal_source oracle = { 0 };

	signal_slot(signal, event, probe->line);
	if (!signal->reason[0] && instructions)
		signal_check(signal, probe->cpu);
	else if (!signal->reason[0])
		signal_trust_as(signal, &events[0], probe->line, probe->cpu);
	if (!signal->reason[0] || !instructions)
		return;
	signal_oracle(&oracle, probe->cpu);
	if (!oracle.reason[0])
		signal_check(&oracle, probe->cpu);
	if (!oracle.reason[0])
		*signal = oracle;
}

bool shim_add_event(struct shim_probe *probe, const char *name)
{
	const struct event *event = event_named(name);
	struct signal_source signal = { 0 };

	if (!event) {
		snprintf(probe->reason, sizeof(probe->reason), "no such event");
		return false;
	}
	if (probe->n_signals == SIGNALS) {
		snprintf(probe->reason, sizeof(probe->reason), "more than %d events", SIGNALS);
		return false;
	}
	if (probe->cpu == SHIM_SELF) {
		signal_pmu(&signal, event);
		if (!signal.reason[0] && event == &events[0])
			check_own(&signal);
	} else {
		open_of_cpu(&signal, event, probe);
	}
	snprintf(probe->reason, sizeof(probe->reason), "%s", signal.reason);
	if (signal.reason[0])
		return false;
	probe->signals[probe->n_signals++] = signal;
	return true;
}

bool shim_add_word(struct shim_probe *probe, const char *name, const volatile uint64_t *word)
{
	struct signal_source signal = { .source = SOURCE_MEMORY, .at = word };

	if (probe->n_signals == SIGNALS)
		return false;
	snprintf(signal.name, sizeof(signal.name), "%s", name);
	probe->signals[probe->n_signals++] = signal;
	return true;
}
