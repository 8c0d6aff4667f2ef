/* SPDX-License-Identifier: MIT */
/* work.h: the workloads of probecost. Each does one known round; user-space places to probe are in work.c too. */
#ifndef WORK_H
#define WORK_H

#include "util.h"

/* Places for uprobes. */
extern long u_nop(long), u_push(long), u_step(long), u_deep(long), u_mark(long), u_frames(long, long);
extern char u_others[], usdt_mark[], usdt_semaphore[];

/* What a script says of its workload: turns of spin() after each round, frames, threads of "sleepers", a path's length. */
extern long spin_loops, depth, sleepers, path_length;

/* Inline: it is part of every round that is measured. */
static inline void spin(long loops)
{
	if (loops > 0)
		__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(loops) : : "cc");
}

struct work {
	const char *name;
	void (*once)(long round);
};

const struct work *find_work(const char *name);
void prepare_works(void);

#endif
