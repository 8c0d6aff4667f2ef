// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Executed instructions per CPU, published to the guest in the memory of its ivshmem device: a counter that any CPU
 * can read of any other, where there is no PMU. Works with several CPUs and without the virtual clock.
 *
 * The file behind the device: MAGIC and the number of CPUs, 64 bits each; of CPU i from byte 64 (1 + i) on, 64 bits
 * each: its count; and, as of the latest mark OP_HOST, how long the host ran the CPU's thread and how long that waited
 * for a CPU of the host while it could have run, ns. Both are 0 where the host does not say, and under the virtual clock,
 * whose guests must not see the host's time.
 *
 * Instructions count by blocks, at a block's begin: a block that ends early in a fault has counted whole. No kind
 * of instruction and no mode of the CPU is told apart.
 */
#include "check.h"
#include "oracle.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 4096, LINE = 64 / 8, MAX_CPUS = BYTES / 64 - 1, RUN = 1, WAIT = 2 };
#define MAGIC 0x72746e636f72706bull /* "kprocntr" */

static uint64_t *page;
static unsigned int cpus;
static bool host_told; /* the clock is the host's */
static int schedstat[MAX_CPUS]; /* file of each CPU's thread; 0: not opened yet, -1: there is none */
static uint64_t check_begin;
static struct check check;

static uint64_t *count_of(unsigned int cpu)
{
	return page + LINE * (1 + cpu);
}

static const char *lacks(const struct settings *settings)
{
	if (!settings->counters)
		return "the machine has no device counters";
	if (settings->cpus > MAX_CPUS)
		return "the machine has more CPUs than counters";
	return NULL;
}

static void init(const struct settings *settings)
{
	int fd = open(settings->counters, O_RDWR);

	if (fd < 0)
		die("%s: %s", settings->counters, strerror(errno));
	page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("%s: %s", settings->counters, strerror(errno));
	close(fd);
	cpus = settings->cpus;
	host_told = settings->shift < 0;
}

static void resume(unsigned int cpu)
{
	char path[64];

	if (!host_told || cpu >= MAX_CPUS || schedstat[cpu])
		return;
	snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
	schedstat[cpu] = open(path, O_RDONLY | O_CLOEXEC);
}

/* The guest asks for it, from one CPU: a few microseconds each. */
static void command(enum kind kind, enum operation operation)
{
	(void)kind;
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		char text[80];
		uint64_t run, wait;
		ssize_t n;

		if (operation != OP_HOST || schedstat[cpu] <= 0)
			continue;
		n = pread(schedstat[cpu], text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &run, &wait) != 2)
			continue;
		__atomic_store_n(count_of(cpu) + RUN, run, __ATOMIC_RELAXED);
		__atomic_store_n(count_of(cpu) + WAIT, wait, __ATOMIC_RELAXED);
	}
}

static void on_block(unsigned int cpu, void *instructions)
{
	uint64_t *count = count_of(cpu);

	/* Its own CPU alone writes it; others must see it whole. */
	__atomic_store_n(count, *count + (uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void block(struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (!page[0]) { /* not at the start: a restored guest brings the page's contents along */
		page[1] = cpus;
		page[0] = MAGIC;
	}
	if (cpus == 1)
		count_inline(qemu_plugin_tb_get_insn(tb, 0), count_of(0), n);
	else
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)n);
}

static void on_region(unsigned int cpu, enum kind kind, bool begin)
{
	if (kind != KIND_CHECK)
		return;
	if (begin)
		check_begin = *count_of(cpu);
	else
		check_done(&check, *count_of(cpu) - check_begin);
}

static void report(FILE *json)
{
	fputs(" \"counters\": {\"check_instructions\": ", json);
	check_report(&check, json);
	fputs(", \"instructions\": [", json);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		fprintf(json, "%s%" PRIu64, cpu ? ", " : "", *count_of(cpu));
	fputs("]},\n", json);
}

const struct oracle_mode counters_mode = {
	.name = "counters",
	.any_cpus = true,
	.lacks = lacks,
	.init = init,
	.resume = resume,
	.block = block,
	.region = on_region,
	.command = command,
	.report = report,
};
