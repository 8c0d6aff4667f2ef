/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Self-checks: what was counted of krepro-roi's known work. It is done several times before each workload, and the
 * least disturbed counts: the least of them. One number a workload, so that none hides another.
 */
#ifndef KREPRO_CHECK_H
#define KREPRO_CHECK_H

#include <stdint.h>
#include <stdio.h>

struct check {
	uint64_t least[64];
	unsigned int n; /* workloads begun */
};

void check_done(struct check *check, uint64_t counted);
void check_report(const struct check *check, FILE *json);

#endif
