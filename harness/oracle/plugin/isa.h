/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the modes must know of the guests' instruction set. One file for each has it, and is empty unless the plugin is
 * compiled for that one: isa_x86.c, and with GUEST_ARM64 isa_arm64.c.
 */
#ifndef KREPRO_ISA_H
#define KREPRO_ISA_H

#include "oracle.h"
#include "places.h"

extern const char isa_target[]; /* as QEMU calls its systems */
extern const bool isa_has_nmis;
extern const size_t isa_step; /* instructions begin at its multiples */

/* -- code ----------------------------------------------------------------------------------------------- */

/* A mark's number, kind << 8 | operation; -1: the instruction is none. */
int isa_mark(const uint8_t *code, size_t size);
/* Works on registers alone: whenever this one starts, the next one does too. Not knowing one costs time only. */
bool isa_cannot_fail(const uint8_t *code, size_t size);
/* Ends what an entry point entered. */
bool isa_leaves_kernel_entry(const uint8_t *code, size_t size);
/* Returns, or jumps out of the function (a tail call, or a return thunk). */
bool isa_leaves_function(struct range function, uint64_t address, const uint8_t *code, size_t size);
/* The direct jump that begins here: its size, and where it goes; 0: none does. The code need be no instruction's. */
size_t isa_jump(const uint8_t *code, size_t room, uint64_t address, uint64_t *target);
/* How an instruction goes on elsewhere, to come back or not. */
enum flow { FLOW_ON, FLOW_CALL, FLOW_RETURN, FLOW_JUMP };
enum flow isa_flow(const uint8_t *code, size_t size);
/* May stand before the jump of a linker's stub: what does nothing, and what loads where it goes to. */
bool isa_before_stub_jump(const uint8_t *code, size_t size);
extern const bool isa_call_pushes; /* the place it returns to, on the stack */
/* Waits for an interrupt. */
bool isa_halts(const uint8_t *code, size_t size);
/*
 * Whether the address space may be another from this instruction on. Then isa_address_space_changed is to be called
 * where it is executed, with *data.
 */
bool isa_may_change_address_space(const struct instruction *instruction, uintptr_t *data);
void isa_address_space_changed(uintptr_t data);

/* -- registers, as true as registers.h says ----------------------------------------------------------------- */

bool isa_in_user(unsigned int cpu);
bool isa_interrupts_on(void);
uint64_t isa_ip(void);
uint64_t isa_stack(void);
uint64_t isa_address_space(void);
/* At a function's first instruction. The site is where it returns to; 0: it cannot be told. */
uint64_t isa_first_argument(void);
/* Of the function that switches tasks: the task that comes; 0: it cannot be told. */
uint64_t isa_next_task(void);
uint64_t isa_return_site(void);
uint64_t isa_system_call(void); /* its number, where it enters the kernel */

#endif
