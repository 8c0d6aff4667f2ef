// SPDX-License-Identifier: MIT
/*
 * profiled [-s SAMPLES] [-c PROBES COUNTS] STATS COMMAND [ARGUMENT...]: run a command as one lap of the workload, which
 * the oracle counts, and write how it ended, as one line of JSON; its exit status is the command's.
 *
 * -c: count how often probes fire meanwhile, whoever it is that fires them: see count.h. -s: have the kernel sample it as `perf record -e cpu-clock` does, children too, and write the records as they are.
 *
 * The lap begins when the command's process, which is there already, is let go, and ends when it is known to have
 * ended. So that two runs are the same, none of its addresses is random, and of the environment, which lies on its
 * stack, only PATH is left. SIGTERM is passed on.
 *
 * What a kernel goes on with after its boot, tests of its ciphers and the like, is none of the command's: it has
 * REST_NS to end. An idle guest under the virtual clock spends none of the host's time.
 */
#include "count.h"
#include "krepro.h"
#include "krepro-roi.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>

#define REST_NS (20 * NSEC_PER_SEC)

/* perf record's own rate. The ring is emptied at the end: what does not fit is lost, and its record says how much. */
enum { SAMPLES_HZ = 4000, RING = 32 << 20 };

static volatile pid_t command;

static struct perf_event_mmap_page *sample(pid_t pid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = SAMPLES_HZ,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID,
		.disabled = 1,
		.enable_on_exec = 1,
		.inherit = 1,
		.mmap = 1,
		.mmap2 = 1,
		.task = 1,
	};
	/* Of one CPU, as its ring is, since it is inherited; the guest has one. */
	long fd = syscall(SYS_perf_event_open, &attr, pid, 0, -1, PERF_FLAG_FD_CLOEXEC);
	void *page;

	if (fd < 0)
		die_errno("perf_event_open");
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE) + RING, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (page == MAP_FAILED)
		die_errno("memory for samples");
	return page;
}

static void write_samples(const struct perf_event_mmap_page *page, int file)
{
	const unsigned char *ring = (const unsigned char *)page + sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);

	write_or_die(file, "samples", ring, (size_t)head);
}

static void pass_on(int signal)
{
	if (command > 0)
		kill(command, signal);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = pass_on };
	const char *path = getenv("PATH");
	struct perf_event_mmap_page *page = NULL;
	struct held_command held;
	struct counters *counters = NULL;
	int stats, status, samples = -1, counts = -1;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	if (argc > 2 && !strcmp(argv[1], "-s")) {
		samples = create_or_die(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc > 3 && !strcmp(argv[1], "-c")) {
		counters = open_counters(argv[2]);
		counts = create_or_die(argv[3]);
		argv += 3;
		argc -= 3;
	}
	if (argc < 3)
		die_usage("usage: profiled [-s SAMPLES] [-c PROBES COUNTS] STATS COMMAND [ARGUMENT...]");
	stats = create_or_die(argv[1]);
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		die_errno("personality");
	path = strdup(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin");
	if (!path || clearenv() || setenv("PATH", path, 1))
		die_errno("the environment");
	held = hold_command(argv + 2, NULL, 0);
	command = held.pid;
	if (sigaction(SIGTERM, &action, NULL))
		die_errno("sigaction");
	if (samples >= 0)
		page = sample(held.pid);
	sleep_ns(REST_NS);
	if (counters)
		begin_counters(counters);
	roi_lap_begin();
	release_command(&held);
	status = shell_status(wait_for_command(held.pid, NULL));
	roi_lap_end();
	if (counters)
		write_counters(counters, counts);
	if (page)
		write_samples(page, samples);
	if (dprintf(stats, "{\"exit_status\": %d}\n", status) < 0)
		die_errno("%s", argv[1]);
	return status;
}
