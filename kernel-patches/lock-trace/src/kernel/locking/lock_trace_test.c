// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what the lock trace decides by: words and their versions, the
 * tables, the rings and both filters. Hooks do nothing meanwhile: arms are called
 * as hooks call them, with addresses that are of no lock.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "lock_trace.h"

#define SITE		0x81000042UL
#define RING_ORDER	4
#define RING		BIT(RING_ORDER)
#define TABLE_ORDER	6
#define POOL_ORDER	4

/* More than there are words, and than places in the table: some share one. */
static u64 addresses[8192];

#define LOCK(n)		((unsigned long)&addresses[n])

struct lock_trace_read {
	struct lock_trace_event events[2 * RING];
	ssize_t n;
};

/* -- what hooks do ----------------------------------------------------------- */

static void waits(struct lock_trace_attempt *attempt, unsigned long lock, u8 type)
{
	*attempt = (struct lock_trace_attempt){ .kept = true };
	preempt_disable();
	lock_trace_wait_counted(attempt, lock, type, SITE);
	preempt_enable();
}

static void got(const struct lock_trace_arm *arm,
		struct lock_trace_attempt *attempt, unsigned long lock, u8 type)
{
	preempt_disable();
	arm->acquired(attempt, lock, type, SITE);
	preempt_enable();
}

static void takes(const struct lock_trace_arm *arm, unsigned long lock, u8 type)
{
	struct lock_trace_attempt attempt = { };

	preempt_disable();
	if (arm->attempt)
		arm->attempt(&attempt, lock, type, SITE);
	arm->acquired(&attempt, lock, type, SITE);
	preempt_enable();
}

static void gives_up(struct lock_trace_attempt *attempt, unsigned long lock,
		     u8 type)
{
	preempt_disable();
	lock_trace_contended.abandoned(attempt, lock, type, SITE);
	preempt_enable();
}

static void lets_go(const struct lock_trace_arm *arm, unsigned long lock, u8 type)
{
	struct lock_trace_end end = { .arm = arm };

	preempt_disable();
	arm->release(&end, lock, type, SITE);
	if (end.holds)
		arm->released(&end, lock, type);
	preempt_enable();
}

static void other(const struct lock_trace_arm *arm, unsigned long lock, u8 kind,
		  u16 flags)
{
	preempt_disable();
	arm->other(lock, kind, LOCK_TRACE_SPIN, SITE, flags);
	preempt_enable();
}

static void keeps(u64 time)
{
	struct lock_trace_call call = { .time = time, .kind = LOCK_TRACE_RELEASE };

	preempt_disable();
	lock_trace_keep(LOCK_TRACE_STREAM_LOG, &call, 0);
	preempt_enable();
}

static enum lock_trace_answer waited(unsigned long lock, u32 since)
{
	u32 version;

	return lock_trace_waited_since(lock, since, &version);
}

static u32 version_of(unsigned long lock)
{
	return word_version(word_read(lock));
}

static u32 waiting_of(unsigned long lock)
{
	return word_waiting(word_read(lock));
}

/* All CPUs' counts; the test is alone, and on one of them. */
#define counted(field)							\
({									\
	u64 _sum = 0;							\
	int _cpu;							\
									\
	for_each_possible_cpu(_cpu)					\
		_sum += per_cpu(lock_trace_counts, _cpu).field;		\
	_sum;								\
})

/* What the reader gets for room for @most events; he needs memory of a user's. */
static struct lock_trace_read *reads(struct kunit *test, size_t most)
{
	struct lock_trace_read *read = kunit_kzalloc(test, sizeof(*read), GFP_KERNEL);
	struct mm_struct *mm = mm_alloc();
	unsigned long buf;

