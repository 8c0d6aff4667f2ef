// SPDX-License-Identifier: MIT
/* Known sequences of instructions that touch several pages each. */
#include "known.h"

#include <ucontext.h>

enum { TIMES = 20, TRAP_FLAG = 0x100 };

/* rbx keeps the stack pointer while the stack is in the arena; signals that come have their own stack. */
#define ON_STACK(sp, code) "mov %%rsp, %%rbx\n\tmov " sp ", %%rsp\n\t" code "mov %%rbx, %%rsp\n\t"

static void straddle(unsigned int page, bool write)
{
	if (write)
		__asm__ volatile("mov %0, -3(%0)" : : "r"(at(page + 1, 0)) : "memory");
	else
		__asm__ volatile("mov -3(%0), %%rax" : : "r"(at(page + 1, 0)) : "rax", "memory");
	expect(page, write);
	expect(page + 1, write);
}

void straddle_load(void)
{
	for (unsigned int i = 0; i < TIMES; i++)
		straddle(i * 2 % 8, false);
}

void straddle_store(void)
{
	for (unsigned int i = 0; i < TIMES; i++)
		straddle(i * 2 % 8, true);
}

/* The first of the two pages was the one visited last: it is no second visit. */
void straddle_warm(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		load(i % 7, 0);
		straddle(i % 7, i & 1);
		load(i % 7 + 1, 8);
	}
}

/* Source and destination in turn, once on new addresses and once with the same registers each time. */
void movs(void)
{
	uint64_t from = at(0, 0), to = at(1, 0), left = ROUNDS;

	__asm__ volatile("1: movsq\n\tdec %2\n\tjnz 1b" : "+S"(from), "+D"(to), "+r"(left) : : "cc", "memory");
	expect_rounds(ROUNDS, 1);
	COUNTER(ROUNDS);
	__asm__ volatile("xor %%eax, %%eax\n\t1: movsq\n\tsub $8, %0\n\tsub $8, %1\n\t" COUNT_DOWN
			 : "+S"(from), "+D"(to)
			 :
			 : "rax", "cc", "memory");
	expect_rounds(ROUNDS, 1);
}

/*
 * A repeated string instruction is one instruction: `expected` has a visit for each page that one of its operands
 * comes to, `iterations` has every iteration.
 */
static void expect_rep(int from, int to, unsigned int size, unsigned int n)
{
	int last_from = -1, last_to = -1;

	for (unsigned int i = 0; i < n; i++, from += (int)size, to += (int)size) {
		if (from >= 0) {
			append(&iterations, (unsigned int)from / PAGE, 0);
			if (from / PAGE != last_from)
				expect((unsigned int)from / PAGE, 0);
			last_from = from / PAGE;
		}
		append(&iterations, (unsigned int)to / PAGE, 1);
		if (to / PAGE != last_to)
			expect((unsigned int)to / PAGE, 1);
		last_to = to / PAGE;
	}
}

void rep_movsb(void)
{
	uint64_t from = at(1, -40), to = at(5, -24), n = 96;

	__asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
	expect_rep(PAGE - 40, 5 * PAGE - 24, 1, 96);
}

void rep_movsq(void)
{
	uint64_t from = at(0, 512), to = at(8, 2048), n = 3 * PAGE / 8;

	__asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(n) : : "memory");
	expect_rep(512, 8 * PAGE + 2048, 8, 3 * PAGE / 8);
}

void rep_stosq(void)
{
	uint64_t to = at(2, 1024), n = 4 * PAGE / 8;

	__asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(7) : "memory");
	expect_rep(-PAGE * PAGE, 2 * PAGE + 1024, 8, 4 * PAGE / 8);
	iterations.n = 0; /* the same */
}

void push_mem(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%1", "pushq (%0)\n\t")
				 :
				 : "r"(at(i % 4, 0)), "r"(at(5, 0))
				 : "rbx", "memory");
		expect(i % 4, 0);
		expect(4, 1);
	}
}

/* The source was the page visited last. */
void push_mem_warm(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		load(i % 4, 0);
		__asm__ volatile(ON_STACK("%1", "pushq (%0)\n\t")
				 :
				 : "r"(at(i % 4, 0)), "r"(at(5, 0))
				 : "rbx", "memory");
		expect(4, 1);
	}
}

/* Registers are the same each time, and nothing else touches memory. */
void push_mem_loop(void)
{
	COUNTER(ROUNDS);
	__asm__ volatile("xor %%eax, %%eax\n\t" ON_STACK("%1", "1: pushq (%0)\n\tadd $8, %%rsp\n\t" COUNT_DOWN)
			 :
			 : "r"(at(0, 0)), "r"(at(2, 0))
			 : "rax", "rbx", "cc", "memory");
	expect_rounds(ROUNDS, 1);
}

/* Two source pages and two stack pages in one instruction. */
void push_straddle(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%1", "pushq (%0)\n\t")
				 :
				 : "r"(at(1, -4)), "r"(at(3, 4))
				 : "rbx", "memory");
		expect(0, 0);
		expect(1, 0);
		expect(2, 1);
		expect(3, 1);
	}
}

