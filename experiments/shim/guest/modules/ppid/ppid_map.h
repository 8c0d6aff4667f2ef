/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * /dev/ppid_map: which thread runs on which CPU now, and what the CPU's
 * counters stood at when it was switched to, one line of 64 bytes per possible
 * CPU, to be mapped for reading. The two modules include this and
 * bring ppid_source_on() and ppid_source_off(), which say where switches are
 * learnt of.
 *
 * A module does nothing until its parameter "active" is 1: at load, or in
 * /sys/module. Only one can have the device: EBUSY for the other.
 *
 * "events" names up to two of perf's hardware events (1,0: instructions and
 * cycles); they are opened on each CPU that is online when "active" becomes 1.
 * The mode is 0400: the device tells everybody's pids and switches.
 */
#ifndef PPID_MAP_H
#define PPID_MAP_H

#include <linux/cpuhotplug.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/timex.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

/* For local use (devices.txt). One number for both modules keeps them apart. */
#define PPID_MINOR 240

/*
 * The writer of a line is its CPU. A reader that takes "done" first and
 * "begun" last, and finds them equal, has fields of one switch.
 */
struct ppid_line {
	u64 ids;	/* pid, and above it tgid; both -1: no thread */
	u64 begun;	/* switches */
	u64 tsc;	/* at the last one; on arm64 the system counter */
	u64 done;	/* switches */
	u64 total[2];	/* what this CPU's counters stood at then */
	u32 slice[2];	/* what of it the outgoing thread counted; -1: more */
	u64 state;	/* of the counters, see PPID_ASKED */
};

/* Of counter i, shifted by 4 i: an event was asked for; it counted at the last switch; and ever since it was opened. */
#define PPID_ASKED 1u
#define PPID_LIVE  2u
#define PPID_WHOLE 4u
/* Why it could not be opened: an errno, at this place. */
#define PPID_ERROR(i) (32 + 16 * (i))
#define PPID_EVENTS 2

#define PPID_NONE (~0ull)

static struct ppid_line *ppid_lines;
static enum cpuhp_state ppid_hotplug;
static bool ppid_active;
static int ppid_events[PPID_EVENTS] = { -1, -1 };

struct ppid_counter {
	struct perf_event *event;
	s64 missed_ns;	/* when it was opened */
	u16 error;
};

static DEFINE_PER_CPU(struct ppid_counter [PPID_EVENTS], ppid_counters);
/* Parameters of the load are read before the module is there. */
static bool ppid_loaded;

static int ppid_source_on(void);
static void ppid_source_off(void);

static __always_inline u64 ppid_ids(struct task_struct *task)
{
	return (u32)task->pid | (u64)task->tgid << 32;
}

/* Time that an event could have counted and did not, since others had its counter: changes when it loses that alone. */
static s64 ppid_missed(const struct perf_event *event)
{
	return READ_ONCE(event->total_time_enabled) - READ_ONCE(event->total_time_running);
}

/*
 * The counters of this CPU, by its own PMU: neither x86 nor arm64 lets another
 * CPU read them. The event is of this CPU and interrupts are off, so nobody
 * else is in its pmu->read().
 */
static void ppid_count(struct ppid_line *line)
{
	struct ppid_counter *counters = *this_cpu_ptr(&ppid_counters);
	u64 state = 0;
	int i;

	for (i = 0; i < PPID_EVENTS; i++) {
		struct perf_event *event = READ_ONCE(counters[i].event);
		u64 flags = 0, now, slice;

		if (counters[i].error)
			state |= (u64)counters[i].error << PPID_ERROR(i) | (u64)PPID_ASKED << 4 * i;
		if (!event)
			continue;
		if (event->state == PERF_EVENT_STATE_ACTIVE && event->oncpu == smp_processor_id()) {
			event->pmu->read(event);
			flags |= PPID_LIVE;
		}
		if (ppid_missed(event) == counters[i].missed_ns)
			flags |= PPID_WHOLE;
		now = local64_read(&event->count);
		slice = now - line->total[i];
		WRITE_ONCE(line->total[i], now);
		WRITE_ONCE(line->slice[i], slice < U32_MAX ? (u32)slice : U32_MAX);
		state |= (flags | PPID_ASKED) << 4 * i;
	}
	WRITE_ONCE(line->state, state);
}

/* On the CPU that switches, with interrupts off. */
static __always_inline void ppid_publish_ids(u64 ids)
{
	struct ppid_line *line = &ppid_lines[smp_processor_id()];
	u64 switches = line->done + 1;

	WRITE_ONCE(line->begun, switches);
	smp_wmb();	/* a reader who sees the new thread sees that */
	WRITE_ONCE(line->ids, ids);
	WRITE_ONCE(line->tsc, get_cycles());
	ppid_count(line);
	smp_wmb();	/* and all of it when it sees this */
	WRITE_ONCE(line->done, switches);
}

static __always_inline void ppid_publish(struct task_struct *next)
{
	ppid_publish_ids(ppid_ids(next));
}

/* The thread that a CPU runs until its first switch. No switch comes between: interrupts are off. */
static void ppid_publish_current(void *unused)
{
	struct ppid_line *line = &ppid_lines[smp_processor_id()];

	if (READ_ONCE(line->ids) != PPID_NONE)
		return;
	WRITE_ONCE(line->tsc, get_cycles());
	ppid_count(line);
	WRITE_ONCE(line->ids, ppid_ids(current));
}

