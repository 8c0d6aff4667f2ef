// SPDX-License-Identifier: GPL-2.0-only
/* Cases in which threads hand a lock over that sleeps (and, to hold it while a trace begins, any lock). */
#include <linux/cpumask.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "known.h"

/* Asleep in its attempt: it says so before it, and sleeps nowhere else in between. */
static bool is_waiting(const struct known_thread *other, u32 round)
{
	return READ_ONCE(other->trying) == round && READ_ONCE(other->task->__state) != TASK_RUNNING;
}

/* The holder's side of a round: take the lock and wait, asleep, until the partner waits for it. */
static bool take_and_wait(struct known_thread *me, struct known_tally *tally, u32 round)
{
	unsigned long flags;

	tally->attempts++;
	known_take(&known_shared[0], me->run->setup.kind, false, &flags);
	tally->acquired++;
	smp_store_release(&me->held, round);
	return known_wait(me->run, is_waiting(&me->run->thread[1], round), KNOWN_SLEEP);
}

static bool give_and_wait(struct known_thread *me, struct known_tally *tally, u32 round)
{
	known_give(&known_shared[0], me->run->setup.kind, false, 0);
	tally->released++;
	return known_wait(me->run, smp_load_acquire(&me->run->thread[1].over) == round, KNOWN_YIELD);
}

static void abandon_waiter(struct known_thread *me)
{
	bool mutex = me->run->setup.kind == LOCKKNOWN_MUTEX;
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, !mutex);

	allow_signal(SIGUSR1);
	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		int error;

		if (!known_wait(me->run, smp_load_acquire(&me->run->thread[0].held) == round, KNOWN_YIELD))
			return;
		tally->attempts++;
		tally->conflicts++;
		tally->depth = 1;
		WRITE_ONCE(me->trying, round);
		error = mutex ? mutex_lock_interruptible(&known_shared[0].mutex) :
				down_read_interruptible(&known_shared[0].rwsem);
		flush_signals(current);
		if (error) {
			tally->abandoned++;
		} else {
			tally->acquired++;
			known_give(&known_shared[0], me->run->setup.kind, !mutex, 0);
			tally->released++;
			known_fail(me->run, -EPROTO);
		}
		me->operations++;
		smp_store_release(&me->over, round);
	}
}

static void abandon_thread(struct known_thread *me)
{
	struct known_thread *waiter = &me->run->thread[1];
	struct known_tally *tally;

	if (me->index) {
		abandon_waiter(me);
		return;
	}
	tally = known_tally(me, &known_shared[0], "shared", 0, false);
	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		bool came;

		known_loop(me->run->setup.gap);
		came = take_and_wait(me, tally, round);
		if (came) {
			send_sig(SIGUSR1, waiter->task, 1);
			came = known_wait(me->run, smp_load_acquire(&waiter->over) == round, KNOWN_SLEEP);
		}
		known_give(&known_shared[0], me->run->setup.kind, false, 0);
		tally->released++;
		if (!came)
			return;
	}
}

int known_abandon(struct lockknown_setup *setup, char **report)
{
	if (!known_sleeps(setup->kind))
		return -EINVAL;
	setup->threads = 2;
	return known_run_all(setup, abandon_thread, report);
}

static void nonowner_thread(struct known_thread *me)
{
	struct known_thread *partner = &me->run->thread[!me->index];
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, true);

	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		if (me->index) {
			if (!known_wait(me->run, smp_load_acquire(&partner->held) == round, KNOWN_YIELD))
				return;
			up_read_non_owner(&known_shared[0].rwsem);
			tally->released++;
			smp_store_release(&me->over, round);
			continue;
		}
		tally->attempts++;
		down_read_non_owner(&known_shared[0].rwsem);
		tally->acquired++;
		smp_store_release(&me->held, round);
		if (!known_wait(me->run, smp_load_acquire(&partner->over) == round, KNOWN_YIELD))
			return;
		me->operations++;
	}
}

int known_nonowner(struct lockknown_setup *setup, char **report)
{
	if (setup->kind != LOCKKNOWN_RWSEM)
		return -EINVAL;
	setup->threads = 2;
	return known_run_all(setup, nonowner_thread, report);
}

