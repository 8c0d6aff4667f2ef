/* What the guest programs of this experiment share: errors, numbers from text, a seeded random source. */
#ifndef TOOL_H
#define TOOL_H

#ifndef __x86_64__
#error this program is for x86_64
#endif

#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, EXIT_USAGE = 2, EXIT_WRONG = 3 };

/* "program: message" or "program: message: errno's text", then exit. */
static inline void __attribute__((noreturn, format(printf, 3, 4)))
fail(int status, int error, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (error)
		fprintf(stderr, ": %s", strerror(error));
	fputc('\n', stderr);
	exit(status);
}

#define die(...)       fail(EXIT_FAILURE, 0, __VA_ARGS__)
#define die_errno(...) fail(EXIT_FAILURE, errno, __VA_ARGS__)
#define usage_die(...) fail(EXIT_USAGE, 0, __VA_ARGS__)

/* A whole argument as a number in lowest..highest. */
static inline uint64_t argument(const char *name, const char *text, uint64_t lowest, uint64_t highest)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < lowest || value > highest)
		usage_die("%s: %s is not a number from %llu to %llu", name, text, (unsigned long long)lowest,
			  (unsigned long long)highest);
	return value;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Uniform in 0..below-1; the bias of the multiplication is below 2^-32. */
static inline uint64_t random_below(uint64_t *state, uint32_t below)
{
	return ((random_u64(state) >> 32) * below) >> 32;
}

#endif
