/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the module share: locks, threads, and exact counts of what was done to which lock. */
#ifndef KNOWN_H
#define KNOWN_H

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/osq_lock.h>
#include <linux/rwlock.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/version.h>

#include "lockknown.h"

enum { KNOWN_TALLIES = 8 };

/* Below the 21 s after which a CPU that holds a spin lock is a stall. */
#define KNOWN_LIMIT_NS (15 * NSEC_PER_SEC)

/* A lock of each kind, each in a cache line of its own. */
struct known_lock {
	raw_spinlock_t spin ____cacheline_aligned;
	rwlock_t rw ____cacheline_aligned;
	struct mutex mutex ____cacheline_aligned;
	struct rw_semaphore rwsem ____cacheline_aligned;
};

/* What one thread did to one lock in one way: written by that thread alone. */
struct known_tally {
	const void *lock;
	const char *name;
	unsigned int number;	/* of the locks of this name */
	const char *type;
	bool irq;		/* see known_irq_tally() */
	u64 attempts;		/* without trylocks */
	u64 acquired;		/* with trylocks */
	u64 tried;		/* of them by a trylock */
	u64 released;
	u64 failed;		/* trylocks */
	u64 abandoned;		/* attempts */
	u64 conflicts;		/* attempts and trylocks that certainly met somebody */
	u64 unsure;		/* those that may have */
	u64 depth;		/* most others that certainly were there at an attempt */
	u64 inits;
	u64 orphans;		/* releases of a lock that was free */
};

struct known_thread {
	struct known_run *run;
	struct task_struct *task;
	unsigned int index, cpu;
	void (*work)(struct known_thread *me);
	struct completion finished;
	u64 random;
	unsigned int used;
	struct known_tally tally[KNOWN_TALLIES];
	u64 operations;

	/* Handshakes: numbers of rounds. Written by this thread, read by its partner. */
	u32 held ____cacheline_aligned;
	u32 trying, over;

	/* An interrupt that wants a lock: see known_irq(). */
	struct irq_work irq;
	call_single_data_t call;
	raw_spinlock_t *wanted;
	struct known_tally *irq_tally;
	bool irq_waits;		/* with raw_spin_lock(), else by a trylock */
	bool irq_got;
	u32 irqs;
} ____cacheline_aligned;

struct known_run {
	struct lockknown_setup setup;
	int stop;		/* not 0: everybody comes to an end; the error, or -EINTR */
	bool go;
	struct completion released;	/* HOLD: the holder may let go */
	bool release;
	u32 turn;		/* CHAIN: whose turn it is to wait */
	unsigned int threads;
	struct hrtimer timer;
	struct known_tally *timer_tally;
	struct known_thread thread[];
};

extern struct known_lock known_own[LOCKKNOWN_MAX_THREADS];
extern struct known_lock known_shared[LOCKKNOWN_MAX_THREADS];
extern struct known_lock known_inner;
extern raw_spinlock_t known_irq_lock;	/* taken with interrupts off: by interrupts too */
extern raw_spinlock_t known_double_lock;

/* run.c */
void known_init_locks(void);
struct known_run *known_prepare(const struct lockknown_setup *setup, void (*work)(struct known_thread *me),
				unsigned int first);
void known_go(struct known_run *run);
int known_finish(struct known_run *run);
void known_discard(struct known_run *run);
void known_fail(struct known_run *run, int error);
struct known_tally *known_tally(struct known_thread *me, struct known_lock *lock, const char *name,
				unsigned int number, bool read);
struct known_tally *known_tally_at(struct known_thread *me, const void *lock, const char *name, unsigned int number,
				   const char *type);
struct known_tally *known_irq_tally(struct known_thread *me, const raw_spinlock_t *lock, const char *name,
				    unsigned int number);
char *known_report(const struct known_run *run);
bool known_irq(struct known_thread *me, unsigned int cpu, raw_spinlock_t *lock, struct known_tally *tally, bool waits);

/* load.c, cases.c, handover.c: run to their end, answer 0 or a negative error; *report is to be freed by kfree(). */
int known_load(struct lockknown_setup *setup, char **report);
int known_nested(struct lockknown_setup *setup, char **report);
int known_irqs(struct lockknown_setup *setup, char **report);
int known_trylock(struct lockknown_setup *setup, char **report);
int known_recursion(struct lockknown_setup *setup, char **report);
int known_double(struct lockknown_setup *setup, char **report);
int known_reuse(struct lockknown_setup *setup, char **report);
int known_abandon(struct lockknown_setup *setup, char **report);
int known_nonowner(struct lockknown_setup *setup, char **report);
int known_migrate(struct lockknown_setup *setup, char **report);
int known_chain(struct lockknown_setup *setup, char **report);
int known_hold(struct lockknown_setup *setup, char **report);
int known_release(struct lockknown_setup *setup, char **report);
bool known_is_held(void);
void known_forget_held(void);
int known_run_all(struct lockknown_setup *setup, void (*work)(struct known_thread *me), char **report);

/* pairs.c */
int known_pairs(const struct lockknown_pair_setup *setup);

static inline bool known_sleeps(unsigned int kind)
{
	return kind == LOCKKNOWN_MUTEX || kind == LOCKKNOWN_RWSEM;
}

static inline bool known_shares(unsigned int kind)
{
	return kind == LOCKKNOWN_RWLOCK || kind == LOCKKNOWN_RWSEM;
}

/* Turns of an empty loop. */
static __always_inline void known_loop(unsigned long turns)
{
	while (turns--)
		asm volatile("");
}