	KUNIT_ASSERT_NOT_NULL(test, read);
	KUNIT_ASSERT_NOT_NULL(test, mm);
	read->n = -ENOMEM;
	mm->task_size = TASK_SIZE;
	arch_pick_mmap_layout(mm, &current->signal->rlim[RLIMIT_STACK]);
	kthread_use_mm(mm);
	buf = vm_mmap(NULL, 0, PAGE_ALIGN(sizeof(read->events)),
		      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (!IS_ERR_VALUE(buf)) {
		read->n = lock_trace_ring_read((char __user *)buf,
					       most * sizeof(*read->events));
		if (read->n > 0 && copy_from_user(read->events,
						  (char __user *)buf, read->n))
			read->n = -EFAULT;
	}
	kthread_unuse_mm(mm);
	mmput(mm);
	if (read->n > 0)
		read->n /= sizeof(*read->events);
	return read;
}

/* The kinds of all that was kept, in order, are these. */
static void expect_kinds(struct kunit *test, const u8 *kinds, int n)
{
	struct lock_trace_read *read = reads(test, 2 * RING);
	int i;

	KUNIT_EXPECT_EQ(test, read->n, (ssize_t)n);
	for (i = 0; i < n && i < read->n; i++)
		KUNIT_EXPECT_EQ(test, read->events[i].kind, kinds[i]);
}

#define EXPECT_KINDS(test, ...)						\
	expect_kinds(test, (const u8[]){ __VA_ARGS__ },			\
		     sizeof((const u8[]){ __VA_ARGS__ }))

/* -- before and after ---------------------------------------------------------- */

static void lock_trace_test_clear(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&lock_trace_counts, cpu), 0,
		       sizeof(struct lock_trace_counts));
	lock_trace_waits_start(true, true);
}

static int lock_trace_test_init(struct kunit *test)
{
	struct lock_trace_setup setup = {
		.arm = LOCK_TRACE_PER_LOCK,
		.pool_order = POOL_ORDER,
	};
	int err;

	/* Nobody starts a trace. */
	lock_trace_control_begin();
	/* What is a CPU's stays this one's. */
	set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
	err = lock_trace_ring_start(RING_ORDER);
	if (!err)
		err = lock_trace_table_start(TABLE_ORDER, TABLE_ORDER);
	if (!err)
		err = lock_trace_per_lock.start(&setup);
	setup.arm = LOCK_TRACE_PAPER;
	if (!err)
		err = lock_trace_paper.start(&setup);
	/* What a filter remembers of the case before is of another trace. */
	if (!++lock_trace_session)
		++lock_trace_session;
	lock_trace_test_clear();
	return err;
}

static void lock_trace_test_exit(struct kunit *test)
{
	lock_trace_table_start(TABLE_ORDER, TABLE_ORDER);
	lock_trace_ring_start(RING_ORDER);
	lock_trace_test_clear();
	lock_trace_control_end();
}

/* -- words ---------------------------------------------------------------------- */

static void word_counts_waits(struct kunit *test)
{
	struct lock_trace_attempt first, second;

	waits(&first, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 1U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 1U);
	waits(&second, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 2U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 2U);
	KUNIT_EXPECT_EQ(test, first.depth, 1U);
	KUNIT_EXPECT_EQ(test, second.depth, 2U);
	KUNIT_EXPECT_EQ(test, second.sequence, 2U);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->waiting, 2U);

	got(&lock_trace_contended, &first, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 3U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 1U);
	got(&lock_trace_contended, &second, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 4U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->waiting, 0U);
	KUNIT_EXPECT_EQ(test, counted(kinds[LOCK_TRACE_ATTEMPT]), 2ULL);
	KUNIT_EXPECT_EQ(test, counted(kinds[LOCK_TRACE_WAITS]), 2ULL);
	KUNIT_EXPECT_EQ(test, counted(kinds[LOCK_TRACE_ACQUIRED]), 2ULL);
}

