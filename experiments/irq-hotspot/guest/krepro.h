/*
 * What the guest programs of this experiment share: errors, whole reads and
 * writes, the clock, numbers from text, and a seeded random source.
 */
#ifndef KREPRO_H
#define KREPRO_H

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* i386: disks of 2 GB and more */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL

enum { EXIT_USAGE = 2 };

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

static inline uint64_t now_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		die_errno("clock_gettime");
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

static inline int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die_errno("%s", path);
	return fd;
}

/* Read from offset 0 until the end or until the buffer is full. */
static inline size_t read_all(int fd, const char *path, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buffer + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die_errno("reading %s", path);
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static inline void write_all(int fd, const char *path, const void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(fd, (const char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die_errno("writing %s", path);
		done += (size_t)n;
	}
}

/* One write at offset 0, as a sysfs or sysctl file wants its value. */
static inline void put_number(int fd, const char *path, uint64_t value)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	ssize_t n;

	do
		n = pwrite(fd, text, (size_t)length, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		die_errno("writing %llu to %s", (unsigned long long)value, path);
	if (n != length)
		die("writing %llu to %s: short write", (unsigned long long)value, path);
}

static inline uint64_t get_number(int fd, const char *path)
{
	char text[64], *end;
	size_t length = read_all(fd, path, text, sizeof(text) - 1);
	unsigned long long value;

	text[length] = '\0';
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text)
		die("%s: not a number", path);
	return value;
}

/* A whole argument as a number in lowest..highest. */
static inline uint64_t argument(const char *name, const char *text, uint64_t lowest, uint64_t highest)
{
	unsigned long long value;
	char *end;

	if (!text)
		usage_die("%s needs a value", name);
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < lowest || value > highest)
		usage_die("%s: %s is not a number from %llu to %llu", name, text,
			  (unsigned long long)lowest, (unsigned long long)highest);
	return value;
}

/* splitmix64: one word of state, good enough for jitter and offsets. */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Uniform in 0..below-1; the bias of the multiplication is below 2^-32. */
static inline uint64_t random_below(uint64_t *state, uint32_t below)
{
	return ((random_u64(state) >> 32) * below) >> 32;
}

#endif
