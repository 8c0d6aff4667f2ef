// SPDX-License-Identifier: MIT
/*
 * lockload: locks whose use is known, by the module lockknown. One lap; prints as JSON the time from the threads'
 * common begin to the end of the last.
 *
 *   lockload SCENARIO [OPTION...]
 *   lockload pair [--n N] [-o DIR]
 *
 * SCENARIO is load, nested, irq, trylock, abandon, nonowner, recursion, double, reuse, migrate, chain, hold or
 * release (guest/modules/lockknown/lockknown.h says what they are; pair is below). hold comes back while a lock is
 * held, and release lets it go: between them a trace can begin or end.
 *
 *   --kind K          spin, spin-irq, rwlock, mutex or rwsem (spin)
 *   --threads N       one per CPU in turn (2)
 *   --ops N           operations of each thread (1000)
 *   --conflicts N     load: so many of 1000 operations meet another thread at a shared lock; each meeting is made to
 *                     conflict. Spin locks on one CPU: an interrupt tries the lock of the task instead
 *   --reads N         load: so many of 1000 operations on rwlocks and rwsems are reads; hold: 1 holds for reading
 *   --hold N, --gap N turns of an empty loop with the lock, and before each operation (0)
 *   --compete         load: all operations on one lock, without any order
 *   --timer-us N      load of spin locks: a timer trylocks the shared lock so often
 *   --free-held       reuse: every fourth lock is freed while it is held
 *   --seed N          (KREPRO_SEED, or 1)
 *   --no-lap          no marks for the oracle
 *   -o DIR            write known.tsv, what was done to which lock; and lap.tsv, the TSC at the marks of the lap
 *
 * pair times N (10000) pairs of acquire and release of each kind of lock, one by one with interrupts off, and
 * DIR/pairs.tsv gets the TSC cycles of each: a column per kind, and "none" where nothing is between the readings.
 *
 * Exit status: 0, 2 (wrong arguments), 125 (the module says no, or lost its way), 4 (not on this kernel or so few CPUs).
 */
#include "lap.h"
#include "modules/lockknown/lockknown.h"

#include <getopt.h>
#include <sys/ioctl.h>

#define DEVICE "/dev/lockknown"
#define USAGE "lockload SCENARIO [--kind K] [--threads N] [--ops N] [--conflicts N] [--reads N] [--hold N] [--gap N] " \
	      "[--compete] [--timer-us N] [--free-held] [--seed N] [--no-lap] [-o DIR] | pair [--n N] [-o DIR]"

enum { EXIT_NOT_HERE = 4, DRAIN_US = 50000 };

static const char *const scenarios[] = {
	[LOCKKNOWN_LOAD] = "load", [LOCKKNOWN_NESTED] = "nested", [LOCKKNOWN_IRQ] = "irq",
	[LOCKKNOWN_TRYLOCK] = "trylock", [LOCKKNOWN_ABANDON] = "abandon", [LOCKKNOWN_NONOWNER] = "nonowner",
	[LOCKKNOWN_RECURSION] = "recursion", [LOCKKNOWN_DOUBLE] = "double", [LOCKKNOWN_REUSE] = "reuse",
	[LOCKKNOWN_MIGRATE] = "migrate", [LOCKKNOWN_CHAIN] = "chain", [LOCKKNOWN_HOLD] = "hold",
	[LOCKKNOWN_RELEASE] = "release",
};

static const char *const kinds[] = {
	[LOCKKNOWN_SPIN] = "spin", [LOCKKNOWN_SPIN_IRQ] = "spin-irq", [LOCKKNOWN_RWLOCK] = "rwlock",
	[LOCKKNOWN_MUTEX] = "mutex", [LOCKKNOWN_RWSEM] = "rwsem",
};

static const char *const pairs[] = {
	[LOCKKNOWN_PAIR_NONE] = "none", [LOCKKNOWN_PAIR_SPIN] = "spin",
	[LOCKKNOWN_PAIR_SPIN_IRQSAVE] = "spin_irqsave", [LOCKKNOWN_PAIR_READ] = "read",
	[LOCKKNOWN_PAIR_WRITE] = "write", [LOCKKNOWN_PAIR_MUTEX] = "mutex",
	[LOCKKNOWN_PAIR_RWSEM_READ] = "rwsem_read", [LOCKKNOWN_PAIR_RWSEM_WRITE] = "rwsem_write",
};

