/*
 * krepro-stop: stop the machine by its ib700 watchdog while the CPU idles, and go on when it runs again.
 *
 * A stop that the running CPU asks for itself is no exact one: QEMU finishes it in its main loop, and with icount
 * and sleep=off the virtual clock jumps to the next timer if the stopped CPU already counts as idle by then. An idle
 * CPU leaves no such choice: the watchdog fires at its deadline, and the same happens every time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* QEMU hw/watchdog/wdt_ib700.c: writing i to ENABLE arms it for 30 - 2 i seconds, anything to DISABLE ends it. */
#define IB700_DISABLE 0x441
#define IB700_ENABLE 0x443
#define TWO_SECONDS 0x0e

static int write_port(int port, off_t address, unsigned char value)
{
	if (pwrite(port, &value, 1, address) == 1)
		return 0;
	fprintf(stderr, "krepro-stop: port %#llx: %s\n", (unsigned long long)address, strerror(errno));
	return 1;
}

int main(void)
{
	struct timespec left = { .tv_sec = 2, .tv_nsec = 500000000 };
	int port = open("/dev/port", O_WRONLY);

	if (port < 0) {
		fprintf(stderr, "krepro-stop: /dev/port: %s\n", strerror(errno));
		return 1;
	}
	if (write_port(port, IB700_ENABLE, TWO_SECONDS))
		return 1;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
	return write_port(port, IB700_DISABLE, 0);
}
