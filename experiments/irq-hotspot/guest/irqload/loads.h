/* SPDX-License-Identifier: MIT */
/* The loads of irqload: each runs to its end and prints its line. */
#ifndef LOADS_H
#define LOADS_H

#include "krepro.h"

struct options {
	uint64_t seconds, rate, loops, user_work, blocks, block_size, port, bytes, seed;
	bool irqs_on;
	const char *from, *device, *host;
};

void run_edu(const struct options *options);
void run_disk(const struct options *options);
void run_net(const struct options *options);
void run_syscalls(const struct options *options);
void run_idle(const struct options *options);

#endif
