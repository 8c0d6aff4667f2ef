// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace: hooks and device, see Documentation/locking/lock-trace.rst.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include <asm/tsc.h>

#include "lock_trace.h"

DEFINE_STATIC_KEY_FALSE(lock_trace_key);
EXPORT_SYMBOL(lock_trace_key);
/* Never on while that is off: of trylocks it is the only one. */
DEFINE_STATIC_KEY_FALSE(lock_trace_every_key);
EXPORT_SYMBOL(lock_trace_every_key);

DEFINE_PER_CPU(struct lock_trace_counts, lock_trace_counts);

static const struct lock_trace_arm *lock_trace_arm;	/* NULL: hooks do nothing */
u32 lock_trace_session;

u8 lock_trace_context(u32 raw)
{
	u8 context = raw & LOCK_TRACE_RAW_IRQS_OFF ? LOCK_TRACE_IRQS_OFF : 0;

	if (raw & NMI_MASK)
		return context | LOCK_TRACE_IN_NMI;
	if (raw & HARDIRQ_MASK)
		return context | LOCK_TRACE_IN_IRQ;
	if (raw & SOFTIRQ_OFFSET)
		return context | LOCK_TRACE_IN_SOFTIRQ;
	return context | LOCK_TRACE_IN_TASK;
}

void lock_trace_fill(struct lock_trace_call *call, unsigned long lock, u8 kind,
		     u8 type, unsigned long site)
{
	call->lock = lock;
	call->site = site;
	call->time = get_cycles();
	call->order = 0;
	call->entry = NULL;
	call->index = 0;
	call->sequence = 0;
	call->depth = 0;
	call->pid = current->pid;
	call->cpu = raw_smp_processor_id();
	call->kind = kind;
	call->type = type;
	call->context = lock_trace_context(lock_trace_context_raw());
	call->flags = 0;
}

/* -- hooks ------------------------------------------------------------------- */

/* Between enter and leave preemption is off: what is the CPU's stays the CPU's. */
static __always_inline const struct lock_trace_arm *lock_trace_enter(void)
{
	preempt_disable_notrace();
	return READ_ONCE(lock_trace_arm);
}

static __always_inline void lock_trace_leave(void)
{
	preempt_enable_notrace();
}

/*
 * What began in an earlier trace ends without being an event of this one. While
 * preemption is off, no other trace begins.
 */
static __always_inline bool lock_trace_of_session(u32 session)
{
	return session && session == READ_ONCE(lock_trace_session);
}

void lock_trace_attempt(struct lock_trace_attempt *attempt, void *lock,
			u8 type, unsigned long site)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	attempt->session = 0;
	attempt->kept = false;
	attempt->entry = NULL;
	if (likely(arm)) {
		attempt->session = lock_trace_session;
		if (arm->attempt)
			arm->attempt(attempt, (unsigned long)lock, type, site);
	}
	lock_trace_leave();
}

void lock_trace_waits(struct lock_trace_attempt *attempt, void *lock, u8 type,
		      unsigned long site)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (arm && lock_trace_of_session(attempt->session)) {
		attempt->kept = true;
		arm->waits(attempt, (unsigned long)lock, type, site);
	}
	lock_trace_leave();
}

void lock_trace_acquired(struct lock_trace_attempt *attempt, void *lock,
			 u8 type, unsigned long site)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (likely(arm && lock_trace_of_session(attempt->session)))
		arm->acquired(attempt, (unsigned long)lock, type, site);
	lock_trace_leave();
}

void lock_trace_abandoned(struct lock_trace_attempt *attempt, void *lock,
			  u8 type, unsigned long site)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (arm && lock_trace_of_session(attempt->session))
		arm->abandoned(attempt, (unsigned long)lock, type, site);
	lock_trace_leave();
}

void lock_trace_tried(void *lock, u8 type, unsigned long site, bool got)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (likely(arm))
		arm->other((unsigned long)lock,
			   got ? LOCK_TRACE_ACQUIRED : LOCK_TRACE_FAILED, type, site,
			   got ? LOCK_TRACE_TRY : 0);
	lock_trace_leave();
}
EXPORT_SYMBOL(lock_trace_tried);

void lock_trace_unlock(struct lock_trace_end *end, void *lock, u8 type,
		       unsigned long site)
{
	end->arm = lock_trace_enter();
	end->holds = NULL;
	if (likely(end->arm))
		end->arm->release(end, (unsigned long)lock, type, site);
	/* Preemption stays off, so that the trace does not end before this does. */
}

