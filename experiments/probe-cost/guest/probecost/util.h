/* SPDX-License-Identifier: MIT */
/* util.h: runs that cannot be measured, files below tracefs, and the two clocks of probecost. */
#ifndef UTIL_H
#define UTIL_H

#ifndef __x86_64__
#error this program is for x86_64
#endif

#include "krepro.h"

#define TRACEFS "/sys/kernel/tracing"

/* Why the run that is being set up cannot be measured; empty: nothing is wrong. Other runs go on. */
extern char problem[256];

/* The first reason is the one that counts. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write a text below tracefs (or to an absolute path) in one write; O_APPEND where files hold lists. */
bool put(const char *file, const char *text, int flags);

/* The whole of a file below tracefs, as text, cut at `size`; empty when it cannot be read. */
char *get(const char *file, char *text, size_t size);

/* The number after `label` in a text, or -1. */
long long number_after(const char *text, const char *label);

/* Under the virtual clock with shift 0 the time-stamp counter counts executed instructions. */
extern bool counts_instructions;

/* Inline: it is read next to what is measured. */
static inline uint64_t now(void)
{
	return counts_instructions ? __builtin_ia32_rdtsc() : now_ns();
}

#endif
