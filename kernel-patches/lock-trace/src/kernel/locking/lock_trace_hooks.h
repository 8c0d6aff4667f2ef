/* SPDX-License-Identifier: GPL-2.0 */
/* Hooks of the lock trace that only locks' own files, and a task's end, call. */
#ifndef _KERNEL_LOCKING_LOCK_TRACE_HOOKS_H
#define _KERNEL_LOCKING_LOCK_TRACE_HOOKS_H

#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/lock_trace.h>
#include <linux/preempt.h>
#include <linux/timex.h>
#include <linux/types.h>
#include <asm/barrier.h>

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

/*
 * How many wait for the locks of a word, and in the lower half a version that
 * counts the waits which began or ended. Words are few, to be in the cache.
 */
#define LOCK_TRACE_WORD_ORDER	12

extern u64 lock_trace_words[1 << LOCK_TRACE_WORD_ORDER];

static __always_inline unsigned int lock_trace_word_of(unsigned long lock)
{
	return GOLDEN_RATIO_32 * (u32)lock >> (32 - LOCK_TRACE_WORD_ORDER);
}

/* Who holds it may sleep, and wake on another CPU. */
static __always_inline bool lock_trace_sleeping(u8 type)
{
	return type == LOCK_TRACE_MUTEX || type == LOCK_TRACE_RWSEM_READ ||
	       type == LOCK_TRACE_RWSEM_WRITE;
}

/* Let go by a store alone; the others by an atomic instruction. */
static __always_inline bool lock_trace_stored(u8 type)
{
	return type == LOCK_TRACE_SPIN || type == LOCK_TRACE_WRITE;
}

void lock_trace_awaited(void *lock, u8 type, unsigned long site, u32 since,
			u64 time);

/*
 * Does @release, and tells of it if somebody waited for @lock. Waiters register,
 * and try again; holders let go, and look: with a full barrier on both sides,
 * either the one has the lock or the other sees him. @lock may be gone then, its
 * address is all there is. For those who hold locks that sleep, preemption is off
 * meanwhile, as it is for the others: what is seen was waited for then.
 *
 * The version is the lower half of the word, as x86 has it. The whole is the same
 * number after the release only if no wait began or ended, and nobody waits. Locks
 * that sleep wake others while they are let go: when that began is read before.
 */
#define LOCK_TRACE_LET_GO(lock, type, site, release)			\
do {									\
	u64 *_word = &lock_trace_words[lock_trace_word_of((unsigned long)(lock))]; \
	u64 _time = 0;							\
	u64 _since;							\
									\
	if (lock_trace_sleeping(type))					\
		preempt_disable_notrace();				\
	_since = READ_ONCE(*(u32 *)_word);				\
	if (lock_trace_sleeping(type) && unlikely(READ_ONCE(*_word) >> 32)) \
		_time = get_cycles();					\
	release;							\
	/* Pairs with those behind a wait's begin: see above. */	\
	if (lock_trace_stored(type))					\
		smp_mb(); /* likewise */				\
	else								\
		smp_mb__after_atomic(); /* likewise */			\
	if (unlikely(READ_ONCE(*_word) != _since))			\
		lock_trace_awaited(lock, type, site, _since, _time);	\
	if (lock_trace_sleeping(type))					\
		preempt_enable_notrace();				\
} while (0)

#else

#define LOCK_TRACE_LET_GO(lock, type, site, release)	(release)

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
