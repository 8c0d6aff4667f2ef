/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_PPID_H
#define _LINUX_PPID_H

#include <linux/jump_label.h>

struct task_struct;

/**
 * struct ppid_hook - somebody who wants to know of every context switch
 * @switched: called for each switch on the CPU that switches, with interrupts
 *	off and the runqueue locked. @prev has run until now, @next runs from now
 *	on; they differ. It must not wake up, sleep or print.
 */
struct ppid_hook {
	void (*switched)(struct task_struct *prev, struct task_struct *next);
};

#ifdef CONFIG_KREPRO_PPID

DECLARE_STATIC_KEY_FALSE(ppid_key);

void __ppid_switch(struct task_struct *prev, struct task_struct *next);

static inline void ppid_switch(struct task_struct *prev,
			       struct task_struct *next)
{
	if (static_branch_unlikely(&ppid_key))
		__ppid_switch(prev, next);
}

int ppid_hook_register(const struct ppid_hook *hook);
void ppid_hook_unregister(const struct ppid_hook *hook);

#else

static inline void ppid_switch(struct task_struct *prev,
			       struct task_struct *next)
{
}

#endif /* CONFIG_KREPRO_PPID */

#endif /* _LINUX_PPID_H */
