// SPDX-License-Identifier: MIT
#include "bpf.h"
#include "keeper.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { MAX_ADDITIONS = 512, MAX_INSNS = 2048, TEXT = 256, RING = 1 << 18, PAGE = 4096, SCRATCH = -480, KEY = -128 };
/* Registers that calls leave alone: the program's context, a task, a kernel text. */
enum { CONTEXT = BPF_REG_9, TASK = BPF_REG_8, KERNEL_TEXT = BPF_REG_7 };

#define INSN(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })

static struct bpf_insn insns[MAX_INSNS];
static size_t n;
static long executed;
/* A user's text, without an end in its first TEXT bytes. */
static char user_text[TEXT + 1];

static int bpf(int command, union bpf_attr *attr)
{
	return (int)TEMP_FAILURE_RETRY(syscall(SYS_bpf, command, attr, sizeof(*attr)));
}

static int bpf_map(enum bpf_map_type type, long key_size, long value_size, long entries)
{
	union bpf_attr attr = { .map_type = type, .key_size = (uint32_t)key_size, .value_size = (uint32_t)value_size,
				.max_entries = (uint32_t)entries };
	int map = bpf(BPF_MAP_CREATE, &attr);

	if (map < 0)
		fail("bpf map: %s", strerror(errno));
	return map;
}

/* Of a map of 4-byte keys and one CPU's values: key 0 has this value. */
static void put_first(int map, const void *value)
{
	static char key[TEXT];
	union bpf_attr attr = { .map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value };

	if (map >= 0 && bpf(BPF_MAP_UPDATE_ELEM, &attr))
		fail("bpf map: %s", strerror(errno));
}

static void emit(struct bpf_insn insn)
{
	if (n == MAX_INSNS)
		die("a program is too long");
	insns[n++] = insn;
	executed++;
}

static void emit_map(int to, int map)
{
	emit(INSN(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map));
	emit(INSN(0, 0, 0, 0, 0));
	executed--; /* both are one instruction */
}

static void emit_constant(int to, int32_t value)
{
	emit(INSN(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value));
}

static void emit_place(int to, int place)
{
	emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, to, BPF_REG_10, 0, 0));
	emit(INSN(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, place));
}

static void emit_call(int helper)
{
	emit(INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper));
}

/* 8 bytes at a time: the verifier wants to know what is in memory that a helper reads. */
static void emit_zeros(int place, long bytes)
{
	for (long at = 0; at < bytes; at += 8)
		emit(INSN(BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, (short)(place + at), 0));
}

static void emit_aggregation(int map)
{
	emit(INSN(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, -4, 0));
	emit_map(BPF_REG_1, map);
	emit_place(BPF_REG_2, -4);
	emit_call(BPF_FUNC_map_lookup_elem);
	emit(INSN(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0));
	emit_constant(BPF_REG_1, 1);
	emit(INSN(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_1, 0, BPF_ADD));
}

/* -- helpers ------------------------------------------------------------------------------------------- */

/* Those without arguments; the others have a kind of their own in emit_named. */
static const struct {
	const char *name;
	int helper;
} plain[] = {
	{ "pid", BPF_FUNC_get_current_pid_tgid }, { "uid", BPF_FUNC_get_current_uid_gid },
	{ "time", BPF_FUNC_ktime_get_ns },	  { "cpu", BPF_FUNC_get_smp_processor_id },
	{ "task", BPF_FUNC_get_current_task },
	{ "random", BPF_FUNC_get_prandom_u32 },		  { "boot", BPF_FUNC_ktime_get_boot_ns },
};

static void emit_read(int helper, long bytes, bool user)
{
	emit_place(BPF_REG_1, SCRATCH);
	emit_constant(BPF_REG_2, (int32_t)bytes);
	if (user) {
		emit(INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_3, 0, 0, (int32_t)(uintptr_t)user_text));
		emit(INSN(0, 0, 0, 0, (int32_t)((uintptr_t)user_text >> 32)));
		executed--;
	} else {
		emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, KERNEL_TEXT, 0, 0));
	}
	emit_call(helper);
}

static void emit_key(int map, long bytes, bool value)
{
	emit_zeros(KEY, bytes);
	emit_map(BPF_REG_1, map);
	emit_place(BPF_REG_2, KEY);
	if (value) {
		emit_zeros(KEY - 8, 8);
		emit_place(BPF_REG_3, KEY - 8);
		emit_constant(BPF_REG_4, BPF_ANY);
	}
}

