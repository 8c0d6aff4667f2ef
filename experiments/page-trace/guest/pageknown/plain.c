// SPDX-License-Identifier: MIT
/* Known sequences of single accesses. */
#include "known.h"

enum { RANDOM = 1960 };

static void walk(uint64_t from, int64_t step, unsigned int n, bool write)
{
	uint64_t p = from, left = n, x = n;

	if (write)
		__asm__ volatile("1: mov %2, (%0)\n\tadd %3, %0\n\tdec %1\n\tjnz 1b"
				 : "+&r"(p), "+&r"(left)
				 : "r"(x), "r"(step)
				 : "cc", "memory");
	else
		__asm__ volatile("1: mov (%0), %2\n\tadd %3, %0\n\tdec %1\n\tjnz 1b"
				 : "+&r"(p), "+&r"(left), "+&r"(x)
				 : "r"(step)
				 : "cc", "memory");
	for (p = from; n--; p += (uint64_t)step)
		expect((unsigned int)((p - ARENA) / PAGE), write);
}

void forward(void)
{
	walk(at(0, 0), 512, STREAM * PAGE / 512, false);
}

void backward(void)
{
	walk(at(STREAM, -8), -512, STREAM * PAGE / 512, true);
}

/* Three pages on each time, and around from the other end. */
void stride(void)
{
	for (unsigned int start = 0; start < 3; start++)
		walk(at(start, 8), 3 * PAGE, (STREAM - start + 2) / 3, start & 1);
}

void random_pages(void)
{
	uint32_t x = 1;

	for (unsigned int i = 0; i < RANDOM; i++, x = xorshift(x)) {
		volatile uint8_t *p = (volatile uint8_t *)at(x >> 8 & (STREAM - 1), (int)(x & (PAGE - 1)));

		if (x >> 20 & 1)
			*p = (uint8_t)x;
		else
			(void)*p;
	}
	x = 1;
	for (unsigned int i = 0; i < RANDOM; i++, x = xorshift(x))
		expect(x >> 8 & (STREAM - 1), x >> 20 & 1);
}

/* Two instructions, one page each; all registers the same each time. */
void ping_pong(void)
{
	COUNTER(ROUNDS);
	__asm__ volatile("xor %%eax, %%eax\n\t"
			 "1: mov (%0), %%rcx\n\t"
			 "mov %%rcx, (%1)\n\t" COUNT_DOWN
			 :
			 : "r"(at(0, 0)), "r"(at(1, 0))
			 : "rax", "rcx", "cc", "memory");
	expect_rounds(ROUNDS, 1);
}

/* One instruction for both pages: of the registers only the address changes. */
void same_instruction(void)
{
	uint64_t address = at(0, 16);

	COUNTER(2 * ROUNDS);
	__asm__ volatile("xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\t"
			 "1: mov (%0), %%rcx\n\t"
			 "xor $4096, %0\n\t" COUNT_DOWN
			 : "+r"(address)
			 :
			 : "rax", "rcx", "cc", "memory");
	expect_rounds(ROUNDS, 0);
}

/* The same page again and again, then the same instruction on the next. */
void dwell(void)
{
	for (unsigned int page = 0; page < 8; page++) {
		uint64_t address = at(page & 3, 24);

		COUNTER(1000);
		__asm__ volatile("xor %%eax, %%eax\n\t1: mov (%0), %%rcx\n\t" COUNT_DOWN
				 :
				 : "r"(address)
				 : "rax", "rcx", "cc", "memory");
		expect(page & 3, 0);
	}
}

/* Rows of A on pages 0.., of B on pages 8.., of C on pages 16... */
void matmul(void)
{
	volatile double *a = (volatile double *)at(0, 0), *b = (volatile double *)at(SIDE, 0);
	volatile double *c = (volatile double *)at(2 * SIDE, 0);
	enum { ROW = PAGE / sizeof(double) };

	for (unsigned int i = 0; i < SIDE; i++) {
		for (unsigned int j = 0; j < SIDE; j++) {
			double sum = 0;

			for (unsigned int k = 0; k < SIDE; k++) {
				double x = a[i * ROW + k];
				double y = b[k * ROW + j];

				sum += x * y;
			}
			c[i * ROW + j] = sum;
		}
	}
	for (unsigned int i = 0; i < SIDE; i++) {
		for (unsigned int j = 0; j < SIDE; j++) {
			for (unsigned int k = 0; k < SIDE; k++) {
				expect(i, 0);
				expect(SIDE + k, 0);
			}
			expect(2 * SIDE + i, 1);
		}
	}
}

/*
 * A page made huge, whole, then used by 4 KiB pages; then split by giving one of them back.
 * The order over the huge page's middle and its last page is that of any other pages.
 */
void huge(void)
{
	static const uint16_t order[] = { 0, 511, 17, 300, 0, 255, 256, 1, 510 };
	char line[256];
	long kb = 0;
	FILE *maps;

	if (munmap((void *)ARENA, 512 * PAGE) ||
	    mmap((void *)ARENA, 512 * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)ARENA ||
	    madvise((void *)ARENA, 512 * PAGE, MADV_HUGEPAGE) ||
	    madvise((void *)ARENA, 512 * PAGE, MADV_POPULATE_WRITE))
		die_errno("no huge page");
	maps = fopen("/proc/self/smaps", "r");
	for (bool here = false; maps && fgets(line, sizeof(line), maps);) {
		unsigned long long first;
		long value;

		if (sscanf(line, "%llx-", &first) == 1 && strchr(line, '-') && strchr(line, ':') > strchr(line, '-'))
			here = first == ARENA;
		if (here && sscanf(line, "AnonHugePages: %ld", &value) == 1)
			kb = value;
	}
	if (maps)
		fclose(maps);
	check("huge_kb", kb, 2048);
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < sizeof(order) / sizeof(order[0]); i++)
			store(order[i], 32, order[i] + 1u);
		__asm__ volatile("mov (%0), %%rax" : : "r"(at(256, -4)) : "rax", "memory");
		expect(255, 0);
		expect(256, 0);
		if (!round && madvise((void *)at(17, 0), PAGE, MADV_DONTNEED)) /* it is split */
			die_errno("madvise");
		check(round ? "kept" : "given_back", (long)load(17, 32), round ? 18 : 0);
	}
	for (unsigned int i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (peek(at(order[i], 32)) != order[i] + 1u)
			check("lost", order[i], -1);
}
