/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* lockknown: what a program asks of the module. See device.c. */
#ifndef LOCKKNOWN_H
#define LOCKKNOWN_H

#include <linux/ioctl.h>
#include <linux/types.h>

enum lockknown_kind {
	LOCKKNOWN_SPIN,		/* raw_spinlock_t: some are taken in interrupts */
	LOCKKNOWN_SPIN_IRQ,	/* raw_spin_lock_irqsave() */
	LOCKKNOWN_RWLOCK,
	LOCKKNOWN_MUTEX,
	LOCKKNOWN_RWSEM,
	LOCKKNOWN_KINDS,
};

enum lockknown_scenario {
	LOCKKNOWN_LOAD,		/* load.c: locks of their own, and conflicts in a chosen share of operations */
	LOCKKNOWN_NESTED,	/* load.c: an outer lock, then an inner one */
	LOCKKNOWN_IRQ,		/* cases.c: interrupts that want the lock of the task below them */
	LOCKKNOWN_TRYLOCK,	/* cases.c: trylocks that fail, and that succeed */
	LOCKKNOWN_ABANDON,	/* handover.c: waits that a signal ends */
	LOCKKNOWN_NONOWNER,	/* handover.c: up_read() by another thread than down_read() */
	LOCKKNOWN_RECURSION,	/* cases.c: a reader that is one already */
	LOCKKNOWN_DOUBLE,	/* cases.c: a second release, then a block with a conflict */
	LOCKKNOWN_REUSE,	/* cases.c: locks that are freed, and their memory locks again */
	LOCKKNOWN_MIGRATE,	/* handover.c: a waiter moves to another CPU */
	LOCKKNOWN_CHAIN,	/* handover.c: all threads but one wait for that one */
	LOCKKNOWN_HOLD,		/* handover.c: take the lock and come back while it is held */
	LOCKKNOWN_RELEASE,	/* handover.c: release what LOCKKNOWN_HOLD took */
	LOCKKNOWN_SCENARIOS,
};

enum lockknown_flag {
	LOCKKNOWN_COMPETE = 1,	/* LOAD: all threads use one lock, and whatever happens happens */
	LOCKKNOWN_FREE_HELD = 2,/* REUSE: every fourth lock is freed while held */
};

enum { LOCKKNOWN_MAX_THREADS = 32 };

struct lockknown_setup {
	__u32 scenario, kind, flags;
	__u32 threads;		/* 1 to LOCKKNOWN_MAX_THREADS, one per CPU in turn */
	__u32 operations;	/* of each thread */
	__u32 conflicts;	/* LOAD: per mille of the operations */
	__u32 reads;		/* LOAD, HOLD: per mille of the operations on rwlocks and rwsems that are reads */
	__u32 hold, gap;	/* turns of an empty loop with the lock, and before the next operation */
	__u32 timer_us;		/* LOAD of spin locks: a timer trylocks the shared lock so often; 0 = none */
	__u32 seed;
	__u32 reserved;
	/* Answered: */
	__u64 begin, end;	/* TSC, before the first operation and after the last */
	__u64 elapsed_ns;
	__u64 done;		/* operations of all threads together */
};

enum lockknown_pair {
	LOCKKNOWN_PAIR_NONE,	/* nothing between the two readings of the TSC */
	LOCKKNOWN_PAIR_SPIN,
	LOCKKNOWN_PAIR_SPIN_IRQSAVE,
	LOCKKNOWN_PAIR_READ,
	LOCKKNOWN_PAIR_WRITE,
	LOCKKNOWN_PAIR_MUTEX,
	LOCKKNOWN_PAIR_RWSEM_READ,
	LOCKKNOWN_PAIR_RWSEM_WRITE,
	LOCKKNOWN_PAIRS,
};

enum { LOCKKNOWN_MAX_PAIRS = 20000 };

struct lockknown_pair_setup {
	__u32 pair;
	__u32 count;		/* 1 to LOCKKNOWN_MAX_PAIRS */
	__u64 cycles;		/* answered: address of `count` __u64, TSC cycles from before taking to after releasing */
};

/*
 * RUN and HOLD come back when the scenario is over: EINVAL (setup), EBUSY (another one runs, or a lock is held),
 * EOPNOTSUPP (not on this kernel, or not with so few CPUs), ETIMEDOUT (somebody waited for 15 s in vain),
 * EPROTO (a lock did what no lock may do), ENOSPC (more locks than can be counted), EINTR. What was counted until then
 * can be read.
 */
#define LOCKKNOWN_RUN	_IOWR('K', 1, struct lockknown_setup)
#define LOCKKNOWN_PAIR	_IOW('K', 2, struct lockknown_pair_setup)

#endif
