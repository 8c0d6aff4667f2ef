// SPDX-License-Identifier: MIT
/* Preloaded into QEMU: its CPU thread, having marked itself as halted, takes its time to account for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void slowly(const char *name, void *buffer, int value)
{
	void (*real)(void *, int) = (void (*)(void *, int))dlsym(RTLD_NEXT, name);

	usleep(300);
	real(buffer, value);
	abort();
}

/* Which of the two QEMU calls depends on how it was built. */
void siglongjmp(sigjmp_buf buffer, int value)
{
	slowly("siglongjmp", buffer, value);
}

void __longjmp_chk(sigjmp_buf buffer, int value);
void __longjmp_chk(sigjmp_buf buffer, int value)
{
	slowly("__longjmp_chk", buffer, value);
}
