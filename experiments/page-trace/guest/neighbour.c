// SPDX-License-Identifier: MIT
/*
 * neighbour: how fast a process runs while this or that command runs on another CPU, or on its own.
 *
 *   neighbour [-c CPU] [-o CPU] [-n PAIRS] [-k CHUNKS] [-m CHUNK_US] [-w WARM_UP_MS] [-a COMMAND] [-b COMMAND]
 *
 *   -c, -o  its own CPU (1) and that of the commands (0), which may be the same
 *   -n      pairs of segments (50), one with command a and one with command b each
 *   -k, -m  chunks of work in a segment (100), and about how long one takes (1000)
 *   -w      how long a command runs before its segment begins (50)
 *   -a, -b  shell commands; without one the other CPU is idle
 *
 * A command is started anew for each of its segments and ended after it with
 * SIGTERM, so it should run longer than a segment. A chunk is a fixed number of
 * rounds of integer arithmetic and of a walk through memory of its own,
 * chosen once at the start. The order is a b b a b a a b ... (Thue-Morse), so
 * that a slow drift of the machine falls on both alike.
 *
 * Output is lines of JSON, the first of the whole run. Times are those of the
 * wall clock, as a user has them; a segment's cpu_ns is less where the guest
 * ran something else on this CPU, and busy_ticks is what it counted on the
 * other. What the host took away is in both times alike. A chunk is shorter
 * than a time slice of a host, so that some of a segment's chunks are whole
 * whatever else the host does: a low quantile of them is the undisturbed speed.
 */
#include "krepro.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define USAGE \
	"usage: neighbour [-c CPU] [-o CPU] [-n PAIRS] [-k CHUNKS] [-m CHUNK_US] [-w MS] [-a COMMAND] [-b COMMAND]"

enum {
	MEMORY_WORDS = 1 << 17,	/* 1 MiB: more than a TLB holds, little enough for the caches of most hosts */
	MOST_CHUNKS = 1000,
	CALIBRATIONS = 9,
	GRACE_MS = 5000,
};

struct options {
	uint64_t own_cpu, other_cpu, pairs, chunks, chunk_us, warm_up_ms;
	const char *command[2];
};

static volatile uint64_t sink;	/* keeps the work from being optimised away */
static uint64_t memory[MEMORY_WORDS];

/* A round is a multiplication and an access to the next 64 bytes of memory. */
static void work(uint64_t rounds)
{
	static size_t at;
	uint64_t x = 1;

	for (uint64_t i = 0; i < rounds; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		memory[at] += x;
		at = (at + 8) & (MEMORY_WORDS - 1);
	}
	sink = x;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now))
		die_errno("clock_gettime");
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

static void sleep_ms(uint64_t ms)
{
	sleep_ns(ms * 1000000);
}

static void pin_or_die(uint64_t cpu)
{
	if (!pin((int)cpu))
		die_errno("CPU %llu", (unsigned long long)cpu);
}

/* Rounds that take about chunk_us: from the fastest of a few, as others only ever slow one down. */
static uint64_t calibrate(uint64_t chunk_us)
{
	const uint64_t rounds = 200000;
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		work(rounds);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	if (!best)
		die("the clock stands still: no time passes in %llu rounds of work", (unsigned long long)rounds);
	return rounds * chunk_us * 1000 / best + 1;
}

/* Ticks that a CPU was not idle, from /proc/stat. */
static uint64_t busy_ticks(uint64_t cpu)
{
	unsigned long long user, nice, system, number, irq, softirq;
	FILE *stat = fopen("/proc/stat", "re");
	uint64_t busy = 0;
	char line[512];

	if (!stat)
		die_errno("/proc/stat");
	while (fgets(line, sizeof(line), stat))
		if (sscanf(line, "cpu%llu %llu %llu %llu %*u %*u %llu %llu", &number, &user, &nice, &system, &irq,
			   &softirq) == 6 && number == cpu)
			busy = user + nice + system + irq + softirq;
	fclose(stat);
	return busy;
}