static void waited_since_a_version(struct kunit *test)
{
	struct lock_trace_attempt attempt;

	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 0), LOCK_TRACE_NOBODY_WAITED);
	waits(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 0), LOCK_TRACE_SOMEBODY_WAITED);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 1), LOCK_TRACE_SOMEBODY_WAITED);
	got(&lock_trace_contended, &attempt, LOCK(0), LOCK_TRACE_MUTEX);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 0), LOCK_TRACE_SOMEBODY_WAITED);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 1), LOCK_TRACE_SOMEBODY_WAITED);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 2), LOCK_TRACE_NOBODY_WAITED);
}

static void version_wraps(struct kunit *test)
{
	struct lock_trace_attempt attempt;

	lock_trace_words[lock_trace_word_of(LOCK(0))] = U32_MAX;
	waits(&attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 1U);
	got(&lock_trace_contended, &attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), U32_MAX), LOCK_TRACE_SOMEBODY_WAITED);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), 1), LOCK_TRACE_NOBODY_WAITED);
}

static void two_locks_share_a_word(struct kunit *test)
{
	struct lock_trace_attempt attempt;
	unsigned int i;

	for (i = 1; i < ARRAY_SIZE(addresses); i++)
		if (lock_trace_word_of(LOCK(i)) == lock_trace_word_of(LOCK(0)))
			break;
	KUNIT_ASSERT_LT(test, i, (unsigned int)ARRAY_SIZE(addresses));
	waits(&attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(i)), 1U);
	KUNIT_EXPECT_EQ(test, waited(LOCK(i), 0), LOCK_TRACE_NOBODY_WAITED);
	got(&lock_trace_contended, &attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(i)), 0U);
}

/* The next release of whoever holds it takes the mark away. */
static void who_gives_up_leaves_a_mark(struct kunit *test)
{
	struct lock_trace_attempt attempt;

	waits(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	gives_up(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->waiting, 0U);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->marks, 1U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 1U);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), version_of(LOCK(0))),
			LOCK_TRACE_SOMEBODY_WAITED);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->marks, 0U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, waited(LOCK(0), version_of(LOCK(0))),
			LOCK_TRACE_NOBODY_WAITED);

	/* And none where marks are not wanted. */
	lock_trace_waits_start(true, false);
	waits(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	gives_up(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->marks, 0U);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
}

static void memory_becomes_another_lock(struct kunit *test)
{
	struct lock_trace_attempt attempt;
	u32 version;

	waits(&attempt, LOCK(0), LOCK_TRACE_SPIN);
	lock_trace_renewed(LOCK(0), SITE);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->generation, 1U);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->init_site, SITE);
	/* His wait is no longer one of this lock's. */
	version = version_of(LOCK(0));
	got(&lock_trace_contended, &attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(LOCK(0)), 0U);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), version);
	KUNIT_EXPECT_EQ(test, lock_trace_look(LOCK(0))->waiting, 0U);
}

/* -- the table of locks ------------------------------------------------------------ */

/* Takes all places where the last of the locks would be looked for. */
static unsigned long fill_places(struct kunit *test)
{
	unsigned long lock = LOCK(ARRAY_SIZE(addresses) - 1);
	unsigned int i, free, probe;

	for (i = 0; i < ARRAY_SIZE(addresses) - 1; i++) {
		for (free = 0, probe = 0; probe < LOCK_TRACE_PROBES; probe++)
			free += !lock_trace_place(lock, probe)->lock;
		if (!free)
			break;
		lock_trace_find(LOCK(i));
	}
	KUNIT_EXPECT_EQ(test, free, 0U);
	KUNIT_EXPECT_NULL(test, lock_trace_look(lock));
	return lock;
}

