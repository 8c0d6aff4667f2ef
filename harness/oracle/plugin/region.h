/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The region of interest: what lies between the marks that guest programs execute. */
#ifndef KREPRO_REGION_H
#define KREPRO_REGION_H

#include "oracle.h"

struct region {
	unsigned int begun; /* so far */
	bool open;
};

extern struct region regions[KINDS];

struct mark {
	enum kind kind;
	enum operation operation;
};

/* Whether the instruction is a mark, and which. */
bool mark_of(const struct instruction *instruction, struct mark *mark);
/* Whether samples are taken: in a workload, and in a collector's window around it. */
bool region_measured(void);
/* A mark was executed. False: it begins what has begun, or ends what has not; then nothing else may come of it. */
bool mark_executed(unsigned int cpu, struct mark mark);
void region_report(FILE *json);

#endif
