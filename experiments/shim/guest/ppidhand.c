// SPDX-License-Identifier: MIT
/*
 * ppidhand COMMAND [ARGUMENT...]: switches that a person can count on paper, as JSON: what the slots count beside what the
 * kernel counts (ctxt of /proc/stat) and what perf does (its context-switches). All threads are on CPU 0.
 *
 *   sleeps   200 naps of one thread: away, to the idle task, and back
 *   turns    500 rounds of two threads that hand a byte over by pipes: one switch for each hand-over
 *   alone    1000 times sched_yield(), where no other thread wants the CPU: no switch
 *   outside  the command, of which nobody knows the switches
 */
#include "krepro.h"
#include "ppid.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { NAPS = 200, NAP_NS = 300000, ROUNDS = 500, YIELDS = 1000 };

struct counts {
	uint64_t slot, kernel, perf;
};

static const struct ppid_line *map;
static int perf = -1;
static int there[2], back[2];

static uint64_t slots(void)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < ppid_cpus(); cpu++)
		sum += map[cpu].begun;
	return sum;
}

static uint64_t kernel_switches(void)
{
	static char text[65536];
	const char *at;

	if (get_text("/proc/stat", text, sizeof(text)) <= 0 || !(at = strstr(text, "\nctxt ")))
		die("/proc/stat has no ctxt");
	return strtoull(at + 6, NULL, 10);
}

/* All of one moment: no switch between. */
static struct counts counted(void)
{
	struct counts now;

	do {
		now.slot = slots();
		now.kernel = kernel_switches();
		if (read(perf, &now.perf, sizeof(now.perf)) != sizeof(now.perf))
			die_errno("perf's count");
	} while (slots() != now.slot);
	return now;
}

static void naps(void)
{
	for (int i = 0; i < NAPS; i++)
		sleep_ns(NAP_NS);
}

static void yields(void)
{
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
}

/* Writes a byte, and reads the one that comes back. */
static void turns(void)
{
	char byte = 0;

	for (int i = 0; i < ROUNDS; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			die_errno("pipe");
}

static void *partner(void *unused)
{
	char byte;

	for (int i = 0; i < ROUNDS; i++)
		if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
			die_errno("pipe");
	return unused;
}

static char **command;

static void outside(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		execvp(*command, command);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("%s did not succeed", *command);
}

/* How many switches each makes while it runs; `by_hand` is what paper says. */
static void part(const char *name, const char *by_hand, void (*run)(void))
{
	struct counts a = counted(), b;

	run();
	b = counted();
	printf("\"%s\": {\"by_hand\": %s, \"slot\": %llu, \"kernel\": %llu, \"perf\": %llu}", name, by_hand,
	       (unsigned long long)(b.slot - a.slot), (unsigned long long)(b.kernel - a.kernel),
	       (unsigned long long)(b.perf - a.perf));
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
	};
	char sleeps[16], handed[16];
	pthread_t other;

	if (argc < 2)
		die_usage("usage: ppidhand COMMAND [ARGUMENT...]");
	command = argv + 1;
	map = ppid_map();
	if (!map)
		die_errno(PPID_DEVICE);
	if (!pin(0))
		die_errno("CPU 0");
	perf = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (perf < 0)
		die_errno("perf_event_open");
	snprintf(sleeps, sizeof(sleeps), "%d", 2 * NAPS);
	snprintf(handed, sizeof(handed), "%d", 2 * ROUNDS);
	if (pipe(there) || pipe(back))
		die_errno("pipe");
	if (pthread_create(&other, NULL, partner, NULL))
		die("no thread");
	/* It waits in its first read by then. */
	sleep_ns(20000000);
	printf("{");
	part("sleeps", sleeps, naps);
	printf(",\n ");
	part("turns", handed, turns);
	printf(",\n ");
	pthread_join(other, NULL);
	part("alone", "0", yields);
	printf(",\n ");
	part("outside", "null", outside);
	printf("}\n");
	flush_or_die();
	return 0;
}
