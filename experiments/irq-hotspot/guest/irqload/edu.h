/* SPDX-License-Identifier: MIT */
/*
 * The krepro-edu driver as a program sees it: its sysfs attributes and, mapped,
 * the device's registers. Units are those of Documentation/ABI/testing/
 * sysfs-driver-krepro-edu in the kernel patch: one loop is two instructions.
 */
#ifndef EDU_H
#define EDU_H

#include "krepro.h"

#include <limits.h>

enum {
	EDU_STATUS = 0x24,
	EDU_RAISE = 0x60,
	EDU_USER_BIT = 0x2, /* bit 0 is the driver's own */
	EDU_SPINS = 100000000,
};

struct edu {
	char path[PATH_MAX / 2];
	volatile uint32_t *registers;
	int handler_loops, irqs_on, handled, raise, work;
};

void edu_open(struct edu *edu);

/*
 * One interrupt out of user mode. Waits for the handler, lest two become one. Inline, as what it takes is what a handler
 * is timed by.
 */
static inline void edu_raise_user(const struct edu *edu)
{
	edu->registers[EDU_RAISE / 4] = EDU_USER_BIT;
	for (int spin = 0; edu->registers[EDU_STATUS / 4]; spin++)
		if (spin == EDU_SPINS)
			die("%s: the interrupt that was raised is not handled", edu->path);
}

/* One interrupt out of kernel mode, inside krepro_edu_raise(). */
void edu_raise_kernel(const struct edu *edu);
void edu_work(const struct edu *edu, uint64_t loops);

#endif
