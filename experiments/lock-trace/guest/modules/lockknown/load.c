// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads. Each thread has a lock of its own. In the chosen share of operations two partners meet at a lock that they
 * share, and one waits for the other: the first takes it, and does not let go before the second is seen waiting.
 * Where threads cannot meet (spin locks on one CPU), an interrupt trylocks the lock of the task below it instead.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>

#include "known.h"

enum {
	UNSEEN_US = 50,		/* time for a partner to come where nobody can see it wait */
	LEAST_TIMER_US = 10,
};

static bool by_interrupt(const struct lockknown_setup *setup)
{
	return setup->kind == LOCKKNOWN_SPIN && num_online_cpus() == 1;
}

static bool draw_read(struct known_thread *me)
{
	return known_shares(me->run->setup.kind) && known_random(&me->random) % 1000 < me->run->setup.reads;
}

/* The first of two partners: false at the end of the run. */
static noinline bool lead(struct known_thread *me, struct known_thread *partner, struct known_lock *lock,
			  struct known_tally *tally, bool read, u32 round)
{
	const struct lockknown_setup *setup = &me->run->setup;
	unsigned int kind = setup->kind;
	bool sees = known_sees_waiters(kind);
	unsigned long flags = 0;
	bool met;

	if (!known_wait(me->run, smp_load_acquire(&partner->over) == round - 1, KNOWN_YIELD))
		return false;
	tally->attempts++;
	known_take(lock, kind, read, &flags);
	tally->acquired++;
	smp_store_release(&me->held, round);
	met = known_wait(me->run, READ_ONCE(partner->trying) == round && (!sees || known_someone_waits(lock, kind)),
			 known_sleeps(kind) ? KNOWN_YIELD : KNOWN_SPIN);
	if (!sees)
		udelay(UNSEEN_US);
	known_loop(setup->hold);
	known_give(lock, kind, read, flags);
	tally->released++;
	return met;
}

/* The second one. */
static noinline bool follow(struct known_thread *me, struct known_thread *partner, struct known_lock *lock,
			    struct known_tally *tally, bool read, u32 round)
{
	const struct lockknown_setup *setup = &me->run->setup;
	unsigned int kind = setup->kind;
	unsigned long flags = 0;

	if (!known_wait(me->run, smp_load_acquire(&partner->held) == round, KNOWN_YIELD))
		return false;
	tally->attempts++;
	if (known_sees_waiters(kind)) {
		tally->conflicts++;
		tally->depth = 1;
	} else {
		tally->unsure++;
	}
	WRITE_ONCE(me->trying, round);
	known_take(lock, kind, read, &flags);
	tally->acquired++;
	known_loop(setup->hold);
	known_give(lock, kind, read, flags);
	tally->released++;
	smp_store_release(&me->over, round);
	return true;
}

/* One operation in which two threads meet: a writer and a writer, a writer and a reader, or a reader and a writer. */
static bool meet(struct known_thread *me, u32 round)
{
	struct known_thread *partner = &me->run->thread[me->index ^ 1];
	unsigned int pair = me->index / 2;
	struct known_lock *lock = &known_shared[pair];
	bool leads = !(me->index & 1);
	bool read = draw_read(me);
	bool who = read && known_random(&me->random) % 2;

	read = read && who == leads;
	return leads ? lead(me, partner, lock, known_tally(me, lock, "shared", pair, read), read, round) :
		       follow(me, partner, lock, known_tally(me, lock, "shared", pair, read), read, round);
}

/* One operation in which an interrupt wants the lock that this thread holds. */
static bool be_interrupted(struct known_thread *me)
{
	struct known_lock *lock = &known_shared[me->index];
	struct known_tally *tally = known_tally(me, lock, "shared", me->index, false);
	bool came;

	tally->attempts++;
	raw_spin_lock(&lock->spin);
	tally->acquired++;
	came = known_irq(me, me->cpu, &lock->spin, tally, false);
	tally->conflicts++;
	if (came && me->irq_got)
		known_fail(me->run, -EPROTO);
	known_loop(me->run->setup.hold);
	raw_spin_unlock(&lock->spin);
	tally->released++;
	return came;
}

/* Whether threads can meet at a lock that they do not hold while they sleep or wait. */
static bool may_meet(const struct lockknown_setup *setup)
{
	return setup->threads > 1 && (num_online_cpus() > 1 || known_sleeps(setup->kind));
}

