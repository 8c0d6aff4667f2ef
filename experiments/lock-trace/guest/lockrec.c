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

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

#define EVENTS	"/sys/kernel/tracing/events/lock/"
#define USAGE	"usage: lockrec -o DIR COMMAND..."

enum { RING_BYTES = 1 << 22, MOST_CPUS = 8 };	/* perf's own: -m 1024 */

struct ring {
	int event;
	struct perf_event_mmap_page *page;
	const char *data;
};

struct recording {
	struct ring rings[MOST_CPUS];
	unsigned int cpus;
	int output;
	uint64_t bytes, events, lost;
};

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
		.size = sizeof(attr),
		.config = event_id(name),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			       PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN,
		.disabled = 1,
		.enable_on_exec = 1,
		.inherit = 1,
		.exclude_callchain_user = 1,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 2,
	};
	int event = TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC));

	if (event < 0)
		die_errno("perf_event_open");
	return event;
}

static void open_ring(struct ring *ring, pid_t pid, int cpu)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int end;

	ring->event = open_event("contention_begin", pid, cpu);
	ring->page = mmap(NULL, page + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring->event, 0);
	if (ring->page == MAP_FAILED)
		die_errno("mapping the ring of a CPU");
	ring->data = (const char *)ring->page + page;
	end = open_event("contention_end", pid, cpu);
	if (ioctl(end, PERF_EVENT_IOC_SET_OUTPUT, ring->event))
		die_errno("PERF_EVENT_IOC_SET_OUTPUT");
}

static void put(struct recording *recording, const char *at, size_t size)
{
	write_or_die(recording->output, "perf.bin", at, size);
	recording->bytes += size;
}

/* A header is 8 bytes and lies at a multiple of 8: it is never in two parts. What follows it may be. */
static void count(struct recording *recording, const struct ring *ring, uint64_t tail)
{
	const struct perf_event_header *head = (const void *)(ring->data + tail % RING_BYTES);
	const uint64_t *lost = (const void *)(ring->data + (tail + 16) % RING_BYTES);

	if (head->type == PERF_RECORD_SAMPLE)
		recording->events++;
	else if (head->type == PERF_RECORD_LOST)
		recording->lost += *lost;
}

/* All that is there now. */
static void drain(struct recording *recording, struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, begin = tail % RING_BYTES, size = head - tail;

	if (begin + size > RING_BYTES) {
		put(recording, ring->data + begin, RING_BYTES - begin);
		put(recording, ring->data, begin + size - RING_BYTES);
	} else if (size) {
		put(recording, ring->data + begin, size);
	}
	while (tail != head) {
		count(recording, ring, tail);
		tail += ((const struct perf_event_header *)(ring->data + tail % RING_BYTES))->size;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

static void drain_all(struct recording *recording)
{
	for (unsigned int cpu = 0; cpu < recording->cpus; cpu++)
		drain(recording, &recording->rings[cpu]);
}

int main(int argc, char **argv)
{
	struct recording recording = { .cpus = sysconf(_SC_NPROCESSORS_ONLN) };
	struct pollfd fds[MOST_CPUS + 1];
	struct held_command command;
	const char *folder = NULL;
	int option, status;
	FILE *file;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+o:")) != -1) {
		if (option != 'o')
			die_usage(USAGE);
		folder = optarg;
	}
	if (!folder || optind == argc || recording.cpus > MOST_CPUS)
		die_usage(USAGE);
	if (chdir(folder))
		die_errno("%s", folder);
	recording.output = create_or_die("perf.bin");
	command = hold_command(argv + optind, NULL, SIGKILL);
	for (unsigned int cpu = 0; cpu < recording.cpus; cpu++) {
		open_ring(&recording.rings[cpu], command.pid, cpu);
		fds[cpu] = (struct pollfd){ .fd = recording.rings[cpu].event, .events = POLLIN };
	}
	fds[recording.cpus] = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (fds[recording.cpus].fd < 0)
		die_errno("pidfd_open");
	release_command(&command);
	do {
		if (poll(fds, recording.cpus + 1, -1) < 0 && errno != EINTR)
			die_errno("poll");
		drain_all(&recording);
		for (unsigned int cpu = 0; cpu < recording.cpus; cpu++)
			if (fds[cpu].revents & POLLHUP)
				fds[cpu].fd = -1; /* the command has ended, and so have its events */
	} while (!fds[recording.cpus].revents);
	status = shell_status(wait_for_command(command.pid, NULL));
	drain_all(&recording);
	file = create_in(".", "perf.json");
	fprintf(file, "{\"bytes\": %llu, \"events\": %llu, \"lost\": %llu}\n", (unsigned long long)recording.bytes,
		(unsigned long long)recording.events, (unsigned long long)recording.lost);
	close_or_die(file, "perf.json");
	return status;
}
