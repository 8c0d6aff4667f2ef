/* What the guest programs of this experiment share: errors, numbers from text, a seeded random source, laps. */
#ifndef TOOL_H
#define TOOL_H

#ifndef __x86_64__
#error this program is for x86_64
#endif

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "krepro-roi.h"

enum { EXIT_USAGE = 2, EXIT_TOOL = 3 };

/* "program: message" or "program: message: errno's text". */
static inline void __attribute__((format(printf, 2, 3))) complain(int error, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (error)
		fprintf(stderr, ": %s", strerror(error));
	fputc('\n', stderr);
}

#define die(status, error, ...) do { complain(error, __VA_ARGS__); exit(status); } while (0)

/* One line that says how the program is called. */
#define usage(text) die(EXIT_USAGE, 0, "usage: %s", text)

/* A whole argument as a number in lowest..highest. */
static inline uint64_t number(const char *name, const char *text, uint64_t lowest, uint64_t highest)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || value < lowest || value > highest)
		die(EXIT_USAGE, 0, "%s: %s is not a number from %llu to %llu", name, text, (unsigned long long)lowest,
		    (unsigned long long)highest);
	return value;
}

/* An argument's place among words. */
static inline unsigned int word(const char *name, const char *text, const char *const words[], unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(text, words[i]))
			return i;
	die(EXIT_USAGE, 0, "%s: %s is none of %s to %s", name, text, words[0], words[count - 1]);
}

/* The trial's seed, or 1. */
static inline uint64_t default_seed(void)
{
	const char *text = getenv("KREPRO_SEED");

	return text ? number("KREPRO_SEED", text, 0, UINT32_MAX) : 1;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint32_t random_below(uint64_t *state, uint32_t below)
{
	return ((random_u64(state) >> 32) * below) >> 32;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* A file of a folder, created; dies if that fails. */
static inline FILE *create_in(const char *folder, const char *name)
{
	char path[4096];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die(EXIT_TOOL, ENAMETOOLONG, "%s", folder);
	file = fopen(path, "we");
	if (!file)
		die(EXIT_TOOL, errno, "%s", path);
	return file;
}

static inline void close_or_die(FILE *file, const char *name)
{
	if (ferror(file) | fclose(file))
		die(EXIT_TOOL, errno, "%s", name);
}

/*
 * A lap: the part that the oracle counts by itself, and by which a log is cut. The TSC is read by the very next
 * instruction after the mark.
 */
struct lap {
	uint64_t begin, end;		/* TSC */
	uint64_t begin_ns, elapsed_ns;
	bool marked;
};

#define LAP_MARK(operation, tsc) do {							\
	uint32_t low__, high__;								\
	__asm__ volatile(ROI_MARK(2, operation) "rdtsc" : "=a"(low__), "=d"(high__) : : "memory");	\
	(tsc) = (uint64_t)high__ << 32 | low__;						\
} while (0)

static inline void lap_begin(struct lap *lap, bool marked)
{
	lap->marked = marked;
	lap->begin_ns = now_ns();
	if (marked)
		LAP_MARK(0, lap->begin);
	else
		lap->begin = 0;
}

static inline void lap_end(struct lap *lap)
{
	if (lap->marked)
		LAP_MARK(1, lap->end);
	else
		lap->end = 0;
	lap->elapsed_ns = now_ns() - lap->begin_ns;
}

/* FOLDER/lap.tsv: a line per lap, TSC; nothing without a folder. */
static inline void write_lap(const char *folder, const struct lap *lap)
{
	FILE *file;

	if (!folder)
		return;
	file = create_in(folder, "lap.tsv");
	fprintf(file, "lap\tbegin\tend\n0\t%llu\t%llu\n", (unsigned long long)lap->begin,
		(unsigned long long)lap->end);
	close_or_die(file, "lap.tsv");
}

/* What every workload says: what it did, and the time it took. */
static inline void print_times(const char *workload, uint64_t operations, uint64_t elapsed_ns, uint64_t cycles)
{
	printf("{\"workload\": \"%s\", \"operations\": %llu, \"elapsed_ns\": %llu, \"cycles\": %llu}\n", workload,
	       (unsigned long long)operations, (unsigned long long)elapsed_ns, (unsigned long long)cycles);
	if (fflush(stdout))
		die(EXIT_TOOL, errno, "standard output");
}

#endif
