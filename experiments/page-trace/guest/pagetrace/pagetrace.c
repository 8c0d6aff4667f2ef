// SPDX-License-Identifier: MIT
/*
 * pagetrace: record the order of the pages that a command, or a running process, touches.
 *
 *   pagetrace [-w N] [-f] [-c] [-W] [-z] [-l BYTES] [-r RECORDS] [-o FILE] [-s STATS] [-m MAPS] [--] COMMAND...
 *   pagetrace [-w N] [-f] [-c] [-W] [-z] [-l BYTES] [-r RECORDS] [-o FILE] [-s STATS] -p PID
 *
 *   -w N        data pages that stay accessible, 1 to 64 (1: every visit is seen; more: some are not)
 *   -f          trace children too
 *   -c          record pages of code too
 *   -W          record which visits began with a read and wrote later
 *   -z          pack the trace: 5 to 8 bytes a visit instead of 24 (output.c)
 *   -l BYTES    size of the trace at most; visits that there is no room for are left out at its end, and counted
 *   -r RECORDS  size of the ring between kernel and launcher, a power of two (262144)
 *   -o FILE     the trace (pagetrace.out); - is standard output
 *   -s STATS    what was counted, one line of JSON
 *   -m MAPS     the command's mappings at its end, as /proc/PID/maps has them;
 *               MAPS.PID is its child PID's
 *   -p PID      until that process ends, or until SIGINT, SIGTERM or SIGHUP
 *
 * The trace is a struct file_header, then records as the kernel wrote them
 * (page_trace.h), or packed ones (output.c). The command is traced from before its exec. SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT are passed on to it. The exit status is the command's, or
 * 128 + n if signal n ended it; 125 if tracing failed, 126 and 127 if the
 * command could not be run or found. If the trace cannot be written any more,
 * the trace is stopped, the command runs on to its end, and the status is 125.
 */
#include "gather.h"
#include "maps.h"
#include "output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define DEVICE	"/dev/page_trace"
#define USAGE	"usage: pagetrace [-w N] [-f] [-c] [-W] [-z] [-l BYTES] [-r RECORDS] [-o FILE] [-s STATS] " \
		"[-m MAPS] [--] COMMAND... | -p PID"

enum {
	DEFAULT_RECORDS = 1 << 18,
	LEAST_RECORDS = 1 << 10,
	MOST_RECORDS = 1 << 22,
	LEAST_BYTES = 4096,
	/* Most records per write: the kernel gets room again while a full ring is still being written. */
	WRITE_RECORDS = 1 << 15,
};

struct options {
	const char *output, *stats, *maps;
	char *const *command;	/* NULL with -p */
	uint32_t window, flags, records;
	uint64_t most_bytes;
	bool packed;
	pid_t pid;
};

struct trace {
	int device, signals;
	struct output output;
	struct page_trace_ring *ring;
	const struct page_trace_record *record;
	uint32_t mask;
	uint64_t tail;
	uint64_t drains;	/* times that records were there to be written */
	uint64_t gathers;	/* visits of instructions that a trace does not see whole */
};

struct command {
	struct held_command held;
	pid_t pid;		/* 0 with -p */
	bool ended;
	int wait_status;
	struct rusage usage;
};

static void parse(struct options *options, int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "+w:fcWzl:r:o:s:m:p:")) != -1) {
		switch (option) {
		case 'w': options->window = argument("-w", optarg, 1, PAGE_TRACE_MAX_WINDOW); break;
		case 'f': options->flags |= PAGE_TRACE_FOLLOW; break;
		case 'c': options->flags |= PAGE_TRACE_CODE; break;
		case 'W': options->flags |= PAGE_TRACE_WROTE; break;
		case 'z': options->packed = true; break;
		case 'l': options->most_bytes = argument("-l", optarg, LEAST_BYTES, INT64_MAX); break;
		case 'r': options->records = argument("-r", optarg, LEAST_RECORDS, MOST_RECORDS); break;
		case 'o': options->output = optarg; break;
		case 's': options->stats = optarg; break;
		case 'm': options->maps = optarg; break;
		case 'p': options->pid = argument("-p", optarg, 1, INT32_MAX); break;
		default: die_usage(USAGE);
		}
	}
	if (options->records & (options->records - 1))
		die_usage("-r: %u is not a power of two", options->records);
	if (!options->pid == (optind == argc) || (options->pid && options->maps))
		die_usage(USAGE);
	if (!options->pid)
		options->command = argv + optind;
}

