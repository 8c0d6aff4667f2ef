// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace of those who wait, and the arm that asks nobody else.
 *
 * Whose trylock failed registers as one who waits before he begins to, and until
 * he has the lock or gives up. Every wait that begins or ends counts up a
 * version, of one lock and of those that share its word.
 *
 * Nobody falls in between. A waiter registers, and tries again. A holder lets
 * go of the lock, and reads the word. With a full barrier in between on both
 * sides, either he gets the lock, or the holder sees him.
 *
 * In the arm CONTENDED a holder reads the word around the release alone. He sees
 * those who wait then. Who has given up before that leaves a mark, which the next
 * release takes away: that is of whoever held the lock, or of the first of several
 * readers. Since when he held it is not known.
 */
#include <linux/sched.h>

#include "lock_trace.h"

u64 lock_trace_words[1 << LOCK_TRACE_WORD_ORDER] ____cacheline_aligned;

/* What changes a word, and those who wait for its locks, is done under it. */
struct lock_trace_guard {
	unsigned long taken;
	u32 evicted;		/* version when a lock was forgotten */
};

static struct lock_trace_guard lock_trace_guards[1 << LOCK_TRACE_WORD_ORDER];
static bool lock_trace_evicts, lock_trace_marks;

/*
 * No hook runs. @evicts: locks make room for others when nobody waits for them.
 * @marks: who gives up leaves a mark.
 */
void lock_trace_waits_start(bool evicts, bool marks)
{
	memset(lock_trace_words, 0, sizeof(lock_trace_words));
	memset(lock_trace_guards, 0, sizeof(lock_trace_guards));
	lock_trace_evicts = evicts;
	lock_trace_marks = marks;
}

/* Whether @version is later than @than. */
static bool later(u32 version, u32 than)
{
	return (s32)(version - than) > 0;
}

/* Not a spinlock: those are traced. An NMI cannot wait, and does not try. */
static bool guard_take(unsigned long lock, unsigned long *flags)
{
	struct lock_trace_guard *guard = &lock_trace_guards[lock_trace_word_of(lock)];

	if (in_nmi()) {
		lock_trace_count(nested, 1);
		return false;
	}
	raw_local_irq_save(*flags);
	while (cmpxchg(&guard->taken, 0, 1))
		cpu_relax();
	return true;
}

static void guard_leave(unsigned long lock, unsigned long flags)
{
	/* What is under it is written. */
	smp_store_release(&lock_trace_guards[lock_trace_word_of(lock)].taken, 0);
	raw_local_irq_restore(flags);
}

/* Under the guard: a wait begins (@waiting is 1), ends (-1), or leaves a mark. */
static u32 word_step(unsigned long lock, int waiting)
{
	u64 word = lock_trace_words[lock_trace_word_of(lock)];
	u32 version = word_version(word) + 1;

	WRITE_ONCE(lock_trace_words[lock_trace_word_of(lock)],
		   (u64)(word_waiting(word) + waiting) << 32 | version);
	return version;
}

/* -- locks that somebody waits for, under their guards ------------------------- */

/* Takes the place of @entry's lock, if nobody waits for that. */
static bool lock_trace_evict(struct lock_trace_entry *entry, unsigned long lock)
{
	unsigned long old = READ_ONCE(entry->lock);
	unsigned int word = lock_trace_word_of(old);
	struct lock_trace_guard *guard = &lock_trace_guards[word];
	bool done;

	/* Not waiting for it: two could wait for each other. */
	if (word != lock_trace_word_of(lock) && cmpxchg(&guard->taken, 0, 1))
		return false;
	done = entry->lock == old && !entry->waiting && !entry->marks;
	if (done) {
		guard->evicted = word_version(lock_trace_words[word]);
		entry->generation = 0;
		entry->init_site = 0;
		/* Of the lock's own word from now on, whose guard is taken. */
		entry->ended = word_version(word_read(lock));
		WRITE_ONCE(entry->lock, lock);
		lock_trace_classify(entry);
	}
	if (word != lock_trace_word_of(lock))
		/* As guard_leave(). */
		smp_store_release(&guard->taken, 0);
	return done;
}

/* The lock's entry, for one who waits; NULL: there is no room. */
static struct lock_trace_entry *lock_trace_entry_for(unsigned long lock)
{
	struct lock_trace_entry *entry = lock_trace_find(lock), *oldest = NULL;
	unsigned int probe;

	if (likely(entry) || !lock_trace_evicts)
		return entry;
	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++) {
		entry = lock_trace_place(lock, probe);
		if (!READ_ONCE(entry->waiting) && !READ_ONCE(entry->marks) &&
		    (!oldest || entry->used < oldest->used))
			oldest = entry;
	}
	return oldest && lock_trace_evict(oldest, lock) ? oldest : NULL;
}

/*
 * Whether somebody waits for the lock, or began to after version @since. Where marks
 * are left, also who ended then, and who left one. @version: that of the answer.
 */