static void table_finds_and_adds(struct kunit *test)
{
	struct lock_trace_entry *entry;
	u64 locks = 0, sites = 0;

	lock_trace_initialised(LOCK(0), SITE);
	KUNIT_EXPECT_NULL(test, lock_trace_look(LOCK(0)));
	entry = lock_trace_find(LOCK(0));
	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_EXPECT_PTR_EQ(test, lock_trace_look(LOCK(0)), entry);
	KUNIT_EXPECT_PTR_EQ(test, lock_trace_find(LOCK(0)), entry);
	KUNIT_EXPECT_EQ(test, entry->init_site, SITE);
	KUNIT_EXPECT_PTR_EQ(test, lock_trace_place(0, entry->index - 1), entry);
	entry = lock_trace_find(LOCK(1));
	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_EXPECT_EQ(test, entry->init_site, 0UL);
	lock_trace_table_count(&locks, &sites);
	KUNIT_EXPECT_EQ(test, locks, 2ULL);
	KUNIT_EXPECT_EQ(test, sites, 0ULL);
}

static void table_wraps(struct kunit *test)
{
	struct lock_trace_entry *last = lock_trace_place(0, BIT(TABLE_ORDER) - 1);
	unsigned int i, found = 0;

	for (i = 0; i < ARRAY_SIZE(addresses) && found < 2; i++) {
		if (lock_trace_place(LOCK(i), 0) != last)
			continue;
		KUNIT_EXPECT_PTR_EQ(test, lock_trace_find(LOCK(i)),
				    found++ ? lock_trace_place(0, 0) : last);
	}
	KUNIT_EXPECT_EQ(test, found, 2U);
}

static void table_is_full(struct kunit *test)
{
	unsigned long lock = fill_places(test);

	KUNIT_EXPECT_NULL(test, lock_trace_find(lock));
}

static void oldest_makes_room(struct kunit *test)
{
	unsigned long lock = fill_places(test), gone;
	struct lock_trace_attempt attempt;
	struct lock_trace_entry *entry;
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++)
		lock_trace_place(lock, probe)->used = 100 + probe;
	lock_trace_place(lock, 3)->used = 5;
	lock_trace_place(lock, 3)->waiting = 1;
	lock_trace_place(lock, 4)->used = 5;
	lock_trace_place(lock, 4)->marks = 1;
	lock_trace_place(lock, 17)->used = 6;
	gone = lock_trace_place(lock, 17)->lock;
	lock_trace_words[lock_trace_word_of(gone)] = 40;

	waits(&attempt, lock, LOCK_TRACE_SPIN);
	entry = lock_trace_look(lock);
	KUNIT_ASSERT_PTR_EQ(test, entry, lock_trace_place(lock, 17));
	KUNIT_EXPECT_EQ(test, entry->waiting, 1U);
	KUNIT_EXPECT_NULL(test, lock_trace_look(gone));
	/* Of the lock that is gone, what was before is not known. */
	KUNIT_EXPECT_EQ(test, waited(gone, 39), LOCK_TRACE_NOBODY_KNOWS);
	KUNIT_EXPECT_EQ(test, waited(gone, 40), LOCK_TRACE_NOBODY_WAITED);
	got(&lock_trace_contended, &attempt, lock, LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(lock), 0U);
}

static void no_room_for_one_who_waits(struct kunit *test)
{
	unsigned long lock = fill_places(test);
	struct lock_trace_attempt attempt;
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++)
		lock_trace_place(lock, probe)->waiting = 1;
	waits(&attempt, lock, LOCK_TRACE_SPIN);
	KUNIT_EXPECT_NULL(test, attempt.entry);
	KUNIT_EXPECT_EQ(test, waiting_of(lock), 0U);
	KUNIT_EXPECT_EQ(test, version_of(lock), 1U);
	KUNIT_EXPECT_EQ(test, waited(lock, 0), LOCK_TRACE_NOBODY_KNOWS);
	got(&lock_trace_contended, &attempt, lock, LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, waiting_of(lock), 0U);
	KUNIT_EXPECT_EQ(test, waited(lock, 1), LOCK_TRACE_NOBODY_WAITED);
}

/* -- sums ------------------------------------------------------------------------------ */

static struct lock_trace_sum *sum_of(unsigned long lock, u8 type)
{
	struct lock_trace_sum *sum;

