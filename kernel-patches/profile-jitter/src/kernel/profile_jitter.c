// SPDX-License-Identifier: GPL-2.0
/*
 * Samples for /proc/profile at random moments: one in each period of the tick,
 * which no load can run in step with. McCanne and Torek, "A Randomized Sampling
 * Clock for CPU Utilization Estimation and Code Profiling" (USENIX, 1993).
 */

#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/profile.h>
#include <linux/profile_sysctl.h>
#include <linux/random.h>
#include <linux/rcupdate.h>

#include "profile_jitter.h"

struct profile_jitter {
	struct hrtimer		timer;
	ktime_t			period;		/* when the current one began */
	struct rnd_state	random;
};

DEFINE_STATIC_KEY_FALSE(profile_jittered);

static DEFINE_PER_CPU(struct profile_jitter, profile_jitters);
static DEFINE_MUTEX(profile_jitter_mutex);
static int profile_jitter_state;	/* of CPU hotplug; 0: off */

/* Uniform over the period. */
static ktime_t profile_jitter_moment(struct profile_jitter *jitter)
{
	u64 offset = (u64)prandom_u32_state(&jitter->random) * TICK_NSEC;

	return ktime_add_ns(jitter->period, offset >> 32);
}

static enum hrtimer_restart profile_jitter_fire(struct hrtimer *timer)
{
	struct profile_jitter *jitter;
	ktime_t now = hrtimer_cb_get_time(timer);

	profile_sample(CPU_PROFILING);

	jitter = container_of(timer, struct profile_jitter, timer);
	jitter->period = ktime_add_ns(jitter->period, TICK_NSEC);
	/* Whole periods late: they have no samples, as they had no ticks. */
	if (ktime_sub(now, jitter->period) > TICK_NSEC)
		jitter->period = now;
	hrtimer_set_expires(timer, profile_jitter_moment(jitter));

	return HRTIMER_RESTART;
}

static int profile_jitter_online(unsigned int cpu)
{
	struct profile_jitter *jitter = per_cpu_ptr(&profile_jitters, cpu);

	prandom_seed_state(&jitter->random, get_random_u64());
	jitter->period = ktime_get();
	hrtimer_setup(&jitter->timer, profile_jitter_fire, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_PINNED_HARD);
	hrtimer_start(&jitter->timer, profile_jitter_moment(jitter),
		      HRTIMER_MODE_ABS_PINNED_HARD);

	return 0;
}

static int profile_jitter_offline(unsigned int cpu)
{
	hrtimer_cancel(&per_cpu_ptr(&profile_jitters, cpu)->timer);

	return 0;
}

static int profile_jitter_set(int on)
{
	int ret;

	lockdep_assert_held(&profile_jitter_mutex);

	if (on == !!profile_jitter_state)
		return 0;

	if (!on) {
		cpuhp_remove_state(profile_jitter_state);
		profile_jitter_state = 0;
		static_branch_disable(&profile_jittered);
		profile_release();
		return 0;
	}

	/* Without high resolution the timers would expire in the ticks. */
	if (hrtimer_resolution >= TICK_NSEC)
		return -EOPNOTSUPP;
	ret = profile_claim(CPU_PROFILING, "profile_jitter");
	if (ret)
		return ret;

	static_branch_enable(&profile_jittered);
	/* The tick is an RCU reader: no period has a sample of each kind. */
	synchronize_rcu();
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "profile:jitter",
				profile_jitter_online, profile_jitter_offline);
	if (ret < 0) {
		static_branch_disable(&profile_jittered);
		profile_release();
		return ret;
	}
	profile_jitter_state = ret;

	return 0;
}

static int profile_jitter_proc(profile_ctl_table *table, int write,
			       void *buffer, size_t *lenp, loff_t *ppos)
{
	int on, ret;
	struct ctl_table t = {
		.data	= &on,
		.maxlen	= sizeof(on),
		.mode	= table->mode,
		.extra1	= SYSCTL_ZERO,
		.extra2	= SYSCTL_ONE,
	};

	mutex_lock(&profile_jitter_mutex);
	on = !!profile_jitter_state;
	ret = proc_dointvec_minmax(&t, write, buffer, lenp, ppos);
	if (!ret && write)
		ret = profile_jitter_set(on);
	mutex_unlock(&profile_jitter_mutex);

	return ret;
}

static struct ctl_table profile_jitter_table[] = {
	{
		.procname	= "profile_jitter",
		.mode		= 0644,
		.proc_handler	= profile_jitter_proc,
	},
	PROFILE_CTL_END
};

static int __init profile_jitter_init(void)
{
	register_sysctl_init("kernel", profile_jitter_table);
	return 0;
}
device_initcall(profile_jitter_init);
