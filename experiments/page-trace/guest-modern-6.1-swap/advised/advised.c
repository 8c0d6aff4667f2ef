// SPDX-License-Identifier: MIT
/*
 * advised: run a command that memory is short for, with advice from its page trace or without, and write what that took.
 *
 *   advised -s STATS -t MS [-o PLAN | -a PLAN | -e] COMMAND...
 *   advised -s STATS -l MIB COMMAND...
 *
 *   -t MS     put the command aside once it has used so much CPU time: stop it, page out all that it has of its own,
 *             and let it go on. What is measured begins there.
 *   -o PLAN   instead of paging out, trace it from there on, and write its pages in the order of their first visits
 *   -a PLAN   fetch ahead in that order, from the moment that it goes on
 *   -e        fetch everything ahead, in the order of addresses: what needs no trace
 *   -l MIB    lock all free memory but so much, before the command is started. What is measured is the whole command.
 *
 * STATS is one line of JSON. The exit status is the command's; 125 if something else failed.
 */
#include "advised.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define USAGE "usage: advised -s STATS (-t MS [-o PLAN | -a PLAN | -e] | -l MIB) COMMAND..."

enum { HEADER_BYTES = 64 }; /* of a trace */

struct options {
	const char *stats, *record, *apply;
	bool everything;
	uint64_t cpu_ms, left_mib;
	char **command;
};

static void parse(struct options *options, int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "+s:t:o:a:el:")) != -1) {
		switch (option) {
		case 's': options->stats = optarg; break;
		case 't': options->cpu_ms = argument("-t", optarg, 1, 1 << 20); break;
		case 'o': options->record = optarg; break;
		case 'a': options->apply = optarg; break;
		case 'e': options->everything = true; break;
		case 'l': options->left_mib = argument("-l", optarg, 1, 1 << 20); break;
		default: die_usage(USAGE);
		}
	}
	if (!options->stats || optind == argc || !options->cpu_ms == !options->left_mib ||
	    !!options->record + !!options->apply + options->everything > (options->cpu_ms ? 1 : 0))
		die_usage(USAGE);
	options->command = argv + optind;
}

/* Take free memory until so much is left; it is never given back. */
static void lock_memory(uint64_t left_mib)
{
	const uint64_t left = left_mib << 10, free = kib_of("/proc/meminfo", "MemFree:");

	if (free < left)
		die("only %llu KiB are free", (unsigned long long)free);
	if (mmap(NULL, (free - left) << 10, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0) == MAP_FAILED)
		die_errno("locking %llu KiB", (unsigned long long)(free - left));
}

/* Stop it once it has used so much CPU time; false if it ended before. */
static bool stop_after(pid_t pid, uint64_t cpu_ns, int *status)
{
	siginfo_t ended = { 0 };
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock))
		die("no clock of process %d", (int)pid);
	for (;;) {
		const uint64_t used_ns = clock_gettime(clock, &used) ?
			UINT64_MAX : (uint64_t)used.tv_sec * NSEC_PER_SEC + (uint64_t)used.tv_nsec;

		/* One that has ended keeps its clock until it is waited for. */
		if (used_ns >= cpu_ns || waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) || ended.si_pid)
			break;
		sleep_ns(cpu_ns - used_ns);
	}
	kill(pid, SIGSTOP);
	if (waitpid(pid, status, WUNTRACED) != pid)
		die_errno("waiting for process %d", (int)pid);
	return WIFSTOPPED(*status);
}

/* Major faults of a process so far. */
static uint64_t major_faults(pid_t pid)
{
	char path[64], text[1024], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (get_text(path, text, sizeof(text)) < 0 || !(at = strrchr(text, ')')))
		die_errno("%s", path);
	for (int field = 2; field < 12; field++) /* the name is field 2 */
		at = strchr(at + 1, ' ');
	return strtoull(at, NULL, 10);
}

/* pagetrace of a stopped process, which has begun: its trace behind the header comes by a pipe. */
static pid_t trace(pid_t pid, FILE **from)
{
	char number[16], header[HEADER_BYTES];
	char *command[] = { "pagetrace", "-o", "-", "-p", number, NULL };
	int ends[2], own = dup(STDOUT_FILENO);
	pid_t tracer;

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (own < 0 || pipe2(ends, O_CLOEXEC) || dup2(ends[1], STDOUT_FILENO) < 0)
		die_errno("a pipe");
	tracer = start_command(command, NULL, 0);
	if (dup2(own, STDOUT_FILENO) < 0)
		die_errno("standard output");
	close(own);
	close(ends[1]);
	*from = fdopen(ends[0], "r");
	if (!*from || fread(header, sizeof(header), 1, *from) != 1)
		die("pagetrace ended before it began");
	return tracer;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	uint64_t begin_ns, elapsed_ns, faults_before = 0;
	struct result result = { 0 };
	struct plan plan = { 0 };
	struct rusage usage;
	pid_t pid, tracer = 0;
	FILE *from = NULL;
	int stats, status;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	parse(&options, argc, argv);
	stats = create_or_die(options.stats);
	if (options.apply)
		plan = plan_of(options.apply);
	if (options.left_mib)
		lock_memory(options.left_mib);
	begin_ns = now_ns();
	pid = start_command(options.command, NULL, 0);
	if (options.cpu_ms) {
		if (!stop_after(pid, options.cpu_ms * 1000000, &status))
			die("the command ended before it had used %llu ms", (unsigned long long)options.cpu_ms);
		if (options.record)
			tracer = trace(pid, &from);
		else
			result.paged_out = page_out(pid);
		if (options.everything)
			plan = plan_everything(pid);
		faults_before = major_faults(pid);
		begin_ns = now_ns();
		kill(pid, SIGCONT);
		result.fetched = fetch(pid, &plan);
		if (tracer)
			write_plan(from, options.record);
	}
	status = shell_status(wait_for_command(pid, &usage));
	elapsed_ns = now_ns() - begin_ns;
	if (tracer && wait_for_command(tracer, NULL))
		die("pagetrace failed");
	if (dprintf(stats,
		    "{\"elapsed_ns\": %llu, \"major_faults\": %llu, \"paged_out\": %llu, \"fetched\": %llu, "
		    "\"exit_status\": %d}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)((uint64_t)usage.ru_majflt - faults_before),
		    (unsigned long long)result.paged_out, (unsigned long long)result.fetched, status) < 0)
		die_errno("%s", options.stats);
	return status;
}
