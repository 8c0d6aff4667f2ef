/* Clocks of the guest: the time-stamp counter, and pairs of it and CLOCK_MONOTONIC_RAW that turn cycles into seconds. */
#ifndef SHIM_CLOCK_H
#define SHIM_CLOCK_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* A begin clock: nothing that follows is read before it. */
static inline uint64_t clock_begin(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* An end clock: everything before it has been read. */
static inline uint64_t clock_end(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

struct clock_pair {
	uint64_t tsc, mono_ns;
};

static inline uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Both clocks of one moment: of some readings that which took the least time, and the middle of it. */
static inline struct clock_pair clock_pair_now(void)
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

/* Cycles per second between two pairs; 0 when they are of one moment. */
static inline double clock_hz(struct clock_pair a, struct clock_pair b)
{
	return b.mono_ns > a.mono_ns ? (double)(b.tsc - a.tsc) * 1e9 / (double)(b.mono_ns - a.mono_ns) : 0;
}

/* Cycles per second, measured over some milliseconds. */
static inline double clock_measure_hz(void)
{
	struct clock_pair a = clock_pair_now();
	struct timespec nap = { 0, 20000000 };

	nanosleep(&nap, NULL);
	return clock_hz(a, clock_pair_now());
}

static inline void clock_print(FILE *out, const char *name, struct clock_pair pair)
{
	fprintf(out, "\"%s\": {\"tsc\": %llu, \"mono_ns\": %llu}", name, (unsigned long long)pair.tsc,
		(unsigned long long)pair.mono_ns);
}

static inline void clock_print_both(FILE *out, struct clock_pair a, struct clock_pair b)
{
	clock_print(out, "clock_begin", a);
	fprintf(out, ", ");
	clock_print(out, "clock_end", b);
	fprintf(out, ", \"tsc_hz\": %.3f, \"seconds\": %.9f", clock_hz(a, b), (double)(b.mono_ns - a.mono_ns) / 1e9);
}

#endif
