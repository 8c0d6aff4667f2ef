/* SPDX-License-Identifier: MIT */
/* A loop whose instructions are known, inline. */
#ifndef SHIM_KNOWN_H
#define SHIM_KNOWN_H

/* Two instructions a turn. arm64's assembler has macros of these names (images/arm64/lib/krepro-loop.h). */
static inline void known_loop(unsigned long turns)
{
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
}

#endif
