// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace's filter: what somebody really waited for is kept.
 *
 * Who takes a lock at once remembers that at a place of his own, this CPU's or,
 * where a holder may sleep, his task's. Whose trylock failed registers as one
 * who waits (lock_trace_waits.c). His own acquisition is kept, and so is each in
 * which he was registered. The others are dropped.
 *
 * A holder reads the lock's word when he has the lock, and once more when he has
 * let go of it. In between, nobody began to wait unless the version is another;
 * so he that nobody waits for writes nothing that others read, and reads nothing
 * that others write.
 */
#include <linux/hash.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "lock_trace.h"

#define HOLD_TRIED	1	/* a trylock: no attempt */
#define HOLD_KEPT	2

/* An acquisition that has not ended. */
struct lock_trace_hold {
	u64 time;			/* when it was acquired */
	u64 began;			/* and attempted */
	unsigned long site;
	u32 version;			/* of its lock's waits, then */
	u32 context;
	u32 pid;
	u16 cpu;
	u8 type;
	u8 flags;
};

#define LOCK_TRACE_HOLDS	12

/*
 * Of a task, or a CPU. @locks says which places are in use; they come apart, as
 * they alone are searched.
 */
struct lock_trace_holds {
	u32 session;			/* of which trace they are */
	struct task_struct *task;
	unsigned long locks[LOCK_TRACE_HOLDS];
	struct lock_trace_hold holds[LOCK_TRACE_HOLDS];
} ____cacheline_aligned;

static DEFINE_PER_CPU(struct lock_trace_holds, lock_trace_cpu_holds);
/* A task has one from its first acquisition of a lock that sleeps to its end. */
#define TASK_ORDER	11
static struct lock_trace_holds *lock_trace_task_holds;

/* -- places ----------------------------------------------------------------------- */

static __always_inline struct lock_trace_holds *
lock_trace_task_place(struct task_struct *task, unsigned int probe)
{
	unsigned int at = hash_long((unsigned long)task, TASK_ORDER) + probe;

	return &lock_trace_task_holds[at & ((1 << TASK_ORDER) - 1)];
}

/* The task's, or if it has none and @may_add, a new one; NULL: there are too many. */
static noinline struct lock_trace_holds *
lock_trace_find_task(struct task_struct *task, bool may_add)
{
	struct task_struct *found;
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++)
		if (READ_ONCE(lock_trace_task_place(task, probe)->task) == task)
			return lock_trace_task_place(task, probe);
	for (probe = 0; may_add && probe < LOCK_TRACE_PROBES; probe++) {
		found = cmpxchg(&lock_trace_task_place(task, probe)->task, NULL, task);
		/* Or an interrupt of the task has taken it meanwhile. */
		if (!found || found == task)
			return lock_trace_task_place(task, probe);
	}
	return NULL;
}

/* NULL: there are more tasks than places. */
static __always_inline struct lock_trace_holds *lock_trace_holds_of(u8 type)
{
	struct lock_trace_holds *holds;

	if (lock_trace_sleeping(type)) {
		holds = lock_trace_task_place(current, 0);
		if (unlikely(READ_ONCE(holds->task) != current))
			holds = lock_trace_find_task(current, true);
		return holds;
	}
	holds = this_cpu_ptr(&lock_trace_cpu_holds);
	if (unlikely(holds->session != lock_trace_session)) {
		memset(holds->locks, 0, sizeof(holds->locks));
		barrier();
		holds->session = lock_trace_session;
	}
	return holds;
}

/*
 * An interrupt takes other places, and leaves them as they were. With the lowest
 * bit set, the place is taken and says nothing yet.
 */
static __always_inline int lock_trace_take_place(struct lock_trace_holds *holds,
						 unsigned long lock)
{
	unsigned int i;

	for (i = 0; holds && i < LOCK_TRACE_HOLDS; i++)
		if (likely(!READ_ONCE(holds->locks[i]) &&
			   !cmpxchg_local(&holds->locks[i], 0, lock | 1)))
			return i;
	return -1;
}

static __always_inline int lock_trace_place_of(struct lock_trace_holds *holds,
					       unsigned long lock, bool shared)
{
	int last = -1;
	unsigned int i;

	for (i = 0; holds && i < LOCK_TRACE_HOLDS; i++) {
		if (READ_ONCE(holds->locks[i]) != lock)
			continue;
		if (!shared)
			return i;
		/* An interrupt, and one who takes it twice, end the last. */
		if (last < 0 || holds->holds[i].time > holds->holds[last].time)
			last = i;
	}
	return last;
}

