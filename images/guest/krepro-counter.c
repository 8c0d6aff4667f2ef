// SPDX-License-Identifier: MIT
/*
 * krepro-counter [LOOPS]: executed instructions of every CPU, as JSON, before and after a loop of LOOPS times two
 * instructions on the CPU that it runs on. Without counters it fails, with the reason.
 */
#include "krepro.h"
#include "krepro-counter.h"

#include <sched.h>

static void print(const char *name, const uint64_t *counts, unsigned int cpus)
{
	printf("\"%s\": [", name);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		printf("%s%llu", cpu ? ", " : "", (unsigned long long)counts[cpu]);
	printf("]");
}

int main(int argc, char **argv)
{
	enum { MAX_CPUS = COUNTER_BYTES / COUNTER_LINE - 1 };
	unsigned long loops = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	uint64_t before[MAX_CPUS], after[MAX_CPUS];
	const volatile unsigned char *map = counter_map();
	unsigned int cpus;

	if (!map)
		die("%s", errno == ENODATA ? "nobody publishes counts: needs oracle: [counters]" :
					     "no device: needs devices: [counters]");
	cpus = counter_cpus(map);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		before[cpu] = counter_read(map, cpu);
	if (loops)
		__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(loops) : : "cc");
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		after[cpu] = counter_read(map, cpu);
	printf("{\"cpu\": %d, ", sched_getcpu());
	print("before", before, cpus);
	printf(", ");
	print("after", after, cpus);
	printf("}\n");
	return 0;
}
