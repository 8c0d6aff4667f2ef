// SPDX-License-Identifier: GPL-2.0
/*
 * A hook at the context switch, for one module at a time.
 *
 * The scheduler calls it with interrupts off, so a grace period that begins
 * after the hook was taken away ends when no CPU can be in it any more.
 */
#include <linux/export.h>
#include <linux/mutex.h>
#include <linux/ppid.h>
#include <linux/rcupdate.h>

DEFINE_STATIC_KEY_FALSE(ppid_key);

static DEFINE_MUTEX(ppid_mutex);
static const struct ppid_hook __rcu *ppid_hook;

void __ppid_switch(struct task_struct *prev, struct task_struct *next)
{
	const struct ppid_hook *hook = rcu_dereference_sched(ppid_hook);

	/* The key and the hook do not change together. */
	if (hook)
		hook->switched(prev, next);
}

/**
 * ppid_hook_register - be called at every context switch from now on
 * @hook: whom to call; must stay until ppid_hook_unregister() has returned
 *
 * Return: 0, or -EBUSY when there is a hook already.
 */
int ppid_hook_register(const struct ppid_hook *hook)
{
	int ret = -EBUSY;

	mutex_lock(&ppid_mutex);
	if (!rcu_access_pointer(ppid_hook)) {
		rcu_assign_pointer(ppid_hook, hook);
		static_branch_enable(&ppid_key);
		ret = 0;
	}
	mutex_unlock(&ppid_mutex);
	return ret;
}
EXPORT_SYMBOL_GPL(ppid_hook_register);

/**
 * ppid_hook_unregister - be called no more
 * @hook: as it was registered; does nothing for another one
 *
 * On return no CPU is in the hook, nor will be: its code may go away.
 */
void ppid_hook_unregister(const struct ppid_hook *hook)
{
	mutex_lock(&ppid_mutex);
	if (rcu_access_pointer(ppid_hook) == hook) {
		static_branch_disable(&ppid_key);
		RCU_INIT_POINTER(ppid_hook, NULL);
		synchronize_rcu();
	}
	mutex_unlock(&ppid_mutex);
}
EXPORT_SYMBOL_GPL(ppid_hook_unregister);