/* -- what is kept, and dropped ------------------------------------------------------ */

static __always_inline void lock_trace_drop(unsigned int n)
{
	lock_trace_count(dropped[LOCK_TRACE_STREAM_PER_LOCK], n);
}

static noinline void lock_trace_untracked(unsigned int n)
{
	lock_trace_count(untracked, n);
}

/* Events of an acquisition so far. */
static __always_inline unsigned int lock_trace_events_of(const struct lock_trace_hold *hold)
{
	return hold->flags & HOLD_TRIED ? 1 : 2;
}

/* Who took it at once attempts it when he acquires it. */
static noinline void lock_trace_keep_hold(unsigned long lock,
					  struct lock_trace_hold *hold, u16 flags)
{
	struct lock_trace_entry *entry = lock_trace_look(lock);
	struct lock_trace_call call = {
		.lock = lock,
		.site = hold->site,
		.time = hold->began,
		.index = entry ? entry->index : 0,
		.pid = hold->pid,
		.cpu = hold->cpu,
		.kind = LOCK_TRACE_ATTEMPT,
		.type = hold->type,
		.context = lock_trace_context(hold->context),
		.flags = flags,
	};

	hold->flags |= HOLD_KEPT;
	if (!(hold->flags & HOLD_TRIED))
		lock_trace_keep(LOCK_TRACE_STREAM_PER_LOCK, &call, 0);
	call.time = hold->time;
	call.sequence = hold->version;
	call.kind = LOCK_TRACE_ACQUIRED;
	if (hold->flags & HOLD_TRIED)
		call.flags |= LOCK_TRACE_TRY;
	lock_trace_keep(LOCK_TRACE_STREAM_PER_LOCK, &call, 0);
}

/* -- acquisitions --------------------------------------------------------------------------- */

static __always_inline void
lock_trace_got(struct lock_trace_said *said, unsigned long lock, u8 type,
	       unsigned long site, u64 began, u8 tried)
{
	struct lock_trace_holds *holds = lock_trace_holds_of(type);
	int place = lock_trace_take_place(holds, lock);
	struct lock_trace_sum *sum = lock_trace_sum(lock, site, type);
	struct lock_trace_hold *hold, nowhere;
	u64 word = word_read(lock);

	lock_trace_sum_add(sum, acquisitions, 1);
	said->time = get_cycles();
	said->sequence = word_version(word);
	if (unlikely(place < 0)) {
		/* Nobody can decide it later. */
		lock_trace_count(holds_full, 1);
		hold = &nowhere;
	} else {
		hold = &holds->holds[place];
	}
	hold->time = said->time;
	hold->began = began ? began : said->time;
	hold->site = site;
	hold->version = word_version(word);
	hold->context = lock_trace_context_raw();
	hold->pid = current->pid;
	hold->cpu = raw_smp_processor_id();
	hold->type = type;
	hold->flags = tried;
	/* Somebody waits while another has taken it at once. */
	if (unlikely(word_waiting(word)) &&
	    lock_trace_waited_since(lock, hold->version, &hold->version) ==
	    LOCK_TRACE_SOMEBODY_WAITED) {
		lock_trace_keep_hold(lock, hold, 0);
		lock_trace_sum_add(sum, kept, 1);
	}
	said->sequence = hold->version;
	if (unlikely(place < 0)) {
		if (!(hold->flags & HOLD_KEPT))
			lock_trace_keep_hold(lock, hold, 0);
		return;
	}
	barrier();
	WRITE_ONCE(holds->locks[place], lock);
}

static noinline void lock_trace_got_after(struct lock_trace_said *said,
					  struct lock_trace_attempt *attempt,
					  unsigned long lock, u8 type,
					  unsigned long site)
{
	struct lock_trace_holds *holds = lock_trace_holds_of(type);
	int place = lock_trace_take_place(holds, lock);

	lock_trace_wait_got(said, attempt, lock, type, site);
	if (unlikely(place < 0)) {
		lock_trace_count(holds_full, 1);
		return;
	}
	holds->holds[place] = (struct lock_trace_hold){
		.time = said->time,
		.began = attempt->time,
		.site = site,
		.version = said->sequence,
		.pid = current->pid,
		.cpu = raw_smp_processor_id(),
		.type = type,
		.flags = HOLD_KEPT,
	};
	barrier();
	WRITE_ONCE(holds->locks[place], lock);
}

