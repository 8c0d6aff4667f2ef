/* SPDX-License-Identifier: MIT */
/*
 * The library of all guest programs: how a program fails, small files, numbers from text, the clock, seeded random
 * numbers, and commands that it runs. Include it first. What is measured is inline; all else is in this folder's C.
 */
#ifndef KREPRO_H
#define KREPRO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if __SIZEOF_POINTER__ == 4 && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64 /* disks of 2 GB and more */
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ull

/* -- failing: one line on standard error, and the exit status ------------------------------------------------ */

/* As env and timeout have them, so that a program that runs a command can pass the command's own status on. */
enum {
	EXIT_USAGE = 2,		/* wrong arguments */
	EXIT_TOOL = 125,	/* the program could not do its work */
	EXIT_NOT_RUN = 126,	/* the command was found, but could not be run */
	EXIT_NOT_FOUND = 127,
};

/* What wrong arguments end a program with: EXIT_USAGE. One that passes a command's status on sets EXIT_TOOL. */
extern int exit_usage;

/* "program: message", or "program: message: errno's text" for an error other than 0. Returns EXIT_TOOL. */
int complain(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, and the end of the program. */
void die_with(int status, int error, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));

#define die(...)       die_with(EXIT_TOOL, 0, __VA_ARGS__)
#define die_errno(...) die_with(EXIT_TOOL, errno, __VA_ARGS__)
#define die_usage(...) die_with(exit_usage, 0, __VA_ARGS__)

/* -- files: what fails here ends the program, with the path ------------------------------------------------------ */

/* Closed on exec; what is created may be read and written by all, less the umask. */
int open_or_die(const char *path, int flags);
int create_or_die(const char *path);

/* From offset 0 until the end or until the buffer is full: how many bytes. */
size_t read_all(int fd, const char *path, void *buffer, size_t size);

/* The number of bytes written: less than size, with errno, if it failed. */
size_t write_all(int fd, const void *buffer, size_t size);
void write_or_die(int fd, const char *path, const void *buffer, size_t size);

/* One value at offset 0, as a file of sysfs, procfs or tracefs has it. */
void put_number(int fd, const char *path, uint64_t value);
uint64_t get_number(int fd, const char *path);

/* A text into a file that is there, in one write; false with errno if the file does not take it. */
bool try_put_text(const char *path, const char *text, int flags);
void put_text(const char *path, const char *text);

/* The whole of a file, cut at size - 1 bytes, with a 0 after it: how many bytes. -1 with errno, and an empty text. */
ssize_t get_text(const char *path, char *text, size_t size);

/* A stream into FOLDER/NAME, created. */
FILE *create_in(const char *folder, const char *name);
void close_or_die(FILE *file, const char *name);

/* To be called last: what was printed has arrived. */
void flush_or_die(void);

/* -- arguments --------------------------------------------------------------------------------------------------- */

/* A whole argument as a number in lowest..highest; no argument at all (NULL) is a wrong one. */
uint64_t argument(const char *name, const char *text, uint64_t lowest, uint64_t highest);

/* An argument's place among words. */
unsigned int choice(const char *name, const char *text, const char *const words[], unsigned int count);

/* The trial's seed, KREPRO_SEED, or 1. */
uint64_t default_seed(void);

/* -- the clock ----------------------------------------------------------------------------------------------------- */

static inline uint64_t now_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		die_errno("clock_gettime");
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

static inline uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_usec * 1000;
}

/* Signals do not shorten it. */
void sleep_ns(uint64_t ns);

/* -- random numbers: splitmix64 (Steele, Lea, Flood 2014), one word of state ---------------------------------------- */

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

/* -- commands ------------------------------------------------------------------------------------------------------ */

/* In the child: become the command, or say why not and end with EXIT_NOT_RUN or EXIT_NOT_FOUND. */
void become(char *const command[]) __attribute__((noreturn));

/*
 * A child that becomes the command. Where they are given, `mask` are the signals that it has blocked, and `death_signal`
 * ends it when this process ends.
 */
pid_t start_command(char *const command[], const sigset_t *mask, int death_signal);

/* The same, but it waits to become the command until it is released; EXIT_TOOL if this process ends before. */
struct held_command {
	pid_t pid;
	int go;
};

struct held_command hold_command(char *const command[], const sigset_t *mask, int death_signal);
void release_command(const struct held_command *held);

/* Until it has ended: the wait status, and what it used unless `usage` is NULL. */
int wait_for_command(pid_t pid, struct rusage *usage);

/* A wait status as a shell has it: the exit status, or 128 + n if signal n ended it. */
int shell_status(int wait_status);

/* The calling thread on one CPU and no other; false with errno. */
bool pin(int cpu);

#endif
