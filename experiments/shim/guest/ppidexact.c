// SPDX-License-Identifier: MIT
/*
 * ppidexact MODULE SECONDS: whether the device is right, without an observer, as JSON. The module's own timer, if it has
 * one, compares each line with the thread that it interrupts, and the switches that the lines count are compared with the kernel's
 * own count (/proc/stat). On machines of one CPU nothing of it depends on time or on the host.
 */
#include "krepro.h"
#include "ppid.h"

/* A BPF program has no timer. */
static bool verifies(const char *module)
{
	char path[120];

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/verify", module);
	return !access(path, F_OK);
}

static void put_or_die(const char *module, const char *parameter, const char *text)
{
	char path[120];

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, parameter);
	if (!try_put_text(path, text, 0))
		die_errno("%s", path);
}

static uint64_t kernel_switches(void)
{
	static char text[65536];
	const char *at;

	if (get_text("/proc/stat", text, sizeof(text)) <= 0 || !(at = strstr(text, "\nctxt ")))
		die("/proc/stat has no ctxt");
	return strtoull(at + 6, NULL, 10);
}

struct switches {
	uint64_t slots, kernel;
};

/* Both counts of one moment: no CPU switches between. */
static struct switches both(const struct ppid_line *map)
{
	for (int i = 0; i < 1000; i++) {
		struct switches now = { 0, 0 };
		uint64_t after = 0;

		for (int cpu = 0; cpu < ppid_cpus(); cpu++)
			now.slots += map[cpu].begun;
		now.kernel = kernel_switches();
		for (int cpu = 0; cpu < ppid_cpus(); cpu++)
			after += map[cpu].begun;
		if (after == now.slots)
			return now;
	}
	die("the CPUs switch all the time");
}

int main(int argc, char **argv)
{
	unsigned long long threads = 0, threads_wrong = 0, idle = 0, idle_wrong = 0;
	struct switches before, after;
	const struct ppid_line *map;
	char path[120], text[120];
	double seconds;

	if (argc != 3 || !((seconds = strtod(argv[2], NULL)) > 0 && seconds <= 3600))
		die_usage("usage: ppidexact MODULE SECONDS");
	map = ppid_map();
	if (!map)
		die_errno(PPID_DEVICE);
	if (verifies(argv[1]))
		put_or_die(argv[1], "verify", "97"); /* no multiple of anything else's period */
	before = both(map);
	sleep_ns((uint64_t)(seconds * 1e9));
	after = both(map);
	snprintf(path, sizeof(path), "/sys/module/%s/parameters/verified", argv[1]);
	if (verifies(argv[1])) {
		if (get_text(path, text, sizeof(text)) <= 0 ||
		    sscanf(text, "%llu %llu %llu %llu", &threads, &threads_wrong, &idle, &idle_wrong) != 4)
			die_errno("%s", path);
		put_or_die(argv[1], "verify", "0");
	}
	printf("{\"threads\": %llu, \"threads_wrong\": %llu, \"idle\": %llu, \"idle_wrong\": %llu,\n", threads, threads_wrong,
	       idle, idle_wrong);
	printf(" \"slot_switches\": %llu, \"kernel_switches\": %llu}\n", (unsigned long long)(after.slots - before.slots),
	       (unsigned long long)(after.kernel - before.kernel));
	flush_or_die();
	return 0;
}
