// SPDX-License-Identifier: MIT
/*
 * ptage: how much code of a program that goes round within one page /proc/PID/smaps calls referenced, once all its
 * accessed bits were cleared; without a trace and with one. Prints "untraced N kB" and "traced N kB"; root only.
 */
#include "trace.h"

enum { TURNS = 20, TURN_US = 5000 };

static volatile uint64_t rounds;

/* Alone on its page of code. */
__attribute__((noinline, noreturn, section(".text.round"), aligned(4096))) static void round_and_round(void)
{
	for (;;)
		rounds++;
}

/* Kilobytes that the kernel calls referenced of the mapping that `address` is in. */
static long referenced(pid_t pid, uintptr_t address)
{
	char path[64], line[512];
	unsigned long long from, to;
	bool inside = false;
	long found = -1;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	maps = fopen(path, "r");
	if (!maps)
		die_errno("%s", path);
	while (found < 0 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			inside = address >= from && address < to;
		else if (inside)
			sscanf(line, "Referenced: %ld kB", &found);
	}
	fclose(maps);
	return found;
}

/* All on one CPU: what a TLB still knows is gone with the switch to another process. */
static void use_one_cpu(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		die_errno("sched_setaffinity");
}

static long ages(bool traced)
{
	pid_t child = fork();
	int device = open_device();
	char path[64];
	long found;

	if (!child)
		round_and_round();
	if (traced) {
		int error = start_trace(device, child, 0);

		if (error)
			die_with(EXIT_TOOL, error, "starting a trace");
	}
	for (int i = 0; i < TURNS; i++)
		nap_us(TURN_US);
	snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)child);
	put_text(path, "1");
	for (int i = 0; i < TURNS; i++)
		nap_us(TURN_US);
	found = referenced(child, (uintptr_t)round_and_round);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(device);
	return found;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc != 1)
		die_usage("usage: ptage");
	use_one_cpu();
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int traced = 0; traced < 2; traced++)
		printf("%s %ld kB\n", traced ? "traced" : "untraced", ages(traced));
	return 0;
}
