// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace of the kernel's own tracepoints, for comparison: who waits,
 * and nothing of who does not.
 */
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/timex.h>
#include <linux/tracepoint.h>
#include <trace/events/lock.h>

#include "lock_trace.h"

/* The tracepoints do not say who asked for the lock. */
static unsigned long lock_trace_caller(void)
{
	unsigned long calls[12];
	unsigned int i, n;

	n = stack_trace_save(calls, ARRAY_SIZE(calls), 2);
	for (i = 0; i < n; i++)
		if (!in_lock_functions(calls[i]) && !in_sched_functions(calls[i]))
			break;
	/* The first frame that is left can be the slow path's own. */
	return i < n ? calls[i] : 0;
}

static u8 lock_trace_type_of(unsigned int flags)
{
	switch (flags) {
	case LCB_F_SPIN:
		return LOCK_TRACE_SPIN;
	case LCB_F_SPIN | LCB_F_READ:
		return LOCK_TRACE_READ;
	case LCB_F_SPIN | LCB_F_WRITE:
		return LOCK_TRACE_WRITE;
	case LCB_F_MUTEX:
	case LCB_F_MUTEX | LCB_F_SPIN:
		return LOCK_TRACE_MUTEX;
	case LCB_F_READ:
		return LOCK_TRACE_RWSEM_READ;
	case LCB_F_WRITE:
		return LOCK_TRACE_RWSEM_WRITE;
	}
	return LOCK_TRACE_OTHER;
}

static void lock_trace_contention_begin(void *data, void *lock, unsigned int flags)
{
	lock_trace_log(lock, LOCK_TRACE_ATTEMPT, lock_trace_type_of(flags),
		       lock_trace_caller(), LOCK_TRACE_CONFLICT);
}

/* Says neither what kind of lock it is nor, here, who asked: begin did. */
static void lock_trace_contention_end(void *data, void *lock, int ret)
{
	lock_trace_log(lock, ret ? LOCK_TRACE_ABANDONED : LOCK_TRACE_ACQUIRED,
		       LOCK_TRACE_OTHER, 0, 0);
}

static int lock_trace_contention_start(const struct lock_trace_setup *setup)
{
	int err = register_trace_contention_end(lock_trace_contention_end, NULL);

	if (err)
		return err;
	err = register_trace_contention_begin(lock_trace_contention_begin, NULL);
	if (err)
		unregister_trace_contention_end(lock_trace_contention_end, NULL);
	return err;
}

static void lock_trace_contention_unhook(void)
{
	unregister_trace_contention_begin(lock_trace_contention_begin, NULL);
	unregister_trace_contention_end(lock_trace_contention_end, NULL);
	tracepoint_synchronize_unregister();
}

const struct lock_trace_arm lock_trace_contention = {
	.start = lock_trace_contention_start,
	.unhook = lock_trace_contention_unhook,
};