/* Called by another CPU when this one is dead: it switches no more. */
static int ppid_cpu_dead(unsigned int cpu)
{
	WRITE_ONCE(ppid_lines[cpu].ids, PPID_NONE);
	return 0;
}

static int ppid_open(struct inode *inode, struct file *file)
{
	return file->f_mode & FMODE_WRITE ? -EACCES : 0;
}

static int ppid_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	/* Neither mprotect() nor a private copy later. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, VM_MAYWRITE);
#else
	vma->vm_flags &= ~VM_MAYWRITE;
#endif
	return remap_vmalloc_range(vma, ppid_lines, vma->vm_pgoff);
}

/* The owner pins the module for each open file, and a map holds its file. */
static const struct file_operations ppid_fops = {
	.owner = THIS_MODULE,
	.open = ppid_open,
	.mmap = ppid_mmap,
};

static struct miscdevice ppid_device = {
	.minor = PPID_MINOR,
	.name = "ppid_map",
	.fops = &ppid_fops,
	.mode = 0400,
};

static void ppid_clear(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		WRITE_ONCE(ppid_lines[cpu].ids, PPID_NONE);
}

/* Events of a CPU that is offline now, or comes back later, are not there; its line says so. */
static void ppid_open_counters(void)
{
	unsigned int cpu;
	int i;

	for_each_online_cpu(cpu) {
		struct ppid_counter *counters = per_cpu(ppid_counters, cpu);

		for (i = 0; i < PPID_EVENTS; i++) {
			struct perf_event_attr attr = {
				.type = PERF_TYPE_HARDWARE,
				.size = sizeof(attr),
				.config = ppid_events[i],
			};
			struct perf_event *event;

			if (ppid_events[i] < 0)
				continue;
			event = perf_event_create_kernel_counter(&attr, cpu, NULL, NULL, NULL);
			counters[i].error = IS_ERR(event) ? -PTR_ERR(event) : 0;
			if (IS_ERR(event))
				continue;
			counters[i].missed_ns = ppid_missed(event);
			WRITE_ONCE(counters[i].event, event);
		}
	}
}

/* Nobody publishes any more. */
static void ppid_close_counters(void)
{
	unsigned int cpu;
	int i;

	for_each_possible_cpu(cpu) {
		struct ppid_counter *counters = per_cpu(ppid_counters, cpu);

		for (i = 0; i < PPID_EVENTS; i++) {
			if (counters[i].event)
				perf_event_release_kernel(counters[i].event);
			counters[i] = (struct ppid_counter){ };
		}
	}
}

#include "ppid_verify.h"

static int ppid_on(void)
{
	int ret;

	/* First: it fails for the second module before anything is changed. */
	ret = misc_register(&ppid_device);
	if (ret)
		return ret;
	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "ppid:dead", NULL, ppid_cpu_dead);
	if (ret < 0)
		goto deregister;
	ppid_hotplug = ret;
	ppid_open_counters();
	ret = ppid_source_on();
	if (ret)
		goto remove;
	on_each_cpu(ppid_publish_current, NULL, 1);
	return 0;

remove:
	ppid_close_counters();
	cpuhp_remove_state_nocalls(ppid_hotplug);
deregister:
	misc_deregister(&ppid_device);
	return ret;
}

static void ppid_off(void)
{
	misc_deregister(&ppid_device);
	ppid_verify_stop();
	/* On return no CPU is in ppid_publish(). */
	ppid_source_off();
	ppid_close_counters();
	cpuhp_remove_state_nocalls(ppid_hotplug);
	/* Whoever has it mapped reads on: nothing is known of any CPU now. */
	ppid_clear();
}

/* The kernel holds the lock of the module's parameters. */
static int ppid_set_active(const char *text, const struct kernel_param *param)
{
	bool wanted;
	int ret;

	ret = kstrtobool(text, &wanted);
	if (ret)
		return ret;
	if (ppid_loaded && wanted != ppid_active) {
		ret = 0;
		if (wanted)
			ret = ppid_on();
		else
			ppid_off();
		if (ret)
			return ret;
	}
	ppid_active = wanted;
	return 0;
}

static const struct kernel_param_ops ppid_active_ops = {
	.set = ppid_set_active,
	.get = param_get_bool,
};

module_param_cb(active, &ppid_active_ops, &ppid_active, 0644);
module_param_array_named(events, ppid_events, int, NULL, 0644);
MODULE_PARM_DESC(events, "hardware events to count from the next activation on, as perf numbers them; -1: none");
MODULE_PARM_DESC(active, "publish threads in /dev/ppid_map");

static int __init ppid_init(void)
{
	int ret = 0;

	ppid_lines = vmalloc_user(PAGE_ALIGN(nr_cpu_ids * sizeof(*ppid_lines)));
	if (!ppid_lines)
		return -ENOMEM;
	ppid_clear();
	kernel_param_lock(THIS_MODULE);
	if (ppid_active)
		ret = ppid_on();
	ppid_loaded = !ret;
	kernel_param_unlock(THIS_MODULE);
	if (ret)
		vfree(ppid_lines);
	return ret;
}

/* Not while somebody has a map: that holds the module. */
static void __exit ppid_exit(void)
{
	/* The parameter's file outlives this: what is written there from here on does nothing. */
	kernel_param_lock(THIS_MODULE);
	if (ppid_active)
		ppid_off();
	ppid_loaded = false;
	kernel_param_unlock(THIS_MODULE);
	vfree(ppid_lines);
}

module_init(ppid_init);
module_exit(ppid_exit);
MODULE_LICENSE("GPL");

#endif
