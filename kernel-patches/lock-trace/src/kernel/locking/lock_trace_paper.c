// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace's filter as K. A. Anisimov described it (St Petersburg State
 * University, 2013): events of all CPUs go into one shared buffer under one
 * lock, and leave it by blocks of their lock. A counter of each lock goes up at
 * the attempt and down at the release; where it is 0, the block ends. A block
 * that is one acquisition and its release is dropped, any other is kept.
 *
 * The counter may go below 0, where the trace began inside a block or a lock
 * was released twice. From then on the filter takes the lock's releases for
 * attempts; this is how the paper has it.
 */
#include <linux/irqflags.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>

#include "lock_trace.h"

/* A place in the buffer. Chained from the lock's entry, or free. */
struct lock_trace_pending {
	struct lock_trace_call call;
	u32 next;			/* from 1; 0: the last */
};

static struct lock_trace_pending *lock_trace_pool;
static unsigned int lock_trace_pool_order;
static u32 lock_trace_pool_free;	/* first free place, from 1 */
static u64 lock_trace_pool_used, lock_trace_pool_most, lock_trace_pool_out;
static u64 lock_trace_paper_order;
static bool lock_trace_sums_paper;

/*
 * Not a spinlock: those are traced. Interrupts are off while it is held; an NMI
 * that finds it taken cannot wait.
 */
static unsigned long lock_trace_paper_taken;

static bool lock_trace_paper_lock(unsigned long *flags)
{
	local_irq_save(*flags);
	while (cmpxchg(&lock_trace_paper_taken, 0, 1)) {
		if (in_nmi()) {
			local_irq_restore(*flags);
			return false;
		}
		cpu_relax();
	}
	return true;
}

static void lock_trace_paper_unlock(unsigned long flags)
{
	/* The buffer is whole. */
	smp_store_release(&lock_trace_paper_taken, 0);
	local_irq_restore(flags);
}

static struct lock_trace_pending *lock_trace_pending(u32 place)
{
	return &lock_trace_pool[place - 1];
}

static int lock_trace_paper_start(const struct lock_trace_setup *setup)
{
	u32 i, n = 1U << setup->pool_order;

	if (setup->pool_order != lock_trace_pool_order) {
		vfree(lock_trace_pool);
		lock_trace_pool = NULL;
		lock_trace_pool_order = setup->pool_order;
	}
	if (!lock_trace_pool)
		lock_trace_pool = vmalloc(n * sizeof(*lock_trace_pool));
	if (!lock_trace_pool)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		lock_trace_pool[i].next = i + 1 < n ? i + 2 : 0;
	lock_trace_pool_free = 1;
	lock_trace_pool_used = 0;
	lock_trace_pool_most = 0;
	lock_trace_pool_out = 0;
	lock_trace_paper_order = 0;
	/* Beside the other filter, the table of sites is the other's. */
	lock_trace_sums_paper = setup->arm == LOCK_TRACE_PAPER;
	return 0;
}

void lock_trace_paper_pool(u64 *peak, u64 *full)
{
	*peak = lock_trace_pool_most;
	*full = lock_trace_pool_out;
}

/* -- blocks -------------------------------------------------------------------------- */

static void lock_trace_paper_forget(struct lock_trace_entry *entry)
{
	entry->paper_comers = 0;
	entry->paper_first = 0;
	entry->paper_last = 0;
	entry->paper_odd = false;
	entry->paper_overflow = false;
}

static unsigned int lock_trace_paper_free(struct lock_trace_entry *entry)
{
	unsigned int n = 0;
	u32 place;

	if (!entry->paper_first)
		return 0;
	for (place = entry->paper_first; place; place = lock_trace_pending(place)->next)
		n++;
	lock_trace_pending(entry->paper_last)->next = lock_trace_pool_free;
	lock_trace_pool_free = entry->paper_first;
	lock_trace_pool_used -= n;
	entry->paper_first = 0;
	entry->paper_last = 0;
	return n;
}

static void lock_trace_paper_keep(struct lock_trace_entry *entry, u16 flags)
{
	u32 place;

	for (place = entry->paper_first; place; place = lock_trace_pending(place)->next)
		lock_trace_keep(LOCK_TRACE_STREAM_PAPER,
				&lock_trace_pending(place)->call, flags);
	lock_trace_paper_free(entry);
}

/* One acquisition and its release: all that is left of them is a sum. */
static void lock_trace_paper_drop(struct lock_trace_entry *entry)
{
	unsigned long site = 0;
	u32 place;
	u8 type = 0;

	for (place = entry->paper_first; place; place = lock_trace_pending(place)->next) {
		const struct lock_trace_call *call = &lock_trace_pending(place)->call;

		if (call->kind != LOCK_TRACE_ACQUIRED)
			continue;
		site = call->site;
		type = call->type;
	}
	if (lock_trace_sums_paper)
		lock_trace_sum_add(lock_trace_sum(entry->lock, site, type),
				   acquisitions, 1);
	lock_trace_count(dropped[LOCK_TRACE_STREAM_PAPER],
			 lock_trace_paper_free(entry));
}

