// SPDX-License-Identifier: MIT
/*
 * faultrec: run a command and record its page faults, as `perf trace -F all` and `perf record -e page-faults -d -c 1` do.
 *
 *   faultrec [-o FILE] STATS COMMAND...
 *
 *   -o FILE  the kernel's records as they are in its ring: address, instruction, thread, time (faults.bin)
 *
 * STATS is one line of JSON: bytes of the file, and records in it that are faults. The command's own process alone, and
 * the kernel's faults on its behalf too. The exit status is the command's.
 */
#include "krepro.h"

#include "krepro-perfring.h"

#include <poll.h>
#include <sys/pidfd.h>

#define USAGE	"usage: faultrec [-o FILE] STATS COMMAND..."

enum { RING_BYTES = 1 << 20 };

static const struct perf_event_attr faults = {
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_PAGE_FAULTS,
	.sample_period = 1,
	.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
};

int main(int argc, char **argv)
{
	const char *path = "faults.bin";
	struct held_command command;
	uint64_t begin_ns, elapsed_ns;
	int option, output, stats, status;
	struct perf_ring ring;
	struct pollfd fds[2];
	struct rusage usage;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+o:")) != -1) {
		switch (option) {
		case 'o': path = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (argc - optind < 2)
		die_usage(USAGE);
	stats = create_or_die(argv[optind]);
	output = create_or_die(path);

	command = hold_command(argv + optind + 1, NULL, SIGKILL);
	ring = perf_ring_of(perf_open(faults, command.pid, -1, RING_BYTES), RING_BYTES);
	fds[0] = (struct pollfd){ .fd = ring.event, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (fds[1].fd < 0)
		die_errno("pidfd_open");
	begin_ns = now_ns();
	release_command(&command);
	do {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		perf_ring_drain(&ring, output, path);
		if (fds[0].revents & POLLHUP)
			fds[0].fd = -1; /* the command has ended, and so has its event */
	} while (!fds[1].revents);
	status = shell_status(wait_for_command(command.pid, &usage));
	elapsed_ns = now_ns() - begin_ns;
	perf_ring_drain(&ring, output, path);

	if (ring.lost)
		complain(0, "warning: %llu faults lost", (unsigned long long)ring.lost);
	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d, "
			   "\"bytes\": %llu, \"records\": %llu, \"lost\": %llu}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status, (unsigned long long)ring.bytes,
		    (unsigned long long)ring.samples, (unsigned long long)ring.lost) < 0)
		die_errno("%s", argv[optind]);
	return status;
}