/* Signals that come as data: of those that end a launcher, the ones not ignored when it was started. */
static int open_signals(bool command, sigset_t *original)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		sigaction(wanted[i], NULL, &action);
		if (action.sa_handler != SIG_IGN && (command || wanted[i] != SIGQUIT))
			sigaddset(&set, wanted[i]);
	}
	if (command)
		sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, original);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		die_errno("signalfd");
	return fd;
}

static const char *start_hint(int error, bool command)
{
	switch (error) {
	case EBUSY: return "the process is traced already";
	case ESRCH: return "there is no such process, or it has ended";
	case EPERM: return "no right to trace it, or it is a kernel thread";
	case EDEADLK: return "the launcher cannot trace itself";
	case EOPNOTSUPP: return command ? "programs here run with executable data (setarch -X?)" :
					  "it shares its memory with another process, or its data is executable";
	case ENODEV: return "the CPU cannot tell code from data (no NX)";
	case EINVAL: return "the kernel knows no such window, flags or ring";
	default: return strerror(error);
	}
}

static void map_ring(struct trace *trace)
{
	size_t page = sysconf(_SC_PAGESIZE), size;
	struct page_trace_ring *ring = mmap(NULL, page, PROT_READ, MAP_SHARED, trace->device, 0);

	if (ring == MAP_FAILED)
		die_errno("mapping the ring of %s", DEVICE);
	trace->mask = ring->records - 1;
	size = (ring->offset + (size_t)ring->records * sizeof(*trace->record) + page - 1) & ~(page - 1);
	munmap(ring, page);
	ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, trace->device, 0);
	if (ring == MAP_FAILED)
		die_errno("mapping the %zu bytes of the ring of %s", size, DEVICE);
	trace->ring = ring;
	trace->record = (const void *)((const char *)ring + ring->offset);
	trace->tail = ring->tail;
}

/* Write all records that are there, straight from the ring. */
static void drain(struct trace *trace)
{
	uint64_t head = __atomic_load_n(&trace->ring->head, __ATOMIC_ACQUIRE);

	trace->drains += head != trace->tail;
	while (head != trace->tail && !trace->output.error) {
		uint64_t first = trace->tail & trace->mask, room = trace->mask + 1 - first;
		uint64_t count = head - trace->tail;

		count = count < room ? count : room;
		count = count < WRITE_RECORDS ? count : WRITE_RECORDS;
		trace->gathers += gather_visits(trace->record + first, count);
		output_put(&trace->output, trace->record + first, count);
		trace->tail += count;
		__atomic_store_n(&trace->ring->tail, trace->tail, __ATOMIC_RELEASE);
	}
}

/* It or a child of it has ended, or stopped for its launcher and then goes on. */
static void take_child(struct command *command, struct trace *trace)
{
	struct rusage usage;
	int status;
	pid_t pid;

	/* All, for its children are watched too. */
	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
		if (WIFSTOPPED(status)) {
			/* At its end, its instructions can be looked at for the last time. */
			drain(trace);
			maps_stopped(pid, status);
		} else if (pid == command->pid) {
			command->usage = usage;
			command->wait_status = status;
			command->ended = true;
		}
	}
}

