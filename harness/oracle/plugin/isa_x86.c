// SPDX-License-Identifier: GPL-2.0-or-later
#ifndef GUEST_ARM64
#include "isa.h"

#include "registers.h"

#include <string.h>

enum { FLAG_INTERRUPTS = 1 << 9 };

const char isa_target[] = "x86_64";
const bool isa_has_nmis = true;
const size_t isa_step = 1;
const bool isa_call_pushes = true;

/* nopl disp32(%eax): 0f 1f 80 and the displacement. */
int isa_mark(const uint8_t *code, size_t size)
{
	uint32_t displacement;

	if (size != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return -1;
	memcpy(&displacement, code + 3, sizeof(displacement));
	return (displacement & 0xffff0000u) == MARK ? (int)(displacement & 0xffff) : -1;
}

bool isa_cannot_fail(const uint8_t *code, size_t size)
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

bool isa_leaves_kernel_entry(const uint8_t *code, size_t size)
{
	if (size == 2 && code[0] == 0x48 && code[1] == 0xcf)
		return true; /* iretq */
	if (size == 1)
		return code[0] == 0xcf; /* iret */
	if (size == 2)
		return code[0] == 0x0f && (code[1] == 0x35 || code[1] == 0x07); /* sysexit, sysret */
	return size == 3 && code[0] == 0x48 && code[1] == 0x0f && (code[2] == 0x35 || code[2] == 0x07);
}

bool isa_leaves_function(struct range function, uint64_t address, const uint8_t *code, size_t size)
{
	int32_t offset;

	if (code[0] == 0xc3 || (size == 2 && code[0] == 0xf3 && code[1] == 0xc3))
		return true;
	if (size != 5 || code[0] != 0xe9)
		return false;
	memcpy(&offset, code + 1, sizeof(offset));
	address += size + (uint64_t)(int64_t)offset;
	return address < function.low || address >= function.high;
}

/* jmp, jcc, loop and jcxz, with the prefixes that compilers put before them. */
size_t isa_jump(const uint8_t *code, size_t room, uint64_t address, uint64_t *target)
{
	size_t size = 0, wide = 0;
	int32_t offset = 0;

	while (size < room && (code[size] == 0x2e || code[size] == 0x3e || code[size] == 0xf2))
		size++;
	code += size;
	room -= size;
	if (room >= 2 && ((code[0] & 0xf0) == 0x70 || code[0] == 0xeb || (code[0] & 0xfc) == 0xe0)) {
		size += 2;
		offset = (int8_t)code[1];
	} else if (room >= 5 && code[0] == 0xe9) {
		wide = 1;
	} else if (room >= 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80) {
		wide = 2;
	} else {
		return 0;
	}
	if (wide) {
		memcpy(&offset, code + wide, sizeof(offset));
		size += wide + sizeof(offset);
	}
	*target = address + size + (uint64_t)(int64_t)offset;
	return size;
}

/* Behind the prefixes: of branches, and those that widen a register's number or have no effect here. */
static const uint8_t *behind_prefixes(const uint8_t *code, size_t *size)
{
	while (*size > 1 && (*code == 0x2e || *code == 0x3e || *code == 0xf2 || *code == 0xf3 || *code == 0x66 ||
			     (places.kernel >> 32 && (*code & 0xf0) == 0x40)))
		code++, --*size;
	return code;
}

/* call, call *; ret, ret n; jmp, jmp * */
enum flow isa_flow(const uint8_t *code, size_t size)
{
	unsigned int form;

	code = behind_prefixes(code, &size);
	form = size > 1 ? code[1] >> 3 & 7 : 0;
	if (code[0] == 0xe8 || (code[0] == 0xff && form == 2))
		return FLOW_CALL;
	if (code[0] == 0xc3 || code[0] == 0xc2)
		return FLOW_RETURN;
	if (code[0] == 0xe9 || code[0] == 0xeb || (code[0] == 0xff && form == 4))
		return FLOW_JUMP;
	return FLOW_ON;
}

/* nop, endbr and their like; push of a number or of a word in memory, for the linker that binds at the first call */
bool isa_before_stub_jump(const uint8_t *code, size_t size)
{
	code = behind_prefixes(code, &size);
	return code[0] == 0x90 || code[0] == 0x68 || (size > 1 && code[0] == 0xff && (code[1] >> 3 & 7) == 6) ||
	       (size > 1 && code[0] == 0x0f && (code[1] == 0x1e || code[1] == 0x1f));
}

bool isa_halts(const uint8_t *code, size_t size)
{
	return size == 1 && code[0] == 0xf4;
}

/* Any write to CR3: it is read again at the next access. */
bool isa_may_change_address_space(const struct instruction *instruction, uintptr_t *data)
{
	const uint8_t *code = instruction->code;
	size_t size = instruction->size;

	*data = 0;
	return size >= 3 && code[size - 3] == 0x0f && code[size - 2] == 0x22 && (code[size - 1] & 0xf8) == 0xd8;
}

void isa_address_space_changed(uintptr_t data)
{
	(void)data;
}

bool isa_in_user(unsigned int cpu)
{
	return (read_register_of(cpu, REGISTER_CS) & 3) == 3;
}

bool isa_interrupts_on(void)
{
	return read_register(REGISTER_FLAGS) & FLAG_INTERRUPTS;
}

uint64_t isa_ip(void)
{
	return read_register(REGISTER_IP);
}

uint64_t isa_stack(void)
{
	return read_register(REGISTER_SP);
}

uint64_t isa_address_space(void)
{
	return read_register(REGISTER_CR3) & places.cr3_mask;
}

/* The kernel's i386 calling convention is regparm. */
uint64_t isa_first_argument(void)
{
	return read_register(places.kernel >> 32 ? REGISTER_DI : REGISTER_AX);
}

uint64_t isa_next_task(void)
{
	return places.kernel >> 32 ? read_register(REGISTER_SI) : (uint32_t)read_register(REGISTER_DX);
}

uint64_t isa_system_call(void)
{
	return (uint32_t)read_register(REGISTER_AX);
}

/* The word at the top of the stack. */
uint64_t isa_return_site(void)
{
	uint64_t site = 0;

	if (cpu_memory_rw_debug(qemu_get_cpu(0), isa_stack(), &site, places.kernel >> 32 ? 8 : 4, false))
		return 0;
	return site;
}
#endif
