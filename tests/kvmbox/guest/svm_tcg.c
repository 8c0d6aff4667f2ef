// SPDX-License-Identifier: GPL-2.0-only
/*
 * What KVM must do otherwise where the AMD machine under it is QEMU's TCG (read in QEMU 7.2).
 *
 * Busy task registers. QEMU ends with "invalid tss type" where a 32-bit guest enters its kernel with a task register
 * that is marked busy (get_ss_esp_from_tss() in its seg_helper.c). On a real CPU that register always is, so KVM says
 * "busy" to who asks for a guest's registers (svm_get_segment()), and takes the same when they are set again: a
 * restored guest has it, and one whose registers were looked at. The mark is taken off as they are set.
 *
 * Interrupts given twice. VMRUN with an external interrupt to inject leaves its vector in QEMU's exception_index
 * (helper_vmrun() in its svm_helper.c). If QEMU then leaves the guest's code for a reason of its own, say a timer of
 * another CPU, before the guest's next exit, it takes the vector for an exception that nobody has had yet, and gives
 * it again, whether interrupts are off or not: a guest's CPU that has just begun to change its clock waits for itself
 * for ever. Each exit ends that. So a guest with an interrupt to inject is entered with an interrupt of the host's
 * pending, which lets it exit before its next instruction.
 */
#include <linux/kprobes.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <asm/svm.h>

#define TSS_BUSY 2

/* The beginning of KVM's struct vcpu_svm, which is in none of its headers. */
struct vcpu_svm_head {
	struct kvm_vcpu vcpu;
	struct vmcb *vmcb;
};

static int svm_set_segment_pre(struct kprobe *probe, struct pt_regs *regs)
{
	struct kvm_segment *var = (struct kvm_segment *)regs_get_kernel_argument(regs, 1);

	if (regs_get_kernel_argument(regs, 2) == VCPU_SREG_TR)
		var->type &= ~TSS_BUSY;
	return 0;
}

/* Interrupts are off here, so what this CPU sends itself is pending until the guest is entered. */
static int svm_vcpu_run_pre(struct kprobe *probe, struct pt_regs *regs)
{
	struct vcpu_svm_head *svm = (struct vcpu_svm_head *)regs_get_kernel_argument(regs, 0);
	u32 mask = SVM_EVTINJ_VALID | SVM_EVTINJ_TYPE_MASK;

	if ((svm->vmcb->control.event_inj & mask) == (SVM_EVTINJ_VALID | SVM_EVTINJ_TYPE_INTR))
		smp_send_reschedule(smp_processor_id());
	return 0;
}

static struct kprobe set_segment = {
	.symbol_name = "svm_set_segment",
	.pre_handler = svm_set_segment_pre,
};

static struct kprobe vcpu_run = {
	.symbol_name = "svm_vcpu_run",
	.pre_handler = svm_vcpu_run_pre,
};

static struct kprobe *probes[] = { &set_segment, &vcpu_run };

static int __init svm_init(void)
{
	return register_kprobes(probes, ARRAY_SIZE(probes));
}

static void __exit svm_exit(void)
{
	unregister_kprobes(probes, ARRAY_SIZE(probes));
}

module_init(svm_init);
module_exit(svm_exit);

MODULE_DESCRIPTION("What QEMU's TCG needs of KVM on an emulated AMD machine");
MODULE_LICENSE("GPL");