/* The lock is free, and its memory may be too: its address is all there is. */
void lock_trace_unlocked(struct lock_trace_end *end, void *lock, u8 type)
{
	if (end->holds) {
		/* The others can get it; then they are asked whether they waited. */
		smp_mb();
		end->arm->released(end, (unsigned long)lock, type);
	}
	lock_trace_leave();
}

/* See LOCK_TRACE_LET_GO(). */
void lock_trace_awaited(void *lock, u8 type, unsigned long site, u32 since,
			u64 time)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (arm && arm->awaited)
		arm->awaited((unsigned long)lock, type, site, since, time);
	lock_trace_leave();
}

/* One that leaves the lock taken: a downgrade. */
void lock_trace_release(void *lock, u8 type, unsigned long site)
{
	struct lock_trace_end end;

	lock_trace_unlock(&end, lock, type, site);
	lock_trace_unlocked(&end, lock, type);
}
EXPORT_SYMBOL(lock_trace_release);

void __lock_trace_init(void *lock, u8 type, unsigned long site)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (arm)
		arm->other((unsigned long)lock, LOCK_TRACE_INIT, type, site, 0);
	lock_trace_leave();
}
EXPORT_SYMBOL(__lock_trace_init);

void __lock_trace_forget(struct task_struct *task)
{
	const struct lock_trace_arm *arm = lock_trace_enter();

	if (arm && arm->forget)
		arm->forget(task);
	lock_trace_leave();
}

/* An event from elsewhere than a hook, while hooks do nothing. */
void lock_trace_log(void *lock, u8 kind, u8 type, unsigned long site, u16 flags)
{
	struct lock_trace_call call;

	preempt_disable_notrace();
	lock_trace_count(kinds[kind], 1);
	lock_trace_fill(&call, (unsigned long)lock, kind, type, site);
	call.flags = flags;
	lock_trace_keep(LOCK_TRACE_STREAM_LOG, &call, 0);
	preempt_enable_notrace();
}

/* -- the arm that keeps every event -------------------------------------------- */

static void lock_trace_all_other(unsigned long lock, u8 kind, u8 type,
				 unsigned long site, u16 flags)
{
	struct lock_trace_call call;

	lock_trace_count(kinds[kind], 1);
	lock_trace_fill(&call, lock, kind, type, site);
	call.flags = flags;
	lock_trace_keep(LOCK_TRACE_STREAM_LOG, &call, 0);
}

static void lock_trace_all_attempt(struct lock_trace_attempt *attempt,
				   unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_all_other(lock, LOCK_TRACE_ATTEMPT, type, site, 0);
}

static void lock_trace_all_waits(struct lock_trace_attempt *attempt,
				 unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_all_other(lock, LOCK_TRACE_WAITS, type, site, 0);
}

static void lock_trace_all_acquired(struct lock_trace_attempt *attempt,
				    unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_all_other(lock, LOCK_TRACE_ACQUIRED, type, site, 0);
}

static void lock_trace_all_abandoned(struct lock_trace_attempt *attempt,
				     unsigned long lock, u8 type, unsigned long site)
{
	lock_trace_all_other(lock, LOCK_TRACE_ABANDONED, type, site, 0);
}

static void lock_trace_all_release(struct lock_trace_end *end, unsigned long lock,
				   u8 type, unsigned long site)
{
	lock_trace_all_other(lock, LOCK_TRACE_RELEASE, type, site, 0);
}

const struct lock_trace_arm lock_trace_all = {
	.attempt = lock_trace_all_attempt,
	.waits = lock_trace_all_waits,
	.acquired = lock_trace_all_acquired,
	.abandoned = lock_trace_all_abandoned,
	.release = lock_trace_all_release,
	.other = lock_trace_all_other,
};

/* -- start and stop -------------------------------------------------------------- */

static const struct lock_trace_arm *const lock_trace_arms[LOCK_TRACE_ARMS] = {
	[LOCK_TRACE_ALL] = &lock_trace_all,
	[LOCK_TRACE_PAPER] = &lock_trace_paper,
	[LOCK_TRACE_PER_LOCK] = &lock_trace_per_lock,
	[LOCK_TRACE_TRACEPOINT] = &lock_trace_contention,
	[LOCK_TRACE_VALIDATE] = &lock_trace_validate,
	[LOCK_TRACE_CONTENDED] = &lock_trace_contended,
};

/*
 * For all below, and the tables. No mutex: that would be traced, and START itself
 * would hold it, so that a filter which counts holders would be one too low.
 */
static unsigned long lock_trace_control;

void lock_trace_control_begin(void)
{
	wait_on_bit_lock(&lock_trace_control, 0, TASK_UNINTERRUPTIBLE);
}

void lock_trace_control_end(void)
{
	clear_and_wake_up_bit(0, &lock_trace_control);
}