/* Who gives up without having waited (a ww_mutex) makes nobody wait. */
static void lock_trace_give_up(struct lock_trace_said *said,
			       struct lock_trace_attempt *attempt,
			       unsigned long lock, u8 type, unsigned long site)
{
	if (attempt->kept) {
		lock_trace_abandon(said, attempt, lock, type, site);
		return;
	}
	said->sequence = word_version(word_read(lock));
	said->time = get_cycles();
	lock_trace_sum_add(lock_trace_sum(lock, site, type), abandoned, 1);
	lock_trace_drop(2);
}

static void lock_trace_fail(struct lock_trace_said *said, unsigned long lock,
			    u8 type, unsigned long site)
{
	said->time = get_cycles();
	said->sequence = word_version(word_read(lock));
	lock_trace_sum_add(lock_trace_sum(lock, site, type), failed, 1);
	/* Nobody waits. */
	lock_trace_drop(1);
}

/* -- releases --------------------------------------------------------------------------------- */

/*
 * From here on nobody else finds the place: not an interrupt that takes and
 * releases the lock before this release is decided, nor another task that
 * releases what this one has acquired as a reader.
 */
static __always_inline bool lock_trace_claim(struct lock_trace_holds *holds,
					     int place, unsigned long lock, u8 type)
{
	if (type == LOCK_TRACE_RWSEM_READ)
		return cmpxchg(&holds->locks[place], lock, lock | 1) == lock;
	WRITE_ONCE(holds->locks[place], lock | 1);
	return true;
}

/* The one of all other tasks' readers that has held it longest. */
static noinline bool lock_trace_find_reader(struct lock_trace_end *end,
					    unsigned long lock)
{
	struct lock_trace_holds *holds;
	unsigned int i;
	int place;

	do {
		end->holds = NULL;
		for (i = 0; i < 1 << TASK_ORDER; i++) {
			holds = &lock_trace_task_holds[i];
			if (!READ_ONCE(holds->task))
				continue;
			for (place = 0; place < LOCK_TRACE_HOLDS; place++) {
				if (READ_ONCE(holds->locks[place]) != lock ||
				    holds->holds[place].type != LOCK_TRACE_RWSEM_READ)
					continue;
				if (end->holds && holds->holds[place].time >=
				    end->holds->holds[end->place].time)
					continue;
				end->holds = holds;
				end->place = place;
			}
		}
	} while (end->holds && !lock_trace_claim(end->holds, end->place, lock,
						 LOCK_TRACE_RWSEM_READ));
	return end->holds;
}

/* Nobody was seen to acquire it. */
static noinline void lock_trace_orphan(struct lock_trace_end *end,
				       unsigned long lock, u8 type,
				       unsigned long site)
{
	end->flags |= LOCK_TRACE_ORPHAN;
	end->time = get_cycles();
	lock_trace_keep_now(lock, LOCK_TRACE_RELEASE, type, site, end->time, 0,
			    word_version(word_read(lock)), 0, end->flags);
}

/* False: it is decided. */
static __always_inline bool lock_trace_let_go(struct lock_trace_end *end,
					      unsigned long lock, u8 type,
					      unsigned long site)
{
	struct lock_trace_holds *holds = lock_trace_holds_of(type);
	struct lock_trace_hold *hold;
	int place;

	do {
		place = lock_trace_place_of(holds, lock, lock_trace_shared(type));
	} while (place >= 0 &&
		 unlikely(!lock_trace_claim(holds, place, lock, type)));
	end->site = site;
	end->time = 0;
	end->flags = 0;
	if (likely(place >= 0)) {
		end->holds = holds;
		end->place = place;
	} else if (type != LOCK_TRACE_RWSEM_READ ||
		   !lock_trace_find_reader(end, lock)) {
		lock_trace_orphan(end, lock, type, site);
		return false;
	}
	hold = &end->holds->holds[end->place];
	if (unlikely(hold->pid != current->pid))
		end->flags |= LOCK_TRACE_OTHER_TASK;
	/* He will be kept, most likely: then this is when he lets go. */
	if (unlikely(hold->flags & HOLD_KEPT ||
		     word_version(word_read(lock)) != hold->version))
		end->time = get_cycles();
	return true;
}

