/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What our plugins use of QEMU, declared by hand: no package ships qemu-plugin.h. QEMU_PLUGIN_VERSION is the version of
 * the plugin API that they are compiled for: 1 (QEMU 7.2 to 8.2), 2 (9.0), 3 (9.1), 4 (9.2 and later). What differs
 * between the versions is in this file alone.
 *
 * The functions below the second line are no plugin API. QEMU's binary exports them; they are weak, so that a
 * QEMU without them loads the plugin all the same, and the modes that need them are absent with the reason.
 */
#ifndef KREPRO_QEMU_H
#define KREPRO_QEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define WEAK   __attribute__((weak))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;

struct qemu_info {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus, max_vcpus;
	} system;
};

enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_RW = 3 };
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void vcpu_cb(qemu_plugin_id_t id, unsigned int cpu);
typedef void exec_cb(unsigned int cpu, void *data);
typedef void mem_cb(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);

void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id, vcpu_cb *cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb *cb, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb *cb, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb *cb, int flags, int kinds, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn); /* in QEMU's own memory; NULL where it is not RAM */
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

enum { LONGEST_INSN = 15 };

/* An instruction's bytes, as QEMU has them or in `room`; they are valid while the block is being translated. */
#if QEMU_PLUGIN_VERSION < 3
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);

static inline const uint8_t *insn_code(const struct qemu_plugin_insn *insn, uint8_t room[LONGEST_INSN])
{
	(void)room;
	return qemu_plugin_insn_data(insn);
}
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *room, size_t size);

static inline const uint8_t *insn_code(const struct qemu_plugin_insn *insn, uint8_t room[LONGEST_INSN])
{
	qemu_plugin_insn_data(insn, room, LONGEST_INSN);
	return room;
}
#endif

/*
 * Has generated code add to a word, each time the instruction begins; to be asked for after the instruction's
 * callbacks, which run first. On machines with one CPU only.
 */
#if QEMU_PLUGIN_VERSION < 2
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *word, uint64_t addend);

static inline void count_inline(struct qemu_plugin_insn *insn, uint64_t *word, uint64_t addend)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, word, addend);
}
#else
struct qemu_plugin_scoreboard;
struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
};

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int cpu);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
							 struct qemu_plugin_u64 entry, uint64_t addend);

/*
 * Since version 2 the word lies in a table of QEMU's, at an offset, a row for each CPU. Ours lies at an offset from the
 * first CPU's row. The table moves when there are more CPUs than rows; with one CPU it never does.
 */
static inline void count_inline(struct qemu_plugin_insn *insn, uint64_t *word, uint64_t addend)
{
	static struct qemu_plugin_scoreboard *score;
	struct qemu_plugin_u64 entry;

	if (!score)
		score = qemu_plugin_scoreboard_new(sizeof(*word));
	entry.score = score;
	entry.offset = (uintptr_t)word - (uintptr_t)qemu_plugin_scoreboard_find(score, 0);
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, entry, addend);
}
#endif

/* -- not plugin API ---------------------------------------------------------------------------------- */

struct byte_array {
	uint8_t *data;
	unsigned int length;
};

/* Numbers of QEMU's gdb stub for x86-64 targets (target/i386/gdbstub.c). */
enum {
	REGISTER_AX,
	REGISTER_DX = 3,
	REGISTER_SI,
	REGISTER_DI,
	REGISTER_SP = 7,
	REGISTER_IP = 16,
	REGISTER_FLAGS = 17,
	REGISTER_CS = 18,
	REGISTER_CR3 = 29,
};
enum { QEMU_CLOCK_VIRTUAL = 1 };

WEAK void *qemu_get_cpu(int index);
WEAK int x86_cpu_gdb_read_register(void *cpu, struct byte_array *into, int number);
WEAK int cpu_memory_rw_debug(void *cpu, uint64_t address, void *data, uint64_t size, bool is_write);
WEAK struct byte_array *g_byte_array_sized_new(unsigned int size);
WEAK struct byte_array *g_byte_array_set_size(struct byte_array *array, unsigned int length);
WEAK void timer_init_full(void *timer, void *lists, int clock, int scale, int attributes, void (*cb)(void *), void *data);
WEAK void timer_mod_ns(void *timer, int64_t at_ns);
WEAK int64_t qemu_clock_get_ns(int clock);
WEAK void nmi_monitor_handle(int cpu, void **error);
WEAK void error_free(void *error);

#endif
