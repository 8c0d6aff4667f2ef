// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hangs a CPU with interrupts off: echo 1 >/sys/module/deaf/parameters/now
 */
#include <linux/irqflags.h>
#include <linux/module.h>

static int hang(const char *value, const struct kernel_param *param)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
	return 0;
}

static const struct kernel_param_ops ops = { .set = hang };
module_param_cb(now, &ops, NULL, 0200);

MODULE_DESCRIPTION("A CPU that hears nothing");
MODULE_LICENSE("GPL");
