// SPDX-License-Identifier: MIT
/*
 * locktrace: run a command while the kernel traces locks.
 *
 *   locktrace -m ARM [-n] [-r ORDER] [-l ORDER] [-s ORDER] [-p ORDER] [-i US] -o DIR [--] COMMAND...
 *
 *   -m ARM     all, paper, per-lock, tracepoint, validate or contended; off: only run the command
 *   -n         read nothing before the command has ended: the rings fill up
 *   -r ORDER   log2 of the events of each CPU's ring (the kernel's choice; so are the following)
 *   -l ORDER   log2 of the entries of the table of locks
 *   -s ORDER   log2 of the entries of the table of call sites
 *   -p ORDER   log2 of the events of the paper's shared buffer
 *   -i US      time between two samples of how full the rings are (10000)
 *
 * DIR gets
 *   events.bin   struct lock_trace_event (lock_trace.h), as the kernel gave them
 *   status.json  the setup, every field of struct lock_trace_status after the end, and what the launcher saw
 *   locks.tsv, sites.tsv   the kernel's tables (debugfs lock_trace/locks and sites)
 *   fill.tsv     samples while it ran: time (TSC), then counts: events; kept, dropped,
 *                written and lost, sums over the streams; drained, what had been read
 *
 * The trace begins before the command is started, and ends after it has ended. INT, TERM and HUP are passed on to it.
 * The exit status is the command's; if a signal ended it, the launcher ends by the same. 125: wrong arguments, no trace,
 * or not all of it could be written; 126 and 127: the command could not be run, or found.
 */
#include "drain.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEVICE	 "/dev/lock_trace"
#define DEBUGFS	 "/sys/kernel/debug/lock_trace/"
#define USAGE	 "locktrace -m all|paper|per-lock|tracepoint|validate|contended|off [-n] [-r ORDER] [-l ORDER] [-s ORDER] " \
		 "[-p ORDER] [-i US] -o DIR [--] COMMAND..."

enum { MOST_ORDER = 24 };

static const char *const arms[] = { "off", "all", "paper", "per-lock", "tracepoint", "validate", "contended" };

struct options {
	struct lock_trace_setup setup;
	const char *folder;
	char *const *command;
	uint64_t interval_ns;
	bool late;
};

static void parse(struct options *options, int argc, char **argv)
{
	struct lock_trace_setup *setup = &options->setup;
	bool has_arm = false;
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "+m:nr:l:s:p:i:o:")) != -1) {
		switch (option) {
		case 'm':
			setup->arm = choice("-m", optarg, arms, sizeof(arms) / sizeof(arms[0]));
			has_arm = true;
			break;
		case 'n': options->late = true; break;
		case 'r': setup->ring_order = argument("-r", optarg, 1, MOST_ORDER); break;
		case 'l': setup->lock_order = argument("-l", optarg, 1, MOST_ORDER); break;
		case 's': setup->site_order = argument("-s", optarg, 1, MOST_ORDER); break;
		case 'p': setup->pool_order = argument("-p", optarg, 1, MOST_ORDER); break;
		case 'i': options->interval_ns = argument("-i", optarg, 100, 10000000) * 1000; break;
		case 'o': options->folder = optarg; break;
		default: die_usage("usage: %s", USAGE);
		}
	}
	if (!has_arm || !options->folder || optind == argc)
		die_usage("usage: %s", USAGE);
	options->command = argv + optind;
}

static volatile pid_t child;

/* To the command, if the signal was not sent to it too (by a terminal). */
static void pass_on(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (child > 0 && info->si_code != SI_KERNEL)
		kill(child, number);
}

static int start(const struct options *options)
{
	int device = open(DEVICE, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (device < 0)
		die_errno("%s (is the kernel built with KREPRO_LOCK_TRACE?)", DEVICE);
	if (mkdir(options->folder, 0777) && errno != EEXIST)
		die_errno("%s", options->folder);
	return device;
}

static void start_trace(const struct drain *drain, const struct lock_trace_setup *setup)
{
	int error;

	if (!ioctl(drain->device, LOCK_TRACE_START, setup))
		return;
	error = errno;
	/* A window of it was there already. */
	if (ftruncate(drain->file, 0))
		complain(errno, "events.bin");
	switch (error) {
	case EBUSY: die("a trace is running already");
	case ENOMEM: die("no memory for rings and tables of this size");
	case EINVAL: die("the kernel takes no rings or tables of this size");
	default: die_with(EXIT_TOOL, error, "starting the trace");
	}
}

/* The command's end, with the trace running. */
static int run(char *const command[])
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t set, original;
	int wait_status;
	pid_t pid;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaddset(&set, passed[i]);
	sigprocmask(SIG_BLOCK, &set, &original);
	pid = start_command(command, &original, SIGKILL);
	child = pid;
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaction(passed[i], &action, NULL);
	sigprocmask(SIG_SETMASK, &original, NULL);
	wait_status = wait_for_command(pid, NULL);
	child = 0;
	return wait_status;
}

