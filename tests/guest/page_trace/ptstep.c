// SPDX-License-Identifier: MIT
/*
 * ptstep [BLOCK]: run a child by PTRACE_SINGLESTEP (or PTRACE_SINGLEBLOCK) over instructions that touch several pages.
 *
 * Prints how many stops there were, the sum of their places in the child's own code, how many had another cause than
 * the step, and how many saw a trap flag in flags that the child pushed. The same whether the child is traced or not.
 */
#include "trace.h"

#include <sys/ptrace.h>
#include <sys/user.h>

enum { ROUNDS = 50, TRAP_FLAG = 0x100 };

extern const char child_begin[], child_end[];

static void __attribute__((noinline)) child(volatile uint8_t *memory)
{
	uint64_t n = ROUNDS;

	__asm__ volatile("child_begin:\n\t"
			 "mov %%rsp, %%rbx\n\t"
			 "1: mov 4092(%1), %%rax\n\t"		/* across pages 0 and 1 */
			 "incq 8188(%1)\n\t"			/* across 1 and 2 */
			 "lea 12292(%1), %%rsp\n\t"
			 "pushq 4092(%1)\n\t"			/* from 0 and 1 to 2 and 3 */
			 "popq %%rax\n\t"
			 "pushfq\n\t"
			 "popq %%rax\n\t"
			 "mov %%rbx, %%rsp\n\t"
			 "lea 4000(%1), %%rsi\n\t"
			 "lea 12200(%1), %%rdi\n\t"
			 "mov $25, %%ecx\n\t"
			 "rep movsq\n\t"
			 "dec %0\n\t"
			 "jnz 1b\n\t"
			 "child_end:\n\t"
			 : "+r"(n)
			 : "r"(memory)
			 : "rax", "rbx", "rcx", "rsi", "rdi", "memory", "cc");
}

int main(int argc, char **argv)
{
	const bool block = argc == 2 && !strcmp(argv[1], "BLOCK");
	unsigned long stops = 0, other = 0, flagged = 0;
	volatile uint8_t *memory;
	uint64_t sum = 0;
	pid_t pid;
	int status;

	if (argc > 2 || (argc == 2 && !block))
		die_usage("usage: ptstep [BLOCK]");
	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		die_errno("mmap");
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		child(memory);
		_exit(9);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("the child did not stop");
	while (!ptrace(block ? PTRACE_SINGLEBLOCK : PTRACE_SINGLESTEP, pid, NULL, NULL)) {
		struct user_regs_struct registers;
		siginfo_t info;

		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
		ptrace(PTRACE_GETREGS, pid, NULL, &registers);
		if (registers.rip < (uint64_t)child_begin || registers.rip >= (uint64_t)child_end)
			continue;
		ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
		stops++;
		sum = sum * 31 + (registers.rip - (uint64_t)child_begin) + registers.rcx;
		other += info.si_signo != SIGTRAP || (info.si_code != TRAP_TRACE && info.si_code != TRAP_BRANCH);
		flagged += (registers.eflags & TRAP_FLAG) != 0;
	}
	printf("stops %lu sum %llx other %lu flagged %lu status %x\n", stops, (unsigned long long)sum, other, flagged,
	       (unsigned int)status);
	return 0;
}
