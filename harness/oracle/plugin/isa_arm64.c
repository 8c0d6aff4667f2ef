// SPDX-License-Identifier: GPL-2.0-or-later
#ifdef GUEST_ARM64
#include "isa.h"

#include "registers.h"

#include <string.h>

/* Numbers of QEMU's gdb stub for aarch64 targets (target/arm/gdbstub64.c). */
enum { X0, X8 = 8, LINK = 30, STACK, IP, STATE };
enum { NO_REGISTER = 31, INSN = 4, MAX_SITES = 16 };
#define STATE_EL	 (3u << 2)
#define STATE_NO_IRQ (1u << 7)

const char isa_target[] = "aarch64";
const bool isa_has_nmis = false;
const size_t isa_step = INSN;
const bool isa_call_pushes = false;

static uint32_t word_of(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* movn xzr, #0x6b00 + (kind << 4) + operation, lsl #48 (images/arm64/lib/krepro-roi.h). */
int isa_mark(const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code), number = word >> 5 & 0xffff;

	if (size != INSN || (word & 0xffe0001f) != 0x92e0001f || (number & 0xff00) != 0x6b00)
		return -1;
	return (int)((number >> 4 & 0xf) << 8 | (number & 0xf));
}

/* Data processing of registers and immediates: bits 28 to 26 are 100, or 27 to 25 are 101. None of them traps. */
bool isa_cannot_fail(const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code);

	return size == INSN && ((word >> 26 & 7) == 4 || (word >> 25 & 7) == 5);
}

/* eret */
bool isa_leaves_kernel_entry(const uint8_t *code, size_t size)
{
	return size == INSN && word_of(code) == 0xd69f03e0;
}

/* ret, or b out of the function. */
bool isa_leaves_function(struct range function, uint64_t address, const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code);
	int64_t offset = (int64_t)((uint64_t)word << 38) >> 36;

	if (size != INSN)
		return false;
	if ((word & 0xfffffc1f) == 0xd65f0000)
		return true;
	if ((word & 0xfc000000) != 0x14000000)
		return false;
	address += (uint64_t)offset;
	return address < function.low || address >= function.high;
}

/* The signed number of `bits` bits at `low`, in instructions: how far a jump goes, in bytes. */
static uint64_t jumped(uint32_t word, unsigned int low, unsigned int bits)
{
	return (uint64_t)((int64_t)((uint64_t)word << (64 - bits - low)) >> (64 - bits)) * INSN;
}

/* b; b.cond, cbz and cbnz; tbz and tbnz. */
size_t isa_jump(const uint8_t *code, size_t room, uint64_t address, uint64_t *target)
{
	uint32_t word;

	if (room < INSN)
		return 0;
	word = word_of(code);
	if ((word & 0xfc000000) == 0x14000000)
		*target = address + jumped(word, 0, 26);
	else if ((word & 0xff000010) == 0x54000000 || (word & 0x7e000000) == 0x34000000)
		*target = address + jumped(word, 5, 19);
	else if ((word & 0x7e000000) == 0x36000000)
		*target = address + jumped(word, 5, 14);
	else
		return 0;
	return INSN;
}

/* bl, blr; ret; b, br */
enum flow isa_flow(const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code), branch = word & 0xfffffc1f;

	if (size != INSN)
		return FLOW_ON;
	if ((word & 0xfc000000) == 0x94000000 || branch == 0xd63f0000)
		return FLOW_CALL;
	if (branch == 0xd65f0000)
		return FLOW_RETURN;
	return (word & 0xfc000000) == 0x14000000 || branch == 0xd61f0000 ? FLOW_JUMP : FLOW_ON;
}

/* bti and other hints; adrp x16, ldr x17, add x16 */
bool isa_before_stub_jump(const uint8_t *code, size_t size)
{
	uint32_t word = word_of(code);

	return size == INSN && ((word & 0xfffff01f) == 0xd503201f || (word & 0x9f00001f) == 0x90000010 ||
				(word & 0xffc003ff) == 0xf9400211 || (word & 0xff8003ff) == 0x91000210);
}

/* wfi */
bool isa_halts(const uint8_t *code, size_t size)
{
	return size == INSN && word_of(code) == 0xd503207f;
}

/*
 * The address space is in TTBR0_EL1, which QEMU's gdb stub has no fixed number for. What is written to it stands in a
 * general register, and writing to a system register ends a block: at the next instruction, a block's first one, that
 * register is true.
 */
static struct {
	uint64_t next;
	uint32_t source;
} writes[MAX_SITES];
static unsigned int n_writes;
static uint64_t address_space = UINT64_MAX; /* until it is first written */

static void note_write(uint64_t next, uint32_t source)
{
	for (unsigned int i = 0; i < n_writes; i++)
		if (writes[i].next == next) {
			writes[i].source = source;
			return;
		}
	if (n_writes < MAX_SITES) {
		writes[n_writes].next = next;
		writes[n_writes++].source = source;
	}
}

bool isa_may_change_address_space(const struct instruction *instruction, uintptr_t *data)
{
	uint32_t word = word_of(instruction->code);

	if ((word & 0xffffffe0) == 0xd5182000) /* msr ttbr0_el1, x */
		note_write(instruction->address + INSN, word & 31);
	for (unsigned int i = 0; instruction->first && i < n_writes; i++)
		if (writes[i].next == instruction->address) {
			*data = writes[i].source;
			return true;
		}
	return false;
}

void isa_address_space_changed(uintptr_t source)
{
	address_space = source == NO_REGISTER ? 0 : read_register((int)source);
}

bool isa_in_user(unsigned int cpu)
{
	return !(read_register_of(cpu, STATE) & STATE_EL);
}

bool isa_interrupts_on(void)
{
	return !(read_register(STATE) & STATE_NO_IRQ);
}

uint64_t isa_ip(void)
{
	return read_register(IP);
}

uint64_t isa_stack(void)
{
	return read_register(STACK);
}

uint64_t isa_address_space(void)
{
	return address_space & places.cr3_mask;
}

uint64_t isa_first_argument(void)
{
	return read_register(X0);
}

uint64_t isa_next_task(void)
{
	return 0;
}

uint64_t isa_system_call(void)
{
	return read_register(X8);
}

uint64_t isa_return_site(void)
{
	return read_register(LINK);
}
#endif
