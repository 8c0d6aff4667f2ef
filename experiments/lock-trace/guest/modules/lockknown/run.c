// SPDX-License-Identifier: GPL-2.0-only
/* Runs: threads that begin together, and what they counted. */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "known.h"

enum { LINE = 256 };

struct known_lock known_own[LOCKKNOWN_MAX_THREADS];
struct known_lock known_shared[LOCKKNOWN_MAX_THREADS];
struct known_lock known_inner;
raw_spinlock_t known_irq_lock;
raw_spinlock_t known_double_lock;

/* A class of lockdep and lock_stat for the locks of each name. */
#define INIT(lock) do {				\
	raw_spin_lock_init(&(lock).spin);		\
	rwlock_init(&(lock).rw);		\
	mutex_init(&(lock).mutex);		\
	init_rwsem(&(lock).rwsem);		\
} while (0)

/* Once: whoever traces a run sees the same locks as another one does. */
void known_init_locks(void)
{
	for (int i = 0; i < LOCKKNOWN_MAX_THREADS; i++) {
		INIT(known_own[i]);
		INIT(known_shared[i]);
	}
	INIT(known_inner);
	raw_spin_lock_init(&known_irq_lock);
	raw_spin_lock_init(&known_double_lock);
}

void known_fail(struct known_run *run, int error)
{
	cmpxchg(&run->stop, 0, error);
}

static int thread(void *argument)
{
	struct known_thread *me = argument;

	if (known_wait(me->run, smp_load_acquire(&me->run->go), KNOWN_YIELD))
		me->work(me);
	complete(&me->finished);
	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static unsigned int online_cpu(unsigned int number)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);

	for (number %= num_online_cpus(); number; number--)
		cpu = cpumask_next(cpu, cpu_online_mask);
	return cpu;
}

static void interrupted(struct known_thread *me)
{
	struct known_tally *tally = me->irq_tally;
	bool got = true;

	if (me->irq_waits) {
		tally->attempts++;
		raw_spin_lock(me->wanted);
	} else {
		got = raw_spin_trylock(me->wanted);
	}
	if (got) {
		tally->acquired++;
		tally->tried += !me->irq_waits;
		raw_spin_unlock(me->wanted);
		tally->released++;
	} else {
		tally->failed++;
	}
	me->irq_got = got;
	smp_store_release(&me->irqs, me->irqs + 1);
}

static void on_irq_work(struct irq_work *work)
{
	interrupted(container_of(work, struct known_thread, irq));
}

static void on_call(void *argument)
{
	interrupted(argument);
}

/*
 * An interrupt on this CPU or another one that takes a lock and releases it, or tries to; me->irqs counts those that
 * are over, me->irq_got is what a trylock answered. On this CPU it is over when this comes back. False at the end of
 * the run.
 */
bool known_irq(struct known_thread *me, unsigned int cpu, raw_spinlock_t *lock, struct known_tally *tally, bool waits)
{
	u32 before = me->irqs;
	bool here = cpu == raw_smp_processor_id();

	me->wanted = lock;
	me->irq_tally = tally;
	me->irq_waits = waits;
	if (here ? !irq_work_queue(&me->irq) : smp_call_function_single_async(cpu, &me->call)) {
		known_fail(me->run, -EPROTO);
		return false;
	}
	return !here || known_wait(me->run, smp_load_acquire(&me->irqs) != before, KNOWN_SPIN);
}

/* Threads that wait for known_go(), on the CPUs from number `first` on; an error pointer. */
struct known_run *known_prepare(const struct lockknown_setup *setup, void (*work)(struct known_thread *me),
				unsigned int first)
{
	struct known_run *run = vzalloc(struct_size(run, thread, setup->threads));

	if (!run)
		return ERR_PTR(-ENOMEM);
	run->setup = *setup;
	init_completion(&run->released);
	for (unsigned int i = 0; i < setup->threads; i++) {
		struct known_thread *me = &run->thread[i];
		struct task_struct *task;

		me->run = run;
		me->index = i;
		me->cpu = online_cpu(i + first);
		me->work = work;
		/* Partners draw the same. */
		me->random = ((u64)setup->seed << 8 | (i / 2)) * 0x9e3779b97f4a7c15ULL | 1;
		init_completion(&me->finished);
		me->irq = IRQ_WORK_INIT_HARD(on_irq_work);
		INIT_CSD(&me->call, on_call, me);
		task = kthread_create(thread, me, "lockknown/%u", i);
		if (IS_ERR(task)) {
			known_fail(run, -ENOMEM);
			known_discard(run);
			return ERR_CAST(task);
		}
		kthread_bind(task, me->cpu);
		me->task = task;
		run->threads++;
		wake_up_process(task);
	}
	return run;
}

void known_go(struct known_run *run)
{
	run->setup.begin = rdtsc_ordered();
	run->setup.elapsed_ns = ktime_get_ns();
	smp_store_release(&run->go, true);
}

/* Wait for all threads; 0 or the error that ended them. */
int known_finish(struct known_run *run)
{
	for (unsigned int i = 0; i < run->threads; i++) {
		if (wait_for_completion_interruptible(&run->thread[i].finished)) {
			known_fail(run, -EINTR);
			wait_for_completion(&run->thread[i].finished);
		}
	}
	run->setup.end = rdtsc_ordered();
	run->setup.elapsed_ns = ktime_get_ns() - run->setup.elapsed_ns;
	for (unsigned int i = 0; i < run->threads; i++)
		run->setup.done += run->thread[i].operations;
	return READ_ONCE(run->stop);
}

