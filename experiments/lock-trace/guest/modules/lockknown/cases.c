// SPDX-License-Identifier: GPL-2.0-only
/* Cases in which each thread is for itself, but for interrupts. */
#include <linux/slab.h>

#include "known.h"

/* A trylock in an interrupt on this CPU. */
static void try_in_irq(struct known_thread *me, raw_spinlock_t *lock, struct known_tally *tally, bool is_held)
{
	if (known_irq(me, me->cpu, lock, tally, false) && me->irq_got == is_held)
		known_fail(me->run, -EPROTO);
	tally->conflicts += is_held;
}

/* The lock is held here and waited for in an interrupt on the partner's CPU. */
static void wait_in_irq(struct known_thread *me, struct known_tally *mine, struct known_tally *irq)
{
	bool sees = known_sees_waiters(LOCKKNOWN_SPIN), sent;
	u32 before = me->irqs;
	unsigned long flags;

	mine->attempts++;
	raw_spin_lock_irqsave(&known_irq_lock, flags);
	mine->acquired++;
	if (sees)
		irq->depth = 1;
	sent = known_irq(me, me->run->thread[1].cpu, &known_irq_lock, irq, true);
	if (!sees)
		udelay(50);
	else if (sent)
		known_wait(me->run, raw_spin_is_contended(&known_irq_lock), KNOWN_SPIN);
	raw_spin_unlock_irqrestore(&known_irq_lock, flags);
	mine->released++;
	if (sent)
		known_wait(me->run, smp_load_acquire(&me->irqs) != before, KNOWN_SPIN);
	irq->conflicts += sees;
	irq->unsure += !sees;
}

/* The partner holds the lock; this thread waits for it, and is interrupted. */
static void be_interrupted_waiting(struct known_thread *me, struct known_tally *tally, u32 round)
{
	struct known_thread *partner = &me->run->thread[1];
	bool sees = known_sees_waiters(LOCKKNOWN_SPIN);

	/* The other cases are over. */
	smp_store_release(&me->held, round);
	if (!known_wait(me->run, smp_load_acquire(&partner->held) == round, KNOWN_YIELD))
		return;
	tally->attempts++;
	tally->conflicts += sees;
	tally->unsure += !sees;
	tally->depth = max_t(u64, tally->depth, sees);
	WRITE_ONCE(me->trying, round);
	raw_spin_lock(&known_shared[0].spin);
	tally->acquired++;
	raw_spin_unlock(&known_shared[0].spin);
	tally->released++;
	smp_store_release(&me->over, round);
}

static void interrupt_waiter(struct known_thread *me, struct known_tally *mine, struct known_tally *irq, u32 round)
{
	struct known_thread *partner = &me->run->thread[0];
	raw_spinlock_t *lock = &known_shared[0].spin;
	bool sees = known_sees_waiters(LOCKKNOWN_SPIN);
	u32 before = me->irqs;

	if (!known_wait(me->run, smp_load_acquire(&partner->held) == round, KNOWN_YIELD))
		return;
	mine->attempts++;
	raw_spin_lock(lock);
	mine->acquired++;
	smp_store_release(&me->held, round);
	known_wait(me->run, READ_ONCE(partner->trying) == round && (!sees || raw_spin_is_contended(lock)), KNOWN_SPIN);
	if (!sees)
		udelay(50);
	if (known_irq(me, partner->cpu, lock, irq, false) &&
	    known_wait(me->run, smp_load_acquire(&me->irqs) != before, KNOWN_SPIN) && me->irq_got)
		known_fail(me->run, -EPROTO);
	irq->conflicts++;
	raw_spin_unlock(lock);
	mine->released++;
	known_wait(me->run, smp_load_acquire(&partner->over) == round, KNOWN_YIELD);
}

