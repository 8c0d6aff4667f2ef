// SPDX-License-Identifier: GPL-2.0-only
/*
 * QEMU's TCG, as an AMD machine, ends with "invalid tss type" where a 32-bit guest enters its kernel with a task
 * register that is marked busy (get_ss_esp_from_tss() in its seg_helper.c). On a real CPU that register always is, so
 * KVM says "busy" to who asks for a guest's registers (svm_get_segment()), and takes the same when they are set again:
 * a restored guest has it, and one whose registers were looked at. This takes the mark off as they are set.
 */
#include <linux/kprobes.h>
#include <linux/kvm_host.h>
#include <linux/module.h>

#define TSS_BUSY 2

static int svm_set_segment_pre(struct kprobe *probe, struct pt_regs *regs)
{
	struct kvm_segment *var = (struct kvm_segment *)regs_get_kernel_argument(regs, 1);

	if (regs_get_kernel_argument(regs, 2) == VCPU_SREG_TR)
		var->type &= ~TSS_BUSY;
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "svm_set_segment",
	.pre_handler = svm_set_segment_pre,
};

static int __init tss_init(void)
{
	return register_kprobe(&probe);
}

static void __exit tss_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(tss_init);
module_exit(tss_exit);

MODULE_DESCRIPTION("A task register that QEMU's TCG takes, for guests of KVM on an emulated AMD machine");
MODULE_LICENSE("GPL");
