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

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

#define USAGE	"usage: faultrec [-o FILE] STATS COMMAND..."

enum { RING_BYTES = 1 << 20 };

struct recording {
	int event, output;
	const char *path;
	struct perf_event_mmap_page *ring;
	const char *data;
	uint64_t bytes, faults, lost;
};

static int open_event(pid_t pid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
		.disabled = 1,
		.enable_on_exec = 1,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 2,
	};
	int event = TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));

	if (event < 0)
		die_errno("perf_event_open");
	return event;
}

static void map_ring(struct recording *recording)
{
	size_t page = sysconf(_SC_PAGESIZE);

	recording->ring = mmap(NULL, page + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, recording->event, 0);
	if (recording->ring == MAP_FAILED)
		die_errno("mapping the ring of the event");
	recording->data = (const char *)recording->ring + page;
}

static void put(struct recording *recording, const char *at, size_t size)
{
	if (write_all(recording->output, at, size) != size)
		die_errno("%s", recording->path);
	recording->bytes += size;
}

/* A header is 8 bytes and lies at a multiple of 8: it is never in two parts. What follows it may be. */
static void count(struct recording *recording, uint64_t tail)
{
	const struct perf_event_header *head = (const void *)(recording->data + tail % RING_BYTES);
	const uint64_t *lost = (const void *)(recording->data + (tail + 16) % RING_BYTES);

	if (head->type == PERF_RECORD_SAMPLE)
		recording->faults++;
	else if (head->type == PERF_RECORD_LOST)
		recording->lost += *lost;
}

/* All that is there now. */
static void drain(struct recording *recording)
{
	uint64_t head = __atomic_load_n(&recording->ring->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = recording->ring->data_tail, begin = tail % RING_BYTES, size = head - tail;

	if (begin + size > RING_BYTES) {
		put(recording, recording->data + begin, RING_BYTES - begin);
		put(recording, recording->data, begin + size - RING_BYTES);
	} else if (size) {
		put(recording, recording->data + begin, size);
	}
	while (tail != head) {
		count(recording, tail);
		tail += ((const struct perf_event_header *)(recording->data + tail % RING_BYTES))->size;
	}
	__atomic_store_n(&recording->ring->data_tail, head, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	struct recording recording = { .path = "faults.bin" };
	struct held_command command;
	uint64_t begin_ns, elapsed_ns;
	int option, stats, status;
	struct pollfd fds[2];
	struct rusage usage;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+o:")) != -1) {
		switch (option) {
		case 'o': recording.path = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (argc - optind < 2)
		die_usage(USAGE);
	stats = create_or_die(argv[optind]);
	recording.output = create_or_die(recording.path);

	command = hold_command(argv + optind + 1, NULL, SIGKILL);
	recording.event = open_event(command.pid);
	map_ring(&recording);
	fds[0] = (struct pollfd){ .fd = recording.event, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (fds[1].fd < 0)
		die_errno("pidfd_open");
	begin_ns = now_ns();
	release_command(&command);
	do {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			die_errno("poll");
		drain(&recording);
		if (fds[0].revents & POLLHUP)
			fds[0].fd = -1; /* the command has ended, and so has its event */
	} while (!fds[1].revents);
	status = shell_status(wait_for_command(command.pid, &usage));
	elapsed_ns = now_ns() - begin_ns;
	drain(&recording);

	if (recording.lost)
		complain(0, "warning: %llu faults lost", (unsigned long long)recording.lost);
	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d, "
			   "\"bytes\": %llu, \"records\": %llu, \"lost\": %llu}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status, (unsigned long long)recording.bytes,
		    (unsigned long long)recording.faults, (unsigned long long)recording.lost) < 0)
		die_errno("%s", argv[optind]);
	return status;
}