static void lock_trace_paper_add(struct lock_trace_entry *entry,
				 const struct lock_trace_call *call)
{
	u32 place = lock_trace_pool_free;

	if (entry->paper_overflow) {
		lock_trace_keep(LOCK_TRACE_STREAM_PAPER, call, 0);
		return;
	}
	/* No room to wait for the block's end: it is kept from here on. */
	if (!place) {
		lock_trace_pool_out++;
		lock_trace_paper_keep(entry, 0);
		entry->paper_overflow = true;
		lock_trace_keep(LOCK_TRACE_STREAM_PAPER, call, 0);
		return;
	}
	lock_trace_pool_free = lock_trace_pending(place)->next;
	lock_trace_pool_used++;
	lock_trace_pool_most = max(lock_trace_pool_most, lock_trace_pool_used);
	lock_trace_pending(place)->call = *call;
	lock_trace_pending(place)->next = 0;
	if (entry->paper_last)
		lock_trace_pending(entry->paper_last)->next = place;
	else
		entry->paper_first = place;
	entry->paper_last = place;
}

static void lock_trace_paper_step(struct lock_trace_call *call)
{
	struct lock_trace_entry *entry = call->entry;

	if (call->kind == LOCK_TRACE_INIT) {
		lock_trace_paper_keep(entry, 0);
		lock_trace_paper_forget(entry);
		entry->paper_count = 0;
		lock_trace_count(dropped[LOCK_TRACE_STREAM_PAPER], 1);
		return;
	}
	lock_trace_paper_add(entry, call);
	if (call->kind == LOCK_TRACE_ATTEMPT || call->flags & LOCK_TRACE_TRY) {
		entry->paper_count++;
		entry->paper_comers++;
	} else if (call->kind == LOCK_TRACE_RELEASE ||
		   call->kind == LOCK_TRACE_ABANDONED) {
		entry->paper_count--;
	}
	if (entry->paper_count < 0 || call->kind == LOCK_TRACE_FAILED ||
	    call->kind == LOCK_TRACE_ABANDONED)
		entry->paper_odd = true;
	if (entry->paper_count)
		return;
	/* A block that a shift has turned round can end with an attempt. */
	if (entry->paper_comers == 1 && !entry->paper_odd &&
	    !entry->paper_overflow && call->kind == LOCK_TRACE_RELEASE)
		lock_trace_paper_drop(entry);
	else
		lock_trace_paper_keep(entry, 0);
	lock_trace_paper_forget(entry);
}

void lock_trace_paper_event(struct lock_trace_call *call)
{
	unsigned long flags;

	if (!call->entry || !lock_trace_paper_lock(&flags)) {
		/* Beside the other filter, that has its own count of them. */
		if (lock_trace_sums_paper)
			lock_trace_count(untracked, 1);
		else
			lock_trace_count(dropped[LOCK_TRACE_STREAM_PAPER], 1);
		return;
	}
	call->order = ++lock_trace_paper_order;
	lock_trace_paper_step(call);
	lock_trace_paper_unlock(flags);
}

/* -- the arm ---------------------------------------------------------------------------- */

static void lock_trace_paper_other(unsigned long lock, u8 kind, u8 type,
				   unsigned long site, u16 flags)
{
	struct lock_trace_call call;

	lock_trace_count(kinds[kind], 1);
	lock_trace_fill(&call, lock, kind, type, site);
	call.flags = flags;
	call.entry = lock_trace_find(lock);
	if (call.entry) {
		call.index = call.entry->index;
		if (kind == LOCK_TRACE_INIT) {
			call.entry->generation++;
			call.entry->init_site = site;
		}
	}
	lock_trace_paper_event(&call);
}

static void lock_trace_paper_attempt(struct lock_trace_attempt *attempt,
				     unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_paper_other(lock, LOCK_TRACE_ATTEMPT, type, site, 0);
}

static void lock_trace_paper_waits(struct lock_trace_attempt *attempt,
				   unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_paper_other(lock, LOCK_TRACE_WAITS, type, site, 0);
}

static void lock_trace_paper_acquired(struct lock_trace_attempt *attempt,
				      unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_paper_other(lock, LOCK_TRACE_ACQUIRED, type, site, 0);
}

static void lock_trace_paper_abandoned(struct lock_trace_attempt *attempt,
				       unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_paper_other(lock, LOCK_TRACE_ABANDONED, type, site, 0);
}

static void lock_trace_paper_release(struct lock_trace_end *end, unsigned long lock,
				     u8 type, unsigned long site)
{
	lock_trace_paper_other(lock, LOCK_TRACE_RELEASE, type, site, 0);
}

static void lock_trace_paper_open(struct lock_trace_entry *entry)
{
	lock_trace_paper_keep(entry, LOCK_TRACE_OPEN);
}

static void lock_trace_paper_stop(void)
{
	lock_trace_for_each(lock_trace_paper_open);
}

const struct lock_trace_arm lock_trace_paper = {
	.start = lock_trace_paper_start,
	.attempt = lock_trace_paper_attempt,
	.waits = lock_trace_paper_waits,
	.acquired = lock_trace_paper_acquired,
	.abandoned = lock_trace_paper_abandoned,
	.release = lock_trace_paper_release,
	.other = lock_trace_paper_other,
	.stop = lock_trace_paper_stop,
};