static struct file *lock_trace_owner;
static u32 lock_trace_kind;
static u64 lock_trace_began, lock_trace_ended;
static unsigned long lock_trace_reading;	/* a bit, too */

/* What is on for ever: code is then patched before there are other CPUs. */
static bool lock_trace_hooked, lock_trace_hooked_every;

static void lock_trace_set(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

static void lock_trace_keys(bool on, bool every)
{
	if (on)
		lock_trace_set(&lock_trace_key, true);
	lock_trace_set(&lock_trace_every_key, every);
	if (!on)
		lock_trace_set(&lock_trace_key, false);
}

/*
 * Patching code costs all CPUs an interrupt for each place. The keys go off
 * when no trace has followed for a second.
 */
static void lock_trace_key_off(struct work_struct *work)
{
	lock_trace_control_begin();
	if (!lock_trace_arm)
		lock_trace_keys(lock_trace_hooked, lock_trace_hooked_every);
	lock_trace_control_end();
}

static int __init lock_trace_setup(char *value)
{
	if (!strcmp(value, "contended")) {
		lock_trace_hooked = true;
		return 1;
	}
	if (kstrtobool(value, &lock_trace_hooked))
		return 0;
	lock_trace_hooked_every = lock_trace_hooked;
	return 1;
}
__setup("lock_trace=", lock_trace_setup);

static int __init lock_trace_early_init(void)
{
	lock_trace_keys(lock_trace_hooked, lock_trace_hooked_every);
	return 0;
}
early_initcall(lock_trace_early_init);

static DECLARE_DELAYED_WORK(lock_trace_key_work, lock_trace_key_off);

static int lock_trace_nothing(void *data)
{
	return 0;
}

static u32 lock_trace_order(u32 wanted, u32 otherwise)
{
	return wanted ? wanted : otherwise;
}

static int lock_trace_start(struct file *file, struct lock_trace_setup *setup)
{
	const struct lock_trace_arm *arm;
	int cpu, err;

	if (setup->arm >= LOCK_TRACE_ARMS || !lock_trace_arms[setup->arm] ||
	    setup->reserved)
		return -EINVAL;
	arm = lock_trace_arms[setup->arm];
	setup->ring_order = lock_trace_order(setup->ring_order, 16);
	setup->lock_order = lock_trace_order(setup->lock_order, 16);
	setup->site_order = lock_trace_order(setup->site_order, 15);
	setup->pool_order = lock_trace_order(setup->pool_order, 16);
	if (setup->ring_order > 24 || setup->lock_order > 20 ||
	    setup->site_order > 22 || setup->pool_order > 20)
		return -EINVAL;

	if (lock_trace_owner)
		return -EBUSY;
	err = lock_trace_ring_start(setup->ring_order);
	if (!err)
		err = lock_trace_table_start(setup->lock_order, setup->site_order);
	if (err)
		return err;
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&lock_trace_counts, cpu), 0,
		       sizeof(struct lock_trace_counts));
	if (arm->start) {
		err = arm->start(setup);
		if (err)
			return err;
	}

	lock_trace_kind = setup->arm;
	lock_trace_owner = file;
	/* Hooks look at the session once they see the arm. */
	if (!++lock_trace_session)
		++lock_trace_session;
	lock_trace_ended = 0;
	/* All hooks at once: code is patched place by place. */
	if (arm->acquired)
		lock_trace_keys(true, arm != &lock_trace_contended);
	lock_trace_began = get_cycles();
	if (arm->acquired)
		/* Hooks that see it see rings, tables and session. */
		smp_store_release(&lock_trace_arm, arm);
	return 0;
}

static void lock_trace_stop(void)
{
	const struct lock_trace_arm *arm = lock_trace_arms[lock_trace_kind];

	WRITE_ONCE(lock_trace_arm, NULL);
	if (arm->unhook)
		arm->unhook();
	lock_trace_ended = get_cycles();
	/*
	 * Hooks run where RCU does not watch. A CPU that has run its stopper is
	 * in none that began before. This needs no memory, and cannot fail.
	 */
	stop_machine(lock_trace_nothing, NULL, NULL);
	preempt_disable();
	if (arm->stop)
		arm->stop();
	preempt_enable();
	lock_trace_owner = NULL;
	mod_delayed_work(system_wq, &lock_trace_key_work, HZ);
}

/* -- the device -------------------------------------------------------------------- */