/* End the threads, which have finished or are made to, and free the run. */
void known_discard(struct known_run *run)
{
	for (unsigned int i = 0; i < run->threads; i++)
		kthread_stop(run->thread[i].task);
	for (unsigned int i = 0; i < run->threads; i++)
		irq_work_sync(&run->thread[i].irq);
	vfree(run);
}

/* All of a run that needs nobody but its threads. */
int known_run_all(struct lockknown_setup *setup, void (*work)(struct known_thread *me), char **report)
{
	struct known_run *run = known_prepare(setup, work, 0);
	int error;

	if (IS_ERR(run))
		return PTR_ERR(run);
	known_go(run);
	error = known_finish(run);
	*setup = run->setup;
	*report = known_report(run);
	known_discard(run);
	return error;
}

static struct known_tally *new_tally(struct known_thread *me, const void *lock, const char *name, unsigned int number,
				     const char *type)
{
	struct known_tally *tally;

	if (me->used == KNOWN_TALLIES) {
		known_fail(me->run, -ENOSPC);
		return &me->tally[KNOWN_TALLIES - 1];
	}
	tally = &me->tally[me->used++];
	tally->lock = lock;
	tally->name = name;
	tally->number = number;
	tally->type = type;
	return tally;
}

struct known_tally *known_tally_at(struct known_thread *me, const void *lock, const char *name, unsigned int number,
				   const char *type)
{
	for (unsigned int i = 0; i < me->used; i++)
		if (me->tally[i].lock == lock && !me->tally[i].irq && !strcmp(me->tally[i].type, type))
			return &me->tally[i];
	return new_tally(me, lock, name, number, type);
}

/* Where an interrupt counts that may come while the thread counts. */
struct known_tally *known_irq_tally(struct known_thread *me, const raw_spinlock_t *lock, const char *name,
				    unsigned int number)
{
	struct known_tally *tally = new_tally(me, lock, name, number, "spin");

	tally->irq = true;
	return tally;
}

/* Where this thread counts what it does to a lock of the run's kind. */
struct known_tally *known_tally(struct known_thread *me, struct known_lock *lock, const char *name,
				unsigned int number, bool read)
{
	switch (me->run->setup.kind) {
	case LOCKKNOWN_SPIN:
	case LOCKKNOWN_SPIN_IRQ:
		return known_tally_at(me, &lock->spin, name, number, "spin");
	case LOCKKNOWN_RWLOCK:
		return known_tally_at(me, &lock->rw, name, number, read ? "read" : "write");
	case LOCKKNOWN_MUTEX:
		return known_tally_at(me, &lock->mutex, name, number, "mutex");
	default:
		return known_tally_at(me, &lock->rwsem, name, number, read ? "rwsem_read" : "rwsem_write");
	}
}

static void add(struct known_tally *sum, const struct known_tally *more)
{
	sum->attempts += more->attempts;
	sum->acquired += more->acquired;
	sum->tried += more->tried;
	sum->released += more->released;
	sum->failed += more->failed;
	sum->abandoned += more->abandoned;
	sum->conflicts += more->conflicts;
	sum->unsure += more->unsure;
	sum->depth = max(sum->depth, more->depth);
	sum->inits += more->inits;
	sum->orphans += more->orphans;
}

static bool same(const struct known_tally *a, const struct known_tally *b)
{
	return a->lock == b->lock && !strcmp(a->type, b->type);
}

/* The tally at a place of all threads' tallies in a row; NULL after the last. */
static const struct known_tally *at(const struct known_run *run, unsigned int place)
{
	for (unsigned int i = 0; i < run->threads; i++) {
		if (place < run->thread[i].used)
			return &run->thread[i].tally[place];
		place -= run->thread[i].used;
	}
	return NULL;
}

/* Tab-separated, a line per lock and way to take it, sums over threads; NULL without memory. */
char *known_report(const struct known_run *run)
{
	const struct known_tally *one, *other;
	size_t size = LINE, used;
	char *text;

	for (unsigned int i = 0; i < run->threads; i++)
		size += run->thread[i].used * LINE;
	text = kmalloc(size, GFP_KERNEL);
	if (!text)
		return NULL;
	used = scnprintf(text, size, "name\taddress\ttype\tattempts\tacquired\ttried\treleased\tfailed\tabandoned\t"
			 "conflicts\tconflicts_most\tdepth\tinits\torphans\n");
	for (unsigned int i = 0; (one = at(run, i)); i++) {
		struct known_tally sum = *one;
		bool seen = false;

		for (unsigned int j = 0; j < i && !seen; j++)
			seen = same(at(run, j), one);
		if (seen)
			continue;
		for (unsigned int j = i + 1; (other = at(run, j)); j++)
			if (same(other, one))
				add(&sum, other);
		used += scnprintf(text + used, size - used,
				  "%s.%u\t0x%px\t%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
				  sum.name, sum.number, sum.lock, sum.type, sum.attempts, sum.acquired, sum.tried,
				  sum.released, sum.failed, sum.abandoned, sum.conflicts, sum.conflicts + sum.unsure,
				  sum.depth, sum.inits, sum.orphans);
	}
	return text;
}
