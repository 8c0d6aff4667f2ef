/* /dev/ppid_map (modules/ppid): which thread runs on which CPU. */
#ifndef SHIM_PPID_H
#define SHIM_PPID_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PPID_DEVICE "/dev/ppid_map"
#define PPID_NONE (~0ull)

struct ppid_line {
	volatile uint64_t ids, begun, tsc, done;
	uint64_t zero[4];
};

struct ppid_now {
	uint64_t ids, begun, tsc;
	bool torn; /* the fields are of two switches that follow each other */
};

static inline int32_t ppid_pid(uint64_t ids)
{
	return (int32_t)(uint32_t)ids;
}

static inline int32_t ppid_tgid(uint64_t ids)
{
	return (int32_t)(ids >> 32);
}

/* All lines; NULL with errno. */
static inline const struct ppid_line *ppid_map(void)
{
	int fd = open(PPID_DEVICE, O_RDONLY | O_CLOEXEC);
	void *map;

	if (fd < 0)
		return NULL;
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/*
 * A line at rest. x86 neither reorders the writer's stores nor these loads. A writer that stays in the middle (its CPU was
 * taken away by the host) is not waited for.
 */
static inline struct ppid_now ppid_read(const struct ppid_line *line)
{
	struct ppid_now now;

	for (int i = 0; i < 4; i++) {
		uint64_t done = line->done;

		now.ids = line->ids;
		now.tsc = line->tsc;
		now.begun = line->begun;
		now.torn = now.begun != done;
		if (!now.torn)
			break;
	}
	return now;
}

/* Which module publishes: "callback", "tracepoint", or NULL when none is switched on. */
static inline const char *ppid_source(void)
{
	static const char *const sources[] = { "callback", "tracepoint" };

	for (int i = 0; i < 2; i++) {
		char path[80], value = 0;
		int fd;

		snprintf(path, sizeof(path), "/sys/module/ppid_%s/parameters/active", sources[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, &value, 1) != 1)
			value = 0;
		close(fd);
		if (value == 'Y')
			return sources[i];
	}
	return NULL;
}

#endif