/* The lock is free, and whoever waited for it has registered. */
static __always_inline void lock_trace_decide(struct lock_trace_said *said,
					      struct lock_trace_end *end,
					      unsigned long lock, u8 type)
{
	struct lock_trace_hold *hold = &end->holds->holds[end->place];
	enum lock_trace_answer answer = LOCK_TRACE_NOBODY_WAITED;
	u32 version = word_version(word_read(lock));

	if (unlikely(hold->flags & HOLD_KEPT))
		answer = LOCK_TRACE_SOMEBODY_WAITED;
	else if (unlikely(version != hold->version))
		answer = lock_trace_waited_since(lock, hold->version, &version);
	said->sequence = version;
	if (likely(answer == LOCK_TRACE_NOBODY_WAITED)) {
		lock_trace_drop(lock_trace_events_of(hold) + 1);
	} else if (answer == LOCK_TRACE_NOBODY_KNOWS) {
		lock_trace_untracked(lock_trace_events_of(hold) + 1);
	} else {
		if (!(hold->flags & HOLD_KEPT)) {
			lock_trace_keep_hold(lock, hold, 0);
			lock_trace_sum_add(lock_trace_sum(lock, hold->site, type), kept, 1);
		}
		lock_trace_keep_now(lock, LOCK_TRACE_RELEASE, type, end->site,
				    end->time ? end->time : get_cycles(), hold->time,
				    version, 0, end->flags);
	}
	WRITE_ONCE(end->holds->locks[end->place], 0);
}

/* -- ends without a release ------------------------------------------------------------------- */

static void lock_trace_end_unreleased(struct lock_trace_holds *holds, int place)
{
	struct lock_trace_hold *hold = &holds->holds[place];
	unsigned long lock = holds->locks[place] & ~1UL;
	enum lock_trace_answer answer;
	u32 version;

	if (!(hold->flags & HOLD_KEPT)) {
		answer = lock_trace_waited_since(lock, hold->version, &version);
		if (answer == LOCK_TRACE_SOMEBODY_WAITED)
			lock_trace_keep_hold(lock, hold, 0);
		else if (answer == LOCK_TRACE_NOBODY_WAITED)
			lock_trace_drop(lock_trace_events_of(hold));
		else
			lock_trace_untracked(lock_trace_events_of(hold));
	}
	WRITE_ONCE(holds->locks[place], 0);
}

/* A task is gone; its place is free for another. */
static void lock_trace_per_lock_forget(struct task_struct *task)
{
	struct lock_trace_holds *holds = lock_trace_find_task(task, false);
	unsigned long lock;
	unsigned int i;

	for (i = 0; holds && i < LOCK_TRACE_HOLDS; i++) {
		lock = READ_ONCE(holds->locks[i]);
		/* With the lowest bit set, another task is about to end it. */
		if (lock && !(lock & 1) &&
		    cmpxchg(&holds->locks[i], lock, lock | 1) == lock)
			lock_trace_end_unreleased(holds, i);
	}
	if (holds)
		/* The next task finds all places free. */
		smp_store_release(&holds->task, NULL);
}

/*
 * The memory has become another lock. Whoever held the one that was there has
 * no more to say; that is known of this task, and this CPU.
 */
static noinline void lock_trace_reinit(struct lock_trace_said *said,
				       unsigned long lock, u8 type,
				       unsigned long site)
{
	struct lock_trace_holds *holds = lock_trace_holds_of(type);
	int place;

	said->time = get_cycles();
	said->sequence = word_version(word_read(lock));
	while ((place = lock_trace_place_of(holds, lock, false)) >= 0)
		lock_trace_end_unreleased(holds, place);
	lock_trace_renewed(lock, site);
	lock_trace_drop(1);
}

/* -- the arm ----------------------------------------------------------------------------------- */

static void lock_trace_per_lock_acquired(struct lock_trace_attempt *attempt,
					 unsigned long lock, u8 type,
					 unsigned long site)
{
	struct lock_trace_said said;

	lock_trace_count(kinds[LOCK_TRACE_ACQUIRED], 1);
	if (unlikely(attempt->kept)) {
		lock_trace_got_after(&said, attempt, lock, type, site);
		return;
	}
	lock_trace_count(kinds[LOCK_TRACE_ATTEMPT], 1);
	lock_trace_got(&said, lock, type, site, 0, 0);
}

static void lock_trace_per_lock_abandoned(struct lock_trace_attempt *attempt,
					  unsigned long lock, u8 type,
					  unsigned long site)
{
	struct lock_trace_said said;

	if (!attempt->kept)
		lock_trace_count(kinds[LOCK_TRACE_ATTEMPT], 1);
	lock_trace_count(kinds[LOCK_TRACE_ABANDONED], 1);
	lock_trace_give_up(&said, attempt, lock, type, site);
}