	preempt_disable();
	sum = lock_trace_sum(lock, SITE, type);
	preempt_enable();
	return sum;
}

static void sums_of_a_lock_at_a_place(struct kunit *test)
{
	struct lock_trace_sum *sum = sum_of(LOCK(0), LOCK_TRACE_READ);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, sum);
	KUNIT_EXPECT_EQ(test, sum->lock, LOCK(0));
	KUNIT_EXPECT_PTR_EQ(test, sum_of(LOCK(0), LOCK_TRACE_READ), sum);
	KUNIT_EXPECT_PTR_NE(test, sum_of(LOCK(0), LOCK_TRACE_WRITE), sum);
	KUNIT_EXPECT_EQ(test, counted(sites_full), 0ULL);
	for (i = 1; i < ARRAY_SIZE(addresses); i++)
		if (!sum_of(LOCK(i), LOCK_TRACE_READ))
			break;
	/* With the two above: not before a cluster was, nor after all were. */
	KUNIT_EXPECT_GE(test, i + 1, (unsigned int)LOCK_TRACE_PROBES);
	KUNIT_EXPECT_LE(test, i + 1, (unsigned int)BIT(TABLE_ORDER));
	KUNIT_EXPECT_EQ(test, counted(sites_full), 1ULL);
}

/* -- the ring ---------------------------------------------------------------------------- */

static void ring_keeps_and_gives(struct kunit *test)
{
	struct lock_trace_read *read;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, reads(test, 1)->n, (ssize_t)0);
	for (i = 0; i < 3; i++)
		keeps(10 + i);
	read = reads(test, 2);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)2);
	KUNIT_EXPECT_EQ(test, read->events[0].position, 1ULL);
	KUNIT_EXPECT_EQ(test, read->events[0].time, 10ULL);
	KUNIT_EXPECT_EQ(test, read->events[1].time, 11ULL);
	read = reads(test, 2);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)1);
	KUNIT_EXPECT_EQ(test, read->events[0].position, 3ULL);
	KUNIT_EXPECT_EQ(test, reads(test, 2)->n, (ssize_t)0);
}

static void ring_is_full(struct kunit *test)
{
	struct lock_trace_read *read;
	unsigned int i;

	for (i = 0; i < RING + 4; i++) {
		KUNIT_EXPECT_EQ(test, lock_trace_ring_filling(), i >= RING / 4);
		keeps(100 + i);
	}
	KUNIT_EXPECT_EQ(test, counted(kept[LOCK_TRACE_STREAM_LOG]), RING + 4ULL);
	KUNIT_EXPECT_EQ(test, counted(written[LOCK_TRACE_STREAM_LOG]), (u64)RING);
	KUNIT_EXPECT_EQ(test, counted(lost[LOCK_TRACE_STREAM_LOG]), 4ULL);
	KUNIT_EXPECT_EQ(test, counted(first_loss), 100ULL + RING);
	read = reads(test, 2 * RING);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)RING);
	KUNIT_EXPECT_EQ(test, read->events[RING - 1].time, 99ULL + RING);
	/* What was lost has no position. */
	keeps(7);
	read = reads(test, 2 * RING);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)1);
	KUNIT_EXPECT_EQ(test, read->events[0].position, RING + 1ULL);
}

static void ring_turns_round(struct kunit *test)
{
	struct lock_trace_read *read;
	u64 time = 0;
	int turn, i;

	for (turn = 0; turn < 5; turn++) {
		for (i = 0; i < 10; i++)
			keeps(turn * 10 + i);
		read = reads(test, 2 * RING);
		KUNIT_ASSERT_EQ(test, read->n, (ssize_t)10);
		for (i = 0; i < 10; i++, time++) {
			KUNIT_EXPECT_EQ(test, read->events[i].time, time);
			KUNIT_EXPECT_EQ(test, read->events[i].position, time + 1);
		}
	}
	KUNIT_EXPECT_EQ(test, counted(lost[LOCK_TRACE_STREAM_LOG]), 0ULL);
}

