// SPDX-License-Identifier: MIT
/*
 * ptfate KIND [caught]: end in one way, or with `caught` say what the signal handler was told and exit 0.
 *
 * Kinds: exit, map, access, null, write, bus, fpe, ill, int3, abort, kill, trap, div-across. What is printed must not
 * depend on whether somebody traces this process.
 */
#include "page.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static volatile uint8_t *page;
static uint64_t base;

static void say(int number, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	char text[256];
	uint64_t place = (uint64_t)info->si_addr;
	int n;

	/* A place in the mapping is told as an offset: where that is differs from run to run. */
	if (place - base < 4 * PAGE)
		place -= base;
	n = snprintf(text, sizeof(text), "signal %d code %d place %llx error %llx trap %llx cr2 %llx flags %llx\n", number,
		     info->si_code, (unsigned long long)(number == SIGSEGV || number == SIGBUS ? place : 0),
		     (unsigned long long)r[REG_ERR], (unsigned long long)r[REG_TRAPNO],
		     (unsigned long long)((uint64_t)r[REG_CR2] - base < 4 * PAGE ? (uint64_t)r[REG_CR2] - base : 0),
		     (unsigned long long)(r[REG_EFL] & 0x100));
	if (write(STDOUT_FILENO, text, (size_t)n) != n)
		_exit(1);
	_exit(0);
}

static void catch_all(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = say, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&other, NULL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

static volatile uint8_t *file_page(void)
{
	int fd = memfd_create("ptfate", 0);

	if (fd < 0 || ftruncate(fd, PAGE))
		die_errno("memfd_create");
	page = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	base = (uint64_t)page;
	return page;
}

int main(int argc, char **argv)
{
	const char *kind = argv[1];

	if (argc < 2 || argc > 3)
		die_usage("usage: ptfate KIND [caught]");
	page = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	base = (uint64_t)page;
	for (unsigned int i = 0; i < 4; i++)
		page[i * PAGE] = 1;
	mprotect((void *)(page + PAGE), PAGE, PROT_NONE);
	mprotect((void *)(page + 2 * PAGE), PAGE, PROT_READ);
	munmap((void *)(page + 3 * PAGE), PAGE);
	puts("begins");
	fflush(stdout);
	if (argc == 3)
		catch_all();
	if (!strcmp(kind, "exit")) {
		return 77;
	} else if (!strcmp(kind, "map")) {
		(void)page[3 * PAGE];
	} else if (!strcmp(kind, "access")) {
		(void)page[PAGE];
	} else if (!strcmp(kind, "null")) {
		__asm__ volatile("mov 8(%0), %%rax" : : "r"(0l) : "rax", "memory");
	} else if (!strcmp(kind, "write")) {
		page[2 * PAGE] = 1;
	} else if (!strcmp(kind, "across")) {
		/* The first half may be read, the second may not. */
		(void)*(volatile uint64_t *)(page + PAGE - 4);
	} else if (!strcmp(kind, "push-across")) {
		__asm__ volatile("mov %%rsp, %%rbx\n\tlea 4(%0), %%rsp\n\tpushq (%1)\n\tmov %%rbx, %%rsp"
				 :
				 : "r"(page + 2 * PAGE), "r"(page)
				 : "rbx", "memory");
	} else if (!strcmp(kind, "bus")) {
		file_page()[2 * PAGE] = 1;
	} else if (!strcmp(kind, "bus-across")) {
		*(volatile uint64_t *)(file_page() + PAGE - 4) = 1;
	} else if (!strcmp(kind, "fpe")) {
		__asm__ volatile("xor %%edx, %%edx\n\tmov $1, %%eax\n\txor %%ecx, %%ecx\n\tdiv %%ecx" : : : "eax", "ecx", "edx");
	} else if (!strcmp(kind, "div-across")) {
		/* Divides by a zero that lies in two pages, which is found only when both were read. */
		volatile uint8_t *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		two[0] = two[PAGE + 8] = 1;
		__asm__ volatile("xor %%edx, %%edx\n\tmov $1, %%eax\n\tdivl (%0)" : : "r"(two + PAGE - 2) : "eax", "edx");
	} else if (!strcmp(kind, "ill")) {
		__asm__ volatile("ud2");
	} else if (!strcmp(kind, "int3")) {
		__asm__ volatile("int3");
	} else if (!strcmp(kind, "trap")) {
		__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop" : : : "memory", "cc");
	} else if (!strcmp(kind, "abort")) {
		abort();
	} else if (!strcmp(kind, "kill")) {
		raise(SIGKILL);
	} else {
		die_usage("%s is no kind", kind);
	}
	puts("goes on");
	return 0;
}
