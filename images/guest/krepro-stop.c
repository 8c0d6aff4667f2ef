// SPDX-License-Identifier: MIT
/*
 * krepro-stop: stop the machine by its ib700 watchdog while the CPU idles, and go on when it runs again.
 *
 * A stop that the running CPU asks for itself is no exact one: QEMU finishes it in its main loop, and with icount
 * and sleep=off the virtual clock jumps to the next timer if the stopped CPU already counts as idle by then. An idle
 * CPU leaves no such choice: the watchdog fires at its deadline, and the same happens every time.
 */
#include "krepro.h"

/* QEMU hw/watchdog/wdt_ib700.c: writing i to ENABLE arms it for 30 - 2 i seconds, anything to DISABLE ends it. */
#define IB700_DISABLE 0x441
#define IB700_ENABLE 0x443
#define TWO_SECONDS 0x0e

static void write_port(int port, off_t address, unsigned char value)
{
	if (pwrite(port, &value, 1, address) != 1)
		die_errno("port %#llx", (unsigned long long)address);
}

int main(void)
{
	struct timespec left = { .tv_sec = 2, .tv_nsec = 500000000 };
	int port = open_or_die("/dev/port", O_WRONLY);

	write_port(port, IB700_ENABLE, TWO_SECONDS);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
	write_port(port, IB700_DISABLE, 0);
	return 0;
}
