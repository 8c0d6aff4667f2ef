// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "clock.h"

static uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

struct clock_pair clock_pair_now(void)
{
	struct clock_pair best = { 0, 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t before = clock_begin(), ns = clock_mono_ns(), after = clock_end();

		if (after - before < least) {
			least = after - before;
			best = (struct clock_pair){ before + least / 2, ns };
		}
	}
	return best;
}

double clock_hz(struct clock_pair a, struct clock_pair b)
{
	return b.mono_ns > a.mono_ns ? (double)(b.tsc - a.tsc) * 1e9 / (double)(b.mono_ns - a.mono_ns) : 0;
}

double clock_measure_hz(void)
{
	struct clock_pair a = clock_pair_now();

	sleep_ns(20000000);
	return clock_hz(a, clock_pair_now());
}

static void clock_print(FILE *out, const char *name, struct clock_pair pair)
{
	fprintf(out, "\"%s\": {\"tsc\": %llu, \"mono_ns\": %llu}", name, (unsigned long long)pair.tsc,
		(unsigned long long)pair.mono_ns);
}

void clock_print_both(FILE *out, struct clock_pair a, struct clock_pair b)
{
	clock_print(out, "clock_begin", a);
	fprintf(out, ", ");
	clock_print(out, "clock_end", b);
	fprintf(out, ", \"tsc_hz\": %.3f, \"seconds\": %.9f", clock_hz(a, b), (double)(b.mono_ns - a.mono_ns) / 1e9);
}
