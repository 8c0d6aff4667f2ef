// SPDX-License-Identifier: GPL-2.0
/*
 * Samples for /proc/profile taken by NMIs that have no known reason: a profiler
 * that sees code with interrupts off. An emulator or a management controller
 * sends them, at moments of its choice. An NMI does not say who sent it, so
 * that a stray one is a sample too.
 */

#define pr_fmt(fmt) "nmi_profile: " fmt

#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/profile.h>
#include <linux/profile_sysctl.h>
#include <linux/ptrace.h>

#include <asm/nmi.h>

/* In the order of the sysctl kernel.nmi_profile_stats, which is ABI. */
enum {
	STAT_KERNEL,		/* addresses in the kernel, counted */
	STAT_CLAMPED,		/* of these, put into the last bucket */
	STAT_USER,		/* NMIs in user mode: not counted, as by the tick */
	STAT_MASKED,		/* NMIs not counted: prof_cpu_mask */
	NR_NMI_PROFILE_STATS,
};

static int nmi_profile_on;
static DEFINE_MUTEX(nmi_profile_mutex);

/* NMIs do not nest: plain increments of their own CPU's counters will do. */
static DEFINE_PER_CPU(unsigned long [NR_NMI_PROFILE_STATS], nmi_profile_stats);

static int nmi_profile_sample(unsigned int type, struct pt_regs *regs)
{
	/* One that may be a stray one, where those are fatal, is not claimed. */
	if (unknown_nmi_panic || panic_on_unrecovered_nmi)
		return NMI_DONE;

	if (user_mode(regs)) {
		__this_cpu_inc(nmi_profile_stats[STAT_USER]);
	} else if (!profile_this_cpu()) {
		__this_cpu_inc(nmi_profile_stats[STAT_MASKED]);
	} else {
		__this_cpu_inc(nmi_profile_stats[STAT_KERNEL]);
		if (!profile_hit_direct((void *)profile_pc(regs)))
			__this_cpu_inc(nmi_profile_stats[STAT_CLAMPED]);
	}
	return NMI_HANDLED;
}

static int nmi_profile_set(int on)
{
	int ret;

	lockdep_assert_held(&nmi_profile_mutex);

	if (on == nmi_profile_on)
		return 0;

	if (!on) {
		/* Waits for handlers that are still running. */
		unregister_nmi_handler(NMI_UNKNOWN, "nmi_profile");
		profile_pause_ticks(false);
		profile_release();
		nmi_profile_on = 0;
		return 0;
	}

	ret = profile_claim(CPU_PROFILING, "nmi_profile");
	if (ret)
		return ret;
	profile_pause_ticks(true);
	/* NMIs with a known reason stay with those who know it. */
	ret = register_nmi_handler(NMI_UNKNOWN, nmi_profile_sample, 0,
				   "nmi_profile");
	if (ret) {
		profile_pause_ticks(false);
		profile_release();
		return ret;
	}
	nmi_profile_on = 1;
	/* Now, and not with each of them: that would cost more than a sample. */
	pr_notice("NMIs of unknown reason are samples now, and not reported\n");
	return 0;
}

static int nmi_profile_proc(profile_ctl_table *table, int write, void *buffer,
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

	mutex_lock(&nmi_profile_mutex);
	on = nmi_profile_on;
	ret = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);
	if (!ret && write)
		ret = nmi_profile_set(on);
	mutex_unlock(&nmi_profile_mutex);

	return ret;
}

static int nmi_profile_stats_proc(profile_ctl_table *table, int write,
				  void *buffer, size_t *lenp, loff_t *ppos)
{
	unsigned long sum[NR_NMI_PROFILE_STATS] = { };
	struct ctl_table t = {
		.data	= sum,
		.maxlen	= sizeof(sum),
		.mode	= table->mode,
	};
	int cpu, i;

	for_each_possible_cpu(cpu)
		for (i = 0; i < NR_NMI_PROFILE_STATS; i++)
			sum[i] += READ_ONCE(per_cpu(nmi_profile_stats, cpu)[i]);

	return proc_doulongvec_minmax(&t, write, buffer, lenp, ppos);
}

static struct ctl_table nmi_profile_table[] = {
	{
		.procname	= "nmi_profile",
		.mode		= 0644,
		.proc_handler	= nmi_profile_proc,
	},
	{
		.procname	= "nmi_profile_stats",
		.mode		= 0444,
		.proc_handler	= nmi_profile_stats_proc,
	},
	PROFILE_CTL_END
};

static int __init nmi_profile_init(void)
{
	register_sysctl_init("kernel", nmi_profile_table);
	return 0;
}
device_initcall(nmi_profile_init);