/* A call by its name; `map` is the one that it works on. */
static void emit_named(const struct call *call, int map)
{
	const char *name = call->name;

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!strcmp(name, plain[i].name)) {
			emit_call(plain[i].helper);
			return;
		}
	if (!strcmp(name, "comm")) {
		emit_place(BPF_REG_1, SCRATCH);
		emit_constant(BPF_REG_2, 16);
		emit_call(BPF_FUNC_get_current_comm);
	} else if (!strcmp(name, "read")) {
		emit_read(BPF_FUNC_probe_read_kernel, call->bytes, false);
	} else if (!strcmp(name, "uread")) {
		emit_read(BPF_FUNC_probe_read_user, call->bytes, true);
	} else if (!strcmp(name, "string")) {
		emit_read(BPF_FUNC_probe_read_kernel_str, call->bytes, false);
	} else if (!strcmp(name, "ustring")) {
		emit_read(BPF_FUNC_probe_read_user_str, call->bytes, true);
	} else if (!strcmp(name, "stack")) {
		emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, CONTEXT, 0, 0));
		emit_map(BPF_REG_2, map);
		emit_constant(BPF_REG_3, 0);
		emit_call(BPF_FUNC_get_stackid);
	} else if (!strcmp(name, "look") || !strcmp(name, "hlook")) {
		emit_key(map, call->bytes, false);
		emit_call(BPF_FUNC_map_lookup_elem);
	} else if (!strcmp(name, "put") || !strcmp(name, "hput")) {
		emit_key(map, call->bytes, true);
		emit_call(BPF_FUNC_map_update_elem);
	} else if (!strcmp(name, "renew")) {
		emit_key(map, call->bytes, false);
		emit_call(BPF_FUNC_map_delete_elem);
		emit_key(map, call->bytes, true);
		emit_call(BPF_FUNC_map_update_elem);
	} else {
		die("there is no call %s", name);
	}
}

/* The map that calls of this name work on, its key there; -1: none, or with a problem. */
static int map_of(const struct call *call)
{
	static const uint64_t zero[8];
	int map = -1;

	if (!strcmp(call->name, "stack"))
		return bpf_map(BPF_MAP_TYPE_STACK_TRACE, 4, 8 * 127, 64);
	if (!strcmp(call->name, "look") || !strcmp(call->name, "put"))
		map = bpf_map(BPF_MAP_TYPE_PERCPU_HASH, call->bytes, 8, 64);
	if (!strcmp(call->name, "hlook") || !strcmp(call->name, "hput") || !strcmp(call->name, "renew"))
		map = bpf_map(BPF_MAP_TYPE_HASH, call->bytes, 8, 64);
	put_first(map, zero);
	return map;
}

void parse_calls(char *text, struct program *program)
{
	char *rest = NULL;

	for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		struct call *call = &program->calls[program->n_calls++];
		char *times = strchr(one, ':'), *bytes = strchr(one, '/');

		if (program->n_calls > MAX_CALLS || !times)
			die("at most %d calls, each NAME[/BYTES]:TIMES: %s", MAX_CALLS, one);
		*times = 0;
		call->times = atol(times + 1);
		if (bytes)
			*bytes = 0;
		call->bytes = bytes ? atol(bytes + 1) : 8;
		snprintf(call->name, sizeof(call->name), "%s", one);
		if (call->bytes < 1 || call->bytes > TEXT || call->times > 16)
			die("a call is on at most %d bytes, and at most 16 times: %s", TEXT, one);
	}
}

/* -- rings --------------------------------------------------------------------------------------------- */

static bool ring_open(struct ring *ring, const struct program *program)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
					.config = PERF_COUNT_SW_BPF_OUTPUT, .sample_type = PERF_SAMPLE_RAW,
					.sample_period = 1, .wakeup_events = program->wakes ? 1 : 1u << 30 };

	ring->perf = program->perf;
	ring->wakes = program->wakes;
	if (!ring->perf) {
		ring->map = bpf_map(BPF_MAP_TYPE_RINGBUF, 0, 0, RING);
	} else {
		ring->map = bpf_map(BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 1);
		ring->event = perf_open(&attr);
		if (ring->map < 0 || ring->event < 0)
			return false;
		ring->kept = keep_ring(ring->event, PAGE + RING, PROT_READ | PROT_WRITE);
		if (!ring->kept)
			fail("a program's ring: %s", strerror(errno));
		put_first(ring->map, &ring->event);
		perf_control(ring->event, PERF_EVENT_IOC_ENABLE, NULL);
	}
	return !problem[0];
}

void ring_close(struct ring *ring)
{
	if (ring->kept)
		drop_ring(ring->event);
	if (ring->map > 0)
		close(ring->map);
	if (ring->event > 0)
		close(ring->event);
	memset(ring, 0, sizeof(*ring));
}

bool ring_of_child(struct ring *ring)
{
	if (ring->perf) {
		ring->control = mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, ring->event, 0);
		ring->data = ring->control + PAGE;
		return ring->control != MAP_FAILED;
	}
	/* Here alone: each child of who has it mapped would be given its pages, which takes the workload's time. */
	ring->control = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring->map, 0);
	ring->data = mmap(NULL, PAGE + 2 * RING, PROT_READ, MAP_SHARED, ring->map, PAGE);
	return ring->control != MAP_FAILED && ring->data != MAP_FAILED;
}