static void irq_thread(struct known_thread *me)
{
	unsigned int cases = me->run->threads > 1 ? 4 : 2;
	raw_spinlock_t *lock = &known_shared[0].spin;
	struct known_tally *mine = known_tally(me, &known_shared[0], "shared", 0, false);
	struct known_tally *irq = known_irq_tally(me, lock, "shared", 0);
	struct known_tally *other = NULL, *other_irq = NULL;
	u32 round = 0;

	if (cases == 4 && !me->index) {
		other = known_tally_at(me, &known_irq_lock, "irq", 0, "spin");
		other_irq = known_irq_tally(me, &known_irq_lock, "irq", 0);
	}
	for (u32 i = 0; i < me->run->setup.operations && !READ_ONCE(me->run->stop); i++) {
		known_loop(me->run->setup.gap);
		if (i % cases == 3) {
			round++;
			if (me->index)
				interrupt_waiter(me, mine, irq, round);
			else
				be_interrupted_waiting(me, mine, round);
		}
		if (me->index)
			continue;
		switch (i % cases) {
		case 0:
			mine->attempts++;
			raw_spin_lock(lock);
			mine->acquired++;
			try_in_irq(me, lock, irq, true);
			raw_spin_unlock(lock);
			mine->released++;
			break;
		case 1:
			try_in_irq(me, lock, irq, false);
			break;
		case 2:
			wait_in_irq(me, other, other_irq);
			break;
		}
		me->operations++;
		cond_resched();
	}
}

int known_irqs(struct lockknown_setup *setup, char **report)
{
	if (setup->kind != LOCKKNOWN_SPIN)
		return -EINVAL;
	setup->threads = min(2U, num_online_cpus());
	return known_run_all(setup, irq_thread, report);
}

/* A trylock that must succeed, and a release; or one that must fail. */
static void try(struct known_thread *me, struct known_lock *lock, bool read, bool is_free)
{
	unsigned int kind = me->run->setup.kind;
	struct known_tally *tally = known_tally(me, lock, "own", me->index, read);
	unsigned long flags;
	bool got;

	local_save_flags(flags);
	got = known_try(lock, kind, read);
	if (got != is_free)
		known_fail(me->run, -EPROTO);
	if (!got) {
		tally->failed++;
		tally->conflicts++;
		return;
	}
	tally->acquired++;
	tally->tried++;
	known_give(lock, kind, read, flags);
	tally->released++;
}

static void try_while_held(struct known_thread *me, struct known_lock *lock, bool read)
{
	unsigned int kind = me->run->setup.kind;
	struct known_tally *tally = known_tally(me, lock, "own", me->index, read);
	unsigned long flags = 0;

	tally->attempts++;
	known_take(lock, kind, read, &flags);
	tally->acquired++;
	try(me, lock, false, false);
	if (known_shares(kind))
		try(me, lock, true, read);
	known_give(lock, kind, read, flags);
	tally->released++;
}

static void trylock_thread(struct known_thread *me)
{
	struct known_lock *lock = &known_own[me->index];

	for (u32 i = 0; i < me->run->setup.operations && !READ_ONCE(me->run->stop); i++) {
		known_loop(me->run->setup.gap);
		try(me, lock, false, true);
		try_while_held(me, lock, false);
		if (known_shares(me->run->setup.kind))
			try_while_held(me, lock, true);
		me->operations++;
		cond_resched();
	}
}

int known_trylock(struct lockknown_setup *setup, char **report)
{
	return known_run_all(setup, trylock_thread, report);
}

static void recursion_thread(struct known_thread *me)
{
	unsigned int kind = me->run->setup.kind;
	struct known_lock *lock = &known_shared[0];
	struct known_tally *tally = known_tally(me, lock, "shared", 0, true);
	unsigned long flags = 0;

	for (u32 i = 0; i < me->run->setup.operations && !READ_ONCE(me->run->stop); i++) {
		known_loop(me->run->setup.gap);
		tally->attempts++;
		known_take(lock, kind, true, &flags);
		tally->acquired++;
		/* The others become readers too. */
		if (known_sleeps(kind))
			yield();
		known_pair(lock, tally, kind, true, me->run->setup.hold);
		known_give(lock, kind, true, flags);
		tally->released++;
		me->operations++;
		cond_resched();
	}
}

