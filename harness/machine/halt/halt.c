// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keeps the virtual clock exact where a CPU goes idle.
 *
 * With icount and sleep=off, QEMU's main loop moves the clock to the next timer as soon as it sees all CPUs halted:
 * it adds what is left until then to the instructions executed so far (icount_start_warp_timer). But hlt sets
 * `halted` in the CPU's thread some way before that thread accounts for the instructions it has just executed
 * (icount_process_data). A main loop that is woken in between adds to a count that is too low, and the clock ends up
 * late by those instructions: rare, and a matter of the host's load. So have them accounted for before hlt runs.
 * The second accounting then finds nothing left.
 *
 * A block's instructions are taken off the budget when it begins, and hlt and mwait (arm64: wfi) end their blocks: in
 * their callback the count is exact.
 */
#include "tlb.h"

#include <stdio.h>
#include <string.h>

WEAK void icount_update(void *cpu);

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static void on_halt(unsigned int cpu, void *data)
{
	(void)data;
	icount_update(qemu_get_cpu((int)cpu));
}

#ifdef GUEST_ARM64
static bool halts(const uint8_t *code, size_t size)
{
	static const uint8_t wfi[] = { 0x7f, 0x20, 0x03, 0xd5 };

	return size == sizeof(wfi) && !memcmp(code, wfi, sizeof(wfi));
}
#else
static bool halts(const uint8_t *code, size_t size)
{
	return (size == 1 && code[0] == 0xf4) ||					  /* hlt */
	       (size == 3 && code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xc9); /* mwait */
}
#endif

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, qemu_plugin_tb_n_insns(tb) - 1);
	uint8_t room[LONGEST_INSN];

	(void)id;
	if (halts(insn_code(last, room), qemu_plugin_insn_size(last)))
		qemu_plugin_register_vcpu_insn_exec_cb(last, on_halt, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	(void)argc;
	(void)argv;
	if (!icount_update || !qemu_get_cpu) {
		fputs("krepro halt: this QEMU does not export icount_update, so its virtual clock is not exact\n", stderr);
		return -1;
	}
	if (!tlb_is_sized()) {
		fputs("krepro halt: this plugin is not preloaded, so the virtual clock is not exact\n", stderr);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
