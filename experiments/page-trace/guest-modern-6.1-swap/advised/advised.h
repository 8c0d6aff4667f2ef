/* SPDX-License-Identifier: MIT */
/* Paging another process out, and fetching its pages ahead. */
#ifndef ADVISED_H
#define ADVISED_H

#include "page.h"

#include <sys/uio.h>

struct result {
	uint64_t paged_out, fetched;	/* pages */
};

/* Ranges of pages, in the order in which they are to be fetched. */
struct plan {
	struct iovec *ranges;
	size_t n;
};

/* A line of /proc/meminfo or /proc/PID/status. */
uint64_t kib_of(const char *path, const char *name);

/* Of a trace behind its header, to its end: the pages in the order of their first visits, into a file. */
void write_plan(FILE *trace, const char *path);
struct plan plan_of(const char *path);
/* All memory that a process can write, in the order of addresses. */
struct plan plan_everything(pid_t pid);

/* What a stopped process has of its own; how many pages are in swap space then. */
uint64_t page_out(pid_t pid);
/* How many pages were asked for. Those that are no longer mapped are left out. */
uint64_t fetch(pid_t pid, const struct plan *plan);

#endif
