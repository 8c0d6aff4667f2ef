/* SPDX-License-Identifier: MIT */
/* bpf.h: eBPF programs from raw bpf(2), without a compiler: additions, counters, calls of helpers, events. */
#ifndef BPF_H
#define BPF_H

#include "util.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>

enum { MAX_CALLS = 8 };

/* A helper that a program calls so often, on so many bytes. */
struct call {
	char name[16];
	long bytes, times;
};

/*
 * What a program does: `additions`; `aggregate` times a key looked up in a hash map and 1 added to what is there;
 * calls of helpers; and with `out` an event of so many bytes into a ring of its own (of perf's with `perf`), which with
 * `wakes` wakes up at once who waits for it. With `keeps` it returns 1, as bpftrace's programs at trace points do: then
 * perf goes on, and samples into a buffer that nobody has made. `executed` is what it executes of a firing, as the kernel's compiler has
 * it: an immediate of 64 bits is one instruction.
 */
struct program {
	long additions, aggregate, out;
	bool used, perf, wakes, keeps;
	struct call calls[MAX_CALLS];
	int n_calls;
	long executed;
};

/* The ring of a program's events, as user space has it. */
struct ring {
	int map, event;
	bool perf, wakes, kept;
	char *control, *data; /* of who reads it */
};

/* "NAME[/BYTES]:TIMES,…" into a program's calls. */
void parse_calls(char *text, struct program *program);

/* Before any child is made: a text that a task has not in its memory costs a fault where a program reads it. */
void prepare_programs(void);

/* Load it, with its ring if it has one. Returns its descriptor, or -1 with the reason in `problem`. */
int bpf_program(enum bpf_prog_type type, unsigned int expected, struct program *program, struct ring *ring);

/* To be called by a child before it takes: false with errno. */
bool ring_of_child(struct ring *ring);

/* How many records were in it; it is empty after that. */
long ring_take(struct ring *ring);
void ring_close(struct ring *ring);

/* perf_event_open(2) for all tasks of CPU 0, and ioctl(2) on what it opened; interrupted calls are made again. */
int perf_open(struct perf_event_attr *attr);
bool perf_control(int fd, unsigned long request, const void *argument);

/* A perf event of a trace event, on all tasks of CPU 0: it counts, and a program may run for it. */
int perf_tracepoint(const char *event);

/* The same, of which each firing is a sample, as bpftrace opens it (bpf_attach_tracing_event in libbcc). */
int perf_sampled(const char *event);
uint64_t perf_count(int fd);

/* A program on a function by fprobe: a kprobe.multi link. */
int fprobe_link(int program, const char *symbol);
int raw_tracepoint(int program, const char *name);

#endif
