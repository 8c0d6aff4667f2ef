// SPDX-License-Identifier: MIT
/*
 * timed: run a command and write how long it took, as one line of JSON; its exit status is passed on.
 *
 *   timed STATS COMMAND...
 */
#include "krepro.h"

int main(int argc, char **argv)
{
	uint64_t begin_ns, elapsed_ns;
	struct rusage usage;
	int stats, status;
	pid_t pid;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	if (argc < 3)
		die_usage("usage: timed STATS COMMAND...");
	stats = create_or_die(argv[1]);
	begin_ns = now_ns();
	pid = start_command(argv + 2, NULL, 0);
	status = shell_status(wait_for_command(pid, &usage));
	elapsed_ns = now_ns() - begin_ns;
	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status) < 0)
		die_errno("%s", argv[1]);
	return status;
}
