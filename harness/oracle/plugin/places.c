// SPDX-License-Identifier: GPL-2.0-or-later
#include "places.h"

#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct places places;

/*
 * One fact a line, hexadecimal numbers:
 *   function A ...        functions in ascending order
 *   text END KERNEL       end of the last function; lowest kernel address
 *   entry C LOW HIGH STEP entry points of context C (0 a system call): LOW, LOW + STEP ... below HIGH
 *   returns LOW HIGH      code whose iret, sysexit and sysret leave what an entry entered
 *   softirq LOW HIGH      the function that runs softirqs
 *   task A, switch A, fork A, wake A (a new task, for the first time), lock A
 *   thunk LOW HIGH        a function by which the kernel calls what a register holds
 *   exec BEGIN DONE       functions that begin a new address space, and that go on in it
 *   exit GROUP MEMORY     functions that end a whole process, and that give up its memory
 *   stack BYTES, cr3 MASK (arm64: of TTBR0_EL1)
 */
void places_read(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256];
	uint64_t a, b, c, d;

	if (!file)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		struct places *p = &places;

		if (sscanf(line, "function %" SCNx64, &a) == 1 && p->n_functions < MAX_FUNCTIONS)
			p->functions[p->n_functions++] = a;
		else if (sscanf(line, "text %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->text_end = a, p->kernel = b;
		else if (sscanf(line, "entry %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &a, &b, &c, &d) == 4 &&
			 p->n_entries < MAX_ENTRIES && a < CONTEXTS && d)
			p->entry[p->n_entries++] = (struct entry){ b, c, d, (enum context)a };
		else if (sscanf(line, "returns %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->returns = (struct range){ a, b };
		else if (sscanf(line, "softirq %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->softirq = (struct range){ a, b };
		else if (sscanf(line, "task %" SCNx64, &a) == 1 && p->n_task < MAX_TASK)
			p->task[p->n_task++] = a;
		else if (sscanf(line, "switch %" SCNx64, &a) == 1)
			p->switch_to = a;
		else if (sscanf(line, "fork %" SCNx64, &a) == 1)
			p->fork = a;
		else if (sscanf(line, "wake %" SCNx64, &a) == 1)
			p->wake = a;
		else if (sscanf(line, "thunk %" SCNx64 " %" SCNx64, &a, &b) == 2 && p->n_thunks < MAX_THUNKS)
			p->thunk[p->n_thunks++] = (struct range){ a, b };
		else if (sscanf(line, "exec %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->exec_begin = a, p->exec_done = b;
		else if (sscanf(line, "exit %" SCNx64 " %" SCNx64, &a, &b) == 2)
			p->exit_group = a, p->exit_memory = b;
		else if (sscanf(line, "stack %" SCNx64, &a) == 1)
			p->stack_bytes = a;
		else if (sscanf(line, "cr3 %" SCNx64, &a) == 1)
			p->cr3_mask = a;
		else if (sscanf(line, "lock %" SCNx64, &a) == 1 && p->n_locks < MAX_LOCKS)
			p->lock[p->n_locks++] = a;
		else
			die("%s: not understood: %s", path, line);
	}
	fclose(file);
	if (!places.n_functions || !places.kernel)
		die("%s: no functions", path);
}

size_t places_function(uint64_t address)
{
	size_t low = 0, high = places.n_functions;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (places.functions[middle] <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint64_t places_end(size_t function)
{
	return function + 1 < places.n_functions ? places.functions[function + 1] : places.text_end;
}
