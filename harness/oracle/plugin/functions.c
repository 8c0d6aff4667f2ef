/*
 * Executed instructions and entries per kernel function, by context.
 *
 * Each instruction adds one to its function's counter, inline: exact also where a block is left in its middle. One
 * addition does for several instructions where all but the last work on registers alone and so cannot fail.
 * A change of context (rare) books what the counters grew by since the last one to the context that ends.
 *
 * The context is known without the guest's help. Entry points push what they enter, iret, sysexit and sysret in
 * the kernel's entry code pop it, the function that runs softirqs pushes and pops on its own. What is pushed
 * belongs to a kernel stack: a task that sleeps inside a page fault finds its exception again. An interrupt that
 * comes to the scheduler, or to a signal, has done its work: the rest of it is the task's.
 *
 * Instructions count when they start: one that faults counts again when it is repeated, a repeated string
 * instruction once per iteration, as the virtual clock counts it.
 */
#include "oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { USER, OUTSIDE, FIRST }; /* counters that belong to no function */
enum { MAX_USED = 1 << 15, DEPTH = 15, STACKS = 1 << 13 };

struct frames {
	uint64_t stack;
	uint8_t depth;
	uint8_t context[DEPTH];
};

struct record {
	uint32_t region;
	uint16_t kind, context;
	uint64_t address, instructions, entries;
};

/* A function gets its counters when it is first translated; [0] instructions, [1] entries. */
static uint32_t used_of[MAX_FUNCTIONS];
static uint32_t used = FIRST;
static uint64_t now[2][MAX_USED], booked[2][MAX_USED];
static uint64_t total[CONTEXTS][2][MAX_USED];
static uint64_t at_begin[KINDS][CONTEXTS][2][MAX_USED];
static uint64_t user_at_begin[KINDS];
static struct check check;

static struct frames stacks[STACKS], unknown, *frames = &unknown;
static enum context current = IN_TASK;
static uint64_t lost_frames, changes, n_stacks;
static FILE *sink;

enum context functions_context(void)
{
	return current;
}

static void book(void)
{
	for (int what = 0; what < 2; what++) {
		uint64_t *restrict to = total[current][what], *restrict old = booked[what];
		const uint64_t *restrict fresh = now[what];

		for (uint32_t i = 0; i < used; i++) {
			to[i] += fresh[i] - old[i];
			old[i] = fresh[i];
		}
	}
}

static void enter(enum context context)
{
	if (context == current)
		return;
	book();
	changes++;
	current = context;
}

static void resume_top(void)
{
	enter(frames->depth ? frames->context[frames->depth - 1] : IN_TASK);
}

static void push(enum context context)
{
	if (frames->depth == DEPTH) {
		lost_frames++;
		frames->depth = 0;
	}
	frames->context[frames->depth++] = (uint8_t)context;
	enter(context);
}

static void pop(void)
{
	if (frames->depth)
		frames->depth--;
	resume_top();
}

/* -- what happens at the special places ---------------------------------------------------------------- */

static void on_entry(unsigned int cpu, void *data)
{
	enum context context = (enum context)(uintptr_t)data;

	(void)cpu;
	if (context == IN_TASK) /* a system call: nothing can lie below it */
		frames->depth = 0;
	push(context);
}

/* The last instruction of what ends; counted here, since counters would count it after this. */
static void on_return(unsigned int cpu, void *data)
{
	(void)cpu;
	now[0][(uintptr_t)data]++;
	pop();
}

static void on_task(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	if (frames->depth && frames->context[frames->depth - 1] == IN_INTERRUPT) {
		frames->context[frames->depth - 1] = IN_TASK;
		enter(IN_TASK);
	}
}

/* A call's target is a block's first instruction, where SP is true; it is already the next task's stack. */
static void on_switch(unsigned int cpu, void *data)
{
	uint64_t stack = read_register(REGISTER_SP) & ~(places.stack_bytes - 1);
	size_t i = (stack / places.stack_bytes) * 0x9e3779b97f4a7c15ull >> 51;

	(void)cpu;
	(void)data;
	while (stacks[i].stack && stacks[i].stack != stack)
		i = (i + 1) % STACKS;
	if (!stacks[i].stack) {
		if (++n_stacks > STACKS - STACKS / 4) {
			memset(stacks, 0, sizeof(stacks));
			lost_frames++;
			n_stacks = 1;
		}
		stacks[i].stack = stack;
	}
	frames = &stacks[i];
	resume_top();
}