static void migrate_waiter(struct known_thread *me)
{
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, false);
	unsigned long flags;

	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		unsigned int cpu;

		if (!known_wait(me->run, smp_load_acquire(&me->run->thread[0].held) == round, KNOWN_YIELD))
			return;
		cpu = raw_smp_processor_id();
		tally->attempts++;
		tally->conflicts++;
		tally->depth = 1;
		WRITE_ONCE(me->trying, round);
		known_take(&known_shared[0], me->run->setup.kind, false, &flags);
		tally->acquired++;
		if (cpu == raw_smp_processor_id())
			known_fail(me->run, -EPROTO);
		known_give(&known_shared[0], me->run->setup.kind, false, flags);
		tally->released++;
		me->operations++;
		smp_store_release(&me->over, round);
	}
}

static void migrate_thread(struct known_thread *me)
{
	struct known_thread *waiter = &me->run->thread[1];
	struct known_tally *tally;

	if (me->index) {
		migrate_waiter(me);
		return;
	}
	tally = known_tally(me, &known_shared[0], "shared", 0, false);
	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		unsigned int cpu = round % 2 ? me->cpu : waiter->cpu;

		known_loop(me->run->setup.gap);
		if (take_and_wait(me, tally, round) && set_cpus_allowed_ptr(waiter->task, cpumask_of(cpu)))
			known_fail(me->run, -EPROTO);
		if (!give_and_wait(me, tally, round))
			return;
	}
}

int known_migrate(struct lockknown_setup *setup, char **report)
{
	if (!known_sleeps(setup->kind))
		return -EINVAL;
	if (num_online_cpus() < 2)
		return -EOPNOTSUPP;
	setup->threads = 2;
	return known_run_all(setup, migrate_thread, report);
}

/* Whose turn it is: rounds count in steps of more than there are threads. */
static u32 turn_of(u32 round, unsigned int index)
{
	return round * (LOCKKNOWN_MAX_THREADS + 1) + index;
}

static void chain_waiter(struct known_thread *me)
{
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, false);
	unsigned long flags;

	for (u32 round = 1; round <= me->run->setup.operations; round++) {
		if (!known_wait(me->run, smp_load_acquire(&me->run->turn) >= turn_of(round, me->index), KNOWN_YIELD))
			return;
		tally->attempts++;
		tally->conflicts++;
		tally->depth = me->index;
		WRITE_ONCE(me->trying, round);
		known_take(&known_shared[0], me->run->setup.kind, false, &flags);
		tally->acquired++;
		known_loop(me->run->setup.hold);
		known_give(&known_shared[0], me->run->setup.kind, false, flags);
		tally->released++;
		smp_store_release(&me->over, round);
	}
}

static void chain_thread(struct known_thread *me)
{
	struct known_run *run = me->run;
	struct known_tally *tally;
	unsigned long flags;
	bool good = true;

	if (me->index) {
		chain_waiter(me);
		return;
	}
	tally = known_tally(me, &known_shared[0], "shared", 0, false);
	for (u32 round = 1; round <= run->setup.operations && good; round++) {
		known_loop(run->setup.gap);
		tally->attempts++;
		known_take(&known_shared[0], run->setup.kind, false, &flags);
		tally->acquired++;
		for (unsigned int i = 1; i < run->threads && good; i++) {
			smp_store_release(&run->turn, turn_of(round, i));
			good = known_wait(run, is_waiting(&run->thread[i], round), KNOWN_SLEEP);
		}
		known_give(&known_shared[0], run->setup.kind, false, flags);
		tally->released++;
		for (unsigned int i = 1; i < run->threads && good; i++)
			good = known_wait(run, smp_load_acquire(&run->thread[i].over) == round, KNOWN_YIELD);
		me->operations++;
	}
}

int known_chain(struct lockknown_setup *setup, char **report)
{
	if (!known_sleeps(setup->kind) || setup->threads < 2)
		return -EINVAL;
	return known_run_all(setup, chain_thread, report);
}

/* The run between HOLD and RELEASE. */
static struct known_run *held;

bool known_is_held(void)
{
	return held;
}