void pop_mem(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%1", "popq (%0)\n\t")
				 :
				 : "r"(at(i % 4, 0)), "r"(at(4, 0))
				 : "rbx", "memory");
		expect(4, 0);
		expect(i % 4, 1);
	}
}

__asm__(".pushsection .text\nknown_return: ret\n.popsection");
extern const char known_return[];

void call_mem(void)
{
	for (unsigned int i = 0; i < 4; i++)
		put(at(i, 64), (uint64_t)known_return);
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%1", "callq *64(%0)\n\t")
				 :
				 : "r"(at(i % 4, 0)), "r"(at(5, 0))
				 : "rbx", "memory");
		expect(i % 4, 0);
		expect(4, 1); /* the return address, which the ret reads */
	}
}

/*
 * A read-modify-write is one visit. What it begins with differs: a locked one faults as a write on hardware and under
 * TCG with several CPUs, as a read under TCG with one.
 */
void rmw(void)
{
	long sum = 0;

	for (unsigned int i = 0; i < TIMES; i++) {
		uint64_t one = 1, two = 2, p = at(i % 3, 0);

		__asm__ volatile("lock xaddq %0, (%1)" : "+&r"(one) : "r"(p) : "cc", "memory");
		expect(i % 3, EITHER);
		__asm__ volatile("xchgq %0, (%1)" : "+&r"(two) : "r"(p + 3 * PAGE) : "memory");
		expect(i % 3 + 3, EITHER);
		__asm__ volatile("incq (%0)" : : "r"(p + 6 * PAGE) : "cc", "memory");
		expect(i % 3 + 6, EITHER);
	}
	for (unsigned int page = 0; page < 9; page++)
		sum += (long)peek(at(page, 0));
	check("sum", sum, TIMES + 3 * 2 + TIMES);
}

/* 512 bytes of which the middle is the page's end. */
void fxsave(void)
{
	for (unsigned int i = 0; i < TIMES; i++) {
		unsigned int page = i * 2 % 4;

		__asm__ volatile("fxsave64 (%0)" : : "r"(at(page + 1, -256)) : "memory");
		expect(page, 1);
		expect(page + 1, 1);
		__asm__ volatile("fxrstor64 (%0)" : : "r"(at(page + 1, -256)) : "memory");
		expect(page, 0);
		expect(page + 1, 0);
	}
}

/*
 * Eight elements of a gather on eight pages. Those in front of one that faults are done and out of its mask: they are not
 * accessed again.
 */
__attribute__((target("avx2"))) static void gather_pages(const int32_t *indices)
{
	for (unsigned int i = 0; i < TIMES; i++)
		__asm__ volatile("vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n\t"
				 "vmovdqu (%1), %%ymm2\n\t"
				 "vgatherdps %%ymm1, (%0,%%ymm2,4), %%ymm0\n\t"
				 "vzeroupper"
				 :
				 : "r"(at(0, 0)), "r"(indices)
				 : "xmm0", "xmm1", "xmm2", "memory");
}

void gather(void)
{
	int32_t indices[8];

	if (!__builtin_cpu_supports("avx2"))
		return;
	for (int k = 0; k < 8; k++)
		indices[k] = k * (PAGE / 4) + k;
	gather_pages(indices);
	for (unsigned int i = 0; i < TIMES * 8; i++)
		expect(i % 8, 0);
}

/* -- the trap flag: nobody who reads his flags may find the tracer's in them, and a program's own must work -- */

static volatile int traps, trap_code;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number;
	traps++;
	trap_code = info->si_code;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

void pushf(void)
{
	uint64_t leaked = 0;

	catch(SIGTRAP, on_trap);
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%0", "pushfq\n\t") : : "r"(at(1, 4)) : "rbx", "memory");
		expect(0, 1);
		expect(1, 1);
		leaked |= peek(at(1, -4)) & TRAP_FLAG;
		__asm__ volatile(ON_STACK("%0", "popfq\n\t") : : "r"(at(1, -4)) : "rbx", "cc", "memory");
		expect(0, 0);
		expect(1, 0);
	}
	check("tf_leak", (long)leaked, 0);
	check("traps", traps, 0);
}

/* The program steps itself by one instruction, with flags that it pops from two pages. */
void own_step(void)
{
	catch(SIGTRAP, on_trap);
	for (unsigned int i = 0; i < TIMES; i++) {
		__asm__ volatile(ON_STACK("%0", "pushfq\n\tpop %%rax\n\tor $0x100, %%rax\n\tpush %%rax\n\t"
						"popfq\n\tnop\n\tnop\n\t")
				 :
				 : "r"(at(1, 4))
				 : "rax", "rbx", "cc", "memory");
		expect(0, 1);
		expect(1, 1);
		expect(0, 0);
		expect(1, 0);
		expect(0, 1);
		expect(1, 1);
		expect(0, 0);
		expect(1, 0);
	}
	check("traps", traps, TIMES);
	check("si_code", trap_code, TRAP_TRACE);
}
