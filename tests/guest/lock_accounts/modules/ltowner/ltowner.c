// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module whose locks go with it. When it comes, `rounds` times: a reader's lock that a worker lets go of, while the
 * reader's own task waits to have it for writing. On one CPU without preemption the worker runs when that task sleeps,
 * so each of its writes waits.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/workqueue.h>

static unsigned int rounds = 50;
module_param(rounds, uint, 0444);

static DECLARE_RWSEM(owner_rwsem);
static DEFINE_MUTEX(owner_mutex);
static struct work_struct let_go;

static void let_go_of(struct work_struct *work)
{
	up_read_non_owner(&owner_rwsem);
}

/* Not in init's own section, which is freed: then its call sites would have no names. */
static noinline void use_locks(void)
{
	for (unsigned int i = 0; i < rounds; i++) {
		mutex_lock(&owner_mutex);
		down_read_non_owner(&owner_rwsem);
		queue_work_on(raw_smp_processor_id(), system_wq, &let_go);
		down_write(&owner_rwsem);
		up_write(&owner_rwsem);
		mutex_unlock(&owner_mutex);
		flush_work(&let_go);
	}
}

static int __init ltowner_init(void)
{
	INIT_WORK(&let_go, let_go_of);
	use_locks();
	return 0;
}

static void __exit ltowner_exit(void)
{
}

module_init(ltowner_init);
module_exit(ltowner_exit);
MODULE_DESCRIPTION("Readers that another task lets go of, and locks that go with their module");
MODULE_LICENSE("GPL");