static void hold_waiter(struct known_thread *me)
{
	struct known_tally *tally = known_tally(me, &known_shared[0], "shared", 0, false);
	unsigned long flags = 0;

	if (!known_wait(me->run, smp_load_acquire(&me->run->thread[0].held) == 1, KNOWN_YIELD))
		return;
	tally->attempts++;
	tally->conflicts++;
	tally->depth = me->run->threads - 1;
	WRITE_ONCE(me->trying, 1);
	known_take(&known_shared[0], me->run->setup.kind, false, &flags);
	tally->acquired++;
	known_give(&known_shared[0], me->run->setup.kind, false, flags);
	tally->released++;
	smp_store_release(&me->over, 1);
}

static void hold_thread(struct known_thread *me)
{
	const struct lockknown_setup *setup = &me->run->setup;
	bool read = known_shares(setup->kind) && setup->reads;
	struct known_tally *tally;
	unsigned long flags = 0;

	if (me->index) {
		hold_waiter(me);
		return;
	}
	tally = known_tally(me, &known_shared[0], "shared", 0, read);
	tally->attempts++;
	known_take(&known_shared[0], setup->kind, read, &flags);
	tally->acquired++;
	smp_store_release(&me->held, 1);
	if (known_sleeps(setup->kind))
		wait_for_completion(&me->run->released);
	else
		known_wait(me->run, READ_ONCE(me->run->release), KNOWN_SPIN);
	known_give(&known_shared[0], setup->kind, read, flags);
	tally->released++;
	for (unsigned int i = 1; i < me->run->threads; i++)
		known_wait(me->run, smp_load_acquire(&me->run->thread[i].over) == 1, KNOWN_YIELD);
	/* What a tracer makes of the lock afterwards. */
	for (u32 i = 0; i < setup->operations && !READ_ONCE(me->run->stop); i++) {
		known_pair(&known_shared[0], tally, setup->kind, read, setup->hold);
		me->operations++;
		cond_resched();
	}
}

static bool all_there(const struct known_run *run)
{
	bool there = smp_load_acquire(&run->thread[0].held) == 1;

	for (unsigned int i = 1; i < run->threads && there; i++)
		there = is_waiting(&run->thread[i], 1);
	return there;
}

static void let_go(struct known_run *run)
{
	WRITE_ONCE(run->release, true);
	complete(&run->released);
}

int known_hold(struct lockknown_setup *setup, char **report)
{
	bool sleeps = known_sleeps(setup->kind);
	struct known_run *run;
	int error;

	/* Others than this CPU spin; and one alone, as nobody can say when two of them wait. */
	if (!sleeps && setup->threads > 1)
		return -EINVAL;
	if (!sleeps && num_online_cpus() < 2)
		return -EOPNOTSUPP;
	run = known_prepare(setup, hold_thread, sleeps ? 0 : num_online_cpus() - 1);
	if (IS_ERR(run))
		return PTR_ERR(run);
	known_go(run);
	known_wait(run, all_there(run), KNOWN_SLEEP);
	*report = known_report(run);
	*setup = run->setup;
	setup->end = rdtsc_ordered();
	setup->elapsed_ns = ktime_get_ns() - setup->elapsed_ns;
	error = READ_ONCE(run->stop);
	if (error) {
		let_go(run);
		known_finish(run);
		known_discard(run);
		return error;
	}
	/* They all wait: none counts now. What comes is counted from 0. */
	for (unsigned int i = 0; i < run->threads; i++) {
		struct known_tally *tally = &run->thread[i].tally[0];

		*tally = (struct known_tally){ .lock = tally->lock, .name = tally->name, .number = tally->number,
					       .type = tally->type };
	}
	held = run;
	return 0;
}

int known_release(struct lockknown_setup *setup, char **report)
{
	struct known_run *run = held;
	int error;

	if (!run)
		return -EINVAL;
	held = NULL;
	let_go(run);
	error = known_finish(run);
	*setup = run->setup;
	setup->scenario = LOCKKNOWN_RELEASE;
	*report = known_report(run);
	known_discard(run);
	return error;
}

/* When the module goes. */
void known_forget_held(void)
{
	struct lockknown_setup setup;
	char *report = NULL;

	if (!held)
		return;
	known_release(&setup, &report);
	kfree(report);
}
