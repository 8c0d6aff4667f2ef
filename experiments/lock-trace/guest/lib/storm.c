// SPDX-License-Identifier: MIT
#include "storm.h"

#include <sys/prctl.h>
#include <sys/wait.h>

struct lap storm_run(const struct storm *storm,
		     void (*work)(const struct storm *storm, unsigned int index))
{
	const char bytes[MOST_PROCESSES] = { 0 };
	struct lap lap;
	int ends[2], status;
	bool failed = false;
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		die_errno("pipe");
	for (unsigned int i = 0; i < storm->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die_errno("fork");
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			_exit(EXIT_TOOL);
		work(storm, i);
		_exit(0);
	}
	lap_begin(&lap, true);
	if (write(ends[1], bytes, storm->processes) != (ssize_t)storm->processes)
		die_errno("starting");
	for (unsigned int i = 0; i < storm->processes; i++)
		failed |= wait(&status) < 0 || status;
	lap_end(&lap);
	if (failed)
		die("a process failed");
	return lap;
}