static void copy_table(const char *name, const char *folder)
{
	char path[256], buffer[1 << 16];
	FILE *file;
	ssize_t size;
	int from;

	snprintf(path, sizeof(path), DEBUGFS "%s", name);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		die_errno("%s (is debugfs mounted?)", path);
	snprintf(buffer, sizeof(buffer), "%s.tsv", name);
	file = create_in(folder, buffer);
	while ((size = read(from, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, size, file);
	if (size < 0)
		die_errno("%s", path);
	close(from);
	close_or_die(file, name);
}

static void write_status(const struct options *options, const struct lock_trace_status *status,
			 const struct drain *drain, int wait_status, uint64_t elapsed_ns)
{
	enum { STREAMS = LOCK_TRACE_STREAMS, KINDS = sizeof(status->kinds) / sizeof(status->kinds[0]) };
	static const struct { const char *name; unsigned int count; } fields[] = {
		{ "arm", 1 }, { "running", 1 }, { "start", 1 }, { "stop", 1 }, { "tsc_khz", 1 }, { "events", 1 },
		{ "kinds", KINDS }, { "kept", STREAMS }, { "dropped", STREAMS }, { "written", STREAMS },
		{ "lost", STREAMS }, { "first_loss", 1 }, { "untracked", 1 }, { "nested", 1 }, { "waiting", 1 },
		{ "locks", 1 }, { "sites", 1 }, { "sites_full", 1 }, { "holds_full", 1 }, { "pool_peak", 1 },
		{ "pool_full", 1 },
	};
	const __u64 *value = (const __u64 *)status;
	FILE *file = create_in(options->folder, "status.json");

	fprintf(file, "{");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		fprintf(file, "\"%s\": %s", fields[i].name, fields[i].count > 1 ? "[" : "");
		for (unsigned int j = 0; j < fields[i].count; j++)
			fprintf(file, "%s%llu", j ? ", " : "", (unsigned long long)*value++);
		fprintf(file, "%s, ", fields[i].count > 1 ? "]" : "");
	}
	if (value != (const __u64 *)(status + 1))
		die("a field of the status has no name");
	fprintf(file, "\"ring_order\": %u, \"lock_order\": %u, \"site_order\": %u, \"pool_order\": %u, ",
		options->setup.ring_order, options->setup.lock_order, options->setup.site_order,
		options->setup.pool_order);
	fprintf(file, "\"cpus\": %ld, \"late\": %s, \"drained\": %llu, \"elapsed_ns\": %llu, \"wait_status\": %d}\n",
		sysconf(_SC_NPROCESSORS_ONLN), options->late ? "true" : "false",
		(unsigned long long)(drain->size / EVENT), (unsigned long long)elapsed_ns, wait_status);
	close_or_die(file, "status.json");
}

/* End as the command did. */
static int end_as(int wait_status)
{
	const struct rlimit none = { 0, 0 };

	if (!WIFSIGNALED(wait_status))
		return WEXITSTATUS(wait_status);
	setrlimit(RLIMIT_CORE, &none);
	signal(WTERMSIG(wait_status), SIG_DFL);
	raise(WTERMSIG(wait_status));
	return 128 + WTERMSIG(wait_status);
}

int main(int argc, char **argv)
{
	struct options options = { .interval_ns = 10000000 };
	struct drain drain = { 0 };
	struct lock_trace_status status;
	uint64_t begin_ns, elapsed_ns;
	int wait_status;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	parse(&options, argc, argv);
	if (!options.setup.arm)
		become(options.command);
	drain.device = start(&options);
	drain.late = options.late;
	drain.interval_ns = options.interval_ns;
	drain_prepare(&drain, options.folder);
	start_trace(&drain, &options.setup);
	drain_begin(&drain);
	begin_ns = now_ns();
	wait_status = run(options.command);
	elapsed_ns = now_ns() - begin_ns;
	if (ioctl(drain.device, LOCK_TRACE_STOP))
		die_errno("stopping the trace");
	drain_end(&drain, options.folder);
	if (ioctl(drain.device, LOCK_TRACE_STATUS, &status))
		die_errno("the trace's status");
	copy_table("locks", options.folder);
	copy_table("sites", options.folder);
	write_status(&options, &status, &drain, wait_status, elapsed_ns);
	if (drain.failed)
		die_with(EXIT_TOOL, drain.error, "%s: the trace is not whole", drain.failed);
	return end_as(wait_status);
}