long ring_take(struct ring *ring)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring->control;
	uint64_t *position = ring->perf ? (uint64_t *)&page->data_tail : (uint64_t *)ring->control;
	const uint64_t *end = ring->perf ? (uint64_t *)&page->data_head : (uint64_t *)ring->data;
	uint64_t at = *position, behind = __atomic_load_n(end, __ATOMIC_ACQUIRE);
	long records = 0;

	while (at < behind) {
		if (ring->perf) {
			at += ((struct perf_event_header *)(ring->data + at % RING))->size;
		} else {
			uint32_t length = *(volatile uint32_t *)(ring->data + PAGE + at % RING);

			if (length & BPF_RINGBUF_BUSY_BIT)
				break;
			at += (((length & ~BPF_RINGBUF_DISCARD_BIT) + 8 + 7) & ~7u);
		}
		records++;
	}
	__atomic_store_n(position, at, __ATOMIC_RELEASE);
	return records;
}

static void emit_out(const struct program *program, const struct ring *ring)
{
	emit_zeros(SCRATCH, program->out);
	if (program->perf) {
		emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, CONTEXT, 0, 0));
		emit_map(BPF_REG_2, ring->map);
		emit(INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_3, 0, 0, -1)); /* BPF_F_CURRENT_CPU */
		emit(INSN(0, 0, 0, 0, 0));
		executed--;
		emit_place(BPF_REG_4, SCRATCH);
		emit_constant(BPF_REG_5, (int32_t)program->out);
		emit_call(BPF_FUNC_perf_event_output);
		return;
	}
	emit_map(BPF_REG_1, ring->map);
	emit_place(BPF_REG_2, SCRATCH);
	emit_constant(BPF_REG_3, (int32_t)program->out);
	emit_constant(BPF_REG_4, program->wakes ? 0 : BPF_RB_NO_WAKEUP);
	emit_call(BPF_FUNC_ringbuf_output);
}

/* -- programs ------------------------------------------------------------------------------------------ */

static bool calls_any(const struct program *program, const char *names)
{
	for (int i = 0; i < program->n_calls; i++)
		if (strstr(names, program->calls[i].name))
			return true;
	return false;
}

/* What calls need: the context, and a kernel text in an array's value. */
static int emit_begin(const struct program *program)
{
	int text = -1;

	if (!program->n_calls && !program->out)
		return text;
	emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, CONTEXT, BPF_REG_1, 0, 0));
	if (!calls_any(program, "read string"))
		return text;
	text = bpf_map(BPF_MAP_TYPE_ARRAY, 4, TEXT, 1);
	put_first(text, user_text);
	emit_zeros(-8, 8);
	emit_map(BPF_REG_1, text);
	emit_place(BPF_REG_2, -8);
	emit_call(BPF_FUNC_map_lookup_elem);
	emit(INSN(BPF_JMP | BPF_JNE | BPF_K, BPF_REG_0, 0, 1, 0));
	emit(INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
	executed--; /* it is never executed */
	emit(INSN(BPF_ALU64 | BPF_MOV | BPF_X, KERNEL_TEXT, BPF_REG_0, 0, 0));
	return text;
}

void prepare_programs(void)
{
	memset(user_text, 'x', TEXT);
}

int bpf_program(enum bpf_prog_type type, unsigned int expected, struct program *program, struct ring *ring)
{
	static char log[4096];
	union bpf_attr attr;
	int maps[MAX_CALLS + 2], n_maps = 0, loaded;

	if (program->additions > MAX_ADDITIONS || program->aggregate > 8 || program->out > 256) {
		fail("a program has at most %d additions, 8 aggregations and 256 bytes of an event", MAX_ADDITIONS);
		return -1;
	}
	n = 0;
	executed = 0;
	maps[n_maps++] = emit_begin(program);
	if (program->aggregate) {
		static const uint64_t zero;

		maps[n_maps++] = bpf_map(BPF_MAP_TYPE_HASH, 4, 8, 64);
		put_first(maps[1], &zero);
		for (long i = 0; i < program->aggregate; i++)
			emit_aggregation(maps[1]);
	}
	for (int i = 0; i < program->n_calls; i++) {
		maps[n_maps++] = map_of(&program->calls[i]);
		for (long times = 0; times < program->calls[i].times; times++)
			emit_named(&program->calls[i], maps[n_maps - 1]);
	}
	if (program->out && ring_open(ring, program))
		emit_out(program, ring);
	emit_constant(BPF_REG_0, 0);
	for (long i = 0; i < program->additions; i++)
		emit(INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_0, 0, 0, 1));
	emit_constant(BPF_REG_0, program->keeps);
	emit(INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
	program->executed = executed;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.expected_attach_type = expected;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = (uint32_t)n;
	attr.license = (uintptr_t)"GPL";
	attr.log_buf = (uintptr_t)log;
	attr.log_size = sizeof(log);
	attr.log_level = 4; /* statistics alone; the verifier's complaint comes before them */
	loaded = bpf(BPF_PROG_LOAD, &attr);
	if (loaded < 0)
		fail("bpf program: %s: %.100s", strerror(errno), log);
	for (int i = 0; i < n_maps; i++)
		if (maps[i] >= 0)
			close(maps[i]); /* the program holds it */
	return loaded;
}
