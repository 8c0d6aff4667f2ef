// SPDX-License-Identifier: MIT
/*
 * pagework NAME [--OPTION VALUE...]: one workload, decided by its options alone; prints its checksum as JSON.
 *
 *   stream    --pages --rounds [--store]           8-byte accesses one after the other
 *   stride    --pages --rounds --bytes [--store]   every --bytes
 *   random    --pages --n [--store]                n accesses anywhere
 *   chase     --pages --n --bytes                  n steps through a random cycle of nodes of --bytes
 *   matmul    --n --order ijk|ikj                  n x n doubles
 *   sort      --n --algorithm quick|qsort          n ints
 *   hashjoin  --n                                  n rows built, 2 n probed
 *   btree     --n                                  n insertions, n lookups
 *   turns     --n                                  n visits of each of a few known kinds
 *
 * --seed N; --touch: write to each page beforehand; --select: the oracle records the pages of the measured part,
 * --select-all: of everything from main on. The time that the measured part took goes to standard error.
 */
#include "work.h"
#include "krepro-roi.h"

#include <getopt.h>

static const struct workload workloads[] = {
	{ "stream", { .pages = 256, .rounds = 4 }, walk_prepare, stream_run, NULL },
	{ "stride", { .pages = 256, .rounds = 16, .bytes = 256 }, walk_prepare, stride_run, NULL },
	{ "random", { .pages = 256, .n = 20000 }, walk_prepare, random_run, NULL },
	{ "chase", { .pages = 256, .n = 20000, .bytes = 64 }, chase_prepare, chase_run, NULL },
	{ "matmul", { .n = 48, .order = "ijk" }, matmul_prepare, matmul_run, matmul_finish },
	{ "sort", { .n = 4000, .algorithm = "quick" }, sort_prepare, sort_run, sort_finish },
	{ "hashjoin", { .n = 4000 }, hashjoin_prepare, hashjoin_run, NULL },
	{ "btree", { .n = 4000 }, btree_prepare, btree_run, NULL },
	{ "turns", { .n = 2000 }, turns_prepare, turns_run, NULL },
};

enum { O_SEED, O_PAGES, O_ROUNDS, O_N, O_BYTES, O_STORE, O_TOUCH, O_ORDER, O_ALGORITHM, O_SELECT, O_SELECT_ALL };
static const struct option names[] = {
	{ "seed", required_argument, NULL, O_SEED },	     { "pages", required_argument, NULL, O_PAGES },
	{ "rounds", required_argument, NULL, O_ROUNDS },     { "n", required_argument, NULL, O_N },
	{ "bytes", required_argument, NULL, O_BYTES },	     { "store", no_argument, NULL, O_STORE },
	{ "touch", no_argument, NULL, O_TOUCH },	     { "order", required_argument, NULL, O_ORDER },
	{ "algorithm", required_argument, NULL, O_ALGORITHM }, { "select", no_argument, NULL, O_SELECT },
	{ "select-all", no_argument, NULL, O_SELECT_ALL },   { NULL, 0, NULL, 0 },
};

void *memory(uint64_t bytes, bool touch)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die_errno("no %llu bytes of memory", (unsigned long long)bytes);
	for (uint64_t i = 0; touch && i < bytes; i += PAGE)
		at[i] = 0;
	return at;
}

static void read_options(int argc, char **argv, struct options *o, bool *select, bool *select_all)
{
	int option;

	o->seed = default_seed();
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case O_SEED:
			o->seed = argument("--seed", optarg, 0, UINT64_MAX);
			break;
		case O_PAGES:
			o->pages = argument("--pages", optarg, 1, 1 << 20);
			break;
		case O_ROUNDS:
			o->rounds = argument("--rounds", optarg, 1, 1 << 30);
			break;
		case O_N:
			o->n = argument("--n", optarg, 1, 1 << 28);
			break;
		case O_BYTES:
			o->bytes = argument("--bytes", optarg, 8, PAGE);
			if (o->bytes & (o->bytes - 1))
				die_usage("--bytes is a power of two");
			break;
		case O_STORE:
			o->store = true;
			break;
		case O_TOUCH:
			o->touch = true;
			break;
		case O_ORDER:
			o->order = optarg;
			break;
		case O_ALGORITHM:
			o->algorithm = optarg;
			break;
		case O_SELECT:
			*select = true;
			break;
		case O_SELECT_ALL:
			*select_all = true;
			break;
		default:
			die_usage("usage: pagework NAME [--OPTION VALUE...]");
		}
	}
	if (optind != argc)
		die_usage("%s is no option", argv[optind]);
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(workloads) / sizeof(workloads[0]);
	bool select = false, select_all = false;
	struct options options;
	struct answer answer;
	uint64_t begin, end;
	size_t i = 0;

	while (argc > 1 && i < n && strcmp(argv[1], workloads[i].name))
		i++;
	if (argc < 2 || i == n)
		die_usage("usage: pagework stream|stride|random|chase|matmul|sort|hashjoin|btree|turns [--OPTION VALUE...]");
	options = workloads[i].usual;
	read_options(argc - 1, argv + 1, &options, &select, &select_all);
	if (select_all)
		roi_select();
	workloads[i].prepare(&options);
	begin = now_ns();
	if (select)
		roi_select();
	answer = workloads[i].run(&options);
	if (select)
		roi_deselect();
	end = now_ns();
	if (workloads[i].finish)
		workloads[i].finish(&options, &answer);
	printf("{\"workload\": \"%s\", \"seed\": %llu, \"operations\": %llu, \"checksum\": \"%016llx\"",
	       workloads[i].name, (unsigned long long)options.seed, (unsigned long long)answer.operations,
	       (unsigned long long)answer.checksum);
	if (answer.page)
		printf(", \"page\": %llu", (unsigned long long)answer.page);
	puts("}");
	fprintf(stderr, "{\"elapsed_ns\": %llu}\n", (unsigned long long)(end - begin));
	fflush(stdout);
	if (select_all)
		roi_deselect();
	return 0;
}
