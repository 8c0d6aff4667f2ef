// SPDX-License-Identifier: MIT
/*
 * pageknown list | NAME: make the data accesses of one case, known to the last one, on pages of an arena.
 *
 * The answer is one line of JSON: where the arena is, and the visits to its pages that a tracer of pages has to
 * record. Consecutive visits to one page are one. "writes" says whether the first access of a visit is a write, null
 * where machines differ. With "subsequence" the kernel may have touched pages of the case more often than stated.
 * "iterations" is there for repeated string instructions: the visits if each iteration counts, as the oracle has it.
 * "checks" are what the program found about itself; exit 3 if one of them is wrong.
 */
#include "known.h"
#include "krepro-roi.h"

struct known {
	const char *name;
	unsigned int pages;
	bool subsequence; /* the kernel may touch pages of the case more than once */
	void (*run)(void);
};

static const struct known cases[] = {
	{ "forward", STREAM, false, forward },
	{ "backward", STREAM, false, backward },
	{ "stride", STREAM, false, stride },
	{ "random", STREAM, false, random_pages },
	{ "ping-pong", 2, false, ping_pong },
	{ "same-instruction", 2, false, same_instruction },
	{ "dwell", 4, false, dwell },
	{ "matmul", 3 * SIDE, false, matmul },
	{ "huge", 512, false, huge },
	{ "straddle-load", 8, false, straddle_load },
	{ "straddle-store", 8, false, straddle_store },
	{ "straddle-warm", 8, false, straddle_warm },
	{ "movs", 2, false, movs },
	{ "rep-movsb", 8, false, rep_movsb },
	{ "rep-movsq", 16, false, rep_movsq },
	{ "rep-stosq", 8, false, rep_stosq },
	{ "push-mem", 5, false, push_mem },
	{ "push-mem-warm", 5, false, push_mem_warm },
	{ "push-mem-loop", 2, false, push_mem_loop },
	{ "push-straddle", 4, false, push_straddle },
	{ "pop-mem", 5, false, pop_mem },
	{ "call-mem", 5, false, call_mem },
	{ "rmw", 9, false, rmw },
	{ "fxsave", 4, false, fxsave },
	{ "gather", 8, false, gather },
	{ "pushf", 2, false, pushf },
	{ "own-step", 2, false, own_step },
	{ "write-pipe", 4, true, write_pipe },
	{ "read-pipe", 4, true, read_pipe },
	{ "write-file", 4, true, write_file },
	{ "write-unaligned", 4, true, write_unaligned },
	{ "read-file", 4, true, read_file },
	{ "futex-clock", 5, false, futex_clock },
	{ "invisible", 3, false, invisible },
	{ "signal-frame", 10, false, signal_frame },
	{ "refused", 8, false, refused },
	{ "remap", 10, false, remap },
	{ "fork-copy", 4, false, fork_copy },
};

static void print_list(const char *name, const struct list *list, bool writes)
{
	printf(", \"%s\": [", name);
	for (unsigned int i = 0; i < list->n; i++) {
		const char *comma = i ? "," : "";

		if (!writes)
			printf("%s%d", comma, list->visit[i].page);
		else if (list->visit[i].write == EITHER)
			printf("%snull", comma);
		else
			printf("%s%d", comma, list->visit[i].write);
	}
	putchar(']');
}

static int answer(const struct known *known)
{
	printf("{\"name\": \"%s\", \"arena\": \"0x%llx\", \"pages\": %u", known->name, (unsigned long long)ARENA,
	       known->pages);
	print_list("expected", &expected, false);
	print_list("writes", &expected, true);
	if (iterations.n)
		print_list("iterations", &iterations, false);
	printf(", \"subsequence\": %s, \"checks\": {", known->subsequence ? "true" : "false");
	for (unsigned int i = 0; i < n_checks; i++)
		printf("%s\"%s\": %ld", i ? ", " : "", checks[i].name, checks[i].value);
	printf("}, \"failed\": %u}\n", n_failed);
	return n_failed ? EXIT_WRONG : 0;
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(cases) / sizeof(cases[0]);
	size_t i = 0;

	if (argc != 2)
		die_usage("usage: pageknown list | NAME");
	if (!strcmp(argv[1], "list")) {
		for (i = 0; i < n; i++)
			puts(cases[i].name);
		return 0;
	}
	while (i < n && strcmp(argv[1], cases[i].name))
		i++;
	if (i == n)
		die_usage("unknown case %s; usage: pageknown list | NAME", argv[1]);
	make_arena(cases[i].pages);
	roi_select();
	cases[i].run();
	roi_deselect();
	return answer(&cases[i]);
}
