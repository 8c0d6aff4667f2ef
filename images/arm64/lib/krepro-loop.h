/* SPDX-License-Identifier: MIT */
/*
 * Included first by every C file for arm64: the two instructions of a known loop, by the names that x86 has for them.
 * So the loops of images/guest, and what is known of them, are the same: two instructions a lap.
 */
#ifndef KREPRO_LOOP_H
#define KREPRO_LOOP_H

__asm__(".macro dec register\n\tsubs \\register, \\register, #1\n\t.endm\n\t"
	".macro jnz label\n\tb.ne \\label\n\t.endm");

#endif
