/*
 * timed: run a command and write how long it took, as one line of JSON; its exit status is passed on.
 *
 *   timed STATS COMMAND...
 */
#include "tools.h"

int main(int argc, char **argv)
{
	uint64_t begin_ns, elapsed_ns;
	struct rusage usage;
	int stats, status;
	pid_t pid;

	if (argc < 3)
		die("usage: timed STATS COMMAND...");
	stats = create_or_die(argv[1]);
	begin_ns = now_ns();
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid)
		run_or_exit(argv + 2);
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			die_errno("wait");
	elapsed_ns = now_ns() - begin_ns;
	status = shell_status(status);
	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status) < 0)
		die_errno("%s", argv[1]);
	return status;
}