static void lock_trace_per_lock_release(struct lock_trace_end *end,
					unsigned long lock, u8 type,
					unsigned long site)
{
	/* One that is not decided here is counted when it is. */
	if (unlikely(!lock_trace_let_go(end, lock, type, site)))
		lock_trace_count(kinds[LOCK_TRACE_RELEASE], 1);
}

static void lock_trace_per_lock_released(struct lock_trace_end *end,
					 unsigned long lock, u8 type)
{
	struct lock_trace_said said;

	lock_trace_count(kinds[LOCK_TRACE_RELEASE], 1);
	lock_trace_decide(&said, end, lock, type);
}

static __always_inline void
lock_trace_without_attempt(struct lock_trace_said *said, unsigned long lock,
			   u8 kind, u8 type, unsigned long site)
{
	if (likely(kind == LOCK_TRACE_ACQUIRED))
		lock_trace_got(said, lock, type, site, 0, HOLD_TRIED);
	else if (kind == LOCK_TRACE_FAILED)
		lock_trace_fail(said, lock, type, site);
	else
		lock_trace_reinit(said, lock, type, site);
}

static void lock_trace_per_lock_other(unsigned long lock, u8 kind, u8 type,
				      unsigned long site, u16 flags)
{
	struct lock_trace_said said;

	lock_trace_count(kinds[kind], 1);
	lock_trace_without_attempt(&said, lock, kind, type, site);
}

/* -- start and stop ------------------------------------------------------------------------- */

static int lock_trace_per_lock_start(const struct lock_trace_setup *setup)
{
	if (!lock_trace_task_holds)
		lock_trace_task_holds =
			vmalloc(sizeof(*lock_trace_task_holds) << TASK_ORDER);
	if (!lock_trace_task_holds)
		return -ENOMEM;
	memset(lock_trace_task_holds, 0, sizeof(*lock_trace_task_holds) << TASK_ORDER);
	lock_trace_waits_start(setup->arm == LOCK_TRACE_PER_LOCK, false);
	return 0;
}

static void lock_trace_open(struct lock_trace_holds *holds)
{
	unsigned int i;

	for (i = 0; i < LOCK_TRACE_HOLDS; i++) {
		struct lock_trace_hold *hold = &holds->holds[i];

		/* The lowest bit: it is free, and was not decided. */
		if (holds->locks[i] && !(hold->flags & HOLD_KEPT))
			lock_trace_keep_hold(holds->locks[i] & ~1UL, hold,
					     LOCK_TRACE_OPEN);
		holds->locks[i] = 0;
	}
}

/* Those still held are kept: they may be what was looked for. */
static void lock_trace_per_lock_stop(void)
{
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct lock_trace_holds *holds = per_cpu_ptr(&lock_trace_cpu_holds, cpu);

		if (holds->session == lock_trace_session)
			lock_trace_open(holds);
	}
	for (i = 0; i < 1 << TASK_ORDER; i++)
		lock_trace_open(&lock_trace_task_holds[i]);
}

const struct lock_trace_arm lock_trace_per_lock = {
	.start = lock_trace_per_lock_start,
	.waits = lock_trace_wait_counted,
	.acquired = lock_trace_per_lock_acquired,
	.abandoned = lock_trace_per_lock_abandoned,
	.release = lock_trace_per_lock_release,
	.released = lock_trace_per_lock_released,
	.other = lock_trace_per_lock_other,
	.forget = lock_trace_per_lock_forget,
	.stop = lock_trace_per_lock_stop,
};

/* -- beside the full log, and the paper's filter -------------------------------------------- */

/* A place in the order of the shared buffer. */
static u64 lock_trace_validate_paper(unsigned long lock, u8 kind, u8 type,
				     unsigned long site, u64 time, u16 flags)
{
	struct lock_trace_call call;

	lock_trace_count(kinds[kind], 1);
	lock_trace_fill(&call, lock, kind, type, site);
	call.time = time;
	call.flags = flags;
	call.entry = lock_trace_find(lock);
	call.index = call.entry ? call.entry->index : 0;
	lock_trace_paper_event(&call);
	return call.order;
}

static void lock_trace_validate_log(const struct lock_trace_said *said,
				    unsigned long lock, u8 kind, u8 type,
				    unsigned long site, u64 order)
{
	struct lock_trace_entry *entry = lock_trace_look(lock);
	struct lock_trace_call call;

	lock_trace_fill(&call, lock, kind, type, site);
	call.time = said->time;
	call.order = order;
	call.index = entry ? entry->index : 0;
	call.sequence = said->sequence;
	call.depth = said->depth;
	call.flags = said->flags;
	lock_trace_keep(LOCK_TRACE_STREAM_LOG, &call, 0);
}

