// SPDX-License-Identifier: MIT
/*
 * Linked into locktrace instead of the kernel: /dev/lock_trace gives LOCK_FAKE_EVENTS events in pieces, some of them
 * only after the stop, and debugfs is the folder LOCK_FAKE_TABLES. LOCK_FAKE_START is START's errno.
 */
#define _GNU_SOURCE
#include "lock_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { DEVICE = 1000 };

int __real_open(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long command, void *argument);
ssize_t __real_read(int fd, void *to, size_t size);

static unsigned long given, stopped;

static unsigned long total(void)
{
	const char *text = getenv("LOCK_FAKE_EVENTS");

	return text ? strtoul(text, NULL, 10) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
	static const char debugfs[] = "/sys/kernel/debug/lock_trace/";
	char other[256];
	va_list args;
	int mode;

	if (!strcmp(path, "/dev/lock_trace"))
		return getenv("LOCK_FAKE_EVENTS") ? DEVICE : __real_open("/no/lock_trace", O_RDONLY);
	if (!strncmp(path, debugfs, strlen(debugfs))) {
		snprintf(other, sizeof(other), "%s/%s", getenv("LOCK_FAKE_TABLES"), path + strlen(debugfs));
		path = other;
	}
	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	return __real_open(path, flags, mode);
}

int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	const char *error = getenv("LOCK_FAKE_START");
	struct lock_trace_status *status = argument;

	if (fd != DEVICE)
		return __real_ioctl(fd, command, argument);
	switch (command) {
	case LOCK_TRACE_START:
		errno = error ? atoi(error) : 0;
		return error ? -1 : 0;
	case LOCK_TRACE_STOP:
		__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
		return 0;
	default:
		memset(status, 0, sizeof(*status));
		status->arm = LOCK_TRACE_ALL;
		status->events = total();
		status->kept[LOCK_TRACE_STREAM_LOG] = status->written[LOCK_TRACE_STREAM_LOG] = total();
		status->kinds[LOCK_TRACE_INIT] = 7;
		status->pool_full = 9;
		return 0;
	}
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	struct lock_trace_event *event = to;
	unsigned long is_stopped = __atomic_load_n(&stopped, __ATOMIC_ACQUIRE);
	unsigned long room = size / sizeof(*event), end = is_stopped ? total() : total() - total() / 10;

	if (fd != DEVICE)
		return __real_read(fd, to, size);
	if (given == end && !is_stopped) {
		errno = EAGAIN;
		return -1;
	}
	room = room < 1 + given % 100003 ? room : 1 + given % 100003;
	for (; room && given < end; room--)
		*event++ = (struct lock_trace_event){ .position = ++given, .kind = LOCK_TRACE_ATTEMPT };
	return (char *)event - (char *)to;
}
