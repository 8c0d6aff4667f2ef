// SPDX-License-Identifier: MIT
/*
 * cpuclock FILE COMMAND [ARGUMENT...]: runs a command under perf's software event
 * cpu-clock, as `perf record -e cpu-clock -c 1000000 -C 0` does, and writes the
 * samples to FILE: 64 bits each, the interrupted address, 0 for one in user mode.
 *
 * perf itself is Perl, Python and twenty libraries in the memory of a small guest.
 * The samples are the kernel's: the same event, opened by the same system call.
 * They stay in the kernel's ring until the command has ended, so that what is
 * measured has the cost of the samples alone, not of writing them to a file.
 */
#include "krepro.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	PERIOD_NS = 1000000,
	RING_PAGES = 64, /* a power of two; of 16 bytes a sample, 16 s */
	PAGE = 4096,
};

static int open_clock(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
	};
	int fd = (int)TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));

	if (fd < 0)
		die_errno("perf_event_open of cpu-clock");
	return fd;
}

static int run(char **command)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		die_errno("fork");
	if (!child) {
		execvp(command[0], command);
		die_with(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN, errno, "%s", command[0]);
	}
	if (TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
		die_errno("waiting for %s", command[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct perf_event_mmap_page *page;
	uint64_t head, at = 0;
	const char *ring;
	int fd, out, status;

	exit_usage = EXIT_TOOL;
	if (argc < 3)
		die_usage("usage: %s FILE COMMAND [ARGUMENT...]", program_invocation_short_name);
	out = create_or_die(argv[1]);
	fd = open_clock();
	page = mmap(NULL, (1 + RING_PAGES) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die_errno("mapping the ring of cpu-clock");
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die_errno("switching cpu-clock on");
	status = run(argv + 2);
	if (ioctl(fd, PERF_EVENT_IOC_DISABLE, 0))
		die_errno("switching cpu-clock off");

	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	ring = (const char *)page + page->data_offset;
	if (head > (uint64_t)RING_PAGES * PAGE)
		die("%llu bytes of samples, and a ring of %d", (unsigned long long)head, RING_PAGES * PAGE);
	while (at < head) {
		struct perf_event_header header;
		uint64_t address = 0;

		memcpy(&header, ring + at, sizeof(header));
		if (header.type == PERF_RECORD_LOST || header.size < sizeof(header))
			die("samples of cpu-clock were lost");
		if (header.type == PERF_RECORD_SAMPLE) {
			if ((header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL)
				memcpy(&address, ring + at + sizeof(header), sizeof(address));
			write_or_die(out, argv[1], &address, sizeof(address));
		}
		at += header.size;
	}
	if (close(out))
		die_errno("closing %s", argv[1]);
	return status;
}
