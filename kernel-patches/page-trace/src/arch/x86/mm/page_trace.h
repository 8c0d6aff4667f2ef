/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _X86_MM_PAGE_TRACE_H
#define _X86_MM_PAGE_TRACE_H

#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/ptrace.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <uapi/linux/page_trace.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define no_llseek NULL
#endif

/*
 * Page table pages of one task. When they are used up, it starts again with an
 * empty page table. What one instruction needs must fit: a gather of 16
 * elements with four tables each, and the code.
 */
#define PAGE_TRACE_POOL		96

/* task_struct.page_trace_step */
#define PAGE_TRACE_STEP_ON	BIT(0)	/* an instruction is being stepped over */
#define PAGE_TRACE_STEP_OWN	BIT(1)	/* and nobody else had set its trap flag */
#define PAGE_TRACE_STEP_PUSHF	BIT(2)	/* and it pushes the flags */
#define PAGE_TRACE_STEP_POPF	BIT(3)	/* and it loads them */

/**
 * struct page_trace - one trace, from PAGE_TRACE_START to the file's end
 * @tasks:	struct page_trace_task.list; page_trace_lock
 * @started:	there was a PAGE_TRACE_START; page_trace_mutex
 * @running:	and it has not been stopped; page_trace_mutex
 * @privileged:	whoever started it may trace any process
 * @window:	data pages that stay accessible
 * @flags:	PAGE_TRACE_FOLLOW, PAGE_TRACE_CODE, PAGE_TRACE_WROTE
 * @start_ns:	ktime_get_mono_fast_ns() at the start
 * @ns:		for the tids in records
 * @gone:	counts of tasks that are traced no longer; page_trace_lock
 * @ring:	mapped by the reader, who may write anything into it
 * @ring_lock:	serialises writers of @ring; protects the next four
 * @head:	records written
 * @next_wake:	@head at which the reader is woken next
 * @records:	size of the ring
 * @other_lost:	records other than visits that found the ring full
 * @unreported:	visits lost since the last record
 * @wake:	wakes the reader from any context
 * @wait:	the reader
 */
struct page_trace {
	struct list_head	tasks;
	bool			started;
	bool			running;
	bool			privileged;
	u32			window;
	u32			flags;
	u64			start_ns;
	struct pid_namespace	*ns;
	struct page_trace_stats	gone;

	struct page_trace_ring	*ring;
	raw_spinlock_t		ring_lock;
	u64			head;
	u64			next_wake;
	u32			records;
	u64			other_lost;
	atomic_t		unreported;

	struct irq_work		wake;
	wait_queue_head_t	wait;
};

/**
 * struct page_trace_task - a traced task's page table, in effect a TLB in software
 * @lock:	protects all that follows but the lists; interrupts off
 * @mm:		whose entries are copied
 * @mm_list:	in mm_context_t.page_trace_tasks of @mm; page_trace_tasks_lock
 * @shadow:	has no memory but owns the page table that CR3 points to
 * @trace:	where records go
 * @list:	in page_trace.tasks; page_trace_lock
 * @task:	the task; on @list it exists
 * @tid:	its number for the records
 * @stats:	its counts
 * @first:	index of the oldest of @page
 * @pages:	number of data pages that are accessible
 * @page:	their addresses, a ring; bit 0: the visit began with a write
 * @last:	registers at the last visit
 * @last_valid:	@last is of an instruction that may not have completed
 * @kept:	@last is of a string instruction that kept its pages
 * @restarted:	@last faults again from its first page on
 * @gone:	pages taken away by the last visit
 * @n_gone:	how many
 * @user:	registers at the last visit of user mode before the kernel's
 * @again:	its instruction had not completed when the kernel was entered
 * @pool_used:	page table pages in use
 * @leaf:	which of them hold entries of pages
 * @pool:	all page table pages
 */
struct page_trace_task {
	raw_spinlock_t		lock;
	struct mm_struct	*mm;
	struct hlist_node	mm_list;
	struct mm_struct	*shadow;
	struct page_trace	*trace;
	struct list_head	list;
	struct task_struct	*task;
	pid_t			tid;
	struct page_trace_stats	stats;

	unsigned int		first;
	unsigned int		pages;
	unsigned long		page[PAGE_TRACE_MAX_WINDOW];

	struct pt_regs		last;
	bool			last_valid;
	bool			kept;
	bool			restarted;
	unsigned int		n_gone;
	unsigned long		gone[PAGE_TRACE_MAX_WINDOW];
	struct pt_regs		user;
	bool			again;

	unsigned int		pool_used;
	DECLARE_BITMAP(leaf, PAGE_TRACE_POOL);
	unsigned long		pool[PAGE_TRACE_POOL];
};

struct page_trace_task *page_trace_alloc(void);
void page_trace_free(struct page_trace_task *pt);
void page_trace_bind(struct page_trace_task *pt, struct mm_struct *mm);

bool page_trace_record(struct page_trace *trace, unsigned int flags,
		       u64 page, pid_t tid, unsigned long ip);
void page_trace_attach(struct page_trace *trace, struct page_trace_task *pt,
		       struct task_struct *task, pid_t parent);
void page_trace_detach(struct page_trace_task *pt);

#define PAGE_TRACE_TYPE(type)	((PAGE_TRACE_T_##type) << 8)

#endif /* _X86_MM_PAGE_TRACE_H */
