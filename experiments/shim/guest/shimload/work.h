/* SPDX-License-Identifier: MIT */
/* Work of known length, and a record of when which was done. Inline: its instructions are counted. */
#ifndef SHIM_WORK_H
#define SHIM_WORK_H

#include "known.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_CHUNKS = 1 << 17, MAX_THREADS = 16 };
enum kind { KIND_LOOP, KIND_DIVIDE, KIND_MEMORY, KIND_SYSCALL, KINDS, KIND_BUSY = 1 };

struct chunk {
	uint64_t begin, end;
	uint32_t kind;
	int32_t tid;
	uint64_t instructions, iterations;
};

/* Instructions of one turn; 0: not known. */
static const unsigned int kind_instructions[KINDS] = { 2, 5, 3, 0 };

static inline void work(enum kind kind, unsigned long turns)
{
	static void *ring[512];

	switch (kind) {
	case KIND_LOOP:
		known_loop(turns);
		break;
#if defined(__aarch64__)
	case KIND_DIVIDE:
		__asm__ volatile("1: movz x9, #0x4240\n\tmovk x9, #0xf, lsl #16\n\tudiv x9, x9, %1\n\tsubs %0, %0, #1\n\tb.ne 1b"
				 : "+r"(turns)
				 : "r"(7ul)
				 : "x9", "cc");
		break;
#else
	case KIND_DIVIDE:
		__asm__ volatile("1: mov $1000000, %%eax\n\txor %%edx, %%edx\n\tdiv %1\n\tdec %0\n\tjnz 1b"
				 : "+r"(turns)
				 : "r"(7)
				 : "eax", "edx", "cc");
		break;
#endif
	case KIND_MEMORY: {
		void *at = ring;

		if (!ring[0])
			for (int i = 0; i < 512; i++)
				ring[i] = &ring[(i * 5 + 1) % 512];
#if defined(__aarch64__)
		__asm__ volatile("1: ldr %1, [%1]\n\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(turns), "+r"(at) : : "cc", "memory");
#else
		__asm__ volatile("1: mov (%1), %1\n\tdec %0\n\tjnz 1b" : "+r"(turns), "+r"(at) : : "cc", "memory");
#endif
		break;
	}
	default:
		while (turns--)
			syscall(SYS_getppid);
	}
}

static inline pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

#endif