static void lock_trace_fill_status(struct lock_trace_status *status)
{
	u64 undecided = 0;
	int cpu, i;

	status->arm = lock_trace_kind;
	status->running = !!lock_trace_owner;
	status->start = lock_trace_began;
	status->stop = lock_trace_ended;
	status->tsc_khz = tsc_khz;
	for_each_possible_cpu(cpu) {
		const struct lock_trace_counts *counts =
			per_cpu_ptr(&lock_trace_counts, cpu);

		for (i = 0; i < ARRAY_SIZE(counts->kinds); i++) {
			status->kinds[i] += counts->kinds[i];
			status->events += counts->kinds[i];
		}
		for (i = 0; i < LOCK_TRACE_STREAMS; i++) {
			status->kept[i] += counts->kept[i];
			status->dropped[i] += counts->dropped[i];
			status->written[i] += counts->written[i];
			status->lost[i] += counts->lost[i];
		}
		if (counts->first_loss &&
		    (!status->first_loss || counts->first_loss < status->first_loss))
			status->first_loss = counts->first_loss;
		status->untracked += counts->untracked;
		status->nested += counts->nested;
		undecided += counts->undecided;
		status->sites_full += counts->sites_full;
		status->holds_full += counts->holds_full;
	}
	/* The trace is over: an attempt that did not say yet what came of it. */
	if (!status->running && lock_trace_kind == LOCK_TRACE_VALIDATE) {
		status->waiting = undecided;
		status->dropped[LOCK_TRACE_STREAM_PER_LOCK] += undecided;
	}
	/* It takes long, and who samples a trace that runs does not ask for it. */
	if (!status->running)
		lock_trace_table_count(&status->locks, &status->sites);
	lock_trace_paper_pool(&status->pool_peak, &status->pool_full);
}

static long lock_trace_ioctl(struct file *file, unsigned int command,
			     unsigned long arg)
{
	struct lock_trace_status *status;
	struct lock_trace_setup setup;
	long ret;

	switch (command) {
	case LOCK_TRACE_START:
		if (copy_from_user(&setup, (void __user *)arg, sizeof(setup)))
			return -EFAULT;
		if (test_and_set_bit_lock(0, &lock_trace_reading))
			return -EBUSY;
		lock_trace_control_begin();
		ret = lock_trace_start(file, &setup);
		lock_trace_control_end();
		clear_bit_unlock(0, &lock_trace_reading);
		return ret;
	case LOCK_TRACE_STOP:
		lock_trace_control_begin();
		ret = -ENODATA;
		if (lock_trace_owner) {
			lock_trace_stop();
			ret = 0;
		}
		lock_trace_control_end();
		return ret;
	case LOCK_TRACE_STATUS:
		status = kzalloc(sizeof(*status), GFP_KERNEL);
		if (!status)
			return -ENOMEM;
		lock_trace_control_begin();
		lock_trace_fill_status(status);
		lock_trace_control_end();
		ret = copy_to_user((void __user *)arg, status, sizeof(*status)) ?
			-EFAULT : 0;
		kfree(status);
		return ret;
	}
	return -ENOTTY;
}

/*
 * Hooks wake nobody, so a reader looks every 10 ms. Reading takes locks, too,
 * and so makes events of its own: without the wait they would never end.
 */
static ssize_t lock_trace_read(struct file *file, char __user *buf, size_t size,
			       loff_t *pos)
{
	bool running, wait = !(file->f_flags & O_NONBLOCK);
	ssize_t ret;

	if (size < sizeof(struct lock_trace_event))
		return -EINVAL;
	if (test_and_set_bit_lock(0, &lock_trace_reading))
		return -EBUSY;
	do {
		running = READ_ONCE(lock_trace_owner);
		if (running && wait && !lock_trace_ring_filling() &&
		    (msleep_interruptible(10) || signal_pending(current))) {
			ret = -EINTR;
			break;
		}
		ret = lock_trace_ring_read(buf, size);
	} while (!ret && running && wait);
	if (!ret && running)
		ret = -EAGAIN;
	clear_bit_unlock(0, &lock_trace_reading);
	return ret;
}

static int lock_trace_file_release(struct inode *inode, struct file *file)
{
	lock_trace_control_begin();
	if (lock_trace_owner == file)
		lock_trace_stop();
	lock_trace_control_end();
	return 0;
}

static const struct file_operations lock_trace_fops = {
	.owner = THIS_MODULE,
	.read = lock_trace_read,
	.unlocked_ioctl = lock_trace_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.release = lock_trace_file_release,
	.llseek = noop_llseek,
};

static struct miscdevice lock_trace_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lock_trace",
	.fops = &lock_trace_fops,
	.mode = 0600,
};

static int __init lock_trace_device_init(void)
{
	return misc_register(&lock_trace_device);
}
device_initcall(lock_trace_device_init);