/* A new task may have a dead one's stack. */
static void on_fork(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	frames->depth = 0;
	enter(IN_TASK);
}

/* -- translation --------------------------------------------------------------------------------------- */

static uint32_t counter_of(uint64_t address, bool *first)
{
	size_t low = 0, high = places.n_functions;

	*first = false;
	if (address < places.kernel)
		return USER;
	if (address < places.functions[0] || address >= places.text_end)
		return OUTSIDE;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (places.functions[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	*first = places.functions[low] == address;
	if (!used_of[low]) {
		if (used == MAX_USED)
			return OUTSIDE;
		used_of[low] = used++;
	}
	return used_of[low];
}

static bool within(struct range range, uint64_t address)
{
	return address >= range.low && address < range.high;
}

static bool leaves_kernel_entry(const uint8_t *code, size_t size)
{
	if (size == 2 && code[0] == 0x48 && code[1] == 0xcf)
		return true; /* iretq */
	if (size == 1)
		return code[0] == 0xcf; /* iret */
	if (size == 2)
		return code[0] == 0x0f && (code[1] == 0x35 || code[1] == 0x07); /* sysexit, sysret */
	return size == 3 && code[0] == 0x48 && code[1] == 0x0f && (code[2] == 0x35 || code[2] == 0x07);
}

/* ret, or a jump out of the function (a tail call, or the return thunk). */
static bool leaves_function(struct range range, uint64_t address, const uint8_t *code, size_t size)
{
	int32_t offset;

	if (code[0] == 0xc3 || (size == 2 && code[0] == 0xf3 && code[1] == 0xc3))
		return true;
	if (size != 5 || code[0] != 0xe9)
		return false;
	memcpy(&offset, code + 1, sizeof(offset));
	return !within(range, address + size + (uint64_t)(int64_t)offset);
}

static void call(struct qemu_plugin_insn *insn, exec_cb *cb, uintptr_t data)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, QEMU_PLUGIN_CB_NO_REGS, (void *)data);
}

/* Works on registers alone: whenever this one starts, the next one does too. Not knowing one costs time only. */
static bool cannot_fail(const uint8_t *code, size_t size)
{
	bool wide = places.kernel >> 32, registers;
	size_t i = 0;
	uint8_t op, modrm;

	if (wide && (code[0] & 0xf0) == 0x40)
		i++;
	op = code[i];
	if (size <= i)
		return false;
	if ((op & 0xf8) == 0xb8 || (!wide && (op & 0xf0) == 0x40) || op == 0x98 || op == 0x99 || op == 0x90)
		return true; /* mov immediate; inc, dec; widening; nop */
	if (op < 0x40 && ((op & 7) == 4 || (op & 7) == 5))
		return true; /* arithmetic of eax and an immediate */
	if (size < i + 2)
		return false;
	modrm = code[i + 1];
	if (op == 0x0f) {
		op = modrm;
		if (size < i + 3)
			return false;
		registers = code[i + 2] >> 6 == 3;
		return registers && ((op & 0xf0) == 0x40 || op == 0xaf || (op & 0xf6) == 0xb6); /* cmov imul movzx */
	}
	if (op == 0x8d)
		return true; /* lea */
	if (modrm >> 6 != 3)
		return false;
	if (op < 0x40 && (op & 7) < 4)
		return true;
	switch (op) {
	case 0x63: case 0x69: case 0x6b: case 0x80: case 0x81: case 0x83: case 0x84: case 0x85: case 0x88: case 0x89:
	case 0x8a: case 0x8b: case 0xc0: case 0xc1: case 0xd0: case 0xd1: case 0xd2: case 0xd3:
		return op != 0x63 || wide;
	case 0xf6: case 0xf7: /* not division */
		return (modrm >> 3 & 7) < 6;
	case 0xff:
		return (modrm >> 3 & 7) < 2;
	}
	return false;
}

