// SPDX-License-Identifier: MIT
/*
 * forkstorm [-n N] [-p PROCESSES] [-m PAGES] [-s SEED] [-o DIR]: N times (200) in each process (2) a child that writes
 * to some of PAGES pages (16), which are copied then, and ends. Prints its time as JSON; -o: lap.tsv.
 */
#include "storm.h"

#include <sys/wait.h>

#define USAGE "forkstorm [-n N] [-p PROCESSES] [-m PAGES] [-s SEED] [-o DIR]"

enum { PAGE = 4096, MOST_PAGES = 1024 };

static char memory[MOST_PAGES][PAGE] __attribute__((aligned(4096)));
static unsigned int pages = 16;

static void storm_work(const struct storm *storm, unsigned int index)
{
	uint64_t random = storm_random(storm, index);

	memset(memory, 1, (size_t)pages * PAGE);
	for (uint64_t i = 0; i < storm->operations; i++) {
		unsigned int count = random_below(&random, pages + 1);
		int status;
		pid_t pid = fork();

		if (!pid) {
			for (unsigned int page = 0; page < count; page++)
				*(volatile char *)&memory[page][0] = 2;
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die_with(EXIT_TOOL, pid < 0 ? errno : 0, "a child failed");
	}
}

int main(int argc, char **argv)
{
	struct storm storm = { .operations = 200, .processes = 2, .seed = default_seed() };
	struct lap lap;
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "n:p:m:s:o:")) != -1) {
		switch (option) {
		case 'n': storm.operations = argument("-n", optarg, 1, UINT32_MAX); break;
		case 'p': storm.processes = argument("-p", optarg, 1, MOST_PROCESSES); break;
		case 'm': pages = argument("-m", optarg, 0, MOST_PAGES); break;
		case 's': storm.seed = argument("-s", optarg, 0, UINT32_MAX); break;
		case 'o': storm.folder = optarg; break;
		default: die_usage("usage: %s", USAGE);
		}
	}
	if (optind != argc)
		die_usage("usage: %s", USAGE);
	lap = storm_run(&storm, storm_work);
	write_lap(storm.folder, &lap);
	print_times("forkstorm", storm.operations * storm.processes, lap.elapsed_ns, lap.end - lap.begin);
	return 0;
}
