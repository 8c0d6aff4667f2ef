/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Is what is published true? A timer's interrupt knows who was interrupted, and compares the CPU's line with that: idle
 * included, where nobody runs who could look.
 *
 * "verify" is how often, in us; 0 ends it. "verified" are the counts since it began: interrupts in threads, of these
 * wrong, interrupts in the idle task, of these wrong. It is for CPUs that are online when it begins, and does not go on
 * when the device is switched off.
 */
#ifndef PPID_VERIFY_H
#define PPID_VERIFY_H

#include <linux/hrtimer.h>
#include <linux/version.h>

struct ppid_verified {
	u64 threads, threads_wrong, idle, idle_wrong;
};

/* Each CPU's own, written in its interrupts alone. */
static DEFINE_PER_CPU(struct ppid_verified, ppid_verified);
static DEFINE_PER_CPU(struct hrtimer, ppid_verify_timers);
static unsigned int ppid_verify_us;
static cpumask_t ppid_verify_cpus;

static enum hrtimer_restart ppid_verify_tick(struct hrtimer *timer)
{
	struct ppid_verified *counts = this_cpu_ptr(&ppid_verified);
	bool wrong = READ_ONCE(ppid_lines[smp_processor_id()].ids) != ppid_ids(current);

	if (is_idle_task(current)) {
		counts->idle++;
		counts->idle_wrong += wrong;
	} else {
		counts->threads++;
		counts->threads_wrong += wrong;
	}
	hrtimer_forward_now(timer, ns_to_ktime((u64)READ_ONCE(ppid_verify_us) * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void ppid_verify_begin(void *unused)
{
	struct hrtimer *timer = this_cpu_ptr(&ppid_verify_timers);

	*this_cpu_ptr(&ppid_verified) = (struct ppid_verified){ };
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = ppid_verify_tick;
#else
	hrtimer_setup(timer, ppid_verify_tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
#endif
	hrtimer_start(timer, ns_to_ktime((u64)ppid_verify_us * NSEC_PER_USEC), HRTIMER_MODE_REL_PINNED_HARD);
}

/* The parameters' lock is held, here and below. */
static void ppid_verify_stop(void)
{
	unsigned int cpu;

	for_each_cpu(cpu, &ppid_verify_cpus)
		hrtimer_cancel(per_cpu_ptr(&ppid_verify_timers, cpu));
	cpumask_clear(&ppid_verify_cpus);
	ppid_verify_us = 0;
}

static int ppid_set_verify(const char *text, const struct kernel_param *param)
{
	unsigned int us;
	int ret;

	ret = kstrtouint(text, 0, &us);
	if (ret)
		return ret;
	if (us && (us < 10 || us > 1000000 || !ppid_active))
		return -EINVAL;
	ppid_verify_stop();
	if (!us)
		return 0;
	ppid_verify_us = us;
	cpus_read_lock();
	cpumask_copy(&ppid_verify_cpus, cpu_online_mask);
	on_each_cpu(ppid_verify_begin, NULL, 1);
	cpus_read_unlock();
	return 0;
}

static int ppid_get_verified(char *text, const struct kernel_param *param)
{
	struct ppid_verified sum = { };
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		const struct ppid_verified *one = per_cpu_ptr(&ppid_verified, cpu);

		sum.threads += READ_ONCE(one->threads);
		sum.threads_wrong += READ_ONCE(one->threads_wrong);
		sum.idle += READ_ONCE(one->idle);
		sum.idle_wrong += READ_ONCE(one->idle_wrong);
	}
	return sysfs_emit(text, "%llu %llu %llu %llu\n", sum.threads, sum.threads_wrong, sum.idle, sum.idle_wrong);
}

static const struct kernel_param_ops ppid_verify_ops = {
	.set = ppid_set_verify,
	.get = param_get_uint,
};

static const struct kernel_param_ops ppid_verified_ops = {
	.get = ppid_get_verified,
};

module_param_cb(verify, &ppid_verify_ops, &ppid_verify_us, 0600);
MODULE_PARM_DESC(verify, "compare each line with the interrupted thread, every so many us; 0: do not");
module_param_cb(verified, &ppid_verified_ops, NULL, 0400);
MODULE_PARM_DESC(verified, "interrupts in threads, of these wrong, in the idle task, of these wrong");

#endif
