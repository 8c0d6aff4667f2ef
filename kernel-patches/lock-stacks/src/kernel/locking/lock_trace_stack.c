// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace's stacks: who called those who waited, and those who were
 * waited for. Each stack is in a table once, and events have its number.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/jhash.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/seq_file.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "lock_trace.h"

#define LOCK_TRACE_DEPTH	32	/* innermost calls */

/* Added by whoever comes first, without a lock, and never removed in a trace. */
struct lock_trace_stack {
	u32 hash;			/* 0: free */
	u32 depth;			/* 0: not whole yet */
	atomic_t events;
	unsigned long calls[LOCK_TRACE_DEPTH];
};

/* log2 of how many there is room for; 0: none are kept. */
static unsigned int lock_trace_stack_order __ro_after_init;
static struct lock_trace_stack *lock_trace_stacks;
static bool lock_trace_stacks_wanted;
static atomic_t lock_trace_stackless;	/* events for want of room */

static int __init lock_trace_stack_setup(char *value)
{
	unsigned int order;

	if (kstrtouint(value, 0, &order) || order > 16)
		return 0;
	lock_trace_stack_order = order;
	return 1;
}
__setup("lock_trace_stacks=", lock_trace_stack_setup);

/* No hook runs. */
int lock_trace_stack_start(bool wanted)
{
	lock_trace_stacks_wanted = wanted && lock_trace_stack_order;
	if (!lock_trace_stacks_wanted)
		return 0;
	if (!lock_trace_stacks)
		lock_trace_stacks = vmalloc(sizeof(*lock_trace_stacks)
					    << lock_trace_stack_order);
	if (!lock_trace_stacks)
		return -ENOMEM;
	memset(lock_trace_stacks, 0,
	       sizeof(*lock_trace_stacks) << lock_trace_stack_order);
	atomic_set(&lock_trace_stackless, 0);
	return 0;
}

/* The number of this stack, from 1; 0 if there is none. In any context. */
noinline u32 lock_trace_stack(void)
{
	unsigned long calls[LOCK_TRACE_DEPTH];
	unsigned int depth, probe, at;
	u32 hash, found;

	if (!lock_trace_stacks_wanted)
		return 0;
	depth = stack_trace_save(calls, ARRAY_SIZE(calls), 1);
	hash = jhash2((const u32 *)calls, depth * sizeof(*calls) / sizeof(u32), 0);
	at = hash & (BIT(lock_trace_stack_order) - 1);
	hash |= BIT(31);
	for (probe = 0; depth && probe < LOCK_TRACE_PROBES; probe++) {
		struct lock_trace_stack *stack = &lock_trace_stacks[at];

		found = cmpxchg(&stack->hash, 0, hash);
		if (!found) {
			memcpy(stack->calls, calls, depth * sizeof(*calls));
			/* With a depth, it is whole. */
			smp_store_release(&stack->depth, depth);
		}
		/*
		 * One that is not whole yet is taken for another: whom this has
		 * interrupted cannot be waited for. It then is there twice.
		 */
		if (!found ||
		    (found == hash &&
		     /* Pairs with the release above. */
		     smp_load_acquire(&stack->depth) == depth &&
		     !memcmp(stack->calls, calls, depth * sizeof(*calls)))) {
			atomic_inc(&stack->events);
			return at + 1;
		}
		at = (at + 1) & (BIT(lock_trace_stack_order) - 1);
	}
	atomic_inc(&lock_trace_stackless);
	return 0;
}

/* -- debugfs ------------------------------------------------------------------------- */

/* Position 0 is the line of names, 1 those without a stack. START waits. */
static void *lock_trace_stacks_at(loff_t *pos)
{
	if (!*pos)
		return SEQ_START_TOKEN;
	if (*pos == 1)
		return &lock_trace_stackless;
	for (; lock_trace_stacks && *pos - 2 < 1L << lock_trace_stack_order; ++*pos)
		if (lock_trace_stacks[*pos - 2].depth)
			return &lock_trace_stacks[*pos - 2];
	return NULL;
}

static void *lock_trace_stacks_start(struct seq_file *m, loff_t *pos)
{
	lock_trace_control_begin();
	return lock_trace_stacks_at(pos);
}

static void *lock_trace_stacks_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return lock_trace_stacks_at(pos);
}

static void lock_trace_stacks_stop(struct seq_file *m, void *v)
{
	lock_trace_control_end();
}

static int lock_trace_stacks_show(struct seq_file *m, void *v)
{
	const struct lock_trace_stack *stack = v;
	unsigned int i;

	if (v == SEQ_START_TOKEN) {
		seq_puts(m, "stack\tevents\tcalls\n");
		return 0;
	}
	if (v == &lock_trace_stackless) {
		seq_printf(m, "0\t%d\t-\n", atomic_read(&lock_trace_stackless));
		return 0;
	}
	seq_printf(m, "%ld\t%d\t", (long)(stack - lock_trace_stacks) + 1,
		   atomic_read(&stack->events));
	for (i = 0; i < stack->depth; i++)
		seq_printf(m, "0x%lx%c", stack->calls[i],
			   i + 1 < stack->depth ? ',' : '\n');
	return 0;
}

static const struct seq_operations lock_trace_stacks_sops = {
	.start = lock_trace_stacks_start,
	.next = lock_trace_stacks_next,
	.stop = lock_trace_stacks_stop,
	.show = lock_trace_stacks_show,
};
DEFINE_SEQ_ATTRIBUTE(lock_trace_stacks);

static int __init lock_trace_stack_init(void)
{
	struct dentry *folder = debugfs_lookup("lock_trace", NULL);

	debugfs_create_file("stacks", 0400, folder, NULL, &lock_trace_stacks_fops);
	dput(folder);
	return 0;
}
late_initcall(lock_trace_stack_init);
