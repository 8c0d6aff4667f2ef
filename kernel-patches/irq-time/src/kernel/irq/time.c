// SPDX-License-Identifier: GPL-2.0
/*
 * The time of interrupt handlers, from entry to exit, each by itself: in
 * /proc/irq_handler_time, in nanoseconds, and beside it how often each ran.
 */

#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/profile_sysctl.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "internals.h"

#define IRQ_TIME_BITS	6
#define IRQ_TIME_SLOTS	BIT(IRQ_TIME_BITS)

struct irq_time_slot {
	irq_handler_t	handler;
	u64		ns;
	u64		calls;
};

struct irq_time_cpu {
	/* Time in handlers so far: a handler leaves out what interrupted it. */
	u64			inner;
	/* Hashed by handler; one more for those that find no place. */
	struct irq_time_slot	slots[IRQ_TIME_SLOTS + 1];
};

DEFINE_STATIC_KEY_FALSE(irq_time_key);

static DEFINE_PER_CPU(struct irq_time_cpu, irq_times);
static DEFINE_MUTEX(irq_time_mutex);
static int irq_time_on;

static struct irq_time_slot *irq_time_slot(struct irq_time_cpu *times,
					   irq_handler_t handler)
{
	unsigned int first = hash_ptr(handler, IRQ_TIME_BITS), i;

	for (i = 0; i < IRQ_TIME_SLOTS; i++) {
		struct irq_time_slot *slot;

		slot = &times->slots[(first + i) % IRQ_TIME_SLOTS];
		if (!slot->handler)
			slot->handler = handler;
		if (slot->handler == handler)
			return slot;
	}
	return &times->slots[IRQ_TIME_SLOTS];
}

/* Called with interrupts off, as is the next. */
void __irq_time_enter(struct irq_time_frame *frame)
{
	frame->inner = __this_cpu_read(irq_times.inner);
	frame->begin = local_clock();
}

void __irq_time_exit(const struct irq_time_frame *frame,
		     const struct irqaction *action)
{
	struct irq_time_cpu *times = this_cpu_ptr(&irq_times);
	u64 whole = local_clock() - frame->begin;
	struct irq_time_slot *slot;

	slot = irq_time_slot(times, action->handler);
	slot->ns += whole - (times->inner - frame->inner);
	slot->calls++;
	times->inner = frame->inner + whole;
}

static void irq_time_set(int on)
{
	lockdep_assert_held(&irq_time_mutex);

	if (on == irq_time_on)
		return;

	if (on)
		static_branch_enable(&irq_time_key);
	else
		static_branch_disable(&irq_time_key);
	irq_time_on = on;
	/* Hard interrupts are RCU readers: none is left that began before. */
	synchronize_rcu();
}

static int irq_time_proc(profile_ctl_table *table, int write, void *buffer,
			 size_t *lenp, loff_t *ppos)
{
	int on, ret;
	struct ctl_table t = {
		.data	= &on,
		.maxlen	= sizeof(on),
		.mode	= table->mode,
		.extra1	= SYSCTL_ZERO,
		.extra2	= SYSCTL_ONE,
	};

	mutex_lock(&irq_time_mutex);
	on = irq_time_on;
	ret = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);
	if (!ret && write)
		irq_time_set(on);
	mutex_unlock(&irq_time_mutex);

	return ret;
}

/* Where the numbers are changed: neither half of one is from another moment. */
static void irq_time_copy(void *to)
{
	memcpy(to, this_cpu_ptr(&irq_times), sizeof(struct irq_time_cpu));
}

static int irq_time_show(struct seq_file *m, void *v)
{
	struct irq_time_cpu *times = kmalloc(sizeof(*times), GFP_KERNEL);
	int cpu, i;

	if (!times)
		return -ENOMEM;

	for_each_possible_cpu(cpu) {
		/* One that is offline has no handler that could change them. */
		if (smp_call_function_single(cpu, irq_time_copy, times, 1))
			memcpy(times, per_cpu_ptr(&irq_times, cpu),
			       sizeof(*times));
		for (i = 0; i <= IRQ_TIME_SLOTS; i++) {
			struct irq_time_slot *slot = &times->slots[i];

			if (!slot->calls)
				continue;
			seq_printf(m, "%d %llu %llu ", cpu, slot->calls,
				   slot->ns);
			if (slot->handler)
				seq_printf(m, "%ps\n", slot->handler);
			else
				seq_puts(m, "(others)\n");
		}
	}
	kfree(times);

	return 0;
}

static struct ctl_table irq_time_table[] = {
	{
		.procname	= "irq_handler_time",
		.mode		= 0644,
		.proc_handler	= irq_time_proc,
	},
	PROFILE_CTL_END
};

static int __init irq_time_init(void)
{
	register_sysctl_init("kernel", irq_time_table);
	proc_create_single("irq_handler_time", 0400, NULL, irq_time_show);
	return 0;
}
late_initcall(irq_time_init);
