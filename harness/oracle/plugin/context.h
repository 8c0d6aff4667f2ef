/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The context that the guest is in, known without its help. Entry points push what they enter; iret, sysexit and
 * sysret in the kernel's entry code pop it; the function that runs softirqs pushes and pops on its own. Each kernel
 * stack has its own context stack, swapped in __switch_to: a task that sleeps inside a page fault finds its exception
 * again. An interrupt that comes to the scheduler, or to a signal, has done its work: the rest of it is the task's.
 */
#ifndef KREPRO_CONTEXT_H
#define KREPRO_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum context { IN_TASK, IN_INTERRUPT, IN_SOFTIRQ, IN_EXCEPTION, IN_NMI, IN_USER, CONTEXTS };
/* What an instruction does to the context. */
enum turn { TURN_NONE, TURN_ENTERS, TURN_LEAVES };

struct instruction;

/* `on_change` is called before each change, with the context that ends. Without this call it is IN_TASK for ever. */
void context_init(void (*on_change)(enum context ending));
enum context context_now(void);
/*
 * What is kept of each frame of a kernel stack: the lowest is user code, or the kernel thread's own. `data` is the
 * reader's; `fresh` is set when another begins in its place. A deeper one interrupted or entered from the one below.
 */
struct slot {
	void *data;
	bool fresh;
};
/* Of the stack that is in use; the last is number *depth. */
struct slot *context_slots(unsigned int *depth);
/* Whether the instruction ends what an entry point, or the function of softirqs, began. */
bool context_leaves(const struct instruction *instruction);
/* What the last such instruction ended: where it is executed, that is no longer the last frame. */
enum context context_left(struct slot **slot);
/* Grows whenever another frame is the last. */
uint64_t context_turns(void);
/* A word of whatever runs now: what interrupts it has another, and finds it as it is when it goes on. */
uintptr_t *context_note(void);
/*
 * To be called for each of the kernel's instructions. One that leaves is the last of what ends: it adds 1 to
 * *leaving before the context changes, since counters in generated code would count it after that.
 */
enum turn context_translate(const struct instruction *instruction, uint64_t *leaving);
void context_report(FILE *json);

#endif