/* Instructions that one addition will count. */
static struct {
	struct qemu_plugin_insn *insn;
	uint32_t counter, n;
	bool more; /* the last one cannot fail */
} group;

void functions_flush(void)
{
	if (group.n)
		qemu_plugin_register_vcpu_insn_exec_inline(group.insn, QEMU_PLUGIN_INLINE_ADD_U64, &now[0][group.counter],
							   group.n);
	group.n = 0;
}

void functions_translate(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *code, size_t size)
{
	bool first, special = false;
	uint32_t counter;

	if (!on(MODE_FUNCTIONS))
		return;
	counter = counter_of(address, &first);
	if (counter != USER) {
		for (size_t i = 0; i < places.n_entries; i++) {
			const struct entry *entry = &places.entry[i];

			if (address >= entry->low && address < entry->high && !((address - entry->low) % entry->step))
				call(insn, on_entry, entry->context), special = true;
		}
		for (size_t i = 0; i < places.n_task; i++)
			if (address == places.task[i])
				call(insn, on_task, 0), special = true;
		if (address == places.switch_to)
			call(insn, on_switch, 0), special = true;
		if (address == places.fork)
			call(insn, on_fork, 0), special = true;
		if (address == places.softirq.low)
			call(insn, on_entry, IN_SOFTIRQ), special = true;
		if ((within(places.returns, address) && leaves_kernel_entry(code, size)) ||
		    (within(places.softirq, address) && leaves_function(places.softirq, address, code, size))) {
			functions_flush();
			call(insn, on_return, counter);
			return;
		}
	}
	if (special || !group.n || !group.more || group.counter != counter) {
		functions_flush();
		group.insn = insn;
		group.counter = counter;
	}
	group.n++;
	group.more = cannot_fail(code, size);
	if (first)
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &now[1][counter], 1);
}

/* -- regions ------------------------------------------------------------------------------------------- */

static void write_record(enum kind kind, enum context context, uint32_t counter, uint64_t address)
{
	struct record record = {
		.region = region[kind] - 1,
		.kind = (uint16_t)kind,
		.context = (uint16_t)(counter == USER ? IN_USER : context),
		.address = address,
		.instructions = total[context][0][counter] - at_begin[kind][context][0][counter],
		.entries = total[context][1][counter] - at_begin[kind][context][1][counter],
	};

	if (counter == USER) { /* user code runs between contexts: whatever context it was booked to, it is user's */
		record.instructions = now[0][USER] - user_at_begin[kind];
		record.entries = 0;
	}
	if (record.instructions && fwrite(&record, sizeof(record), 1, sink) != 1)
		die("functions.bin: %s", strerror(errno));
}

void functions_region(enum kind kind, bool begin)
{
	if (!on(MODE_FUNCTIONS))
		return;
	book();
	if (begin) {
		memcpy(at_begin[kind], total, sizeof(total));
		user_at_begin[kind] = now[0][USER];
		return;
	}
	if (kind == KIND_CHECK) {
		check_done(&check, now[0][USER] - user_at_begin[kind]);
		return;
	}
	if (!sink)
		sink = output("functions.bin");
	write_record(kind, IN_TASK, USER, 0);
	for (enum context context = IN_TASK; context < IN_USER; context++) {
		write_record(kind, context, OUTSIDE, 0);
		for (size_t i = 0; i < places.n_functions; i++)
			if (used_of[i])
				write_record(kind, context, used_of[i], places.functions[i]);
	}
}

void functions_report(FILE *json)
{
	if (!on(MODE_FUNCTIONS))
		return;
	fprintf(json,
		" \"functions\": {\"used\": %" PRIu32 ", \"overflow\": %s, \"changes\": %" PRIu64
		", \"lost_frames\": %" PRIu64 ", \"check_instructions\": ",
		used, used == MAX_USED ? "true" : "false", changes, lost_frames);
	check_report(&check, json);
	fputs("},\n", json);
}

void functions_finish(void)
{
	if (on(MODE_FUNCTIONS) && !sink)
		sink = output("functions.bin");
	if (sink && fclose(sink))
		die("functions.bin: %s", strerror(errno));
	sink = NULL;
}