static void ring_refuses_bad_memory(struct kunit *test)
{
	keeps(1);
	KUNIT_EXPECT_EQ(test, lock_trace_ring_read((char __user *)~0UL,
						   sizeof(struct lock_trace_event)),
			(ssize_t)-EFAULT);
	/* It is still there. */
	KUNIT_EXPECT_EQ(test, reads(test, 2)->n, (ssize_t)1);
}

/* -- the filters -------------------------------------------------------------------------- */

static void nobody_waits(struct kunit *test)
{
	static const u8 types[] = {
		LOCK_TRACE_SPIN, LOCK_TRACE_READ, LOCK_TRACE_WRITE,
		LOCK_TRACE_MUTEX, LOCK_TRACE_RWSEM_READ, LOCK_TRACE_RWSEM_WRITE,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		takes(&lock_trace_per_lock, LOCK(i), types[i]);
		lets_go(&lock_trace_per_lock, LOCK(i), types[i]);
	}
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PER_LOCK]), 3ULL * i);
	KUNIT_EXPECT_EQ(test, counted(kept[LOCK_TRACE_STREAM_PER_LOCK]), 0ULL);
	KUNIT_EXPECT_EQ(test, version_of(LOCK(0)), 0U);
	/* A trylock is no attempt. */
	other(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_ACQUIRED, LOCK_TRACE_TRY);
	lets_go(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_SPIN);
	other(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_FAILED, 0);
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PER_LOCK]), 3ULL * i + 3);
	KUNIT_EXPECT_EQ(test, reads(test, 2)->n, (ssize_t)0);
}

static void one_waits_for_the_holder(struct kunit *test)
{
	struct lock_trace_attempt attempt;
	struct lock_trace_read *read;

	takes(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_MUTEX);
	takes(&lock_trace_per_lock, LOCK(1), LOCK_TRACE_MUTEX);
	waits(&attempt, LOCK(0), LOCK_TRACE_MUTEX);
	lets_go(&lock_trace_per_lock, LOCK(1), LOCK_TRACE_MUTEX);
	lets_go(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_MUTEX);
	got(&lock_trace_per_lock, &attempt, LOCK(0), LOCK_TRACE_MUTEX);
	lets_go(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_MUTEX);

	read = reads(test, 2 * RING);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)7);
	KUNIT_EXPECT_EQ(test, read->events[0].kind, LOCK_TRACE_ATTEMPT);
	KUNIT_EXPECT_EQ(test, read->events[1].kind, LOCK_TRACE_WAITS);
	KUNIT_EXPECT_EQ(test, read->events[1].depth, 1U);
	/* His, who was waited for, when he lets go. */
	KUNIT_EXPECT_EQ(test, read->events[2].kind, LOCK_TRACE_ATTEMPT);
	KUNIT_EXPECT_EQ(test, read->events[3].kind, LOCK_TRACE_ACQUIRED);
	KUNIT_EXPECT_EQ(test, read->events[4].kind, LOCK_TRACE_RELEASE);
	KUNIT_EXPECT_EQ(test, read->events[4].order, read->events[3].time);
	KUNIT_EXPECT_EQ(test, read->events[5].kind, LOCK_TRACE_ACQUIRED);
	KUNIT_EXPECT_EQ(test, read->events[6].kind, LOCK_TRACE_RELEASE);
	KUNIT_EXPECT_EQ(test, read->events[6].lock, LOCK(0));
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PER_LOCK]), 3ULL);
	KUNIT_EXPECT_EQ(test, counted(untracked), 0ULL);
}

static void nobody_was_seen_to_take_it(struct kunit *test)
{
	struct lock_trace_read *read;

	lets_go(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_SPIN);
	read = reads(test, 2);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)1);
	KUNIT_EXPECT_EQ(test, read->events[0].kind, LOCK_TRACE_RELEASE);
	KUNIT_EXPECT_EQ(test, read->events[0].flags, LOCK_TRACE_ORPHAN);
}