/* Take what signals came; false if one asks to end the trace. */
static bool take_signals(struct trace *trace, struct command *command)
{
	struct signalfd_siginfo info;
	bool go_on = true;

	while (read(trace->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			take_child(command, trace);
		} else if (!command->pid || command->ended) {
			go_on = false;
		} else if (info.ssi_code != SI_KERNEL) {
			/* The terminal has sent its own to the command too. */
			kill(command->pid, info.ssi_signo);
		}
	}
	return go_on;
}

/* Until nothing is traced any more, a signal ends it, or the trace cannot be written. */
static void follow(struct trace *trace, struct command *command)
{
	struct pollfd fds[] = {
		{ .fd = trace->device, .events = POLLIN },
		{ .fd = trace->signals, .events = POLLIN },
	};
	bool ended = false;

	while (!ended && !trace->output.error) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		ended = fds[1].revents && !take_signals(trace, command);
		ended |= (fds[0].revents & (POLLHUP | POLLERR)) != 0;
		ended |= __atomic_load_n(&trace->ring->ended, __ATOMIC_ACQUIRE) != 0;
		drain(trace);
	}
}

static void wait_for(struct command *command, struct trace *trace)
{
	struct pollfd fd = { .fd = trace->signals, .events = POLLIN };

	while (command->pid && !command->ended) {
		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			die_errno("poll");
		take_signals(trace, command);
	}
}

static int warn(const struct page_trace_stats *stats, const struct trace *trace, const char *output)
{
	if (trace->gathers)
		complain(0, "warning: %llu visits are of gathers or scatters: which of their pages they come back to is not seen",
			 (unsigned long long)trace->gathers);
	if (stats->lost || stats->other_lost || stats->unfit)
		complain(0, "warning: %llu visits and %llu other records lost (a larger ring, -r, helps); "
			    "%llu tasks not seen whole: they have executable data, or an LDT",
			 (unsigned long long)stats->lost, (unsigned long long)stats->other_lost,
			 (unsigned long long)stats->unfit);
	if (trace->output.left_out)
		complain(0, "warning: %s is as large as it may be: %llu visits are left out at its end", output,
			 (unsigned long long)trace->output.left_out);
	if (!trace->output.error)
		return 0;
	return complain(trace->output.error, "%s: the trace ends after %llu bytes", output,
			(unsigned long long)trace->output.written);
}

/* One line of JSON; bytes is the size of the trace with its header. */
static int write_stats(int fd, const struct options *options, const struct page_trace_stats *stats,
		       const struct trace *trace, const struct command *command, uint64_t elapsed_ns,
		       uint64_t start_ioctl_ns)
{
	static const char *const names[] = {
		"faults", "records", "lost", "code", "slow", "upgrades", "spurious", "steps",
		"kept", "drops", "recycled", "tasks", "live", "unfit", "other_lost",
	};
	const __u64 *values = (const __u64 *)stats;
	char status[16] = "null";

	_Static_assert(sizeof(*stats) == sizeof(*values) * (sizeof(names) / sizeof(names[0])), "a name for each");
	if (command->pid)
		snprintf(status, sizeof(status), "%d", shell_status(command->wait_status));
	dprintf(fd, "{");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		dprintf(fd, "\"%s\": %llu, ", names[i], (unsigned long long)values[i]);
	return dprintf(fd,
		       "\"window\": %u, \"follow\": %s, \"pid\": %d, \"exit_status\": %s, \"elapsed_ns\": %llu, "
		       "\"user_ns\": %llu, \"system_ns\": %llu, \"start_ioctl_ns\": %llu, \"ring_records\": %u, "
		       "\"drains\": %llu, \"bytes\": %llu, \"left_out\": %llu, \"gathers\": %llu, \"written\": %s, "
		       "\"exact\": %s}\n",
		       options->window, options->flags & PAGE_TRACE_FOLLOW ? "true" : "false",
		       command->pid ? command->pid : options->pid, status, (unsigned long long)elapsed_ns,
		       (unsigned long long)timeval_ns(command->usage.ru_utime),
		       (unsigned long long)timeval_ns(command->usage.ru_stime),
		       (unsigned long long)start_ioctl_ns, options->records, (unsigned long long)trace->drains,
		       (unsigned long long)(sizeof(struct file_header) + trace->output.written),
		       (unsigned long long)trace->output.left_out, (unsigned long long)trace->gathers,
		       trace->output.error ? "false" : "true",
		       options->window == 1 && !stats->lost && !stats->unfit && !trace->gathers &&
				       !trace->output.left_out && !trace->output.error ? "true" : "false");
}

