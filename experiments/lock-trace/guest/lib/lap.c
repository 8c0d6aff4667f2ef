// SPDX-License-Identifier: MIT
#include "lap.h"

void write_lap(const char *folder, const struct lap *lap)
{
	FILE *file;

	if (!folder)
		return;
	file = create_in(folder, "lap.tsv");
	fprintf(file, "lap\tbegin\tend\n0\t%llu\t%llu\n", (unsigned long long)lap->begin,
		(unsigned long long)lap->end);
	close_or_die(file, "lap.tsv");
}

void print_times(const char *workload, uint64_t operations, uint64_t elapsed_ns, uint64_t cycles)
{
	printf("{\"workload\": \"%s\", \"operations\": %llu, \"elapsed_ns\": %llu, \"cycles\": %llu}\n", workload,
	       (unsigned long long)operations, (unsigned long long)elapsed_ns, (unsigned long long)cycles);
	flush_or_die();
}
