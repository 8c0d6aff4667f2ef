// SPDX-License-Identifier: MIT
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
#include "krepro.h"

#include <poll.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
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

static void put_value(const char *path, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put_text(path, text);
}

static void set_up_damon(const struct options *options, pid_t pid)
{
	if (access(DAMON, F_OK))
		die("%s: %s: is the kernel built with DAMON_SYSFS?", DAMON, strerror(errno));
	put_text(DAMON "/nr_kdamonds", "1");
	put_text(DAMON "/0/contexts/nr_contexts", "1");
	put_text(CONTEXT "/operations", "vaddr");
	put_value(CONTEXT "/monitoring_attrs/intervals/sample_us", options->sample_us);
	put_value(CONTEXT "/monitoring_attrs/intervals/aggr_us", options->aggregate_us);
	put_value(CONTEXT "/monitoring_attrs/intervals/update_us", options->update_us);
	put_value(CONTEXT "/monitoring_attrs/nr_regions/min", options->least);
	put_value(CONTEXT "/monitoring_attrs/nr_regions/max", options->most);
	put_text(CONTEXT "/targets/nr_targets", "1");
	put_value(CONTEXT "/targets/0/pid_target", pid);
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
	put_text(INSTANCE "/trace_clock", "mono");
	put_value(INSTANCE "/buffer_size_kb", RING_KIB);
	put_text(EVENT "/enable", "1");
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
	struct held_command command;
	int option, stats, status;
	struct pollfd fds[2];
	struct rusage usage;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+s:a:u:n:m:o:")) != -1) {
		switch (option) {
		case 's': options.sample_us = argument("-s", optarg, 1, UINT32_MAX); break;
		case 'a': options.aggregate_us = argument("-a", optarg, 1, UINT32_MAX); break;
		case 'u': options.update_us = argument("-u", optarg, 1, UINT32_MAX); break;
		case 'n': options.least = argument("-n", optarg, 3, 1000000); break;
		case 'm': options.most = argument("-m", optarg, 3, 1000000); break;
		case 'o': options.output = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (argc - optind < 2)
		die_usage(USAGE);
	if (!options.update_us)
		options.update_us = options.aggregate_us;
	options.stats = argv[optind];
	stats = create_or_die(options.stats);
	recording.output = create_or_die(options.output);

	command = hold_command(argv + optind + 1, NULL, SIGKILL);
	set_up_damon(&options, command.pid);
	recording.pipe = set_up_tracing();
	size = event_size();
	put_text(DAMON "/0/state", "on");

	fds[0] = (struct pollfd){ .fd = recording.pipe, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (fds[1].fd < 0)
		die_errno("pidfd_open");
	begin_ns = now_ns();
	release_command(&command);
	do {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		record(&recording, options.output);
	} while (!fds[1].revents);
	status = shell_status(wait_for_command(command.pid, &usage));
	elapsed_ns = now_ns() - begin_ns;

	/* DAMON ends by itself when its last target has; then it cannot be turned off. */
	try_put_text(DAMON "/0/state", "off", 0);
	put_text(EVENT "/enable", "0");
	record(&recording, options.output);
	lost = lost_events();
	close(recording.pipe);
	put_text(DAMON "/nr_kdamonds", "0");
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
