// SPDX-License-Identifier: MIT
/*
 * ppidbpf on | off: which thread runs on which CPU, by a BPF program on the trace point sched_switch: no patch, no module.
 * The lines of modules/ppid are an array map, pinned at PPID_BPF, which may be mapped for reading. It has no clock and
 * no counters, and the line of a CPU that goes offline stays as it was. Linux 5.12 or later, root.
 *
 * Where a task has its pid and tgid differs from kernel to kernel. It is looked for: a BPF program copies the task of a
 * thread that calls it, and two threads know their own ids.
 */
#include "krepro.h"
#include "ppid.h"

#include <linux/bpf.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define BPFFS	  "/sys/fs/bpf"
#define PPID_LINK BPFFS "/ppid_switch"

/* Of a task_struct: 6.1 has its ids at about 1.5 to 3 KiB. */
enum { TASK = 8192, BPFFS_MAGIC = 0xcafe4a11 };

/* Instructions by hand: no compiler for BPF is needed, and no library. */
#define OP(CODE, DST, SRC, OFF, IMM) \
	((struct bpf_insn){ .code = (CODE), .dst_reg = (DST), .src_reg = (SRC), .off = (short)(OFF), .imm = (int)(IMM) })
#define MOV(DST, SRC)	      OP(BPF_ALU64 | BPF_MOV | BPF_X, DST, SRC, 0, 0)
#define MOV_IMM(DST, IMM)     OP(BPF_ALU64 | BPF_MOV | BPF_K, DST, 0, 0, IMM)
#define ADD_IMM(DST, IMM)     OP(BPF_ALU64 | BPF_ADD | BPF_K, DST, 0, 0, IMM)
#define LOAD(DST, SRC, OFF)   OP(BPF_LDX | BPF_MEM | BPF_DW, DST, SRC, OFF, 0)
#define STORE(DST, SRC, OFF)  OP(BPF_STX | BPF_MEM | BPF_DW, DST, SRC, OFF, 0)
#define STORE32(DST, SRC, OFF) OP(BPF_STX | BPF_MEM | BPF_W, DST, SRC, OFF, 0)
/* A full barrier on every architecture, as well as a store. */
#define XCHG(DST, SRC, OFF)   OP(BPF_STX | BPF_ATOMIC | BPF_DW, DST, SRC, OFF, BPF_XCHG)
#define CALL(FUNCTION)	      OP(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_##FUNCTION)
#define MAP(DST, FD)	      OP(BPF_LD | BPF_DW | BPF_IMM, DST, BPF_PSEUDO_MAP_FD, 0, FD), OP(0, 0, 0, 0, 0)
#define IF_NOT_0(DST, OVER)   OP(BPF_JMP | BPF_JNE | BPF_K, DST, 0, OVER, 0)
#define EXIT()		      OP(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
#define R(N)		      BPF_REG_##N

static char log_text[16384];

static int bpf(int command, union bpf_attr *attr)
{
	return (int)TEMP_FAILURE_RETRY(syscall(SYS_bpf, command, attr, sizeof(*attr)));
}

static int map_new(uint32_t value_size, uint32_t entries)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = value_size,
				.max_entries = entries, .map_flags = BPF_F_MMAPABLE };
	int fd = bpf(BPF_MAP_CREATE, &attr);

	if (fd < 0)
		die_errno("a BPF map of %u times %u bytes", entries, value_size);
	return fd;
}

static int load(const struct bpf_insn *program, size_t n)
{
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insns = (uintptr_t)program,
				.insn_cnt = (uint32_t)n, .license = (uintptr_t)"GPL", .log_buf = (uintptr_t)log_text,
				.log_size = sizeof(log_text), .log_level = 1 };
	int fd = bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		die_errno("a BPF program is refused: %s", log_text);
	return fd;
}

/* -- where a task has its ids --------------------------------------------------------------------------------- */

static int copier;
static const volatile uint32_t *copy;
static bool candidate[TASK / 4];

/* Twice, in threads whose tid is not the process's: what holds both ids each time is the place. */
static void *look(void *unused)
{
	const uint32_t tid = (uint32_t)syscall(SYS_gettid), tgid = (uint32_t)getpid();
	union bpf_attr attr = { .test.prog_fd = (uint32_t)copier };

	if (bpf(BPF_PROG_TEST_RUN, &attr))
		die_errno("BPF_PROG_TEST_RUN");
	for (int i = 0; i + 1 < TASK / 4; i++)
		candidate[i] &= copy[i] == tid && copy[i + 1] == tgid;
	candidate[TASK / 4 - 1] = false;
	return unused;
}

