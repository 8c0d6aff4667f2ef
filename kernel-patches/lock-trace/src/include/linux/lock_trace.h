/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hooks of the lock trace, see Documentation/locking/lock-trace.rst.
 *
 * A lock's function asks lock_trace_on(), a nop while nothing is traced, and
 * leaves the rest to a copy of itself that is out of line.
 */
#ifndef _LINUX_LOCK_TRACE_H
#define _LINUX_LOCK_TRACE_H

#include <linux/types.h>
#include <uapi/linux/lock_trace.h>

struct lock_trace_entry;

/* What the trace has to remember of one who waits, on his stack. */
struct lock_trace_attempt {
	u64 time;
	struct lock_trace_entry *entry;
	u32 session;
	u32 sequence;
	u32 depth;
	u32 generation;
	u32 context;
	u16 cpu;
	bool kept;
};

#ifdef CONFIG_KREPRO_LOCK_TRACE

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(lock_trace_key);
DECLARE_STATIC_KEY_FALSE(lock_trace_every_key);

static __always_inline bool lock_trace_on(void)
{
	return static_branch_unlikely(&lock_trace_key);
}

/* Whether acquisitions are of interest that nobody waits for. */
static __always_inline bool lock_trace_every(void)
{
	return static_branch_unlikely(&lock_trace_every_key);
}

void lock_trace_attempt(struct lock_trace_attempt *attempt, void *lock,
			u8 type, unsigned long site);
void lock_trace_acquired(struct lock_trace_attempt *attempt, void *lock,
			 u8 type, unsigned long site);
void lock_trace_abandoned(struct lock_trace_attempt *attempt, void *lock,
			  u8 type, unsigned long site);
void lock_trace_tried(void *lock, u8 type, unsigned long site, bool got);
void lock_trace_release(void *lock, u8 type, unsigned long site);
void __lock_trace_init(void *lock, u8 type, unsigned long site);

#else

static __always_inline bool lock_trace_on(void)
{
	return false;
}

static __always_inline bool lock_trace_every(void)
{
	return false;
}

static inline void lock_trace_attempt(struct lock_trace_attempt *attempt,
				      void *lock, u8 type,
				      unsigned long site) { }
static inline void lock_trace_acquired(struct lock_trace_attempt *attempt,
				       void *lock, u8 type,
				       unsigned long site) { }
static inline void lock_trace_abandoned(struct lock_trace_attempt *attempt,
					void *lock, u8 type,
					unsigned long site) { }
static inline void lock_trace_tried(void *lock, u8 type, unsigned long site,
				    bool got) { }
static inline void lock_trace_release(void *lock, u8 type,
				      unsigned long site) { }
static inline void __lock_trace_init(void *lock, u8 type,
				     unsigned long site) { }

#endif

#define lock_trace_init(lock, type, site)				\
do {									\
	if (lock_trace_on())						\
		__lock_trace_init(lock, type, site);			\
} while (0)

#endif /* _LINUX_LOCK_TRACE_H */
