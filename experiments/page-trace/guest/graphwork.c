// SPDX-License-Identifier: MIT
/*
 * graphwork [--vertices N] [--degree D] [--threads T]: breadth-first search of a random graph; prints as JSON how many
 * vertices were reached, in how many levels, and a checksum over all vertices' levels.
 *
 * Each of N vertices has edges to D others, drawn by the trial's seed. Threads share each level among them, and claim a
 * vertex by its level. So who comes first does not matter: the answer is the same with any number of threads.
 */
#include "page.h"

#include <getopt.h>
#include <pthread.h>

enum { MAX_THREADS = 64, SHARE = 256 /* vertices that a thread takes at once */ };

#define UNREACHED UINT32_MAX

static uint32_t vertices = 10000, degree = 8, threads = 1;
static uint32_t *edges, *level, *now, *next;
static uint32_t in_now, in_next, taken, depth;
static pthread_barrier_t barrier;

static void *memory(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die_errno("no %llu bytes of memory", (unsigned long long)bytes);
	return at;
}

static void prepare(void)
{
	uint64_t state = default_seed();

	edges = memory((uint64_t)vertices * degree * sizeof(*edges));
	level = memory(vertices * sizeof(*level));
	now = memory(vertices * sizeof(*now));
	next = memory(vertices * sizeof(*next));
	for (uint64_t i = 0; i < (uint64_t)vertices * degree; i++)
		edges[i] = (uint32_t)random_below(&state, vertices);
	for (uint32_t i = 0; i < vertices; i++)
		level[i] = UNREACHED;
	level[0] = 0;
	now[0] = 0;
	in_now = 1;
}

static void visit(uint32_t vertex)
{
	const uint32_t *to = edges + (uint64_t)vertex * degree;

	for (uint32_t i = 0; i < degree; i++) {
		uint32_t unreached = UNREACHED;

		if (__atomic_load_n(&level[to[i]], __ATOMIC_RELAXED) == UNREACHED &&
		    __atomic_compare_exchange_n(&level[to[i]], &unreached, depth + 1, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			next[__atomic_fetch_add(&in_next, 1, __ATOMIC_RELAXED)] = to[i];
	}
}

/* One of the threads makes the next level the current one. */
static void exchange(void)
{
	uint32_t *kept = now;

	now = next;
	next = kept;
	in_now = in_next;
	in_next = taken = 0;
	depth += in_now != 0;
}

static void *search(void *unused)
{
	uint32_t first;

	(void)unused;
	while (in_now) {
		while ((first = __atomic_fetch_add(&taken, SHARE, __ATOMIC_RELAXED)) < in_now)
			for (uint32_t i = first; i < in_now && i < first + SHARE; i++)
				visit(now[i]);
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			exchange();
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "vertices", required_argument, NULL, 'v' },
		{ "degree", required_argument, NULL, 'd' },
		{ "threads", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'v':
			vertices = (uint32_t)argument("--vertices", optarg, 1, 1 << 28);
			break;
		case 'd':
			degree = (uint32_t)argument("--degree", optarg, 1, 1 << 10);
			break;
		case 't':
			threads = (uint32_t)argument("--threads", optarg, 1, MAX_THREADS);
			break;
		default:
			die_usage("usage: graphwork [--vertices N] [--degree D] [--threads T]");
		}
	}
	if (optind != argc)
		die_usage("%s is no option", argv[optind]);
}

int main(int argc, char **argv)
{
	pthread_t others[MAX_THREADS];
	uint64_t checksum = 0, reached = 0;

	read_options(argc, argv);
	prepare();
	if (pthread_barrier_init(&barrier, NULL, threads))
		die("no barrier");
	for (uint32_t i = 1; i < threads; i++)
		if (pthread_create(&others[i], NULL, search, NULL))
			die("no thread");
	search(NULL);
	for (uint32_t i = 1; i < threads; i++)
		if (pthread_join(others[i], NULL))
			die("a thread was lost");
	for (uint32_t i = 0; i < vertices; i++) {
		checksum = (checksum ^ level[i]) * 0x9e3779b97f4a7c15ull;
		reached += level[i] != UNREACHED;
	}
	printf("{\"workload\": \"graph\", \"reached\": %llu, \"levels\": %u, \"checksum\": \"%016llx\"}\n",
	       (unsigned long long)reached, depth + 1, (unsigned long long)checksum);
	flush_or_die();
	return 0;
}