noinline enum lock_trace_answer
lock_trace_waited_since(unsigned long lock, u32 since, u32 *version)
{
	enum lock_trace_answer answer = LOCK_TRACE_NOBODY_WAITED;
	struct lock_trace_entry *entry;
	unsigned long flags;

	if (!guard_take(lock, &flags))
		return LOCK_TRACE_NOBODY_KNOWS;
	*version = word_version(word_read(lock));
	entry = lock_trace_look(lock);
	if (entry && entry->marks) {
		for (; entry->marks; entry->marks--)
			word_step(lock, -1);
		answer = LOCK_TRACE_SOMEBODY_WAITED;
	} else if (entry && (entry->waiting || later(entry->last, since) ||
			     (lock_trace_marks && later(entry->ended, since)))) {
		answer = LOCK_TRACE_SOMEBODY_WAITED;
	} else if (later(lock_trace_guards[lock_trace_word_of(lock)].evicted, since)) {
		answer = LOCK_TRACE_NOBODY_KNOWS;
	}
	guard_leave(lock, flags);
	return answer;
}

/* The memory has become another lock. */
void lock_trace_renewed(unsigned long lock, unsigned long site)
{
	struct lock_trace_entry *entry;
	unsigned long flags;

	lock_trace_initialised(lock, site);
	if (!lock_trace_look(lock) || !guard_take(lock, &flags))
		return;
	entry = lock_trace_look(lock);
	if (entry) {
		entry->generation++;
		entry->init_site = site;
		/* Who waited for what was there will not get this one. */
		for (; entry->waiting; entry->waiting--)
			word_step(lock, -1);
		for (; entry->marks; entry->marks--)
			word_step(lock, -1);
	}
	guard_leave(lock, flags);
}

/* -- what they say ------------------------------------------------------------ */

noinline void lock_trace_keep_now(unsigned long lock, u8 kind, u8 type,
				  unsigned long site, u64 time, u64 order,
				  u32 sequence, u32 depth, u16 flags)
{
	struct lock_trace_entry *entry = lock_trace_look(lock);
	struct lock_trace_call call;

	lock_trace_fill(&call, lock, kind, type, site);
	call.time = time;
	call.order = order;
	call.index = entry ? entry->index : 0;
	call.sequence = sequence;
	call.depth = depth;
	call.flags = flags;
	lock_trace_keep(LOCK_TRACE_STREAM_PER_LOCK, &call, 0);
}

/* The attempt of one who waits: where, and as what, he made it. */
static void lock_trace_keep_attempt(unsigned long lock,
				    const struct lock_trace_attempt *attempt,
				    u8 type, unsigned long site)
{
	struct lock_trace_call call;

	lock_trace_fill(&call, lock, LOCK_TRACE_ATTEMPT, type, site);
	call.time = attempt->time;
	call.index = attempt->entry ? attempt->entry->index : 0;
	call.cpu = attempt->cpu;
	call.context = lock_trace_context(attempt->context);
	lock_trace_keep(LOCK_TRACE_STREAM_PER_LOCK, &call, 0);
}

void lock_trace_wait_begins(struct lock_trace_said *said,
			    struct lock_trace_attempt *attempt,
			    unsigned long lock, u8 type, unsigned long site)
{
	struct lock_trace_entry *entry;
	unsigned long flags;

	said->time = get_cycles();
	if (guard_take(lock, &flags)) {
		entry = lock_trace_entry_for(lock);
		said->sequence = word_step(lock, !!entry);
		if (entry) {
			said->depth = ++entry->waiting;
			entry->last = said->sequence;
			entry->used = said->time;
			attempt->generation = entry->generation;
		} else {
			/* Holders will not know. */
			lock_trace_guards[lock_trace_word_of(lock)].evicted = said->sequence;
		}
		attempt->entry = entry;
		attempt->sequence = said->sequence;
		attempt->depth = said->depth;
		guard_leave(lock, flags);
	}
	lock_trace_keep_attempt(lock, attempt, type, site);
	lock_trace_keep_now(lock, LOCK_TRACE_WAITS, type, site, said->time, 0,
			    said->sequence, said->depth, 0);
	/* Before the lock is tried again; see the top. */
	smp_mb();
}

static u32 lock_trace_wait_ends(struct lock_trace_attempt *attempt,
				unsigned long lock, bool leaves_mark)
{
	struct lock_trace_entry *entry = attempt->entry;
	unsigned long flags;
	u32 version;

	if (!entry)
		return word_version(word_read(lock));
	/* Who has registered is no NMI. */
	guard_take(lock, &flags);
	/* Unless the memory became another lock while he waited. */
	if (entry->lock == lock && entry->generation == attempt->generation) {
		entry->waiting--;
		entry->marks += leaves_mark;
		version = word_step(lock, leaves_mark ? 0 : -1);
		entry->ended = version;
	} else {
		version = word_version(word_read(lock));
	}
	guard_leave(lock, flags);
	return version;
}

