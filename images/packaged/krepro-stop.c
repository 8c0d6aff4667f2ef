// SPDX-License-Identifier: MIT
/*
 * krepro-stop: stop the machine by its ib700 watchdog while the CPU idles, and go on when it runs again. Why while it
 * idles: images/guest/krepro-stop.c, which goes by /dev/port; Debian's kernels for clouds have none.
 */
#include "krepro.h"

#include <sys/io.h>

/* QEMU hw/watchdog/wdt_ib700.c: writing i to ENABLE arms it for 30 - 2 i seconds, anything to DISABLE ends it. */
#define IB700_DISABLE 0x441
#define IB700_ENABLE  0x443
#define TWO_SECONDS   0x0e

int main(int argc, char **argv)
{
	struct timespec left = { .tv_sec = 2, .tv_nsec = 500000000 };

	(void)argv;
	if (argc != 1)
		die_usage("usage: krepro-stop");
	if (iopl(3))
		die_errno("iopl");
	outb(TWO_SECONDS, IB700_ENABLE);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
	outb(0, IB700_DISABLE);
	return 0;
}
