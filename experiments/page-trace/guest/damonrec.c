/*
 * damonrec: run a command under the kernel's DAMON and record what it aggregates.
 *
 *   damonrec [-s SAMPLE_US] [-a AGGREGATE_US] [-u UPDATE_US] [-n MIN] [-m MAX] [-o FILE] STATS COMMAND...
 *
 *   -s, -a, -u  intervals: look at pages (5000), hand out counts (100000), look for new mappings (as -a)
 *   -n, -m      regions, at least and at most (10, 1000)
 *   -o FILE     the trace, text lines of the event damon_aggregated on the clock CLOCK_MONOTONIC (damon.trace)
 *
 * DAMON is on from before the command's exec. STATS is one line of JSON: bytes
 * is the size of the text, event_bytes that of the same events in binary, as
 * perf would keep them. The exit status is the command's.
 */
#include "tools.h"

#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define DAMON		"/sys/kernel/mm/damon/admin/kdamonds"
#define CONTEXT		DAMON "/0/contexts/0"
#define TRACING		"/sys/kernel/tracing"
#define INSTANCE	TRACING "/instances/damonrec"
#define EVENT		INSTANCE "/events/damon/damon_aggregated"
#define USAGE		"usage: damonrec [-s US] [-a US] [-u US] [-n MIN] [-m MAX] [-o FILE] STATS COMMAND..."

enum { LINE_BYTES = 1 << 16, RING_KIB = 4096 };

struct options {
	uint64_t sample_us, aggregate_us, update_us, least, most;
	const char *output, *stats;
};

struct recording {
	int pipe, output;
	uint64_t bytes, events, aggregations, accessed, most_regions;
	uint64_t left;		/* regions of this aggregation still to come */
	char line[LINE_BYTES];
	size_t length;		/* of the line begun */
};

/* One value into one file of sysfs or tracefs; false with errno if it does not take it. */
static bool try_put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return done;
}

static void put(const char *path, const char *value)
{
	if (!try_put(path, value))
		die_errno("writing %s to %s", value, path);
}

static void put_number(const char *path, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put(path, text);
}

static void set_up_damon(const struct options *options, pid_t pid)
{
	if (access(DAMON, F_OK))
		die("%s: %s: is the kernel built with DAMON_SYSFS?", DAMON, strerror(errno));
	put(DAMON "/nr_kdamonds", "1");
	put(DAMON "/0/contexts/nr_contexts", "1");
	put(CONTEXT "/operations", "vaddr");
	put_number(CONTEXT "/monitoring_attrs/intervals/sample_us", options->sample_us);
	put_number(CONTEXT "/monitoring_attrs/intervals/aggr_us", options->aggregate_us);
	put_number(CONTEXT "/monitoring_attrs/intervals/update_us", options->update_us);
	put_number(CONTEXT "/monitoring_attrs/nr_regions/min", options->least);
	put_number(CONTEXT "/monitoring_attrs/nr_regions/max", options->most);
	put(CONTEXT "/targets/nr_targets", "1");
	put_number(CONTEXT "/targets/0/pid_target", pid);
}