/* An attempt is counted when it is known what came of it. */
void lock_trace_wait_counted(struct lock_trace_attempt *attempt,
			     unsigned long lock, u8 type, unsigned long site)
{
	struct lock_trace_said said = { };

	lock_trace_count(kinds[LOCK_TRACE_ATTEMPT], 1);
	lock_trace_count(kinds[LOCK_TRACE_WAITS], 1);
	attempt->time = get_cycles();
	attempt->context = lock_trace_context_raw();
	attempt->cpu = raw_smp_processor_id();
	lock_trace_wait_begins(&said, attempt, lock, type, site);
}

/* The lock, after a wait: that is kept as it goes. */
void lock_trace_wait_got(struct lock_trace_said *said,
			 struct lock_trace_attempt *attempt, unsigned long lock,
			 u8 type, unsigned long site)
{
	struct lock_trace_sum *sum = lock_trace_sum(lock, site, type);

	said->sequence = lock_trace_wait_ends(attempt, lock, false);
	said->time = get_cycles();
	lock_trace_sum_add(sum, acquisitions, 1);
	lock_trace_sum_add(sum, contended, 1);
	lock_trace_sum_add(sum, kept, 1);
	/* Clocks of two CPUs may differ. */
	if (said->time > attempt->time)
		lock_trace_sum_add(sum, wait_total, said->time - attempt->time);
	lock_trace_keep_now(lock, LOCK_TRACE_ACQUIRED, type, site, said->time, 0,
			    said->sequence, 0, 0);
}

/* The wait is given up. */
void lock_trace_abandon(struct lock_trace_said *said,
			struct lock_trace_attempt *attempt, unsigned long lock,
			u8 type, unsigned long site)
{
	said->sequence = lock_trace_wait_ends(attempt, lock, lock_trace_marks);
	said->time = get_cycles();
	lock_trace_sum_add(lock_trace_sum(lock, site, type), abandoned, 1);
	lock_trace_keep_now(lock, LOCK_TRACE_ABANDONED, type, site, said->time, 0,
			    said->sequence, 0, 0);
}

/* -- the arm ------------------------------------------------------------------ */

static void lock_trace_contended_acquired(struct lock_trace_attempt *attempt,
					  unsigned long lock, u8 type,
					  unsigned long site)
{
	struct lock_trace_said said;

	if (!attempt->kept)
		return;
	lock_trace_count(kinds[LOCK_TRACE_ACQUIRED], 1);
	lock_trace_wait_got(&said, attempt, lock, type, site);
}

static void lock_trace_contended_abandoned(struct lock_trace_attempt *attempt,
					   unsigned long lock, u8 type,
					   unsigned long site)
{
	struct lock_trace_said said;

	if (!attempt->kept)
		return;
	lock_trace_count(kinds[LOCK_TRACE_ABANDONED], 1);
	lock_trace_abandon(&said, attempt, lock, type, site);
}

static void lock_trace_contended_awaited(unsigned long lock, u8 type,
					 unsigned long site, u32 since, u64 time)
{
	u32 version = since;

	switch (lock_trace_waited_since(lock, since, &version)) {
	case LOCK_TRACE_NOBODY_WAITED:
		/* But for another lock of the same word. */
		return;
	case LOCK_TRACE_NOBODY_KNOWS:
		lock_trace_count(kinds[LOCK_TRACE_RELEASE], 1);
		lock_trace_count(untracked, 1);
		return;
	case LOCK_TRACE_SOMEBODY_WAITED:
		break;
	}
	lock_trace_count(kinds[LOCK_TRACE_RELEASE], 1);
	lock_trace_keep_now(lock, LOCK_TRACE_RELEASE, type, site,
			    time ? time : get_cycles(), since, version, 0, 0);
}

/* Of one who had passed the place where he would have been told of this arm. */
static void lock_trace_contended_release(struct lock_trace_end *end,
					 unsigned long lock, u8 type,
					 unsigned long site)
{
	u64 word = word_read(lock);

	if (word_waiting(word))
		lock_trace_contended_awaited(lock, type, site, word_version(word),
					     get_cycles());
}

static void lock_trace_contended_other(unsigned long lock, u8 kind, u8 type,
				       unsigned long site, u16 flags)
{
	if (kind == LOCK_TRACE_INIT)
		lock_trace_renewed(lock, site);
}

static int lock_trace_contended_start(const struct lock_trace_setup *setup)
{
	lock_trace_waits_start(true, true);
	return 0;
}

const struct lock_trace_arm lock_trace_contended = {
	.start = lock_trace_contended_start,
	.waits = lock_trace_wait_counted,
	.acquired = lock_trace_contended_acquired,
	.abandoned = lock_trace_contended_abandoned,
	.release = lock_trace_contended_release,
	.awaited = lock_trace_contended_awaited,
	.other = lock_trace_contended_other,
};
