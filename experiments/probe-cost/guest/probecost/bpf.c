// SPDX-License-Identifier: MIT
#include "bpf.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { MAX_ADDITIONS = 512 };

#define INSN(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })

static int bpf(int command, union bpf_attr *attr)
{
	return (int)TEMP_FAILURE_RETRY(syscall(SYS_bpf, command, attr, sizeof(*attr)));
}

static int bpf_map(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_HASH, .key_size = 4, .value_size = 8, .max_entries = 64 };
	uint64_t zero = 0;
	uint32_t key = 0;
	int map = bpf(BPF_MAP_CREATE, &attr);

	if (map < 0)
		return map;
	attr = (union bpf_attr){ .map_fd = (uint32_t)map, .key = (uintptr_t)&key, .value = (uintptr_t)&zero };
	bpf(BPF_MAP_UPDATE_ELEM, &attr);
	return map;
}

int bpf_program(enum bpf_prog_type type, unsigned int expected, long additions, long aggregate)
{
	static struct bpf_insn insns[MAX_ADDITIONS + 128];
	union bpf_attr attr;
	int map = -1, program;
	size_t n = 0;

	if (additions > MAX_ADDITIONS || aggregate > 8) {
		fail("a program has at most %d additions and 8 aggregations", MAX_ADDITIONS);
		return -1;
	}
	if (aggregate && (map = bpf_map()) < 0) {
		fail("bpf map: %s", strerror(errno));
		return -1;
	}
	for (long i = 0; i < aggregate; i++) {
		insns[n++] = INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0);
		insns[n++] = INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
		insns[n++] = INSN(0, 0, 0, 0, 0);
		insns[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_2, BPF_REG_10, 0, 0);
		insns[n++] = INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, -4);
		insns[n++] = INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem);
		insns[n++] = INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0);
		insns[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_1, 0, 0, 1);
		insns[n++] = INSN(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_1, 0, BPF_ADD);
	}
	insns[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	for (long i = 0; i < additions; i++)
		insns[n++] = INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_0, 0, 0, 1);
	insns[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0);
	insns[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = expected;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = (uint32_t)n;
	attr.license = (uintptr_t)"GPL";
	program = bpf(BPF_PROG_LOAD, &attr);
	if (program < 0)
		fail("bpf program: %s", strerror(errno));
	if (map >= 0)
		close(map); /* the program holds it */
	return program;
}

int perf_open(struct perf_event_attr *attr)
{
	/* A signal may be pending, or come: the kernel then answers EINTR where it waits for a lock or a page. */
	return (int)TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
}

bool perf_control(int fd, unsigned long request, const void *argument)
{
	return !TEMP_FAILURE_RETRY(ioctl(fd, request, argument));
}

int perf_tracepoint(const char *event)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .sample_period = 0 };
	char path[160], text[32];
	int fd;

	snprintf(path, sizeof(path), "events/%s/id", event);
	attr.config = strtoull(get(path, text, sizeof(text)), NULL, 10);
	attr.disabled = 1;
	fd = perf_open(&attr);
	if (fd < 0)
		fail("perf event %s: %s", event, strerror(errno));
	return fd;
}

uint64_t perf_count(int fd)
{
	uint64_t count = 0;

	return TEMP_FAILURE_RETRY(read(fd, &count, sizeof(count))) == sizeof(count) ? count : 0;
}

int fprobe_link(int program, const char *symbol)
{
	const char *symbols[] = { symbol };
	union bpf_attr attr;
	int link;

	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.attach_type = BPF_TRACE_KPROBE_MULTI;
	attr.link_create.kprobe_multi.syms = (uintptr_t)symbols;
	attr.link_create.kprobe_multi.cnt = 1;
	link = bpf(BPF_LINK_CREATE, &attr);
	if (link < 0)
		fail("fprobe on %s: %s", symbol, strerror(errno));
	return link;
}

int raw_tracepoint(int program, const char *name)
{
	union bpf_attr attr;
	int link;

	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.name = (uintptr_t)name;
	attr.raw_tracepoint.prog_fd = (uint32_t)program;
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
	if (link < 0)
		fail("raw tracepoint %s: %s", name, strerror(errno));
	return link;
}
