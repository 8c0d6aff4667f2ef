// SPDX-License-Identifier: GPL-2.0
/*
 * A second sampling point for /proc/profile: the entry of interrupt handlers.
 *
 * The method is that of Yang Ning and Lu Xianliang, "Research of Operating
 * System Kernel Code Hotspot's Dynamic Detection", about 2004.
 */

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/profile.h>
#include <linux/profile_sysctl.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>

#include <asm/irq_regs.h>
#include <asm/sections.h>

#include "internals.h"

enum {
	IRQ_HOTSPOT_OFF,	/* stock behaviour */
	IRQ_HOTSPOT_BOTH,	/* handler and interrupted address */
	IRQ_HOTSPOT_HANDLER,	/* handler only */
};

/* In the order of the sysctl kernel.irq_hotspot_stats, which is ABI. */
enum {
	STAT_HANDLERS,		/* handler addresses counted */
	STAT_INTERRUPTED,	/* interrupted addresses counted */
	STAT_CLAMPED,		/* of both, those put into the last bucket */
	STAT_MASKED,		/* handler calls not counted: prof_cpu_mask */
	NR_HOTSPOT_STATS,
};

DEFINE_STATIC_KEY_FALSE(irq_hotspot_key);

static int irq_hotspot_mode __read_mostly;
static DEFINE_MUTEX(irq_hotspot_mutex);

static DEFINE_PER_CPU(unsigned long [NR_HOTSPOT_STATS], irq_hotspot_stats);

static void irq_hotspot_count(void *pc, int stat)
{
	__this_cpu_inc(irq_hotspot_stats[stat]);
	if (!profile_hit_direct(pc))
		__this_cpu_inc(irq_hotspot_stats[STAT_CLAMPED]);
}

/* Called with interrupts off, once for each handler that is about to run. */
void __irq_hotspot_hit(const struct irqaction *action)
{
	int mode = READ_ONCE(irq_hotspot_mode);
	struct pt_regs *regs;

	/* Past the static key while it was being switched off? */
	if (mode == IRQ_HOTSPOT_OFF)
		return;

	if (!profile_this_cpu()) {
		__this_cpu_inc(irq_hotspot_stats[STAT_MASKED]);
		return;
	}

	irq_hotspot_count(dereference_function_descriptor(action->handler),
			  STAT_HANDLERS);
	if (mode == IRQ_HOTSPOT_HANDLER)
		return;

	/* No registers: a software resend, nothing was interrupted. */
	regs = get_irq_regs();
	if (regs && !user_mode(regs))
		irq_hotspot_count((void *)profile_pc(regs), STAT_INTERRUPTED);
}

static int irq_hotspot_set(int mode)
{
	int ret;

	lockdep_assert_held(&irq_hotspot_mutex);

	if (mode == irq_hotspot_mode)
		return 0;

	if (irq_hotspot_mode == IRQ_HOTSPOT_OFF) {
		ret = profile_claim(CPU_PROFILING, "irq_hotspot");
		if (ret)
			return ret;
	}

	/* The key is on only while the mode says what to do. */
	if (mode == IRQ_HOTSPOT_OFF)
		static_branch_disable(&irq_hotspot_key);
	WRITE_ONCE(irq_hotspot_mode, mode);
	if (mode != IRQ_HOTSPOT_OFF)
		static_branch_enable(&irq_hotspot_key);

	/*
	 * Hard interrupts are RCU readers. When this returns none is left that
	 * has seen the old mode: the writer of the sysctl can rely on it that
	 * every handler called from now on is sampled in the new mode.
	 */
	synchronize_rcu();
	if (mode == IRQ_HOTSPOT_OFF)
		profile_release();
	return 0;
}

static int irq_hotspot_proc(profile_ctl_table *table, int write, void *buffer,
			    size_t *lenp, loff_t *ppos)
{
	int mode, ret;
	struct ctl_table t = {
		.data	= &mode,
		.maxlen	= sizeof(mode),
		.mode	= table->mode,
		.extra1	= SYSCTL_ZERO,
		.extra2	= SYSCTL_TWO,
	};

	mutex_lock(&irq_hotspot_mutex);
	mode = irq_hotspot_mode;
	ret = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);
	if (!ret && write)
		ret = irq_hotspot_set(mode);
	mutex_unlock(&irq_hotspot_mutex);

	return ret;
}

static int irq_hotspot_stats_proc(profile_ctl_table *table, int write,
				  void *buffer, size_t *lenp, loff_t *ppos)
{
	unsigned long sum[NR_HOTSPOT_STATS] = { };
	struct ctl_table t = {
		.data	= sum,
		.maxlen	= sizeof(sum),
		.mode	= table->mode,
	};
	int cpu, i;

	for_each_possible_cpu(cpu)
		for (i = 0; i < NR_HOTSPOT_STATS; i++)
			sum[i] += READ_ONCE(per_cpu(irq_hotspot_stats, cpu)[i]);

	return proc_doulongvec_minmax(&t, write, buffer, lenp, ppos);
}

static struct ctl_table irq_hotspot_table[] = {
	{
		.procname	= "irq_hotspot",
		.mode		= 0644,
		.proc_handler	= irq_hotspot_proc,
	},
	{
		.procname	= "irq_hotspot_stats",
		.mode		= 0444,
		.proc_handler	= irq_hotspot_stats_proc,
	},
	PROFILE_CTL_END
};

static int __init irq_hotspot_init(void)
{
	register_sysctl_init("kernel", irq_hotspot_table);
	return 0;
}
late_initcall(irq_hotspot_init);
