// SPDX-License-Identifier: GPL-2.0-or-later
#include "context.h"

#include "isa.h"
#include "oracle.h"
#include "places.h"

#include <inttypes.h>
#include <string.h>

enum { DEPTH = 15, STACK_BITS = 13, STACKS = 1 << STACK_BITS };

struct frames {
	uint64_t stack;
	uint8_t depth;
	uint8_t context[DEPTH];
	uintptr_t note[DEPTH + 1];
	struct slot slots[DEPTH + 1];
};

static struct frames stacks[STACKS], unknown, *frames = &unknown;
static enum context current = IN_TASK;
static uint64_t lost_frames, n_stacks, turns;
static enum context left = IN_TASK;
static struct slot *left_slot = &unknown.slots[0];
static void (*changing)(enum context ending);

void context_init(void (*on_change)(enum context ending))
{
	changing = on_change;
}

enum context context_now(void)
{
	return current;
}

uintptr_t *context_note(void)
{
	return &frames->note[frames->depth];
}

struct slot *context_slots(unsigned int *depth)
{
	*depth = frames->depth;
	return frames->slots;
}

enum context context_left(struct slot **slot)
{
	*slot = left_slot;
	return left;
}

uint64_t context_turns(void)
{
	return turns;
}

static void enter(enum context context)
{
	if (context == current)
		return;
	changing(current);
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
	frames->note[frames->depth] = 0;
	frames->slots[frames->depth].fresh = true;
	turns++;
	enter(context);
}

static void pop(void)
{
	if (frames->depth)
		frames->depth--;
	turns++;
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

static void on_return(unsigned int cpu, void *leaving)
{
	(void)cpu;
	++*(uint64_t *)leaving;
	left = current;
	left_slot = &frames->slots[frames->depth];
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
	uint64_t stack = isa_stack() & ~(places.stack_bytes - 1);
	size_t i = (stack / places.stack_bytes) * 0x9e3779b97f4a7c15ull >> (64 - STACK_BITS);

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
	turns++;
	resume_top();
}

/* A new task may have a dead one's stack. */
static void on_fork(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	frames->depth = 0;
	frames->slots[0].fresh = true;
	turns++;
	enter(IN_TASK);
}

/* -- translation --------------------------------------------------------------------------------------- */

static bool within(struct range range, uint64_t address)
{
	return address >= range.low && address < range.high;
}

static void call(const struct instruction *instruction, exec_cb *cb, uintptr_t data)
{
	qemu_plugin_register_vcpu_insn_exec_cb(instruction->insn, cb, QEMU_PLUGIN_CB_NO_REGS, (void *)data);
}

bool context_leaves(const struct instruction *instruction)
{
	uint64_t address = instruction->address;

	return (within(places.returns, address) && isa_leaves_kernel_entry(instruction->code, instruction->size)) ||
	       (within(places.softirq, address) &&
		isa_leaves_function(places.softirq, address, instruction->code, instruction->size));
}

enum turn context_translate(const struct instruction *instruction, uint64_t *leaving)
{
	uint64_t address = instruction->address;
	enum turn turn = TURN_NONE;

	for (size_t i = 0; i < places.n_entries; i++) {
		const struct entry *entry = &places.entry[i];

		if (address >= entry->low && address < entry->high && !((address - entry->low) % entry->step))
			call(instruction, on_entry, entry->context), turn = TURN_ENTERS;
	}
	for (size_t i = 0; i < places.n_task; i++)
		if (address == places.task[i])
			call(instruction, on_task, 0), turn = TURN_ENTERS;
	if (address == places.switch_to)
		call(instruction, on_switch, 0), turn = TURN_ENTERS;
	if (address == places.fork)
		call(instruction, on_fork, 0), turn = TURN_ENTERS;
	if (address == places.softirq.low)
		call(instruction, on_entry, IN_SOFTIRQ), turn = TURN_ENTERS;
	if (context_leaves(instruction)) {
		call(instruction, on_return, (uintptr_t)leaving);
		turn = TURN_LEAVES;
	}
	return turn;
}

void context_report(FILE *json)
{
	fprintf(json, "\"lost_frames\": %" PRIu64, lost_frames);
}
