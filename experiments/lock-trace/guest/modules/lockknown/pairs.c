// SPDX-License-Identifier: GPL-2.0-only
/* What one acquire and release costs: each pair timed by itself, as in the paper. */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "known.h"

enum { WARM = 16 };	/* pairs before those that are kept */

/* A loop of its own for each kind: between the two readings is nothing but the two calls. */
#define PAIRS(name, take, give)						\
static noinline void pairs_##name(u64 *cycles, u32 count)			\
{										\
	unsigned long __maybe_unused flags;					\
										\
	for (u32 i = 0; i < count + WARM; i++) {				\
		u64 begin, end;							\
										\
		begin = rdtsc_ordered();					\
		take;								\
		give;								\
		end = rdtsc_ordered();						\
		if (i >= WARM)							\
			cycles[i - WARM] = end - begin;				\
	}									\
}

PAIRS(none, , )
PAIRS(spin, raw_spin_lock(&known_own[0].spin), raw_spin_unlock(&known_own[0].spin))
PAIRS(spin_irqsave, raw_spin_lock_irqsave(&known_own[0].spin, flags),
      raw_spin_unlock_irqrestore(&known_own[0].spin, flags))
PAIRS(read, read_lock(&known_own[0].rw), read_unlock(&known_own[0].rw))
PAIRS(write, write_lock(&known_own[0].rw), write_unlock(&known_own[0].rw))
PAIRS(mutex, mutex_lock(&known_own[0].mutex), mutex_unlock(&known_own[0].mutex))
PAIRS(rwsem_read, down_read(&known_own[0].rwsem), up_read(&known_own[0].rwsem))
PAIRS(rwsem_write, down_write(&known_own[0].rwsem), up_write(&known_own[0].rwsem))

int known_pairs(const struct lockknown_pair_setup *setup)
{
	static void (*const loops[])(u64 *cycles, u32 count) = {
		[LOCKKNOWN_PAIR_NONE] = pairs_none,
		[LOCKKNOWN_PAIR_SPIN] = pairs_spin,
		[LOCKKNOWN_PAIR_SPIN_IRQSAVE] = pairs_spin_irqsave,
		[LOCKKNOWN_PAIR_READ] = pairs_read,
		[LOCKKNOWN_PAIR_WRITE] = pairs_write,
		[LOCKKNOWN_PAIR_MUTEX] = pairs_mutex,
		[LOCKKNOWN_PAIR_RWSEM_READ] = pairs_rwsem_read,
		[LOCKKNOWN_PAIR_RWSEM_WRITE] = pairs_rwsem_write,
	};
	unsigned long flags;
	bool irqs_on;
	u64 *cycles;
	int error;

	if (setup->pair >= LOCKKNOWN_PAIRS || !setup->count || setup->count > LOCKKNOWN_MAX_PAIRS)
		return -EINVAL;
	cycles = kvcalloc(setup->count, sizeof(*cycles), GFP_KERNEL);
	if (!cycles)
		return -ENOMEM;
	/* A lock that nobody has to wait for never sleeps, but a kernel that checks itself complains all the same. */
	irqs_on = IS_ENABLED(CONFIG_DEBUG_ATOMIC_SLEEP) && setup->pair >= LOCKKNOWN_PAIR_MUTEX;
	if (!irqs_on)
		local_irq_save(flags);
	loops[setup->pair](cycles, setup->count);
	if (!irqs_on)
		local_irq_restore(flags);
	error = copy_to_user(u64_to_user_ptr(setup->cycles), cycles, setup->count * sizeof(*cycles)) ? -EFAULT : 0;
	kvfree(cycles);
	return error;
}