_Static_assert(sizeof(scenarios) / sizeof(scenarios[0]) == LOCKKNOWN_SCENARIOS, "a name for each scenario");
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == LOCKKNOWN_KINDS, "a name for each kind");
_Static_assert(sizeof(pairs) / sizeof(pairs[0]) == LOCKKNOWN_PAIRS, "a name for each pair");

struct options {
	struct lockknown_setup setup;
	uint32_t count;		/* of pairs */
	const char *folder;
	bool unmarked;
};

enum { KIND = 256, THREADS, OPS, CONFLICTS, READS, HOLD, GAP, COMPETE, TIMER, FREE_HELD, SEED, NO_LAP, COUNT };

static const struct option known_options[] = {
	{ "kind", required_argument, NULL, KIND },
	{ "threads", required_argument, NULL, THREADS },
	{ "ops", required_argument, NULL, OPS },
	{ "conflicts", required_argument, NULL, CONFLICTS },
	{ "reads", required_argument, NULL, READS },
	{ "hold", required_argument, NULL, HOLD },
	{ "gap", required_argument, NULL, GAP },
	{ "compete", no_argument, NULL, COMPETE },
	{ "timer-us", required_argument, NULL, TIMER },
	{ "free-held", no_argument, NULL, FREE_HELD },
	{ "seed", required_argument, NULL, SEED },
	{ "no-lap", no_argument, NULL, NO_LAP },
	{ "n", required_argument, NULL, COUNT },
	{ 0 },
};

static void parse(struct options *options, int argc, char **argv)
{
	struct lockknown_setup *setup = &options->setup;
	bool is_pair;
	int option;

	if (argc < 2)
		die_usage("usage: %s", USAGE);
	is_pair = !strcmp(argv[1], "pair");
	if (!is_pair) {
		setup->scenario = LOCKKNOWN_SCENARIOS;
		for (unsigned int i = 0; i < LOCKKNOWN_SCENARIOS; i++)
			if (!strcmp(argv[1], scenarios[i]))
				setup->scenario = i;
		if (setup->scenario == LOCKKNOWN_SCENARIOS)
			die_usage("usage: %s", USAGE);
	}
	opterr = 0;
	optind = 2;
	while ((option = getopt_long(argc, argv, "o:", known_options, NULL)) != -1) {
		if (option != 'o' && is_pair != (option == COUNT))
			die_usage("usage: %s", USAGE);
		switch (option) {
		case KIND: setup->kind = choice("--kind", optarg, kinds, LOCKKNOWN_KINDS); break;
		case THREADS: setup->threads = argument("--threads", optarg, 1, LOCKKNOWN_MAX_THREADS); break;
		case OPS: setup->operations = argument("--ops", optarg, 0, UINT32_MAX); break;
		case CONFLICTS: setup->conflicts = argument("--conflicts", optarg, 0, 1000); break;
		case READS: setup->reads = argument("--reads", optarg, 0, 1000); break;
		case HOLD: setup->hold = argument("--hold", optarg, 0, UINT32_MAX); break;
		case GAP: setup->gap = argument("--gap", optarg, 0, UINT32_MAX); break;
		case COMPETE: setup->flags |= LOCKKNOWN_COMPETE; break;
		case TIMER: setup->timer_us = argument("--timer-us", optarg, 10, 1000000); break;
		case FREE_HELD: setup->flags |= LOCKKNOWN_FREE_HELD; break;
		case SEED: setup->seed = argument("--seed", optarg, 0, UINT32_MAX); break;
		case NO_LAP: options->unmarked = true; break;
		case COUNT: options->count = argument("--n", optarg, 1, LOCKKNOWN_MAX_PAIRS); break;
		case 'o': options->folder = optarg; break;
		default: die_usage("usage: %s", USAGE);
		}
	}
	if (optind != argc)
		die_usage("usage: %s", USAGE);
	if (is_pair && !options->count)
		options->count = 10000;
	else if (!is_pair)
		options->count = 0;
}

