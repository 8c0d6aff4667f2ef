// SPDX-License-Identifier: MIT
/* The plugin stale with a QEMU of a few lines: two pages of code, one block, and what is given up of it. */
#include "../../harness/machine/stale/stale.c"

#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

struct qemu_plugin_insn {
	uint64_t vaddr;
	uint8_t *at;
	uint8_t data[8];
	size_t size;
};

struct qemu_plugin_tb {
	size_t n;
	struct qemu_plugin_insn insns[4];
};

static uint8_t memory[3 * PAGE];
static void (*translated)(qemu_plugin_id_t, struct qemu_plugin_tb *);
static exec_cb *begun;
static void *begun_data;
static jmp_buf loop;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	return tb->n;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index)
{
	return (struct qemu_plugin_insn *)&tb->insns[index];
}

const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->data;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->vaddr;
}

void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn)
{
	return insn->at;
}

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *))
{
	(void)id;
	translated = cb;
}

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *data)
{
	(void)id;
	(void)cb;
	(void)data;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb *cb, int flags, void *data)
{
	(void)tb;
	(void)flags;
	begun = cb;
	begun_data = data;
}

void *qemu_get_cpu(int index)
{
	(void)index;
	return memory;
}

void cpu_loop_exit_restore(void *cpu, uintptr_t at)
{
	(void)cpu;
	(void)at;
	longjmp(loop, 1);
}

uint64_t qemu_ram_addr_from_host(void *at)
{
	return (uint64_t)((uint8_t *)at - memory);
}

void tb_invalidate_phys_range(uint64_t start, uint64_t end)
{
	printf("%llu %llu\n", (unsigned long long)start, (unsigned long long)end);
}

/* Instructions of `size` bytes from `offset` on, which QEMU reads now; the second page of code is the third of memory. */
static struct qemu_plugin_tb block(uint64_t base, size_t offset, size_t n, size_t size)
{
	struct qemu_plugin_tb tb = { .n = n };

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = &tb.insns[i];
		size_t at = offset + i * size;

		insn->vaddr = base + at;
		insn->at = memory + (at < PAGE ? at : at + PAGE);
		insn->size = size;
		memcpy(insn->data, insn->at, size);
	}
	return tb;
}

/* As QEMU would: the block begins, and is left when its callback says so. */
static void begin(void)
{
	if (!begun)
		printf("does not look\n");
	else if (setjmp(loop))
		printf("left\n");
	else
		begun(0, begun_data), printf("goes on\n");
}

/*
 * What is given up of a block at `offset`, when the byte of memory at `patched` changes before it is looked at. With an
 * argument more, whose place gets an int3 first, how the block begins then; nobody else looks.
 */
int main(int argc, char **argv)
{
	uint64_t base = strtoull(argv[1], NULL, 0);
	size_t offset = strtoul(argv[2], NULL, 0);
	struct qemu_plugin_tb tb;

	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)(i * 7);
	if (qemu_plugin_install(1, NULL, 0, NULL))
		return 1;
	if (argc > 4)
		memory[strtoul(argv[4], NULL, 0)] = INT3;
	tb = block(base, offset, 3, 5);
	translated(1, &tb);
	if (argc > 3)
		memory[strtoul(argv[3], NULL, 0)] ^= 1;
	if (argc > 4) {
		begin();
		begin();
		_exit(fflush(stdout));
	}
	usleep(300000);
	return 0;
}
