/* SPDX-License-Identifier: MIT */
/*
 * How often probes fire: perf's counters, which record nothing and stop nobody. They count on the guest's one CPU,
 * whoever runs there, as a script of bpftrace's sees it.
 *
 * Probes are separated by blanks, and named as bpftrace names them: tracepoint:SYSTEM:NAME, of which parts may be
 * patterns, kprobe:FUNCTION+OFFSET, kretprobe:FUNCTION, uprobe:FILE:OFFSET, uretprobe:FILE:OFFSET.
 */
#ifndef COUNT_H
#define COUNT_H

struct counters;

/* What cannot be counted has its reason in the file; only memory that is not there ends the program. */
struct counters *open_counters(const char *probes);
void begin_counters(struct counters *counters);

/* A line of the nanoseconds since they began; then for each probe its count, or minus an errno, a blank, its name. */
void write_counters(struct counters *counters, int file);

#endif
