// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Has QEMU forget what it translated from code that another CPU was just patching.
 *
 * A block is translated first and put into its page's list after, and only what is in the list is given up when somebody
 * writes to the page (tb_gen_code, tb_link_page; QEMU 8.1 locks the page first). A write in between goes unnoticed: the CPU
 * runs what is no longer there, for ever. In a kernel that patches itself while its CPUs run (jump labels, static calls,
 * trace points) that may be the int3 that stood there for a moment, and the CPU raises it for ever.
 *
 * So note what each block of the kernel was made of, and look again after a while: a write that went unnoticed is in
 * memory by then. Where they differ, translations of that code are given up; if the write was noticed, they are
 * those of the new code, and made again. The thread that looks sleeps as long as nothing is translated.
 *
 * For an int3 a while is too long: from Linux 6.3 on its handler asks no more whether it is still there, and panics. So a
 * block with one looks by itself, each time that it begins. If its code is there still, so is who patches it: he waits
 * for this CPU, which hears of it behind the block. If not, the block is given up and begun again.
 */
#include "qemu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, BLOCKS = 1 << 16 };
#define KERNEL 0xffff800000000000ull

WEAK uint64_t qemu_ram_addr_from_host(void *at);
WEAK void tb_invalidate_phys_range(uint64_t start, uint64_t end);
WEAK void cpu_loop_exit_restore(void *cpu, uintptr_t at) __attribute__((noreturn));

/* Code of one block: up to two pieces of memory, since it may go on in another page. */
struct block {
	struct piece {
		const uint8_t *at;
		size_t bytes;
	} pieces[2];
	uint64_t hash;
};

struct batch {
	struct block blocks[BLOCKS];
	size_t n;
};

/* Blocks with an int3 that look by themselves, each for as long as QEMU lives; found by their code and where it lies. */
enum { WATCHED = 1 << 12 };
static struct block watched[WATCHED];

#define INT3 0xcc

/* How long a thread may take from reading code to putting its block into the list: first the usual, then a busy host's. */
static const long naps_ms[] = { 5, 100 };

static struct batch batches[2], *noted = &batches[0];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static uint64_t lost;

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* FNV-1a */
static uint64_t hash(uint64_t so_far, const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		so_far = (so_far ^ data[i]) * 0x100000001b3ull;
	return so_far;
}

static uint64_t hash_now(const struct block *block)
{
	uint64_t value = 0;

	for (int i = 0; i < 2; i++)
		value = hash(value, block->pieces[i].at, block->pieces[i].bytes);
	return value;
}

/* What a block was made of, and whether an int3 is in it; false where it is not memory, or too scattered. */
static bool describe(struct block *block, const struct qemu_plugin_tb *tb, bool *int3)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct piece *piece = block->pieces;

	memset(block, 0, sizeof(*block));
	for (size_t i = 0; i < n; i++) {
		const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *at = qemu_plugin_insn_haddr(insn);
		uint8_t room[LONGEST_INSN];
		const uint8_t *code = insn_code(insn, room);
		size_t bytes = qemu_plugin_insn_size(insn), left = PAGE - (qemu_plugin_insn_vaddr(insn) & (PAGE - 1));

		if (!at)
			return false;
		if (piece->bytes && piece->at + piece->bytes != at && ++piece == block->pieces + 2)
			return false;
		if (bytes > left) /* the rest is in another page */
			bytes = left;
		if (!piece->bytes)
			piece->at = at;
		piece->bytes += bytes;
		block->hash = hash(block->hash, code, bytes);
		*int3 |= code[0] == INT3;
	}
	return true;
}

static void forget(const struct block *block)
{
	for (int i = 0; i < 2; i++) {
		const struct piece *piece = &block->pieces[i];
		uint64_t address;

		if (!piece->bytes)
			continue;
		address = qemu_ram_addr_from_host((void *)piece->at);
		if (address != UINT64_MAX)
			tb_invalidate_phys_range(address, address + piece->bytes);
	}
}

/*
 * The generated code calls this before the first instruction, with nothing of the guest in the host's registers. So the
 * CPU can leave it for QEMU's loop, as it does where an instruction faults, and come back to what is there now. What it
 * leaves by is an address in the call, as it is where an instruction's helper faults (GETPC).
 */
static void on_begin(unsigned int cpu, void *data)
{
	const struct block *block = data;

	if (hash_now(block) == block->hash)
		return;
	forget(block);
	cpu_loop_exit_restore(qemu_get_cpu((int)cpu), (uintptr_t)__builtin_return_address(0) - 2);
}

/* The place of a block that looks by itself; NULL when all are taken. With the lock. */
static struct block *watch(const struct block *block)
{
	for (uint64_t probe = 0; probe < WATCHED; probe++) {
		struct block *place = &watched[(block->hash + probe) % WATCHED];

		if (!place->hash)
			*place = *block;
		if (!memcmp(place, block, sizeof(*block)))
			return place;
	}
	return NULL;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block block, *place = NULL;
	bool int3 = false;

	(void)id;
	if (qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)) < KERNEL || !describe(&block, tb, &int3))
		return;
	pthread_mutex_lock(&lock);
	if (int3) {
		place = watch(&block);
		lost += !place;
	}
	if (noted->n == BLOCKS)
		lost++;
	else
		noted->blocks[noted->n++] = block;
	if (noted->n == 1)
		pthread_cond_signal(&some);
	pthread_mutex_unlock(&lock);
	if (place)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_begin, QEMU_PLUGIN_CB_NO_REGS, place);
}

/* Each time anew: at the first look a block that differs need not be in the list yet, and is not given up then. */
static void look_at(const struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++) {
		if (hash_now(&batch->blocks[i]) != batch->blocks[i].hash)
			forget(&batch->blocks[i]);
	}
}

static void *look(void *argument)
{
	(void)argument;
	for (;;) {
		struct batch *batch;

		pthread_mutex_lock(&lock);
		while (!noted->n)
			pthread_cond_wait(&some, &lock);
		batch = noted;
		noted = batch == &batches[0] ? &batches[1] : &batches[0];
		noted->n = 0;
		pthread_mutex_unlock(&lock);
		for (size_t i = 0; i < sizeof(naps_ms) / sizeof(naps_ms[0]); i++) {
			struct timespec nap = { 0, naps_ms[i] * 1000000 };

			nanosleep(&nap, NULL);
			look_at(batch);
		}
	}
	return NULL;
}

static void finish(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	if (lost)
		fprintf(stderr, "krepro stale: %llu blocks were not looked at\n", (unsigned long long)lost);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	pthread_t thread;
	sigset_t all, before;
	int failed;

	(void)info;
	(void)argc;
	(void)argv;
	if (QEMU_PLUGIN_VERSION > 1) /* a QEMU of 8.1 and later needs none of this */
		return 0;
	if (!qemu_ram_addr_from_host || !tb_invalidate_phys_range || !qemu_get_cpu || !cpu_loop_exit_restore) {
		fputs("krepro stale: this QEMU does not export what gives up translations, so its CPUs may run code that "
		      "is no longer there\n", stderr);
		return -1;
	}
	/* QEMU's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, look, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed) {
		fputs("krepro stale: no thread\n", stderr);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
