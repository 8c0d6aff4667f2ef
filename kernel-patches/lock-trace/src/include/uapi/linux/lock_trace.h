/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_LINUX_LOCK_TRACE_H
#define _UAPI_LINUX_LOCK_TRACE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* What is recorded; see Documentation/locking/lock-trace.rst. */
enum {
	LOCK_TRACE_ALL = 1,		/* every event */
	LOCK_TRACE_PAPER,		/* one shared buffer, one lock */
	LOCK_TRACE_PER_LOCK,		/* who waited, and for whom */
	LOCK_TRACE_TRACEPOINT,		/* contention_begin and contention_end */
	LOCK_TRACE_VALIDATE,		/* every event beside both filters */
	LOCK_TRACE_CONTENDED,		/* who waited, and who let go meanwhile */
	LOCK_TRACE_ARMS,
};

/* lock_trace_event::kind */
enum {
	LOCK_TRACE_ATTEMPT = 1,
	LOCK_TRACE_ACQUIRED,
	LOCK_TRACE_RELEASE,
	LOCK_TRACE_FAILED,		/* a trylock */
	LOCK_TRACE_ABANDONED,		/* gave up waiting */
	LOCK_TRACE_INIT,
};
#define LOCK_TRACE_WAITS	7	/* the trylock failed: about to wait */
/* lock_trace_event::type */
enum {
	LOCK_TRACE_SPIN = 1,
	LOCK_TRACE_READ,
	LOCK_TRACE_WRITE,
	LOCK_TRACE_MUTEX,
	LOCK_TRACE_RWSEM_READ,
	LOCK_TRACE_RWSEM_WRITE,
	LOCK_TRACE_OTHER,
};

/* lock_trace_event::context */
enum {
	LOCK_TRACE_IN_TASK,
	LOCK_TRACE_IN_SOFTIRQ,
	LOCK_TRACE_IN_IRQ,
	LOCK_TRACE_IN_NMI,
	LOCK_TRACE_IRQS_OFF = 128,	/* added to one of the above */
};

/* lock_trace_event::flags */
enum {
	LOCK_TRACE_TRY = 1,		/* ACQUIRED by a trylock: no ATTEMPT */
	LOCK_TRACE_ORPHAN = 2,		/* RELEASE of what nobody was seen to acquire */
	LOCK_TRACE_OPEN = 4,		/* undecided when the trace ended */
	LOCK_TRACE_CONFLICT = 8,	/* TRACEPOINT: contention */
	LOCK_TRACE_OTHER_TASK = 16,	/* RELEASE by another task */
};

/* lock_trace_event::stream; all arms but VALIDATE have one */
enum {
	LOCK_TRACE_STREAM_LOG,
	LOCK_TRACE_STREAM_PER_LOCK,
	LOCK_TRACE_STREAM_PAPER,
	LOCK_TRACE_STREAMS,
};

struct lock_trace_event {
	__u64 position;			/* in its CPU's ring, from 1 */
	__u64 time;			/* cycles */
	__u64 lock;
	__u64 site;			/* where the lock's function was called */
	__u64 order;			/* VALIDATE: in the shared buffer */
	__u32 sequence;			/* waits that began or ended so far */
	__u32 entry;			/* in the table of locks, from 1 */
	__u32 pid;
	__u32 depth;			/* WAITS: others that do, and one */
	__u16 cpu;
	__u8 kind;
	__u8 type;
	__u8 stream;
	__u8 context;
	__u16 flags;
};

struct lock_trace_setup {		/* 0: a default */
	__u32 arm;
	__u32 ring_order;		/* log2 of events of each CPU's ring */
	__u32 lock_order;		/* log2 of locks */
	__u32 site_order;		/* log2 of pairs of lock and call site */
	__u32 pool_order;		/* log2 of events of the shared buffer */
	__u32 reserved;
};

struct lock_trace_status {
	__u64 arm;
	__u64 running;
	__u64 start;			/* cycles */
	__u64 stop;
	__u64 tsc_khz;
	__u64 events;
	__u64 kinds[8];			/* events by kind */
	__u64 kept[LOCK_TRACE_STREAMS];	/* == written + lost */
	__u64 dropped[LOCK_TRACE_STREAMS];	/* nobody waited */
	__u64 written[LOCK_TRACE_STREAMS];
	__u64 lost[LOCK_TRACE_STREAMS];	/* the ring was full */
	__u64 first_loss;		/* cycles; 0: none */
	__u64 untracked;		/* neither kept nor dropped: nobody can tell */
	__u64 nested;			/* NMIs that could not be looked after */
	__u64 waiting;			/* of dropped: attempts still under way */
	__u64 locks;
	__u64 sites;
	__u64 sites_full;		/* acquisitions not in the table of sites */
	__u64 holds_full;		/* acquisitions kept for want of room */
	__u64 pool_peak;
	__u64 pool_full;
};

#define LOCK_TRACE_START	_IOW('L', 0x20, struct lock_trace_setup)
#define LOCK_TRACE_STOP		_IO('L', 0x21)
#define LOCK_TRACE_STATUS	_IOR('L', 0x22, struct lock_trace_status)

#endif /* _UAPI_LINUX_LOCK_TRACE_H */