static noinline void compete(struct known_thread *me, bool read)
{
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, read);

	tally->unsure += may_meet(&me->run->setup);
	known_pair(&known_shared[0], tally, me->run->setup.kind, read, me->run->setup.hold);
}

static noinline void alone(struct known_thread *me, bool read)
{
	struct known_lock *lock = &known_own[me->index];

	known_pair(lock, known_tally(me, lock, "own", me->index, read), me->run->setup.kind, read,
		   me->run->setup.hold);
}

/* In interrupt context, on the CPU of the first thread. */
static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct known_run *run = container_of(timer, struct known_run, timer);
	struct known_tally *tally = run->timer_tally;

	/*
	 * Whether a tracer sees it meet somebody is not certain: the lock is free when the task has said that it wants
	 * it and has not got it yet, and still taken when the task has said that it lets go.
	 */
	tally->unsure++;
	if (raw_spin_trylock(&known_shared[0].spin)) {
		tally->acquired++;
		tally->tried++;
		raw_spin_unlock(&known_shared[0].spin);
		tally->released++;
	} else {
		tally->failed++;
	}
	hrtimer_forward_now(timer, ns_to_ktime(run->setup.timer_us * (u64)NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void load_thread(struct known_thread *me)
{
	const struct lockknown_setup *setup = &me->run->setup;
	bool interrupt = by_interrupt(setup);
	u32 round = 0;

	if (!me->index && setup->timer_us) {
		me->run->timer_tally = known_irq_tally(me, &known_shared[0].spin, "shared", 0);
		hrtimer_start(&me->run->timer, ns_to_ktime(setup->timer_us * (u64)NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
	}
	for (u32 i = 1; i <= setup->operations && !READ_ONCE(me->run->stop); i++) {
		known_loop(setup->gap);
		if (setup->flags & LOCKKNOWN_COMPETE)
			compete(me, draw_read(me));
		else if (!known_chosen(i, setup->conflicts))
			alone(me, draw_read(me));
		else if (!(interrupt ? be_interrupted(me) : meet(me, ++round)))
			break;
		me->operations++;
		/* Threads of one CPU take turns; nothing else would make them. */
		if (i % 64 == 0)
			cond_resched();
	}
}

int known_load(struct lockknown_setup *setup, char **report)
{
	bool spins = setup->kind == LOCKKNOWN_SPIN || setup->kind == LOCKKNOWN_SPIN_IRQ;
	struct known_run *run;
	int error;

	if (setup->conflicts > 1000 || setup->reads > 1000)
		return -EINVAL;
	if (setup->conflicts && setup->flags & LOCKKNOWN_COMPETE)
		return -EINVAL;
	if (setup->conflicts && !by_interrupt(setup)) {
		if (setup->threads % 2)
			return -EINVAL;
		/* Who spins keeps its CPU: the partner needs another one. */
		if (!known_sleeps(setup->kind) && num_online_cpus() % 2)
			return -EOPNOTSUPP;
	}
	/* Nothing is certain about a lock that a timer wants too. */
	if (setup->timer_us && (!spins || setup->conflicts || setup->timer_us < LEAST_TIMER_US))
		return -EINVAL;
	run = known_prepare(setup, load_thread, 0);
	if (IS_ERR(run))
		return PTR_ERR(run);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(&run->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	run->timer.function = on_timer;
#else
	hrtimer_setup(&run->timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#endif
	known_go(run);
	error = known_finish(run);
	hrtimer_cancel(&run->timer);
	*setup = run->setup;
	*report = known_report(run);
	known_discard(run);
	return error;
}

static void nested_thread(struct known_thread *me)
{
	const struct lockknown_setup *setup = &me->run->setup;
	struct known_tally *outer = known_tally(me, &known_shared[0], "outer", 0, false);
	struct known_tally *inner = known_tally(me, &known_inner, "inner", 0, false);

	for (u32 i = 0; i < setup->operations && !READ_ONCE(me->run->stop); i++) {
		unsigned long flags = 0;

		known_loop(setup->gap);
		outer->attempts++;
		outer->unsure += may_meet(setup);
		known_take(&known_shared[0], setup->kind, false, &flags);
		outer->acquired++;
		known_pair(&known_inner, inner, setup->kind, false, setup->hold);
		known_give(&known_shared[0], setup->kind, false, flags);
		outer->released++;
		me->operations++;
		if (i % 64 == 0)
			cond_resched();
	}
}

int known_nested(struct lockknown_setup *setup, char **report)
{
	return known_run_all(setup, nested_thread, report);
}