int known_recursion(struct lockknown_setup *setup, char **report)
{
	if (!known_shares(setup->kind))
		return -EINVAL;
	/* lockdep says of it what there is to say. */
	if (IS_ENABLED(CONFIG_LOCKDEP))
		return -EOPNOTSUPP;
	return known_run_all(setup, recursion_thread, report);
}

static void double_thread(struct known_thread *me)
{
	raw_spinlock_t *lock = &known_double_lock;
	struct known_tally *tally = known_tally_at(me, lock, "double", 0, "spin");

	for (u32 i = 0; i < me->run->setup.operations && !READ_ONCE(me->run->stop); i++) {
		known_loop(me->run->setup.gap);
		tally->attempts += 2;
		raw_spin_lock(lock);
		raw_spin_unlock(lock);
		/* The release ends a section without preemption that nobody began. */
		preempt_disable();
		raw_spin_unlock(lock);
		raw_spin_lock(lock);
		try_in_irq(me, lock, tally, true);
		raw_spin_unlock(lock);
		tally->acquired += 2;
		tally->released += 3;
		tally->orphans++;
		me->operations++;
		cond_resched();
	}
}

int known_double(struct lockknown_setup *setup, char **report)
{
	if (setup->kind != LOCKKNOWN_SPIN || setup->threads != 1)
		return -EINVAL;
	if (IS_ENABLED(CONFIG_DEBUG_SPINLOCK) || IS_ENABLED(CONFIG_LOCKDEP))
		return -EOPNOTSUPP;
	return known_run_all(setup, double_thread, report);
}

static struct kmem_cache *reused;

static void no_constructor(void *object)
{
}

static void reuse_thread(struct known_thread *me)
{
	for (u32 i = 1; i <= me->run->setup.operations && !READ_ONCE(me->run->stop); i++) {
		raw_spinlock_t *lock = kmem_cache_alloc(reused, GFP_KERNEL);
		struct known_tally *tally;

		if (!lock) {
			known_fail(me->run, -ENOMEM);
			return;
		}
		tally = known_tally_at(me, lock, "reused", 0, "spin");
		raw_spin_lock_init(lock);
		tally->inits++;
		for (unsigned int j = 0; j < 3; j++) {
			raw_spin_lock(lock);
			raw_spin_unlock(lock);
		}
		tally->attempts += 3;
		tally->acquired += 3;
		tally->released += 3;
		if (me->run->setup.flags & LOCKKNOWN_FREE_HELD && i % 4 == 0) {
			raw_spin_lock(lock);
			preempt_enable();
			tally->attempts++;
			tally->acquired++;
		}
		kmem_cache_free(reused, lock);
		me->operations++;
		cond_resched();
	}
}

int known_reuse(struct lockknown_setup *setup, char **report)
{
	int error;

	if (setup->kind != LOCKKNOWN_SPIN || setup->threads != 1)
		return -EINVAL;
	if (setup->flags & LOCKKNOWN_FREE_HELD && (IS_ENABLED(CONFIG_DEBUG_SPINLOCK) || IS_ENABLED(CONFIG_LOCKDEP)))
		return -EOPNOTSUPP;
	/* KASAN keeps freed memory for a while. */
	if (IS_ENABLED(CONFIG_KASAN))
		return -EOPNOTSUPP;
	/* A cache with a constructor is merged with no other: freed memory comes back here at once. */
	reused = kmem_cache_create("lockknown", 64, 64, 0, no_constructor);
	if (!reused)
		return -ENOMEM;
	error = known_run_all(setup, reuse_thread, report);
	kmem_cache_destroy(reused);
	return error;
}
