// SPDX-License-Identifier: MIT
/*
 * krepro-end: end the machine at once, as a guest that has done its job. QEMU takes the call as a debugger would
 * (semihosting SYS_EXIT), and ends with the status that isa-debug-exit gives on x86.
 */
#include "krepro.h"

#define SYS_EXIT 0x18
#define ADP_STOPPED_APPLICATION_EXIT 0x20026
#define DONE 1

int main(void)
{
	const uint64_t block[2] = { ADP_STOPPED_APPLICATION_EXIT, DONE };

	sync();
	/* No call between these and the instruction: it would change them. */
	register uint64_t operation __asm__("x0") = SYS_EXIT;
	register const uint64_t *argument __asm__("x1") = block;

	__asm__ volatile("hlt #0xf000" : "+r"(operation) : "r"(argument) : "memory");
	die("this machine takes no semihosting call");
}
