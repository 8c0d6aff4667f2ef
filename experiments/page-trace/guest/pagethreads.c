// SPDX-License-Identifier: MIT
/*
 * pagethreads [--threads T] [--pages K] [--n N] [--seed S] [--shared]: threads that each make a known walk.
 *
 * Each thread makes N accesses to K pages of the arena: its own, or with --shared the same as all others. It gives way
 * every few accesses, so that walks interleave on one CPU too. Prints each thread's id and the visits of its walk, as
 * pageknown prints them.
 */
#include "arena.h"
#include "krepro-roi.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>

enum { MAX_THREADS = 64, STRETCH = 16 };

static struct walk {
	pthread_t thread;
	pid_t tid;
	uint32_t seed;
	unsigned int first;
} walks[MAX_THREADS];
static unsigned int threads = 4, pages = 8, n = 200;
static volatile unsigned int waiting;

static void *walk(void *data)
{
	struct walk *my = data;
	uint32_t x = my->seed;

	my->tid = gettid();
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	while (waiting < threads)
		sched_yield();
	for (unsigned int i = 0; i < n; i++, x = xorshift(x)) {
		volatile uint8_t *p = (volatile uint8_t *)at(my->first + (x >> 8) % pages, (int)(x & (PAGE - 1)));

		if (x >> 20 & 1)
			*p = (uint8_t)x;
		else
			(void)*p;
		if (i % STRETCH == STRETCH - 1)
			sched_yield();
	}
	return NULL;
}

static void print_walk(const struct walk *walk, bool writes)
{
	unsigned int before = UINT32_MAX;
	uint32_t x = walk->seed;

	for (unsigned int i = 0; i < n; i++, x = xorshift(x)) {
		const unsigned int page = walk->first + (x >> 8) % pages;

		if (page != before)
			printf("%s%u", i ? "," : "", writes ? x >> 20 & 1 : page);
		before = page;
	}
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "threads", required_argument, NULL, 't' }, { "pages", required_argument, NULL, 'p' },
		{ "n", required_argument, NULL, 'n' },	     { "seed", required_argument, NULL, 's' },
		{ "shared", no_argument, NULL, 'S' },	     { NULL, 0, NULL, 0 },
	};
	uint64_t seed = 1;
	bool shared = false;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 't':
			threads = (unsigned int)argument("--threads", optarg, 1, MAX_THREADS);
			break;
		case 'p':
			pages = (unsigned int)argument("--pages", optarg, 1, 4096);
			break;
		case 'n':
			n = (unsigned int)argument("--n", optarg, 1, 1 << 24);
			break;
		case 's':
			seed = argument("--seed", optarg, 0, UINT64_MAX);
			break;
		case 'S':
			shared = true;
			break;
		default:
			die_usage("usage: pagethreads [--threads T] [--pages K] [--n N] [--seed S] [--shared]");
		}
	}
	if (optind != argc)
		die_usage("%s is no option", argv[optind]);
	make_arena(shared ? pages : threads * pages);
	for (unsigned int i = 0; i < threads; i++) {
		walks[i].seed = (uint32_t)random_u64(&seed) | 1;
		walks[i].first = shared ? 0 : i * pages;
	}
	roi_select();
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&walks[i].thread, NULL, walk, &walks[i]))
			die("no thread");
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_join(walks[i].thread, NULL))
			die("a thread was lost");
	roi_deselect();
	printf("{\"arena\": \"0x%llx\", \"pages\": %u, \"threads\": [", (unsigned long long)ARENA,
	       shared ? pages : threads * pages);
	for (unsigned int i = 0; i < threads; i++) {
		printf("%s{\"tid\": %d, \"expected\": [", i ? ", " : "", walks[i].tid);
		print_walk(&walks[i], false);
		printf("], \"writes\": [");
		print_walk(&walks[i], true);
		printf("]}");
	}
	puts("]}");
	return 0;
}
