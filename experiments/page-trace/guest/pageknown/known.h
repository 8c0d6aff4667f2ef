/* SPDX-License-Identifier: MIT */
/* What the cases of pageknown are made of: the visits that one expects, its checks, single accesses. */
#ifndef KNOWN_H
#define KNOWN_H

#include "arena.h"

#include <signal.h>

enum { MAX_VISITS = 1 << 14, MAX_CHECKS = 8, EITHER = -1 };
enum { STREAM = 64, ROUNDS = 100, SIDE = 8 };

struct list {
	unsigned int n;
	struct {
		int16_t page;
		int8_t write; /* first access of the visit: 0 read, 1 write, EITHER */
	} visit[MAX_VISITS];
};

struct check {
	const char *name;
	long value;
};

extern struct list expected, iterations;
extern unsigned int n_checks, n_failed;
extern struct check checks[MAX_CHECKS];

void append(struct list *list, unsigned int page, int write);
void check(const char *name, long value, long wanted);

static inline void expect(unsigned int page, int write)
{
	append(&expected, page, write);
}

/* One after the other `rounds` times: a read of page 0 and an access to page 1. */
void expect_rounds(unsigned int rounds, int write_b);

/* Signals on a stack of their own. */
void catch(int number, void (*handler)(int, siginfo_t *, void *));

/* One access of 8 bytes within a page, and the visit that it is. Inline: nothing else is to come between two accesses. */
static inline uint64_t load(unsigned int page, int offset)
{
	uint64_t value;

	__asm__ volatile("mov (%1), %0" : "=r"(value) : "r"(at(page, offset)) : "memory");
	expect(page, 0);
	return value;
}

static inline void store(unsigned int page, int offset, uint64_t value)
{
	__asm__ volatile("mov %0, (%1)" : : "r"(value), "r"(at(page, offset)) : "memory");
	expect(page, 1);
}

/*
 * COUNT_DOWN: the loop's counter is in xmm0, and flags and rax are the same each time, so a tracer that looks at the
 * general registers sees an instruction that comes again with nothing changed.
 */
#define COUNTER(n) __asm__ volatile("movq %0, %%xmm0" : : "r"((uint64_t)(n)) : "xmm0")
#define COUNT_DOWN                                                                                                     \
	"movq %%xmm0, %%rax\n\tdec %%rax\n\tmovq %%rax, %%xmm0\n\tjz 2f\n\txor %%eax, %%eax\n\tjmp 1b\n\t2:\n\t"

/* The cases: plain.c, multi.c, kernel.c. */
void forward(void), backward(void), stride(void), random_pages(void), ping_pong(void);
void same_instruction(void), dwell(void), matmul(void), huge(void);
void straddle_load(void), straddle_store(void), straddle_warm(void), movs(void), rep_movsb(void);
void rep_movsq(void), rep_stosq(void), push_mem(void), push_mem_warm(void), push_mem_loop(void);
void push_straddle(void), pop_mem(void), call_mem(void), rmw(void), fxsave(void), gather(void), pushf(void);
void own_step(void);
void write_pipe(void), read_pipe(void), write_file(void), write_unaligned(void), read_file(void);
void futex_clock(void), invisible(void), signal_frame(void), refused(void), remap(void), fork_copy(void);

#endif
