// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/irq_handlers: what the kernel calls for each action in /proc/interrupts, and where it waits when it is idle.
 *
 *	IRQ ADDRESS FUNCTION ACTION
 *	idle ADDRESS FUNCTION
 *
 * Where it waits is seen, not looked up: reading starts a timer and sleeps until that has interrupted an idle CPU. The
 * last line is missing if none was idle within a second.
 */
#include <asm/irq_regs.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define FILE_NAME   "irq_handlers"
#define LOOK_MS	    1
#define PATIENCE_MS 1000

static DEFINE_MUTEX(looking);
static unsigned long idle_at;

static enum hrtimer_restart look(struct hrtimer *timer)
{
	struct pt_regs *regs = get_irq_regs();

	if (regs && is_idle_task(current)) {
		WRITE_ONCE(idle_at, instruction_pointer(regs));
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ms_to_ktime(LOOK_MS));
	return HRTIMER_RESTART;
}

static void show_idle(struct seq_file *file)
{
	struct hrtimer timer;
	int waited;

	mutex_lock(&looking);
	WRITE_ONCE(idle_at, 0);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init_on_stack(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer.function = look;
#else
	hrtimer_setup_on_stack(&timer, look, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#endif
	hrtimer_start(&timer, ms_to_ktime(LOOK_MS), HRTIMER_MODE_REL_HARD);
	for (waited = 0; !READ_ONCE(idle_at) && waited < PATIENCE_MS; waited += 10 * LOOK_MS)
		msleep(10 * LOOK_MS);
	hrtimer_cancel(&timer);
	destroy_hrtimer_on_stack(&timer);
	if (idle_at)
		seq_printf(file, "idle %lx %ps\n", idle_at, (void *)idle_at);
	mutex_unlock(&looking);
}

static void show_actions(struct seq_file *file, unsigned int irq)
{
	struct irq_data *data = irq_get_irq_data(irq);
	struct irqaction *action;
	struct irq_desc *desc;
	unsigned long flags;

	if (!data)
		return;
	desc = irq_data_to_desc(data);
	raw_spin_lock_irqsave(&desc->lock, flags);
	for (action = desc->action; action; action = action->next)
		seq_printf(file, "%u %lx %ps %s\n", irq, (unsigned long)action->handler, action->handler, action->name);
	raw_spin_unlock_irqrestore(&desc->lock, flags);
}

static int show(struct seq_file *file, void *data)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	unsigned int irq, most = nr_irqs;
#else
	unsigned int irq, most = irq_get_nr_irqs();
#endif

	for (irq = 0; irq < most; irq++)
		show_actions(file, irq);
	show_idle(file);
	return 0;
}

static int __init irq_handlers_init(void)
{
	return proc_create_single(FILE_NAME, 0400, NULL, show) ? 0 : -ENOMEM;
}

static void __exit irq_handlers_exit(void)
{
	remove_proc_entry(FILE_NAME, NULL);
}

module_init(irq_handlers_init);
module_exit(irq_handlers_exit);
MODULE_DESCRIPTION("Functions behind the lines of /proc/interrupts");
MODULE_LICENSE("GPL");
