// SPDX-License-Identifier: GPL-2.0-or-later
#include "loops.h"

#include "isa.h"

/* Of bytes that are taken for code, some 3 % of functions have a jump back: far fewer than the table has places. */
enum { PLACE_BITS = 15, PLACES = 1 << PLACE_BITS, MOST_PLACES = PLACES / 4 * 3, MOST_BYTES = 1 << 16 };

/* First instructions that may be heads of loops, and instructions that may lie behind a jump there. */
static uint64_t marked[PLACES];
static size_t n_marked;

static size_t place_of(uint64_t address)
{
	size_t i = address * 0x9e3779b97f4a7c15ull >> (64 - PLACE_BITS);

	while (marked[i] && marked[i] != address)
		i = (i + 1) % PLACES;
	return i;
}

static void mark(uint64_t address)
{
	size_t i = place_of(address);

	if (marked[i] || n_marked == MOST_PLACES)
		return;
	marked[i] = address;
	n_marked++;
}

/*
 * All bytes that could be such a jump, instructions or not: an instruction may be translated before the jump in front
 * of it, and then nothing can be added to it. One that is marked for nothing costs a call.
 */
void loops_find(struct range function)
{
	static uint8_t code[MOST_BYTES];
	size_t size = function.high - function.low;

	if (size > sizeof(code))
		size = sizeof(code); /* padding, or what has no name */
	if (cpu_memory_rw_debug(qemu_get_cpu(0), function.low, code, size, false))
		return;
	for (size_t i = 0; i < size; i += isa_step) {
		uint64_t target, address = function.low + i;
		size_t length = isa_jump(code + i, size - i, address, &target);

		if (!length || target != function.low)
			continue;
		mark(function.low);
		mark(address + length);
	}
}

static void on_jump(unsigned int cpu, void *function)
{
	(void)cpu;
	*context_note() = (uintptr_t)function;
}

static void on_first(unsigned int cpu, void *function)
{
	(void)cpu;
	if (*context_note() == (uintptr_t)function)
		--*(uint64_t *)function;
	*context_note() = 0;
}

static void on_behind(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	*context_note() = 0;
}

static void call(const struct instruction *instruction, exec_cb *cb, uint64_t *function)
{
	qemu_plugin_register_vcpu_insn_exec_cb(instruction->insn, cb, QEMU_PLUGIN_CB_NO_REGS, function);
}

void loops_translate(const struct instruction *instruction, uint64_t low, uint64_t *entries)
{
	uint64_t target, address = instruction->address;

	if (marked[place_of(address)]) {
		if (address == low)
			call(instruction, on_first, entries);
		else
			call(instruction, on_behind, entries);
	}
	if (isa_jump(instruction->code, instruction->size, address, &target) && target == low)
		call(instruction, on_jump, entries);
}
