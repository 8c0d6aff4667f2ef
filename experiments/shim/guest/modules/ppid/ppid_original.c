// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/ppid_map at the paper's own place, to measure what is wrong with it: its patch calls a module at the end of
 * __schedule() with that function's variable "next". Here a kretprobe is called when __schedule() returns. What "next"
 * holds then is what this call of the function chose, before it switched: a trace point in it is told the same. It was
 * chosen when the thread that now returns was switched out.
 */
#include <linux/kprobes.h>
#include <linux/percpu.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "ppid_map.h"

/* Threads that are in __schedule(): all that sleep. */
enum { PPID_ACTIVE = 4096, PPID_PIDS = 32768 };

/* Of each thread's present or last call: the ids of its "next"; idle tasks have one for each CPU. */
static u64 *ppid_next;
static DEFINE_PER_CPU(u64, ppid_next_of_idle);
static struct tracepoint *ppid_tracepoint;

static u64 *ppid_next_of(struct task_struct *task)
{
	return task->pid ? &ppid_next[task->pid % PPID_PIDS] : this_cpu_ptr(&ppid_next_of_idle);
}

/* Where nothing is switched, "next" is the thread itself. */
static int ppid_enter(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*ppid_next_of(current) = ppid_ids(current);
	return 0;
}
NOKPROBE_SYMBOL(ppid_enter);

static void ppid_switched(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
			  unsigned int prev_state)
{
	*ppid_next_of(prev) = ppid_ids(next);
}

static int ppid_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	unsigned long flags;

	local_irq_save(flags);
	ppid_publish_ids(*ppid_next_of(current));
	local_irq_restore(flags);
	return 0;
}
NOKPROBE_SYMBOL(ppid_return);

static struct kretprobe ppid_probe = {
	.kp.symbol_name = "__schedule",
	.entry_handler = ppid_enter,
	.handler = ppid_return,
	.maxactive = PPID_ACTIVE,
};

static void ppid_find(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "sched_switch"))
		ppid_tracepoint = tracepoint;
}

static int ppid_source_on(void)
{
	int ret;

	for_each_kernel_tracepoint(ppid_find, NULL);
	if (!ppid_tracepoint)
		return -ENODEV;
	ppid_next = vzalloc(PPID_PIDS * sizeof(*ppid_next));
	if (!ppid_next)
		return -ENOMEM;
	ret = tracepoint_probe_register(ppid_tracepoint, ppid_switched, NULL);
	if (ret)
		goto free;
	/* As it was before it was first registered. */
	ppid_probe.kp.addr = NULL;
	ppid_probe.kp.flags = 0;
	ret = register_kretprobe(&ppid_probe);
	if (ret)
		goto unregister;
	return 0;

unregister:
	tracepoint_probe_unregister(ppid_tracepoint, ppid_switched, NULL);
	tracepoint_synchronize_unregister();
free:
	vfree(ppid_next);
	return ret;
}

static void ppid_source_off(void)
{
	unregister_kretprobe(&ppid_probe);
	tracepoint_probe_unregister(ppid_tracepoint, ppid_switched, NULL);
	tracepoint_synchronize_unregister();
	vfree(ppid_next);
}

MODULE_DESCRIPTION("which thread runs on which CPU, as a callback at the end of __schedule() has it");
