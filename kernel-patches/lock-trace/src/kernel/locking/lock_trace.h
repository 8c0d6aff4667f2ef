/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lock trace: what its files share. Data flows from the hooks
 * (lock_trace.c) through one arm, which may filter, into the CPU's ring
 * (lock_trace_ring.c).
 */
#ifndef _KERNEL_LOCKING_LOCK_TRACE_H
#define _KERNEL_LOCKING_LOCK_TRACE_H

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/irqflags.h>
#include <linux/lock_trace.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/timex.h>
#include <linux/types.h>
#include <asm/local.h>

#include "lock_trace_hooks.h"

void lock_trace_control_begin(void);
void lock_trace_control_end(void);

/* An event before it is one: who did what with which lock, and when. */
struct lock_trace_call {
	unsigned long lock;
	unsigned long site;
	u64 time;
	u64 order;
	struct lock_trace_entry *entry;
	u32 index;			/* of entry, from 1 */
	u32 sequence;
	u32 depth;
	u32 pid;
	u16 cpu;
	u8 kind;
	u8 type;
	u8 context;
	u16 flags;
};

/*
 * Called with preemption off, from every context, and interrupted by every
 * other. @attempt and @end are on the stack of their task and its alone. What
 * an arm does not have is not called.
 */
struct lock_trace_arm {
	int (*start)(const struct lock_trace_setup *setup);
	void (*attempt)(struct lock_trace_attempt *attempt, unsigned long lock,
			u8 type, unsigned long site);
	/* The trylock failed, and the waiting is about to begin. */
	void (*waits)(struct lock_trace_attempt *attempt, unsigned long lock,
		      u8 type, unsigned long site);
	/* Without acquired, hooks do nothing. */
	void (*acquired)(struct lock_trace_attempt *attempt, unsigned long lock,
			 u8 type, unsigned long site);
	void (*abandoned)(struct lock_trace_attempt *attempt, unsigned long lock,
			  u8 type, unsigned long site);
	/* Before the lock is let go, and, if @end->holds says so, after it. */
	void (*release)(struct lock_trace_end *end, unsigned long lock, u8 type,
			unsigned long site);
	void (*released)(struct lock_trace_end *end, unsigned long lock, u8 type);
	/*
	 * The lock was let go, and somebody may have waited for it since version
	 * @since of its word. @time: just before that; 0: it was not read.
	 */
	void (*awaited)(unsigned long lock, u8 type, unsigned long site, u32 since,
			u64 time);
	/* TRY and FAILED, INIT: @flags is TRY or nothing. */
	void (*other)(unsigned long lock, u8 kind, u8 type, unsigned long site,
		      u16 flags);
	void (*forget)(struct task_struct *task);
	/* Events from elsewhere end. */
	void (*unhook)(void);
	/* No hook runs any more: decide what is undecided. */
	void (*stop)(void);
};

extern const struct lock_trace_arm lock_trace_all;
extern const struct lock_trace_arm lock_trace_per_lock;
extern const struct lock_trace_arm lock_trace_contended;
extern const struct lock_trace_arm lock_trace_paper;
extern const struct lock_trace_arm lock_trace_contention;
extern const struct lock_trace_arm lock_trace_validate;

/* Counted by each CPU for itself, by single instructions. */
struct lock_trace_counts {
	u64 kinds[8];
	u64 kept[LOCK_TRACE_STREAMS];
	u64 dropped[LOCK_TRACE_STREAMS];
	u64 written[LOCK_TRACE_STREAMS];
	u64 lost[LOCK_TRACE_STREAMS];
	u64 first_loss;
	u64 untracked;
	u64 nested;
	u64 undecided;
	u64 sites_full;
	u64 holds_full;
};

void lock_trace_log(void *lock, u8 kind, u8 type, unsigned long site, u16 flags);

DECLARE_PER_CPU(struct lock_trace_counts, lock_trace_counts);

#define lock_trace_count(field, n)					\
	this_cpu_add(lock_trace_counts.field, n)

static inline bool lock_trace_shared(u8 type)
{
	return type == LOCK_TRACE_READ || type == LOCK_TRACE_RWSEM_READ;
}

/*
 * Interrupts are off, in a bit of the preempt count that says nothing of the
 * context: the highest one, which is not in the count, or, since NMIs are
 * counted there, the lowest one of the depth of preemption.
 */
#define LOCK_TRACE_RAW_IRQS_OFF	(NMI_MASK & BIT(31) ? BIT(0) : BIT(31))

/* Interrupts off, and the preempt count: in what context this is. */
static __always_inline u32 lock_trace_context_raw(void)
{
	u32 raw = preempt_count() & ~LOCK_TRACE_RAW_IRQS_OFF;
	unsigned long flags;

	local_save_flags(flags);
	return raw | (irqs_disabled_flags(flags) ? LOCK_TRACE_RAW_IRQS_OFF : 0);
}

u8 lock_trace_context(u32 raw);

void lock_trace_fill(struct lock_trace_call *call, unsigned long lock, u8 kind,
		     u8 type, unsigned long site);

extern u32 lock_trace_session;		/* which trace it is; never 0 in one */

/* -- lock_trace_ring.c ---------------------------------------------------- */

