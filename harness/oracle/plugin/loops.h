/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions whose first instruction is the head of a loop of their own: it is executed once a round, and entered once.
 *
 * A jump back is seen where it starts. It is taken if the next instruction of the same context is the function's first,
 * and not if it is the one behind the jump. Interrupts between the two have a context of their own.
 */
#ifndef KREPRO_LOOPS_H
#define KREPRO_LOOPS_H

#include "oracle.h"
#include "places.h"

/* Before the first instruction of a function is translated: whether it may have such a jump. */
void loops_find(struct range function);
/* For each instruction of a function that begins at `low`: takes 1 from *entries where a jump of its own leads there. */
void loops_translate(const struct instruction *instruction, uint64_t low, uint64_t *entries);

#endif
