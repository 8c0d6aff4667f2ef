/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _ASM_X86_PAGE_TRACE_H
#define _ASM_X86_PAGE_TRACE_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/sched.h>

struct pt_regs;

#ifdef CONFIG_KREPRO_PAGE_TRACE

DECLARE_STATIC_KEY_FALSE(page_trace_key);

/* The page table that is lent to @tsk, or current, on @mm, or NULL. */
pgd_t *page_trace_pgd(struct mm_struct *mm, struct task_struct *tsk);
bool __page_trace_fault(struct pt_regs *regs, unsigned long *error_code,
			unsigned long address);
void __page_trace_drop(struct mm_struct *mm, unsigned long start,
		       unsigned long end);
void __page_trace_old(struct mm_struct *mm, unsigned long start,
		      unsigned long end);
void __page_trace_unstep(struct pt_regs *regs);
void page_trace_reload(void *unused);

/* Whether tasks can be traced now. */
static __always_inline bool page_trace_enabled(void)
{
	return static_branch_unlikely(&page_trace_key);
}

/*
 * A fault on a user address, interrupts off. True: the access can be
 * repeated. False: the fault is real; @error_code is what the mm's own page
 * table would have given.
 */
static inline bool page_trace_fault(struct pt_regs *regs,
				    unsigned long *error_code,
				    unsigned long address)
{
	return page_trace_enabled() &&
	       __page_trace_fault(regs, error_code, address);
}

/* The page table of @mm changed; a flush of the TLBs follows. */
static inline void page_trace_drop(struct mm_struct *mm, unsigned long start,
				   unsigned long end)
{
	if (page_trace_enabled() &&
	    !hlist_empty(&mm->context.page_trace_tasks))
		__page_trace_drop(mm, start, end);
}

/* Accessed bits of @mm were cleared; no flush of the TLBs follows. */
static inline void page_trace_old(struct mm_struct *mm, unsigned long start,
				  unsigned long end)
{
	if (page_trace_enabled() &&
	    !hlist_empty(&mm->context.page_trace_tasks))
		__page_trace_old(mm, start, end);
}

/* No static key: the trap flag can outlive the trace. */
static inline void page_trace_unstep(struct pt_regs *regs)
{
	if (unlikely(current->page_trace_step))
		__page_trace_unstep(regs);
}

#else

static inline pgd_t *page_trace_pgd(struct mm_struct *mm,
				    struct task_struct *tsk)
{
	return NULL;
}

static __always_inline bool page_trace_enabled(void)
{
	return false;
}

static inline bool page_trace_fault(struct pt_regs *regs,
				    unsigned long *error_code,
				    unsigned long address)
{
	return false;
}

static inline void page_trace_drop(struct mm_struct *mm, unsigned long start,
				   unsigned long end) { }
static inline void page_trace_old(struct mm_struct *mm, unsigned long start,
				  unsigned long end) { }
static inline void page_trace_unstep(struct pt_regs *regs) { }
static inline void page_trace_reload(void *unused) { }

#endif

#endif /* _ASM_X86_PAGE_TRACE_H */
