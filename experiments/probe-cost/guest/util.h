/* util.h: dying with one line, files as text, and the two clocks of probecost. */
#ifndef UTIL_H
#define UTIL_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"

/* Why the run that is being set up cannot be measured; empty: nothing is wrong. Other runs go on. */
static char problem[256];

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
	va_list args;

	if (problem[0])
		return; /* the first reason is the one that counts */
	va_start(args, format);
	vsnprintf(problem, sizeof(problem), format, args);
	va_end(args);
	for (char *c = problem; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = ' ';
}

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "probecost: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

/* Write a text below tracefs (or to an absolute path) in one write; O_APPEND where files hold lists. */
static bool put(const char *file, const char *text, int flags)
{
	char path[256];
	ssize_t wrote;
	int fd;

	snprintf(path, sizeof(path), "%s%s%s", file[0] == '/' ? "" : TRACEFS "/", file, "");
	fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	if (fd < 0) {
		fail("%s: %s", path, strerror(errno));
		return false;
	}
	wrote = write(fd, text, strlen(text));
	if (wrote < 0)
		fail("%s: %s: %s", file, text, strerror(errno));
	close(fd);
	return wrote >= 0;
}

/* The whole of a file below tracefs, as text, cut at `size`; empty when it cannot be read. */
static char *get(const char *file, char *text, size_t size)
{
	size_t length = 0;
	char path[256];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "%s%s", file[0] == '/' ? "" : TRACEFS "/", file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
			length += (size_t)got;
		close(fd);
	}
	text[length] = 0;
	return text;
}

/* The number after `label` in a text, or -1. */
static long long number_after(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	return at ? atoll(at + strlen(label)) : -1;
}

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Under the virtual clock with shift 0 the time-stamp counter counts executed instructions. */
static bool counts_instructions;

static inline uint64_t now(void)
{
	return counts_instructions ? __builtin_ia32_rdtsc() : monotonic_ns();
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&ts, NULL);
}

#endif