/* An instance of its own, so that no other trace is in it. */
static int set_up_tracing(void)
{
	int pipe;

	if (access(TRACING "/instances", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL))
		die_errno("mounting tracefs at %s", TRACING);
	rmdir(INSTANCE);
	if (mkdir(INSTANCE, 0700))
		die_errno("%s", INSTANCE);
	put(INSTANCE "/trace_clock", "mono");
	put_number(INSTANCE "/buffer_size_kb", RING_KIB);
	put(EVENT "/enable", "1");
	pipe = open(INSTANCE "/trace_pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (pipe < 0)
		die_errno("%s/trace_pipe", INSTANCE);
	return pipe;
}

/* Where the last field of the event ends: its size in the kernel's ring. */
static uint64_t event_size(void)
{
	FILE *format = fopen(EVENT "/format", "re");
	unsigned long offset, size, end = 0;
	char line[256];

	if (!format)
		die_errno("%s/format", EVENT);
	while (fgets(line, sizeof(line), format)) {
		const char *at = strstr(line, "offset:");

		if (at && sscanf(at, "offset:%lu; size:%lu;", &offset, &size) == 2 && offset + size > end)
			end = offset + size;
	}
	fclose(format);
	return end;
}

/* A number of /sys/kernel/tracing/…/per_cpu/cpuN/stats, summed over the CPUs. */
static uint64_t lost_events(void)
{
	uint64_t sum = 0;

	for (int cpu = 0;; cpu++) {
		char path[128], line[128];
		unsigned long long value;
		FILE *stats;

		snprintf(path, sizeof(path), INSTANCE "/per_cpu/cpu%d/stats", cpu);
		stats = fopen(path, "re");
		if (!stats)
			return sum;
		while (fgets(line, sizeof(line), stats))
			if (sscanf(line, "overrun: %llu", &value) == 1 ||
			    sscanf(line, "dropped events: %llu", &value) == 1)
				sum += value;
		fclose(stats);
	}
}

/* "… damon_aggregated: target_id=0 nr_regions=12 4194304-8388608: 3 7": counts, and age. */
static void count_line(struct recording *recording, const char *line)
{
	unsigned long long regions;
	const char *at = strstr(line, "nr_regions=");
	unsigned int accesses;

	if (!at || sscanf(at, "nr_regions=%llu %*u-%*u: %u", &regions, &accesses) != 2)
		return;
	recording->events++;
	recording->accessed += accesses > 0;
	if (!recording->left) {
		recording->aggregations++;
		recording->left = regions;
	}
	recording->left--;
	if (regions > recording->most_regions)
		recording->most_regions = regions;
}

/* All that is there now. */
static void record(struct recording *recording, const char *output)
{
	for (;;) {
		char *start = recording->line + recording->length, *newline, *at = recording->line;
		ssize_t n = read(recording->pipe, start, LINE_BYTES - 1 - recording->length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			die_errno("trace_pipe");
		if (n <= 0)
			return;
		if (write_all(recording->output, start, n) != (size_t)n)
			die_errno("%s", output);
		recording->bytes += n;
		recording->length += n;
		recording->line[recording->length] = '\0';
		for (; (newline = strchr(at, '\n')); at = newline + 1) {
			*newline = '\0';
			count_line(recording, at);
		}
		recording->length -= at - recording->line;
		memmove(recording->line, at, recording->length);
	}
}

int main(int argc, char **argv)
{
	static struct recording recording;
	struct options options = { .sample_us = 5000, .aggregate_us = 100000, .least = 10, .most = 1000,
				   .output = "damon.trace" };
	uint64_t begin_ns, elapsed_ns, size, lost;
	int option, ends[2], stats, status;
	struct pollfd fds[2];
	struct rusage usage;
	pid_t pid;
	char go;

	opterr = 0;
	while ((option = getopt(argc, argv, "+s:a:u:n:m:o:")) != -1) {
		switch (option) {
		case 's': options.sample_us = number("-s", optarg, 1, UINT32_MAX); break;
		case 'a': options.aggregate_us = number("-a", optarg, 1, UINT32_MAX); break;
		case 'u': options.update_us = number("-u", optarg, 1, UINT32_MAX); break;
		case 'n': options.least = number("-n", optarg, 3, 1000000); break;
		case 'm': options.most = number("-m", optarg, 3, 1000000); break;
		case 'o': options.output = optarg; break;
		default: die(USAGE);
		}
	}
	if (argc - optind < 2)
		die(USAGE);
	if (!options.update_us)
		options.update_us = options.aggregate_us;
	options.stats = argv[optind];
	stats = create_or_die(options.stats);
	recording.output = create_or_die(options.output);

	if (pipe2(ends, O_CLOEXEC))
		die_errno("pipe");
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		if (read(ends[0], &go, 1) != 1)
			_exit(EXIT_TOOL);
		run_or_exit(argv + optind + 1);
	}
	close(ends[0]);
	set_up_damon(&options, pid);
	recording.pipe = set_up_tracing();
	size = event_size();
	put(DAMON "/0/state", "on");

	fds[0] = (struct pollfd){ .fd = recording.pipe, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pidfd_open(pid, 0), .events = POLLIN };
	if (fds[1].fd < 0)
		die_errno("pidfd_open");
	begin_ns = now_ns();
	if (write(ends[1], "", 1) != 1)
		die_errno("the command's process is gone");
	do {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		record(&recording, options.output);
	} while (!fds[1].revents);
	if (wait4(pid, &status, 0, &usage) < 0)
		die_errno("wait");
	elapsed_ns = now_ns() - begin_ns;
	status = shell_status(status);

	/* DAMON ends by itself when its last target has; then it cannot be turned off. */
	try_put(DAMON "/0/state", "off");
	put(EVENT "/enable", "0");
	record(&recording, options.output);
	lost = lost_events();
	close(recording.pipe);
	put(DAMON "/nr_kdamonds", "0");
	if (rmdir(INSTANCE))
		complain(errno, "warning: %s", INSTANCE);
	if (lost)
		complain(0, "warning: %llu events lost", (unsigned long long)lost);
	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d, "
			   "\"sample_us\": %llu, \"aggregate_us\": %llu, \"update_us\": %llu, \"bytes\": %llu, "
			   "\"event_bytes\": %llu, \"events\": %llu, \"aggregations\": %llu, \"accessed\": %llu, "
			   "\"most_regions\": %llu, \"lost\": %llu}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status,
		    (unsigned long long)options.sample_us, (unsigned long long)options.aggregate_us,
		    (unsigned long long)options.update_us, (unsigned long long)recording.bytes,
		    (unsigned long long)(recording.events * size), (unsigned long long)recording.events,
		    (unsigned long long)recording.aggregations, (unsigned long long)recording.accessed,
		    (unsigned long long)recording.most_regions, (unsigned long long)lost) < 0)
		die_errno("%s", options.stats);
	return status;
}