int lock_trace_ring_start(unsigned int order);
void lock_trace_keep(u8 stream, const struct lock_trace_call *call, u16 flags);
ssize_t lock_trace_ring_read(char __user *buf, size_t size);
bool lock_trace_ring_filling(void);

/* -- lock_trace_table.c --------------------------------------------------- */

/* A lock that somebody waited for; in PAPER and VALIDATE, any lock. */
struct lock_trace_entry {
	unsigned long lock;		/* key; 0: free */
	u32 index;			/* from 1 */
	u32 generation;

	/* Who waits for it, under the lock's guard. */
	u32 waiting;
	u32 marks;			/* of those who gave up */
	u32 last;			/* version of the last wait's begin */
	u32 ended;			/* and of the last one's end */
	u64 used;			/* time of the last wait's begin */

	/* The shared buffer's view, under its lock. */
	s32 paper_count;
	u32 paper_comers;
	u32 paper_first;
	u32 paper_last;
	bool paper_odd;
	bool paper_overflow;

	/* What kind of memory it is in; written once. */
	u8 memory;
	u32 offset;
	unsigned long init_site;
	char cache[24];
} ____cacheline_aligned;

/* What acquisitions of one lock at one place came to, on one CPU. */
struct lock_trace_sum {
	unsigned long lock;		/* 0: free */
	u64 key;			/* of place and type */
	local_t acquisitions;
	local_t contended;
	local_t failed;
	local_t abandoned;
	local_t kept;
	local_t wait_total;
};

int lock_trace_table_start(unsigned int lock_order, unsigned int site_order);
struct lock_trace_entry *lock_trace_look(unsigned long lock);
struct lock_trace_entry *lock_trace_find(unsigned long lock);
void lock_trace_classify(struct lock_trace_entry *entry);
struct lock_trace_entry *lock_trace_place(unsigned long lock, unsigned int probe);
void lock_trace_initialised(unsigned long lock, unsigned long site);
struct lock_trace_sum *lock_trace_add_sum(unsigned long lock, u64 key);
void lock_trace_for_each(void (*do_entry)(struct lock_trace_entry *entry));
void lock_trace_table_count(u64 *locks, u64 *sites);

/* A cluster longer than this counts as a full table. */
#define LOCK_TRACE_PROBES	32

DECLARE_PER_CPU(struct lock_trace_sum *, lock_trace_sums);
extern unsigned int lock_trace_sum_shift;

/*
 * This CPU's sums of one lock, one place and one type, or NULL when the table is
 * full. Kernel text lies in one 2 GiB, so that half an address is enough.
 */
static __always_inline struct lock_trace_sum *
lock_trace_sum(unsigned long lock, unsigned long site, u8 type)
{
	u64 key = (u32)site | (u64)type << 32;
	struct lock_trace_sum *sum = this_cpu_read(lock_trace_sums) +
		((lock ^ key) * GOLDEN_RATIO_64 >> lock_trace_sum_shift);

	if (likely(sum->lock == lock && sum->key == key))
		return sum;
	return lock_trace_add_sum(lock, key);
}

#define lock_trace_sum_add(sum, field, n)				\
do {									\
	struct lock_trace_sum *_sum = sum;				\
									\
	if (likely(_sum))						\
		local_add(n, &_sum->field);				\
} while (0)

/* -- lock_trace_waits.c ----------------------------------------------------- */

static __always_inline u64 word_read(unsigned long lock)
{
	return READ_ONCE(lock_trace_words[lock_trace_word_of(lock)]);
}

static __always_inline u32 word_version(u64 word)
{
	return word;
}

static __always_inline u32 word_waiting(u64 word)
{
	return word >> 32;
}

/* What the full log, where there is one, has to say of an event. */
struct lock_trace_said {
	u64 time;
	u32 sequence;
	u32 depth;
	u16 flags;
};

enum lock_trace_answer {
	LOCK_TRACE_NOBODY_WAITED,
	LOCK_TRACE_SOMEBODY_WAITED,
	LOCK_TRACE_NOBODY_KNOWS,
};

void lock_trace_waits_start(bool evicts, bool marks);
void lock_trace_wait_begins(struct lock_trace_said *said,
			    struct lock_trace_attempt *attempt,
			    unsigned long lock, u8 type, unsigned long site);
void lock_trace_wait_counted(struct lock_trace_attempt *attempt,
			     unsigned long lock, u8 type, unsigned long site);
void lock_trace_wait_got(struct lock_trace_said *said,
			 struct lock_trace_attempt *attempt, unsigned long lock,
			 u8 type, unsigned long site);
void lock_trace_abandon(struct lock_trace_said *said,
			struct lock_trace_attempt *attempt, unsigned long lock,
			u8 type, unsigned long site);
enum lock_trace_answer lock_trace_waited_since(unsigned long lock, u32 since,
					       u32 *version);
void lock_trace_keep_now(unsigned long lock, u8 kind, u8 type, unsigned long site,
			 u64 time, u64 order, u32 sequence, u32 depth, u16 flags);
void lock_trace_renewed(unsigned long lock, unsigned long site);

/* -- the filters ------------------------------------------------------------ */

void lock_trace_paper_event(struct lock_trace_call *call);
void lock_trace_paper_pool(u64 *peak, u64 *full);

#endif /* _KERNEL_LOCKING_LOCK_TRACE_H */
