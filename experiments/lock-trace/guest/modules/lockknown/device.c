// SPDX-License-Identifier: GPL-2.0-only
/*
 * lockknown: locks whose use is known. A program asks for a scenario by ioctl on /dev/lockknown (lockknown.h); threads
 * of the module carry it out and count exactly what they did to which lock, without any lock of the kernel's for the
 * counting. When the ioctl comes back, read() on the same file gives the counts: tab-separated, a line per lock and
 * way to take it (see known_report()).
 *
 * conflicts are attempts and trylocks that certainly met somebody who held or waited for the lock, and
 * conflicts_most adds those that may have; depth is the most that certainly were there before one.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "known.h"

/* One scenario at a time. A bit, not a lock: it is to be in no trace. */
static unsigned long busy;

static int (*const scenarios[])(struct lockknown_setup *setup, char **report) = {
	[LOCKKNOWN_LOAD] = known_load,
	[LOCKKNOWN_NESTED] = known_nested,
	[LOCKKNOWN_IRQ] = known_irqs,
	[LOCKKNOWN_TRYLOCK] = known_trylock,
	[LOCKKNOWN_ABANDON] = known_abandon,
	[LOCKKNOWN_NONOWNER] = known_nonowner,
	[LOCKKNOWN_RECURSION] = known_recursion,
	[LOCKKNOWN_DOUBLE] = known_double,
	[LOCKKNOWN_REUSE] = known_reuse,
	[LOCKKNOWN_MIGRATE] = known_migrate,
	[LOCKKNOWN_CHAIN] = known_chain,
	[LOCKKNOWN_HOLD] = known_hold,
	[LOCKKNOWN_RELEASE] = known_release,
};

static long run(struct file *file, struct lockknown_setup __user *user)
{
	struct lockknown_setup setup;
	char *report = NULL;
	long error;

	if (copy_from_user(&setup, user, sizeof(setup)))
		return -EFAULT;
	if (setup.scenario >= LOCKKNOWN_SCENARIOS || setup.kind >= LOCKKNOWN_KINDS || !setup.threads ||
	    setup.threads > LOCKKNOWN_MAX_THREADS || setup.reserved)
		return -EINVAL;
	if (known_is_held() && setup.scenario != LOCKKNOWN_RELEASE)
		return -EBUSY;
	setup.begin = setup.end = setup.elapsed_ns = setup.done = 0;
	error = scenarios[setup.scenario](&setup, &report);
	kfree(file->private_data);
	file->private_data = report;
	if (copy_to_user(user, &setup, sizeof(setup)))
		return -EFAULT;
	return error;
}

static long pairs(const struct lockknown_pair_setup __user *user)
{
	struct lockknown_pair_setup setup;

	if (copy_from_user(&setup, user, sizeof(setup)))
		return -EFAULT;
	return known_is_held() ? -EBUSY : known_pairs(&setup);
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	long answer;

	if (test_and_set_bit_lock(0, &busy))
		return -EBUSY;
	switch (command) {
	case LOCKKNOWN_RUN:
		answer = run(file, (void __user *)argument);
		break;
	case LOCKKNOWN_PAIR:
		answer = pairs((void __user *)argument);
		break;
	default:
		answer = -ENOTTY;
	}
	clear_bit_unlock(0, &busy);
	return answer;
}

static int device_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;	/* where misc_open() leaves the device */
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static ssize_t device_read(struct file *file, char __user *buffer, size_t size, loff_t *position)
{
	const char *report;
	ssize_t answer;

	if (test_and_set_bit_lock(0, &busy))
		return -EBUSY;
	report = file->private_data;
	answer = report ? simple_read_from_buffer(buffer, size, position, report, strlen(report)) : 0;
	clear_bit_unlock(0, &busy);
	return answer;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.read = device_read,
	.unlocked_ioctl = device_ioctl,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	.llseek = no_llseek,
#endif
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lockknown",
	.mode = 0600,
	.fops = &operations,
};

static int __init lockknown_init(void)
{
	known_init_locks();
	return misc_register(&device);
}

static void __exit lockknown_exit(void)
{
	misc_deregister(&device);
	known_forget_held();
}

module_init(lockknown_init);
module_exit(lockknown_exit);
MODULE_DESCRIPTION("Locks whose use is known");
MODULE_LICENSE("GPL");
