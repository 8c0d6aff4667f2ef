// SPDX-License-Identifier: MIT
/*
 * ptcycle N MAX_US PID [follow]: start and stop a trace of a running process N times, each for up to MAX_US µs.
 *
 * Every cycle has its own file; every second one ends by being closed. One line of JSON says how often each errno came,
 * and how many traces' counts did not add up or had tasks left that nobody traced. Exit 3 if there were any.
 */
#include "trace.h"

int main(int argc, char **argv)
{
	unsigned int n, most, unbalanced = 0, started = 0, busy = 0, gone = 0, other = 0, live = 0;
	uint64_t seed = 1, records = 0, tasks = 0;
	pid_t pid;

	if (argc < 4)
		die_usage("usage: ptcycle N MAX_US PID [follow]");
	n = (unsigned int)argument("N", argv[1], 1, 1 << 30);
	most = (unsigned int)argument("MAX_US", argv[2], 1, 1 << 30);
	pid = (pid_t)argument("PID", argv[3], 1, 1 << 30);
	for (unsigned int i = 0; i < n; i++) {
		int fd = open_device(), error = start_trace(fd, pid, argc > 4 ? PAGE_TRACE_FOLLOW : 0);
		struct page_trace_stats stats;

		if (!error) {
			started++;
			nap_us((unsigned int)random_below(&seed, most));
			if (i & 1 && ioctl(fd, PAGE_TRACE_STOP))
				die_errno("PAGE_TRACE_STOP");
			stats = get_stats(fd);
			unbalanced += !balanced(&stats);
			live += i & 1 && stats.live;
			records += stats.records + stats.lost;
			tasks += stats.tasks;
		} else if (error == EBUSY) {
			busy++;
		} else if (error == ESRCH) {
			gone++;
		} else {
			other = (unsigned int)error;
		}
		close(fd);
	}
	printf("{\"started\": %u, \"busy\": %u, \"gone\": %u, \"other\": %u, \"tasks\": %llu, \"visits\": %llu, "
	       "\"unbalanced\": %u, \"live\": %u}\n",
	       started, busy, gone, other, (unsigned long long)tasks, (unsigned long long)records, unbalanced, live);
	return unbalanced || live || other ? EXIT_WRONG : 0;
}