int main(int argc, char **argv)
{
	struct options options = { .output = "pagetrace.out", .window = 1, .records = DEFAULT_RECORDS };
	struct file_header header = { .magic = "KRPTRACE", .page_shift = 12 };
	struct page_trace_start start;
	struct page_trace_stats stats;
	struct command command = { 0 };
	struct trace trace = { 0 };
	uint64_t before_ns, begin_ns;
	int stats_file = -1, status;
	bool to_stdout;
	sigset_t original;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	parse(&options, argc, argv);
	trace.device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (trace.device < 0)
		return complain(0, "%s: %s: is the kernel built with KREPRO_PAGE_TRACE?", DEVICE, strerror(errno));
	to_stdout = !strcmp(options.output, "-");
	if (to_stdout)
		options.output = "standard output";
	trace.output = (struct output){
		.fd = to_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : create_or_die(options.output),
		.packed = options.packed,
		.most = options.most_bytes,
	};
	if (trace.output.fd < 0)
		die_errno("%s", options.output);
	if (options.stats)
		stats_file = create_or_die(options.stats);
	trace.signals = open_signals(options.command, &original);
	if (options.command) {
		command.held = hold_command(options.command, &original, 0);
		command.pid = command.held.pid;
		if (options.maps)
			maps_watch(command.pid, options.maps);
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);

	start = (struct page_trace_start){ .pid = command.pid ? command.pid : options.pid,
					   .window = options.window,
					   .flags = options.flags,
					   .records = options.records };
	before_ns = now_ns();
	if (ioctl(trace.device, PAGE_TRACE_START, &start))
		die("cannot trace %s %d: %s", command.pid ? "the command's process" : "process", start.pid,
		    start_hint(errno, command.pid));
	header.start_ns = now_ns();
	map_ring(&trace);
	header.version = options.packed ? 2 : 1;
	header.record_bytes = options.packed ? 0 : sizeof(struct page_trace_record);
	header.window = options.window;
	header.flags = options.flags;
	header.pid = start.pid;
	if (write_all(trace.output.fd, &header, sizeof(header)) != sizeof(header))
		die_errno("%s", options.output);

	begin_ns = now_ns();
	if (command.pid)
		release_command(&command.held);
	follow(&trace, &command);
	if (ioctl(trace.device, PAGE_TRACE_STOP))
		die_errno("stopping the trace");
	drain(&trace);
	output_end(&trace.output);
	if (ioctl(trace.device, PAGE_TRACE_STATS, &stats))
		die_errno("the trace's statistics");
	if (trace.output.error && !to_stdout && !options.packed) {
		/* A decoder is to find whole records; what is no regular file stays as it is. */
		trace.output.written -= trace.output.written % sizeof(struct page_trace_record);
		if (ftruncate(trace.output.fd, sizeof(header) + trace.output.written) && errno != EINVAL)
			complain(errno, "%s", options.output);
	}
	/* Disks and networks may say only now that they are full. */
	if (close(trace.output.fd) && !trace.output.error)
		trace.output.error = errno;
	wait_for(&command, &trace);

	status = warn(&stats, &trace, options.output);
	if (stats_file >= 0 && write_stats(stats_file, &options, &stats, &trace, &command, now_ns() - begin_ns,
					   header.start_ns - before_ns) < 0)
		status = complain(errno, "%s", options.stats);
	return status || !command.pid ? status : shell_status(command.wait_status);
}