static void more_are_held_than_there_are_places(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 13; i++)
		takes(&lock_trace_per_lock, LOCK(i), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, counted(holds_full), 1ULL);
	KUNIT_EXPECT_EQ(test, counted(kept[LOCK_TRACE_STREAM_PER_LOCK]), 2ULL);
	/* In another order. */
	for (i = 0; i < 12; i++)
		lets_go(&lock_trace_per_lock, LOCK(i), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PER_LOCK]), 36ULL);
}

static void held_at_the_end(struct kunit *test)
{
	struct lock_trace_read *read;

	takes(&lock_trace_per_lock, LOCK(0), LOCK_TRACE_SPIN);
	takes(&lock_trace_per_lock, LOCK(1), LOCK_TRACE_RWSEM_READ);
	preempt_disable();
	lock_trace_per_lock.stop();
	preempt_enable();
	read = reads(test, 2 * RING);
	KUNIT_ASSERT_EQ(test, read->n, (ssize_t)4);
	KUNIT_EXPECT_EQ(test, read->events[1].lock, LOCK(0));
	KUNIT_EXPECT_EQ(test, read->events[3].lock, LOCK(1));
	KUNIT_EXPECT_EQ(test, read->events[3].flags, LOCK_TRACE_OPEN);
}

/* Who waited, and who let go meanwhile; nobody else is asked. */
static void contended_keeps_waits_alone(struct kunit *test)
{
	struct lock_trace_attempt attempt;

	takes(&lock_trace_contended, LOCK(0), LOCK_TRACE_SPIN);
	lets_go(&lock_trace_contended, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, reads(test, 1)->n, (ssize_t)0);
	waits(&attempt, LOCK(0), LOCK_TRACE_SPIN);
	lets_go(&lock_trace_contended, LOCK(0), LOCK_TRACE_SPIN);
	got(&lock_trace_contended, &attempt, LOCK(0), LOCK_TRACE_SPIN);
	lets_go(&lock_trace_contended, LOCK(0), LOCK_TRACE_SPIN);
	EXPECT_KINDS(test, LOCK_TRACE_ATTEMPT, LOCK_TRACE_WAITS, LOCK_TRACE_RELEASE,
		     LOCK_TRACE_ACQUIRED);
}

/* A block of one acquisition is dropped, one of two that overlap is kept. */
static void paper_keeps_blocks_of_two(struct kunit *test)
{
	const struct lock_trace_arm *arm = &lock_trace_paper;
	struct lock_trace_attempt attempt = { };
	u64 peak, full;

	takes(arm, LOCK(0), LOCK_TRACE_SPIN);
	lets_go(arm, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PAPER]), 3ULL);
	KUNIT_EXPECT_EQ(test, reads(test, 1)->n, (ssize_t)0);

	takes(arm, LOCK(0), LOCK_TRACE_SPIN);
	preempt_disable();
	arm->attempt(&attempt, LOCK(0), LOCK_TRACE_SPIN, SITE);
	preempt_enable();
	lets_go(arm, LOCK(0), LOCK_TRACE_SPIN);
	got(arm, &attempt, LOCK(0), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, reads(test, 1)->n, (ssize_t)0);
	lets_go(arm, LOCK(0), LOCK_TRACE_SPIN);
	EXPECT_KINDS(test, LOCK_TRACE_ATTEMPT, LOCK_TRACE_ACQUIRED, LOCK_TRACE_ATTEMPT,
		     LOCK_TRACE_RELEASE, LOCK_TRACE_ACQUIRED, LOCK_TRACE_RELEASE);
	lock_trace_paper_pool(&peak, &full);
	KUNIT_EXPECT_EQ(test, peak, 6ULL);
	KUNIT_EXPECT_EQ(test, full, 0ULL);
}

