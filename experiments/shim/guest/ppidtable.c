// SPDX-License-Identifier: MIT
/* ppidtable [TIMES]: the paper's ppid_test: which thread each CPU runs, once a second, TIMES times (0: until it is ended). */
#include "krepro.h"
#include "ppid.h"

int main(int argc, char **argv)
{
	const uint64_t times = argc > 1 ? argument("TIMES", argv[1], 0, UINT64_MAX) : 0;
	const struct ppid_line *map = ppid_map();

	if (argc > 2)
		die_usage("usage: ppidtable [TIMES]");
	if (!map)
		die_errno(PPID_DEVICE);
	for (uint64_t turn = 0; !times || turn < times; turn++) {
		if (turn)
			sleep_ns(NSEC_PER_SEC);
		for (int cpu = 0; cpu < ppid_cpus(); cpu++) {
			const uint64_t ids = map[cpu].ids; /* one load: both are of one thread */

			printf("CPU%d: tgid %d pid %d\n", cpu, ppid_tgid(ids), ppid_pid(ids));
		}
		fflush(stdout);
	}
	flush_or_die();
	return 0;
}
