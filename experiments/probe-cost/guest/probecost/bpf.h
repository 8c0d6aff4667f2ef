/* SPDX-License-Identifier: MIT */
/* bpf.h: eBPF programs from raw bpf(2), without a compiler: some additions, or a counter in a hash map. */
#ifndef BPF_H
#define BPF_H

#include "util.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>

/*
 * A program of `additions` additions; with `aggregate` it also looks a key up in a hash map and adds 1 to what it
 * finds there, `aggregate` times. Returns its descriptor, or -1 with the reason in `problem`.
 */
int bpf_program(enum bpf_prog_type type, unsigned int expected, long additions, long aggregate);

/* perf_event_open(2) for all tasks of CPU 0, and ioctl(2) on what it opened; interrupted calls are made again. */
int perf_open(struct perf_event_attr *attr);
bool perf_control(int fd, unsigned long request, const void *argument);

/* A perf event of a trace event, on all tasks of CPU 0: it counts, and a program may run for it. */
int perf_tracepoint(const char *event);
uint64_t perf_count(int fd);

/* A program on a function by fprobe: a kprobe.multi link. */
int fprobe_link(int program, const char *symbol);
int raw_tracepoint(int program, const char *name);

#endif
