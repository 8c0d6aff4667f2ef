// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "count.h"

#include "krepro.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define EVENTS "/sys/kernel/tracing/events/"
#define SOURCES "/sys/bus/event_source/devices/"

enum { MOST_PROBES = 512, MOST = 4096, FILES = 65536, LONGEST = 4096, RETURNS = 1 };

struct counter {
	const char *probe;
	int error; /* of one that was not opened */
	unsigned int n, fd[MOST];
};

struct counters {
	unsigned int n;
	uint64_t begun_ns;
	struct counter counter[MOST_PROBES];
};

static int number_in(const char *path, uint64_t *number)
{
	FILE *file = fopen(path, "re");
	int found;

	if (!file)
		return errno;
	found = fscanf(file, "%" SCNu64, number);
	fclose(file);
	return found == 1 ? 0 : EIO;
}

static void open_one(struct counter *counter, struct perf_event_attr *attr)
{
	long fd;

	attr->size = sizeof(*attr);
	attr->disabled = 1;
	fd = counter->n < MOST ? syscall(SYS_perf_event_open, attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC) : -1;
	if (fd < 0)
		counter->error = counter->n < MOST ? errno : E2BIG;
	else
		counter->fd[counter->n++] = (unsigned int)fd;
}

/* tracepoint:SYSTEM:NAME */
static void open_trace_points(struct counter *counter, const char *name)
{
	char pattern[LONGEST];
	glob_t found;

	snprintf(pattern, sizeof(pattern), EVENTS "%s/id", name);
	*strchrnul(pattern + strlen(EVENTS), ':') = '/';
	if (glob(pattern, 0, NULL, &found)) {
		counter->error = ENOENT;
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT };
		uint64_t id;

		int error = number_in(found.gl_pathv[i], &id);

		attr.config = id;
		if (error)
			counter->error = error;
		else
			open_one(counter, &attr);
	}
	globfree(&found);
}

/* FUNCTION+OFFSET, or FILE:OFFSET of a program's */
static void open_probe(struct counter *counter, const char *place, bool user, bool returns)
{
	struct perf_event_attr attr = { .config = returns ? RETURNS : 0 };
	char name[LONGEST], *offset;
	uint64_t type;

	counter->error = number_in(user ? SOURCES "uprobe/type" : SOURCES "kprobe/type", &type);
	if (counter->error)
		return;
	attr.type = (uint32_t)type;
	snprintf(name, sizeof(name), "%s", place);
	offset = strrchr(name, user ? ':' : '+');
	if (offset) {
		*offset = '\0';
		attr.probe_offset = strtoull(offset + 1, NULL, 0);
	}
	attr.kprobe_func = (uintptr_t)name; /* a program's path is in its place */
	open_one(counter, &attr);
}

static bool begins(const char **rest, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(*rest, word, length))
		return false;
	*rest += length;
	return true;
}

static void open_counter(struct counter *counter)
{
	const char *rest = counter->probe;

	if (begins(&rest, "tracepoint:"))
		open_trace_points(counter, rest);
	else if (begins(&rest, "kprobe:"))
		open_probe(counter, rest, false, false);
	else if (begins(&rest, "kretprobe:"))
		open_probe(counter, rest, false, true);
	else if (begins(&rest, "uprobe:"))
		open_probe(counter, rest, true, false);
	else if (begins(&rest, "uretprobe:"))
		open_probe(counter, rest, true, true);
	else
		counter->error = EOPNOTSUPP;
}

struct counters *open_counters(const char *probes)
{
	struct counters *counters = calloc(1, sizeof(*counters));
	char *text = strdup(probes), *left = NULL;

	const struct rlimit files = { FILES, FILES };

	if (!counters || !text)
		die_errno("memory for counters");
	if (setrlimit(RLIMIT_NOFILE, &files))
		die_errno("setrlimit");
	for (char *probe = strtok_r(text, " ", &left); probe && counters->n < MOST_PROBES; probe = strtok_r(NULL, " ", &left)) {
		struct counter *counter = &counters->counter[counters->n++];

		counter->probe = probe;
		open_counter(counter);
	}
	return counters;
}

static uint64_t sum(const struct counter *counter)
{
	uint64_t total = 0, one;

	for (unsigned int i = 0; i < counter->n; i++)
		if (read((int)counter->fd[i], &one, sizeof(one)) == sizeof(one))
			total += one;
	return total;
}

/* All at once, in one call: more of them would fire the probes of calls. */
void begin_counters(struct counters *counters)
{
	if (prctl(PR_TASK_PERF_EVENTS_ENABLE))
		die_errno("prctl");
	counters->begun_ns = now_ns();
}

void write_counters(struct counters *counters, int file)
{
	uint64_t ended_ns = now_ns();

	if (prctl(PR_TASK_PERF_EVENTS_DISABLE))
		die_errno("prctl");
	dprintf(file, "%" PRIu64 "\n", ended_ns - counters->begun_ns);
	for (unsigned int i = 0; i < counters->n; i++) {
		const struct counter *counter = &counters->counter[i];

		if (counter->error)
			dprintf(file, "-%d %s\n", counter->error, counter->probe);
		else
			dprintf(file, "%" PRIu64 " %s\n", sum(counter), counter->probe);
	}
}