static pid_t start(const char *command, uint64_t cpu)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (pid) {
		setpgid(pid, pid);
		return pid;
	}
	setpgid(0, 0);
	pin_or_die(cpu);
	/* Standard output is the result's. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	become((char *[]){ "sh", "-c", (char *)command, NULL });
}

/* End the command's process group and wait for all of it; the command's status, or -1 if it had ended before. */
static int stop(pid_t pid)
{
	siginfo_t info = { 0 };
	bool early = !waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid;
	int status = 0, one;
	pid_t ended;

	kill(-pid, SIGTERM);
	for (int ms = 0; (ended = waitpid(-pid, &one, WNOHANG)) >= 0;) {
		if (ended == pid)
			status = shell_status(one);
		if (ended)
			continue;
		if (ms++ == GRACE_MS)
			kill(-pid, SIGKILL);
		sleep_ms(1);
	}
	return early ? -1 : status;
}

static void segment(const struct options *options, uint64_t number, uint64_t rounds)
{
	int which = __builtin_parityll(number), status = 0;
	uint64_t chunk_ns[MOST_CHUNKS], begin, end, cpu_begin, ticks;
	const char *command = options->command[which];
	struct rusage before, after;
	pid_t pid = 0;

	if (command)
		pid = start(command, options->other_cpu);
	sleep_ms(options->warm_up_ms);
	work(rounds);
	ticks = busy_ticks(options->other_cpu);
	getrusage(RUSAGE_THREAD, &before);
	cpu_begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	begin = end = now_ns();
	for (uint64_t i = 0; i < options->chunks; i++) {
		uint64_t chunk_begin = end;

		work(rounds);
		end = now_ns();
		chunk_ns[i] = end - chunk_begin;
	}
	cpu_begin = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_begin;
	getrusage(RUSAGE_THREAD, &after);
	ticks = busy_ticks(options->other_cpu) - ticks;
	if (pid)
		status = stop(pid);

	printf("{\"segment\": %llu, \"arm\": \"%c\", \"begin_ns\": %llu, \"wall_ns\": %llu, \"cpu_ns\": %llu, "
	       "\"switches\": %ld, \"busy_ticks\": %llu, \"ran_through\": %s, \"exit_status\": %d, \"chunk_ns\": [",
	       (unsigned long long)number, "ab"[which], (unsigned long long)begin, (unsigned long long)(end - begin),
	       (unsigned long long)cpu_begin, after.ru_nivcsw - before.ru_nivcsw, (unsigned long long)ticks,
	       status < 0 ? "false" : "true", status);
	for (uint64_t i = 0; i < options->chunks; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)chunk_ns[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	struct options options = { .own_cpu = 1, .pairs = 50, .chunks = 100, .chunk_us = 1000, .warm_up_ms = 50 };
	uint64_t rounds;
	int option;

	exit_usage = EXIT_TOOL;
	opterr = 0;
	while ((option = getopt(argc, argv, "c:o:n:k:m:w:a:b:")) != -1) {
		switch (option) {
		case 'c': options.own_cpu = argument("-c", optarg, 0, CPU_SETSIZE - 1); break;
		case 'o': options.other_cpu = argument("-o", optarg, 0, CPU_SETSIZE - 1); break;
		case 'n': options.pairs = argument("-n", optarg, 1, 1000000); break;
		case 'k': options.chunks = argument("-k", optarg, 1, MOST_CHUNKS); break;
		case 'm': options.chunk_us = argument("-m", optarg, 10, 10000000); break;
		case 'w': options.warm_up_ms = argument("-w", optarg, 0, 60000); break;
		case 'a': options.command[0] = optarg; break;
		case 'b': options.command[1] = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (optind != argc)
		die_usage(USAGE);
	/* What a shell leaves behind when it is ended is to be waited for here. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pin_or_die(options.own_cpu);
	rounds = calibrate(options.chunk_us);
	printf("{\"pairs\": %llu, \"chunks\": %llu, \"rounds\": %llu, \"memory_bytes\": %zu, \"own_cpu\": %llu, "
	       "\"other_cpu\": %llu}\n",
	       (unsigned long long)options.pairs, (unsigned long long)options.chunks, (unsigned long long)rounds,
	       sizeof(memory), (unsigned long long)options.own_cpu, (unsigned long long)options.other_cpu);
	for (uint64_t i = 0; i < 2 * options.pairs; i++) {
		/* What is in the buffer would be the child's too. */
		fflush(stdout);
		segment(&options, i, rounds);
	}
	flush_or_die();
	return 0;
}