static void lock_trace_validate_both(const struct lock_trace_said *said,
				     unsigned long lock, u8 kind, u8 type,
				     unsigned long site)
{
	u64 order = lock_trace_validate_paper(lock, kind, type, site, said->time,
					      said->flags);

	lock_trace_validate_log(said, lock, kind, type, site, order);
}

static void lock_trace_validate_attempt(struct lock_trace_attempt *attempt,
					unsigned long lock, u8 type,
					unsigned long site)
{
	struct lock_trace_said said = { .time = get_cycles() };

	attempt->time = said.time;
	attempt->context = lock_trace_context_raw();
	attempt->cpu = raw_smp_processor_id();
	lock_trace_count(undecided, 1);
	lock_trace_validate_both(&said, lock, LOCK_TRACE_ATTEMPT, type, site);
}

static void lock_trace_validate_waits(struct lock_trace_attempt *attempt,
				      unsigned long lock, u8 type,
				      unsigned long site)
{
	struct lock_trace_said said = { };

	lock_trace_count(undecided, -1ULL);
	lock_trace_wait_begins(&said, attempt, lock, type, site);
	lock_trace_validate_both(&said, lock, LOCK_TRACE_WAITS, type, site);
}

static void lock_trace_validate_acquired(struct lock_trace_attempt *attempt,
					 unsigned long lock, u8 type,
					 unsigned long site)
{
	struct lock_trace_said said = { };

	if (attempt->kept) {
		lock_trace_got_after(&said, attempt, lock, type, site);
	} else {
		lock_trace_count(undecided, -1ULL);
		lock_trace_got(&said, lock, type, site, attempt->time, 0);
	}
	lock_trace_validate_both(&said, lock, LOCK_TRACE_ACQUIRED, type, site);
}

static void lock_trace_validate_abandoned(struct lock_trace_attempt *attempt,
					  unsigned long lock, u8 type,
					  unsigned long site)
{
	struct lock_trace_said said = { };

	if (!attempt->kept)
		lock_trace_count(undecided, -1ULL);
	lock_trace_give_up(&said, attempt, lock, type, site);
	lock_trace_validate_both(&said, lock, LOCK_TRACE_ABANDONED, type, site);
}

static void lock_trace_validate_release(struct lock_trace_end *end,
					unsigned long lock, u8 type,
					unsigned long site)
{
	bool later = lock_trace_let_go(end, lock, type, site);
	struct lock_trace_said said = { .flags = end->flags };

	if (!end->time)
		end->time = get_cycles();
	end->order = lock_trace_validate_paper(lock, LOCK_TRACE_RELEASE, type, site,
					       end->time, end->flags);
	if (later)
		return;
	said.time = end->time;
	said.sequence = word_version(word_read(lock));
	lock_trace_validate_log(&said, lock, LOCK_TRACE_RELEASE, type, site,
				end->order);
}

static void lock_trace_validate_released(struct lock_trace_end *end,
					 unsigned long lock, u8 type)
{
	struct lock_trace_said said = { .time = end->time };

	lock_trace_decide(&said, end, lock, type);
	said.flags = end->flags;
	lock_trace_validate_log(&said, lock, LOCK_TRACE_RELEASE, type, end->site,
				end->order);
}

static void lock_trace_validate_other(unsigned long lock, u8 kind, u8 type,
				      unsigned long site, u16 flags)
{
	struct lock_trace_said said = { .flags = flags };

	lock_trace_without_attempt(&said, lock, kind, type, site);
	lock_trace_validate_both(&said, lock, kind, type, site);
}

static int lock_trace_validate_start(const struct lock_trace_setup *setup)
{
	return lock_trace_per_lock_start(setup) ?: lock_trace_paper.start(setup);
}

static void lock_trace_validate_stop(void)
{
	lock_trace_per_lock_stop();
	lock_trace_paper.stop();
}

const struct lock_trace_arm lock_trace_validate = {
	.start = lock_trace_validate_start,
	.attempt = lock_trace_validate_attempt,
	.waits = lock_trace_validate_waits,
	.acquired = lock_trace_validate_acquired,
	.abandoned = lock_trace_validate_abandoned,
	.release = lock_trace_validate_release,
	.released = lock_trace_validate_released,
	.other = lock_trace_validate_other,
	.forget = lock_trace_per_lock_forget,
	.stop = lock_trace_validate_stop,
};
