/* Processes that begin together and do a share of the work each. */
#ifndef STORM_H
#define STORM_H

#include "tool.h"

#include <signal.h>
#include <sys/prctl.h>

enum { MOST_PROCESSES = 64 };

struct storm {
	uint64_t operations;	/* of each process */
	unsigned int processes;
	uint64_t seed;
	const char *folder;	/* for lap.tsv */
};

/* Its own random numbers for each process. */
static inline uint64_t storm_random(const struct storm *storm, unsigned int index)
{
	return storm->seed << 8 | index;
}

/* Run work() in each process, begun by one byte for each from a pipe; the lap is from there to the end of the last. */
static inline struct lap storm_run(const struct storm *storm,
				   void (*work)(const struct storm *storm, unsigned int index))
{
	const char bytes[MOST_PROCESSES] = { 0 };
	struct lap lap;
	int ends[2], status;
	bool failed = false;
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		die(EXIT_TOOL, errno, "pipe");
	for (unsigned int i = 0; i < storm->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die(EXIT_TOOL, errno, "fork");
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
		die(EXIT_TOOL, errno, "starting");
	for (unsigned int i = 0; i < storm->processes; i++)
		failed |= wait(&status) < 0 || status;
	lap_end(&lap);
	if (failed)
		die(EXIT_TOOL, 0, "a process failed");
	return lap;
}

#endif