/* What the module counted, as it gives it. */
static void write_known(int device, const char *folder)
{
	FILE *file = create_in(folder, "known.tsv");
	char buffer[4096];
	ssize_t size;

	while ((size = read(device, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, size, file);
	if (size < 0)
		die_errno(DEVICE);
	close_or_die(file, "known.tsv");
}

static int run(int device, struct options *options, struct lap *lap)
{
	struct lockknown_setup *setup = &options->setup;
	int error;

	lap_begin(lap, !options->unmarked);
	error = ioctl(device, LOCKKNOWN_RUN, setup) ? errno : 0;
	lap_end(lap);
	if (options->folder && error != EINVAL && error != EBUSY && error != EOPNOTSUPP)
		write_known(device, options->folder);
	if (!error) {
		/* Without the making of threads. */
		print_times(scenarios[setup->scenario], setup->done, setup->elapsed_ns, setup->end - setup->begin);
		return 0;
	}
	switch (error) {
	case EINVAL: complain(0, "%s: not with these options", scenarios[setup->scenario]); break;
	case EOPNOTSUPP: complain(0, "%s: not on this kernel, or not with so few CPUs", scenarios[setup->scenario]);
			 return EXIT_NOT_HERE;
	case EBUSY: complain(0, "%s: another scenario runs, or a lock is held", scenarios[setup->scenario]); break;
	default: complain(error, "%s", scenarios[setup->scenario]);
	}
	return EXIT_TOOL;
}

/* A line per pair, a column per kind of lock. */
static void write_pairs(const char *folder, uint64_t *const cycles[], uint32_t count)
{
	FILE *file = create_in(folder, "pairs.tsv");

	for (unsigned int pair = 0; pair < LOCKKNOWN_PAIRS; pair++)
		fprintf(file, "%s%c", pairs[pair], pair + 1 < LOCKKNOWN_PAIRS ? '\t' : '\n');
	for (uint32_t i = 0; i < count; i++)
		for (unsigned int pair = 0; pair < LOCKKNOWN_PAIRS; pair++)
			fprintf(file, "%llu%c", (unsigned long long)cycles[pair][i],
				pair + 1 < LOCKKNOWN_PAIRS ? '\t' : '\n');
	close_or_die(file, "pairs.tsv");
}

static int run_pairs(int device, const struct options *options, struct lap *lap)
{
	uint64_t *cycles[LOCKKNOWN_PAIRS];

	for (unsigned int pair = 0; pair < LOCKKNOWN_PAIRS; pair++) {
		cycles[pair] = calloc(options->count, sizeof(*cycles[pair]));
		if (!cycles[pair])
			die_errno("memory for %u pairs", options->count);
	}
	lap_begin(lap, true);
	for (unsigned int pair = 0; pair < LOCKKNOWN_PAIRS; pair++) {
		struct lockknown_pair_setup setup = { .pair = pair, .count = options->count,
						      .cycles = (uintptr_t)cycles[pair] };

		if (ioctl(device, LOCKKNOWN_PAIR, &setup))
			die_errno("pair %s", pairs[pair]);
		/* A trace is drained meanwhile: pairs that find no room in its ring cost something else. */
		usleep(DRAIN_US);
	}
	lap_end(lap);
	if (options->folder)
		write_pairs(options->folder, cycles, options->count);
	for (unsigned int pair = 0; pair < LOCKKNOWN_PAIRS; pair++)
		free(cycles[pair]);
	print_times("pair", (uint64_t)options->count * LOCKKNOWN_PAIRS, lap->elapsed_ns, lap->end - lap->begin);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = { .setup = { .threads = 2, .operations = 1000, .seed = default_seed() } };
	struct lap lap;
	int device, status;

	parse(&options, argc, argv);
	device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0)
		die_errno(DEVICE);
	status = options.count ? run_pairs(device, &options, &lap) : run(device, &options, &lap);
	if (!status && !options.unmarked)
		write_lap(options.folder, &lap);
	return status;
}
