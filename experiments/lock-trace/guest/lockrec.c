// SPDX-License-Identifier: MIT
/*
 * lockrec: run a command and record its waits for locks, as `perf lock record` does and `perf lock contention` reads.
 *
 *   lockrec -o DIR COMMAND...
 *
 * DIR gets
 *   perf.bin   the kernel's records of lock:contention_begin and lock:contention_end, each with the kernel's stack, as
 *              they lay in the rings of the CPUs
 *   perf.json  one line: bytes of that file, records in it that are events, and events that found no room
 *
 * The command's own threads and processes alone. What they fail to record they lose. The exit status is the command's.
 */
#include "krepro.h"

#include "krepro-perfring.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>

#define EVENTS	"/sys/kernel/tracing/events/lock/"
#define OUTPUT	"perf.bin"
#define USAGE	"usage: lockrec -o DIR COMMAND..."

enum { RING_BYTES = 1 << 22, MOST_CPUS = 8 };	/* perf's own: -m 1024 */

static unsigned long event_id(const char *name)
{
	char path[128];
	unsigned long id;
	FILE *file;

	snprintf(path, sizeof(path), EVENTS "%s/id", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%lu", &id) != 1)
		die_errno("%s (is tracefs mounted?)", path);
	fclose(file);
	return id;
}

static int open_event(const char *name, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.config = event_id(name),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			       PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN,
		.inherit = 1,
		.exclude_callchain_user = 1,
	};

	return perf_open(attr, pid, cpu, RING_BYTES);
}

static struct perf_ring open_ring(pid_t pid, int cpu)
{
	struct perf_ring ring = perf_ring_of(open_event("contention_begin", pid, cpu), RING_BYTES);

	if (ioctl(open_event("contention_end", pid, cpu), PERF_EVENT_IOC_SET_OUTPUT, ring.event))
		die_errno("PERF_EVENT_IOC_SET_OUTPUT");
	return ring;
}

static void drain_all(struct perf_ring *rings, unsigned int cpus, int output)
{
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		perf_ring_drain(&rings[cpu], output, OUTPUT);
}

int main(int argc, char **argv)
{
	unsigned int cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t bytes = 0, events = 0, lost = 0;
	struct perf_ring rings[MOST_CPUS];
	struct pollfd fds[MOST_CPUS + 1];
	struct held_command command;
	const char *folder = NULL;
	int option, output, status;
	FILE *file;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+o:")) != -1) {
		if (option != 'o')
			die_usage(USAGE);
		folder = optarg;
	}
	if (!folder || optind == argc || cpus > MOST_CPUS)
		die_usage(USAGE);
	if (chdir(folder))
		die_errno("%s", folder);
	output = create_or_die(OUTPUT);
	command = hold_command(argv + optind, NULL, SIGKILL);
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		rings[cpu] = open_ring(command.pid, (int)cpu);
		fds[cpu] = (struct pollfd){ .fd = rings[cpu].event, .events = POLLIN };
	}
	fds[cpus] = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (fds[cpus].fd < 0)
		die_errno("pidfd_open");
	release_command(&command);
	do {
		if (poll(fds, cpus + 1, -1) < 0 && errno != EINTR)
			die_errno("poll");
		drain_all(rings, cpus, output);
		for (unsigned int cpu = 0; cpu < cpus; cpu++)
			if (fds[cpu].revents & POLLHUP)
				fds[cpu].fd = -1; /* the command has ended, and so have its events */
	} while (!fds[cpus].revents);
	status = shell_status(wait_for_command(command.pid, NULL));
	drain_all(rings, cpus, output);
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		bytes += rings[cpu].bytes;
		events += rings[cpu].samples;
		lost += rings[cpu].lost;
	}
	file = create_in(".", "perf.json");
	fprintf(file, "{\"bytes\": %llu, \"events\": %llu, \"lost\": %llu}\n", (unsigned long long)bytes,
		(unsigned long long)events, (unsigned long long)lost);
	close_or_die(file, "perf.json");
	return status;
}
