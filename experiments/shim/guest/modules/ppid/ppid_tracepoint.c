// SPDX-License-Identifier: GPL-2.0-only
/* /dev/ppid_map by the trace point sched_switch, which an unpatched kernel has. */
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "ppid_map.h"

static struct tracepoint *ppid_tracepoint;

static void ppid_switched(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
			  unsigned int prev_state)
{
	ppid_publish(next);
}

/* The compiler tells when the trace point has other arguments. */
static void __maybe_unused ppid_check(void)
{
	check_trace_callback_type_sched_switch(ppid_switched);
}

static void ppid_find(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "sched_switch"))
		ppid_tracepoint = tracepoint;
}

/* It is not exported to modules by name. */
static int ppid_source_on(void)
{
	for_each_kernel_tracepoint(ppid_find, NULL);
	if (!ppid_tracepoint)
		return -ENODEV;
	return tracepoint_probe_register(ppid_tracepoint, ppid_switched, NULL);
}

static void ppid_source_off(void)
{
	tracepoint_probe_unregister(ppid_tracepoint, ppid_switched, NULL);
	/* Probes run with preemption off, under RCU: this waits for them. */
	tracepoint_synchronize_unregister();
}

MODULE_DESCRIPTION("which thread runs on which CPU, by the trace point sched_switch");
