// SPDX-License-Identifier: MIT
/*
 * filestorm [-n N] [-p PROCESSES] [-d one|own] [-f FILES] [-C DIR] [-s SEED] [-o DIR]: files created, renamed and
 * removed, N operations (1000) by each process (2), in one folder or in one of its own for each process, below DIR
 * (/tmp). Each process has FILES names (64); an operation creates the file that a random name lacks, or renames it to
 * a random other name, or removes it. Prints its time as JSON; -o: lap.tsv. What is left is removed outside the lap.
 */
#include "storm.h"

#include <sys/stat.h>

#define USAGE "filestorm [-n N] [-p PROCESSES] [-d one|own] [-f FILES] [-C DIR] [-s SEED] [-o DIR]"

enum { ONE, OWN, MOST_FILES = 1024 };

static const char *const layouts[] = { [ONE] = "one", [OWN] = "own" };
static char base[256];
static unsigned int layout = ONE, files = 64;

static void folder_of(unsigned int process, char *path, size_t size)
{
	if (layout == OWN)
		snprintf(path, size, "%s/%u", base, process);
	else
		snprintf(path, size, "%s", base);
}

static void name_of(unsigned int process, unsigned int file, char *name, size_t size)
{
	snprintf(name, size, "%u-%u", process, file);
}

static void create(int folder, const char *name, bool *exists)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (fd < 0 || close(fd))
		die_errno("creating %s", name);
	*exists = true;
}

static void storm_work(const struct storm *storm, unsigned int index)
{
	uint64_t random = storm_random(storm, index);
	bool exists[MOST_FILES] = { false };
	char path[288], name[32], other[32];
	int folder;

	folder_of(index, path, sizeof(path));
	folder = open(path, O_RDONLY | O_DIRECTORY);
	if (folder < 0)
		die_errno("%s", path);
	for (uint64_t i = 0; i < storm->operations; i++) {
		unsigned int from = random_below(&random, files), to = random_below(&random, files);

		name_of(index, from, name, sizeof(name));
		if (!exists[from]) {
			create(folder, name, &exists[from]);
			continue;
		}
		exists[from] = false;
		if (from == to) {
			if (unlinkat(folder, name, 0))
				die_errno("removing %s", name);
			continue;
		}
		name_of(index, to, other, sizeof(other));
		if (renameat(folder, name, folder, other))
			die_errno("renaming %s", name);
		exists[to] = true;
	}
}

static void remove_all(const struct storm *storm)
{
	char path[288], name[320];

	for (unsigned int process = 0; process < storm->processes; process++) {
		folder_of(process, path, sizeof(path));
		for (unsigned int file = 0; file < files; file++) {
			snprintf(name, sizeof(name), "%s/%u-%u", path, process, file);
			unlink(name);
		}
		if (layout == OWN)
			rmdir(path);
	}
	rmdir(base);
}

int main(int argc, char **argv)
{
	struct storm storm = { .operations = 1000, .processes = 2, .seed = default_seed() };
	const char *below = "/tmp";
	char path[288];
	struct lap lap;
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "n:p:d:f:C:s:o:")) != -1) {
		switch (option) {
		case 'n': storm.operations = argument("-n", optarg, 1, UINT32_MAX); break;
		case 'p': storm.processes = argument("-p", optarg, 1, MOST_PROCESSES); break;
		case 'd': layout = choice("-d", optarg, layouts, 2); break;
		case 'f': files = argument("-f", optarg, 1, MOST_FILES); break;
		case 'C': below = optarg; break;
		case 's': storm.seed = argument("-s", optarg, 0, UINT32_MAX); break;
		case 'o': storm.folder = optarg; break;
		default: die_usage("usage: %s", USAGE);
		}
	}
	if (optind != argc)
		die_usage("usage: %s", USAGE);
	if (snprintf(base, sizeof(base), "%s/filestorm.XXXXXX", below) >= (int)sizeof(base) || !mkdtemp(base))
		die_errno("a folder below %s", below);
	for (unsigned int process = 0; layout == OWN && process < storm.processes; process++) {
		folder_of(process, path, sizeof(path));
		if (mkdir(path, 0700))
			die_errno("%s", path);
	}
	lap = storm_run(&storm, storm_work);
	remove_all(&storm);
	write_lap(storm.folder, &lap);
	print_times("filestorm", storm.operations * storm.processes, lap.elapsed_ns, lap.end - lap.begin);
	return 0;
}
