/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's kernel as the host's reader describes it; addresses ascend. */
#ifndef KREPRO_PLACES_H
#define KREPRO_PLACES_H

#include "context.h"

#include <stddef.h>
#include <stdint.h>

enum { MAX_FUNCTIONS = 1 << 17, MAX_ENTRIES = 4096, MAX_TASK = 16, MAX_LOCKS = 64, MAX_THUNKS = 64, PAGE_BITS = 12 };

struct range {
	uint64_t low, high;
};

struct places {
	uint64_t functions[MAX_FUNCTIONS]; /* first bytes */
	size_t n_functions;
	uint64_t text_end, kernel; /* first byte behind the functions; first kernel address */
	struct entry {
		uint64_t low, high, step;
		enum context context;
	} entry[MAX_ENTRIES];
	size_t n_entries;
	struct range returns, softirq;
	uint64_t task[MAX_TASK]; /* functions that only task context runs */
	size_t n_task;
	uint64_t switch_to, fork, wake;
	uint64_t exec_begin, exec_done, exit_group, exit_memory;
	uint64_t stack_bytes, cr3_mask;
	struct range thunk[MAX_THUNKS]; /* functions that only go on to where a register says */
	size_t n_thunks;
	uint64_t lock[MAX_LOCKS];
	size_t n_locks;
};

extern struct places places;

/* The number of the function that holds an address between the first function and text_end. */
size_t places_function(uint64_t address);
/* The first byte behind a function. */
uint64_t places_end(size_t function);
/* Reads the description, whose lines places.c lists; dies when there is none or it is not understood. */
void places_read(const char *path);

#endif
