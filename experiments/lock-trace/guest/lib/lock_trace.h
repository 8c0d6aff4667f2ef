/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* What the kernel's /dev/lock_trace gives and takes: include/uapi/linux/lock_trace.h of kernel-patches/lock-trace. */
#ifndef LOCK_TRACE_H
#define LOCK_TRACE_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum {
	LOCK_TRACE_ALL = 1,
	LOCK_TRACE_PAPER,
	LOCK_TRACE_PER_LOCK,
	LOCK_TRACE_TRACEPOINT,
	LOCK_TRACE_VALIDATE,
	LOCK_TRACE_CONTENDED,
};

enum {
	LOCK_TRACE_ATTEMPT = 1,
	LOCK_TRACE_ACQUIRED,
	LOCK_TRACE_RELEASE,
	LOCK_TRACE_FAILED,
	LOCK_TRACE_ABANDONED,
	LOCK_TRACE_INIT,
	LOCK_TRACE_WAITS,
};

enum {
	LOCK_TRACE_STREAM_LOG,
	LOCK_TRACE_STREAM_PER_LOCK,
	LOCK_TRACE_STREAM_PAPER,
	LOCK_TRACE_STREAMS,
};

struct lock_trace_event {
	__u64 position;
	__u64 time;
	__u64 lock;
	__u64 site;
	__u64 order;
	__u32 sequence;
	__u32 entry;
	__u32 pid;
	__u32 depth;
	__u16 cpu;
	__u8 kind;
	__u8 type;
	__u8 stream;
	__u8 context;
	__u16 flags;
};

struct lock_trace_setup {		/* 0: the kernel's choice */
	__u32 arm;
	__u32 ring_order;
	__u32 lock_order;
	__u32 site_order;
	__u32 pool_order;
	__u32 reserved;
};

struct lock_trace_status {
	__u64 arm;
	__u64 running;
	__u64 start;
	__u64 stop;
	__u64 tsc_khz;
	__u64 events;
	__u64 kinds[8];
	__u64 kept[LOCK_TRACE_STREAMS];
	__u64 dropped[LOCK_TRACE_STREAMS];
	__u64 written[LOCK_TRACE_STREAMS];
	__u64 lost[LOCK_TRACE_STREAMS];
	__u64 first_loss;
	__u64 untracked;
	__u64 nested;
	__u64 waiting;
	__u64 locks;
	__u64 sites;
	__u64 sites_full;
	__u64 holds_full;
	__u64 pool_peak;
	__u64 pool_full;
};

#define LOCK_TRACE_START	_IOW('L', 0x20, struct lock_trace_setup)
#define LOCK_TRACE_STOP		_IO('L', 0x21)
#define LOCK_TRACE_STATUS	_IOR('L', 0x22, struct lock_trace_status)

#endif
