/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registers of a CPU, by the numbers in qemu.h. Any is true between two instructions outside a block; general ones
 * also at a block's first instruction, and what only helpers write (CR3, CS, RFLAGS.IF) everywhere.
 */
#ifndef KREPRO_REGISTERS_H
#define KREPRO_REGISTERS_H

#include "qemu.h"

bool registers_known(void); /* whether this QEMU exports what the rest needs */
/* A mode's `lacks` that needs these and the guest's memory. */
struct settings;
const char *registers_lacks(const struct settings *settings);
void registers_init(void);
uint64_t read_register_of(unsigned int cpu, int number);
uint64_t read_register(int number); /* of the first CPU */

#endif
