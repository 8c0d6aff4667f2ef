// SPDX-License-Identifier: GPL-2.0-only
/* /dev/ppid_map by a hook in the scheduler: kernel-patches/ppid, the paper's way. */
#include <linux/ppid.h>

#include "ppid_map.h"

static void ppid_switched(struct task_struct *prev, struct task_struct *next)
{
	ppid_publish(next);
}

static const struct ppid_hook ppid_hook = { .switched = ppid_switched };

static int ppid_source_on(void)
{
	return ppid_hook_register(&ppid_hook);
}

static void ppid_source_off(void)
{
	ppid_hook_unregister(&ppid_hook);
}

MODULE_DESCRIPTION("which thread runs on which CPU, by a callback of the scheduler");