static void paper_has_no_room(struct kunit *test)
{
	const struct lock_trace_arm *arm = &lock_trace_paper;
	u64 peak, full;
	unsigned int i;

	/* 16 events are held back; the 17th lets those of its lock go. */
	for (i = 0; i < 9; i++)
		takes(arm, LOCK(0), LOCK_TRACE_READ);
	lock_trace_paper_pool(&peak, &full);
	KUNIT_EXPECT_EQ(test, peak, (u64)BIT(POOL_ORDER));
	KUNIT_EXPECT_EQ(test, full, 1ULL);
	KUNIT_EXPECT_EQ(test, counted(kept[LOCK_TRACE_STREAM_PAPER]), 18ULL);
	/* Its places are free again. */
	takes(arm, LOCK(1), LOCK_TRACE_SPIN);
	lets_go(arm, LOCK(1), LOCK_TRACE_SPIN);
	KUNIT_EXPECT_EQ(test, counted(dropped[LOCK_TRACE_STREAM_PAPER]), 3ULL);
}

static void context_of_an_event(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, lock_trace_context(0), LOCK_TRACE_IN_TASK);
	KUNIT_EXPECT_EQ(test, lock_trace_context(SOFTIRQ_OFFSET), LOCK_TRACE_IN_SOFTIRQ);
	/* Softirqs are off: that is no softirq. */
	KUNIT_EXPECT_EQ(test, lock_trace_context(2 * SOFTIRQ_OFFSET), LOCK_TRACE_IN_TASK);
	KUNIT_EXPECT_EQ(test, lock_trace_context(LOCK_TRACE_RAW_IRQS_OFF),
			LOCK_TRACE_IRQS_OFF | LOCK_TRACE_IN_TASK);
	KUNIT_EXPECT_EQ(test,
			lock_trace_context(LOCK_TRACE_RAW_IRQS_OFF | HARDIRQ_OFFSET |
					   SOFTIRQ_OFFSET),
			LOCK_TRACE_IRQS_OFF | LOCK_TRACE_IN_IRQ);
	KUNIT_EXPECT_EQ(test, lock_trace_context(NMI_OFFSET | HARDIRQ_OFFSET),
			LOCK_TRACE_IN_NMI);
}

static struct kunit_case lock_trace_test_cases[] = {
	KUNIT_CASE(word_counts_waits),
	KUNIT_CASE(waited_since_a_version),
	KUNIT_CASE(version_wraps),
	KUNIT_CASE(two_locks_share_a_word),
	KUNIT_CASE(who_gives_up_leaves_a_mark),
	KUNIT_CASE(memory_becomes_another_lock),
	KUNIT_CASE(table_finds_and_adds),
	KUNIT_CASE(table_wraps),
	KUNIT_CASE(table_is_full),
	KUNIT_CASE(oldest_makes_room),
	KUNIT_CASE(no_room_for_one_who_waits),
	KUNIT_CASE(sums_of_a_lock_at_a_place),
	KUNIT_CASE(ring_keeps_and_gives),
	KUNIT_CASE(ring_is_full),
	KUNIT_CASE(ring_turns_round),
	KUNIT_CASE(ring_refuses_bad_memory),
	KUNIT_CASE(nobody_waits),
	KUNIT_CASE(one_waits_for_the_holder),
	KUNIT_CASE(nobody_was_seen_to_take_it),
	KUNIT_CASE(more_are_held_than_there_are_places),
	KUNIT_CASE(held_at_the_end),
	KUNIT_CASE(contended_keeps_waits_alone),
	KUNIT_CASE(paper_keeps_blocks_of_two),
	KUNIT_CASE(paper_has_no_room),
	KUNIT_CASE(context_of_an_event),
	{}
};

static struct kunit_suite lock_trace_test_suite = {
	.name = "lock_trace",
	.init = lock_trace_test_init,
	.exit = lock_trace_test_exit,
	.test_cases = lock_trace_test_cases,
};
kunit_test_suite(lock_trace_test_suite);
