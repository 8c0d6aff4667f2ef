/*
 * What the tools of this experiment share: errors, the clock, numbers from
 * text, whole writes, and what becomes of a command that is run.
 */
#ifndef TOOLS_H
#define TOOLS_H

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL

/*
 * Exit statuses of programs that run a command, as env and timeout have them:
 * the command's own, 128 + n if signal n ended it, and these.
 */
enum {
	EXIT_TOOL = 125,	/* the tool itself failed */
	EXIT_NOT_RUN = 126,	/* the command was found, but could not be run */
	EXIT_NOT_FOUND = 127,
};

/* "program: message", or "program: message: errno's text"; the status that says so. */
static inline int __attribute__((format(printf, 2, 3))) complain(int error, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (error)
		fprintf(stderr, ": %s", strerror(error));
	fputc('\n', stderr);
	return EXIT_TOOL;
}

#define die(...)       exit(complain(0, __VA_ARGS__))
#define die_errno(...) exit(complain(errno, __VA_ARGS__))

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

/* A whole argument as a number in lowest..highest. */
static inline uint64_t number(const char *name, const char *text, uint64_t lowest, uint64_t highest)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text < '0' || *text > '9' || value < lowest || value > highest)
		die("%s: %s is not a number from %llu to %llu", name, text, (unsigned long long)lowest,
		    (unsigned long long)highest);
	return value;
}

static inline int create_or_die(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0)
		die_errno("%s", path);
	return fd;
}

/* The number of bytes written: less than size, with errno, if it failed. */
static inline size_t write_all(int fd, const void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(fd, (const char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* In the child: become the command, or say why not. */
static inline void __attribute__((noreturn)) run_or_exit(char *const command[])
{
	int error;

	execvp(command[0], command);
	error = errno;
	complain(error, "%s", command[0]);
	_exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
}

static inline int shell_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

#endif
