/* SPDX-License-Identifier: MIT */
/* Clocks of the guest: the time-stamp counter (arm64: the system counter), and pairs of it and CLOCK_MONOTONIC_RAW that turn cycles into seconds. */
#ifndef SHIM_CLOCK_H
#define SHIM_CLOCK_H

#include <stdint.h>
#include <stdio.h>

/* Inline, both clocks: they bound what is measured. A begin clock: nothing that follows is read before it. */
#if defined(__x86_64__)
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
#elif defined(__aarch64__)
static inline uint64_t clock_begin(void)
{
	uint64_t now;

	__asm__ volatile("mrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
	return now;
}

static inline uint64_t clock_end(void)
{
	uint64_t now;

	__asm__ volatile("dsb ld\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(now) : : "memory");
	return now;
}
#else
#error this program is for x86_64 and arm64
#endif

struct clock_pair {
	uint64_t tsc, mono_ns;
};

/* Both clocks of one moment: of some readings that which took the least time, and the middle of it. */
struct clock_pair clock_pair_now(void);

/* Cycles per second between two pairs; 0 when they are of one moment. */
double clock_hz(struct clock_pair a, struct clock_pair b);

/* Cycles per second, measured over some milliseconds. */
double clock_measure_hz(void);
void clock_print_both(FILE *out, struct clock_pair a, struct clock_pair b);

#endif
