/* SPDX-License-Identifier: GPL-2.0 */
/* Hooks of the lock trace that only locks' own files, and a task's end, call. */
#ifndef _KERNEL_LOCKING_LOCK_TRACE_HOOKS_H
#define _KERNEL_LOCKING_LOCK_TRACE_HOOKS_H

#include <linux/lock_trace.h>
#include <linux/types.h>

struct lock_trace_arm;
struct lock_trace_holds;
struct task_struct;

/* What a release leaves to do when the lock is free, on its stack. */
struct lock_trace_end {
	const struct lock_trace_arm *arm;
	struct lock_trace_holds *holds;	/* NULL: nothing */
	unsigned long site;
	u64 time;
	u64 order;
	u16 flags;
	u8 place;
};

#ifdef CONFIG_KREPRO_LOCK_TRACE

/* The trylock failed, and the waiting is about to begin. */
void lock_trace_waits(struct lock_trace_attempt *attempt, void *lock, u8 type,
		      unsigned long site);
/* Around a release. In between, preemption is off. */
void lock_trace_unlock(struct lock_trace_end *end, void *lock, u8 type,
		       unsigned long site);
void lock_trace_unlocked(struct lock_trace_end *end, void *lock, u8 type);
void __lock_trace_forget(struct task_struct *task);

#else

static inline void lock_trace_waits(struct lock_trace_attempt *attempt,
				    void *lock, u8 type,
				    unsigned long site) { }
static inline void lock_trace_unlock(struct lock_trace_end *end, void *lock,
				     u8 type, unsigned long site) { }
static inline void lock_trace_unlocked(struct lock_trace_end *end, void *lock,
				       u8 type) { }
static inline void __lock_trace_forget(struct task_struct *task) { }

#endif

/* The task is gone: it will release no more. */
static inline void lock_trace_forget(struct task_struct *task)
{
	if (lock_trace_on())
		__lock_trace_forget(task);
}

#endif /* _KERNEL_LOCKING_LOCK_TRACE_HOOKS_H */
