// SPDX-License-Identifier: MIT
/*
 * shimhello EVENT...: the paper's first example, as JSON: what "hello world" costs the thread that prints it, by up to
 * eight events, and whether that may be believed.
 */
#include "krepro.h"
#include "libshim.h"

static uint64_t words;

static int count_words(uint64_t *values, const struct shim_probe *probe)
{
	(void)probe;
	values[0] = words;
	return 1;
}

int main(int argc, char **argv)
{
	struct shim_reading begin, end;
	struct shim_probe probe;
	int next = 0;

	if (argc < 2 || argc > 1 + SIGNALS)
		die_usage("usage: shimhello EVENT..., at most %d", SIGNALS);
	if (!shim_open(&probe, SHIM_SELF))
		die_errno("the own thread");
	probe.tags = count_words;
	printf("{\"refused\": [");
	for (int i = 1; i < argc; i++) {
		if (shim_add_event(&probe, argv[i]))
			continue;
		printf("%s\n  {\"name\": \"%s\", \"reason\": \"%s\"}", next++ ? "," : "", argv[i], probe.reason);
	}
	printf("],\n");
	fflush(stdout);
	shim_read(&probe, &begin);
	fprintf(stderr, "hello world\n");
	words += 2;
	shim_read(&probe, &end);
	printf(" \"trusted\": %s, \"cycles\": %llu, \"words\": %llu,\n \"events\": [", shim_trusted(&probe, &begin, &end) ? "true" : "false",
	       (unsigned long long)(end.begin - begin.begin), (unsigned long long)(end.tags[0] - begin.tags[0]));
	for (int i = 0; i < probe.n_signals; i++)
		printf("%s\n  {\"name\": \"%s\", \"begin\": %llu, \"end\": %llu}", i ? "," : "", probe.signals[i].name,
		       (unsigned long long)begin.signals[i], (unsigned long long)end.signals[i]);
	printf("]}\n");
	flush_or_die();
	return 0;
}
