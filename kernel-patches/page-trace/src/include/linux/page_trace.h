/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PAGE_TRACE_H
#define _LINUX_PAGE_TRACE_H

#include <linux/jump_label.h>
#include <linux/sched.h>

#ifdef CONFIG_KREPRO_PAGE_TRACE

DECLARE_STATIC_KEY_FALSE(page_trace_key);

void __page_trace_fork(struct task_struct *child, unsigned long clone_flags);
void __page_trace_exec(struct mm_struct *old_mm);
void __page_trace_exit(void);
bool __page_trace_unsafe(void);

/* @tsk is a copy of another task. */
static inline void page_trace_task_init(struct task_struct *tsk)
{
	tsk->page_trace = NULL;
	tsk->page_trace_step = 0;
}

/* @child is complete and has not run yet. */
static inline void page_trace_fork(struct task_struct *child,
				   unsigned long clone_flags)
{
	if (static_branch_unlikely(&page_trace_key))
		__page_trace_fork(child, clone_flags);
}

/* current runs on a new mm; @old_mm still exists. */
static inline void page_trace_exec(struct mm_struct *old_mm)
{
	if (static_branch_unlikely(&page_trace_key))
		__page_trace_exec(old_mm);
}

/* current is traced by somebody who must not see more than it may itself. */
static inline bool page_trace_unsafe(void)
{
	return static_branch_unlikely(&page_trace_key) && __page_trace_unsafe();
}

/* current will not touch its memory any more and is about to let go of it. */
static inline void page_trace_exit(void)
{
	if (static_branch_unlikely(&page_trace_key))
		__page_trace_exit();
}

#else

static inline void page_trace_task_init(struct task_struct *tsk) { }
static inline void page_trace_fork(struct task_struct *child,
				   unsigned long clone_flags) { }
static inline void page_trace_exec(struct mm_struct *old_mm) { }
static inline bool page_trace_unsafe(void) { return false; }
static inline void page_trace_exit(void) { }

#endif

#endif /* _LINUX_PAGE_TRACE_H */