/* xorshift64* */
static inline u32 known_random(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1dULL) >> 32;
}

/* True for `permille` of a thousand numbers in a row, evenly spread. */
static inline bool known_chosen(u32 number, u32 permille)
{
	return (u64)number * permille / 1000 != (u64)(number - 1) * permille / 1000;
}

/* What to do while waiting. Who holds a spin lock may only spin; who sleeps makes those sleep that want its mutex. */
enum { KNOWN_SPIN, KNOWN_YIELD, KNOWN_SLEEP };

/* After 16 turns, 32, 64 and so on, at last every 4096: giving the CPU away takes locks, which fill a trace. */
static inline bool known_pauses(u32 turns)
{
	return turns >= 16 && (!(turns & (turns - 1)) || !(turns % 4096));
}

/* Wait for a condition; false when the run comes to an end first. */
#define known_wait(run, condition, how) ({					\
	u64 limit__ = ktime_get_ns() + KNOWN_LIMIT_NS;				\
	bool met__;								\
	for (u32 turns__ = 1; !(met__ = (condition)); turns__++) {		\
		cpu_relax();							\
		if (!known_pauses(turns__))					\
			continue;						\
		if (ktime_get_ns() > limit__)					\
			known_fail(run, -ETIMEDOUT);				\
		if (READ_ONCE((run)->stop))					\
			break;							\
		if ((how) == KNOWN_YIELD)					\
			yield();						\
		else if ((how) == KNOWN_SLEEP)					\
			usleep_range(20, 50);					\
	}									\
	met__;									\
})

/* Without a queue (see virt_spin_lock()) nobody can see who waits for a spin lock. */
static inline bool known_sees_waiters(unsigned int kind)
{
	return (kind != LOCKKNOWN_SPIN && kind != LOCKKNOWN_SPIN_IRQ) || !boot_cpu_has(X86_FEATURE_HYPERVISOR);
}

static inline bool known_someone_waits(struct known_lock *lock, unsigned int kind)
{
	switch (kind) {
	case LOCKKNOWN_SPIN:
	case LOCKKNOWN_SPIN_IRQ:
		return raw_spin_is_contended(&lock->spin);
	case LOCKKNOWN_RWLOCK:
		return rwlock_is_contended(&lock->rw);
	case LOCKKNOWN_MUTEX:
#ifdef CONFIG_MUTEX_SPIN_ON_OWNER
		if (osq_is_locked(&lock->mutex.osq))
			return true;
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
		return !list_empty(&lock->mutex.wait_list);
#else
		return READ_ONCE(lock->mutex.first_waiter);
#endif
	default:
#ifdef CONFIG_RWSEM_SPIN_ON_OWNER
		if (osq_is_locked(&lock->rwsem.osq))
			return true;
#endif
		return rwsem_is_contended(&lock->rwsem);
	}
}

/* Inline: each place that takes a lock is a call site of its own. */
static __always_inline void known_take(struct known_lock *lock, unsigned int kind, bool read, unsigned long *flags)
{
	switch (kind) {
	case LOCKKNOWN_SPIN:
		raw_spin_lock(&lock->spin);
		break;
	case LOCKKNOWN_SPIN_IRQ:
		raw_spin_lock_irqsave(&lock->spin, *flags);
		break;
	case LOCKKNOWN_RWLOCK:
		if (read)
			read_lock(&lock->rw);
		else
			write_lock(&lock->rw);
		break;
	case LOCKKNOWN_MUTEX:
		mutex_lock(&lock->mutex);
		break;
	case LOCKKNOWN_RWSEM:
		if (read)
			down_read(&lock->rwsem);
		else
			down_write(&lock->rwsem);
		break;
	}
}

static __always_inline bool known_try(struct known_lock *lock, unsigned int kind, bool read)
{
	switch (kind) {
	case LOCKKNOWN_SPIN:
	case LOCKKNOWN_SPIN_IRQ:
		return raw_spin_trylock(&lock->spin);
	case LOCKKNOWN_RWLOCK:
		return read ? read_trylock(&lock->rw) : write_trylock(&lock->rw);
	case LOCKKNOWN_MUTEX:
		return mutex_trylock(&lock->mutex);
	default:
		return read ? down_read_trylock(&lock->rwsem) : down_write_trylock(&lock->rwsem);
	}
}

static __always_inline void known_give(struct known_lock *lock, unsigned int kind, bool read, unsigned long flags)
{
	switch (kind) {
	case LOCKKNOWN_SPIN:
		raw_spin_unlock(&lock->spin);
		break;
	case LOCKKNOWN_SPIN_IRQ:
		raw_spin_unlock_irqrestore(&lock->spin, flags);
		break;
	case LOCKKNOWN_RWLOCK:
		if (read)
			read_unlock(&lock->rw);
		else
			write_unlock(&lock->rw);
		break;
	case LOCKKNOWN_MUTEX:
		mutex_unlock(&lock->mutex);
		break;
	case LOCKKNOWN_RWSEM:
		if (read)
			up_read(&lock->rwsem);
		else
			up_write(&lock->rwsem);
		break;
	}
}

/* An uncontended operation from take to release, counted. */
static __always_inline void known_pair(struct known_lock *lock, struct known_tally *tally, unsigned int kind, bool read,
				       unsigned long hold)
{
	unsigned long flags = 0;

	tally->attempts++;
	known_take(lock, kind, read, &flags);
	tally->acquired++;
	known_loop(hold);
	known_give(lock, kind, read, flags);
	tally->released++;
}

#endif