static int offset_of_ids(void)
{
	const int map = map_new(TASK, 1);
	const struct bpf_insn program[] = {
		OP(BPF_ST | BPF_MEM | BPF_W, R(10), 0, -4, 0),
		MAP(R(1), map),
		MOV(R(2), R(10)),
		ADD_IMM(R(2), -4),
		CALL(map_lookup_elem),
		IF_NOT_0(R(0), 1),
		EXIT(),
		MOV(R(6), R(0)),
		CALL(get_current_task),
		MOV(R(1), R(6)),
		MOV_IMM(R(2), TASK),
		MOV(R(3), R(0)),
		CALL(probe_read_kernel),
		MOV_IMM(R(0), 0),
		EXIT(),
	};
	int at = -1;

	copier = load(program, sizeof(program) / sizeof(*program));
	copy = mmap(NULL, TASK, PROT_READ, MAP_SHARED, map, 0);
	if (copy == MAP_FAILED)
		die_errno("mapping a BPF map");
	memset(candidate, true, sizeof(candidate));
	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		errno = pthread_create(&thread, NULL, look, NULL);
		if (errno)
			die_errno("no thread");
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < TASK / 4; i++) {
		if (candidate[i] && at >= 0)
			die("a task has its ids at byte %d and at %d", at, 4 * i);
		if (candidate[i])
			at = 4 * i;
	}
	if (at < 0)
		die("a task has its ids nowhere in its first %d bytes", TASK);
	munmap((void *)copy, TASK);
	close(copier);
	close(map);
	return at;
}

/* -- the device ----------------------------------------------------------------------------------------------- */

static void pin_at(int fd, const char *path)
{
	union bpf_attr attr = { .pathname = (uintptr_t)path, .bpf_fd = (uint32_t)fd };

	if (bpf(BPF_OBJ_PIN, &attr) || chmod(path, 0600))
		die_errno("%s", path);
}

/* The lines of all CPUs, without a thread; from then on only the BPF program writes them. */
static int lines_new(void)
{
	const int map = map_new(sizeof(struct ppid_line), (uint32_t)ppid_cpus());
	struct ppid_line *lines = mmap(NULL, ppid_map_size(), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	union bpf_attr freeze = { .map_fd = (uint32_t)map };

	if (lines == MAP_FAILED)
		die_errno("mapping a BPF map");
	for (int cpu = 0; cpu < ppid_cpus(); cpu++)
		lines[cpu].ids = PPID_NONE;
	munmap(lines, ppid_map_size());
	if (bpf(BPF_MAP_FREEZE, &freeze))
		die_errno("freezing a BPF map");
	return map;
}

static void on(void)
{
	const int ids = offset_of_ids(), map = lines_new();
	const struct bpf_insn program[] = {
		/* The trace point's arguments: preempt, prev, next, prev_state. */
		LOAD(R(3), R(1), 16),
		ADD_IMM(R(3), ids),
		MOV(R(1), R(10)),
		ADD_IMM(R(1), -16),
		MOV_IMM(R(2), 8),
		CALL(probe_read_kernel),
		CALL(get_smp_processor_id),
		STORE32(R(10), R(0), -4),
		MAP(R(1), map),
		MOV(R(2), R(10)),
		ADD_IMM(R(2), -4),
		CALL(map_lookup_elem),
		IF_NOT_0(R(0), 1),
		EXIT(),
		LOAD(R(1), R(0), offsetof(struct ppid_line, done)),
		ADD_IMM(R(1), 1),
		MOV(R(2), R(1)),
		XCHG(R(0), R(2), offsetof(struct ppid_line, begun)),
		LOAD(R(3), R(10), -16),
		STORE(R(0), R(3), offsetof(struct ppid_line, ids)),
		XCHG(R(0), R(1), offsetof(struct ppid_line, done)),
		MOV_IMM(R(0), 0),
		EXIT(),
	};
	union bpf_attr attr = { .raw_tracepoint.name = (uintptr_t)"sched_switch" };
	struct statfs at;
	int link;

	if (statfs(BPFFS, &at) || ((unsigned long)at.f_type != BPFFS_MAGIC && mount("bpf", BPFFS, "bpf", 0, "mode=0700")))
		die_errno(BPFFS);
	attr.raw_tracepoint.prog_fd = (uint32_t)load(program, sizeof(program) / sizeof(*program));
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
	if (link < 0)
		die_errno("the trace point sched_switch");
	pin_at(link, PPID_LINK);
	pin_at(map, PPID_BPF);
}

int main(int argc, char **argv)
{
	if (argc != 2 || (strcmp(argv[1], "on") && strcmp(argv[1], "off")))
		die_usage("usage: ppidbpf on | off");
	if (!strcmp(argv[1], "on"))
		on();
	else if (unlink(PPID_BPF) || unlink(PPID_LINK))
		die_errno(BPFFS);
	return 0;
}
