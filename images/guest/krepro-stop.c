/*
 * krepro-stop: stop the machine through its pvpanic port, and say how much virtual time the stop took.
 *
 * QEMU finishes a stop in its main loop while the CPU's thread may already count as idle; with icount and
 * sleep=off the virtual clock then sometimes jumps to the next timer. Stopping right behind a tick makes such a
 * jump nearly a whole tick long, and the line printed after the stop lets the host tell (and boot again).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PVPANIC_PORT 0x505
#define PVPANIC_PANICKED 1

static long long now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

int main(void)
{
	const unsigned char panicked = PVPANIC_PANICKED;
	int port = open("/dev/port", O_WRONLY);
	long long tick, before, after;

	if (port < 0) {
		fprintf(stderr, "krepro-stop: /dev/port: %s\n", strerror(errno));
		return 1;
	}
	/* The coarse clock moves on ticks only. */
	tick = now_ns(CLOCK_MONOTONIC_COARSE);
	while (now_ns(CLOCK_MONOTONIC_COARSE) == tick)
		;
	before = now_ns(CLOCK_MONOTONIC);
	if (pwrite(port, &panicked, 1, PVPANIC_PORT) != 1) {
		fprintf(stderr, "krepro-stop: pvpanic: %s\n", strerror(errno));
		return 1;
	}
	after = now_ns(CLOCK_MONOTONIC);
	printf("krepro: stopped for %lld ns\n", after - before);
	return 0;
}
