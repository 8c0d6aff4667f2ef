/*
 * Executed instructions per CPU, published to the guest in the memory of its ivshmem device: a counter that any CPU
 * can read of any other, where there is no PMU. Works with several CPUs and without the virtual clock.
 *
 * The file behind the device: MAGIC and the number of CPUs, 64 bits each; CPU i's count, 64 bits, at byte 64 (1 + i).
 * Instructions count by blocks, at a block's begin: a block that ends early in a fault has counted whole. No kind
 * of instruction and no mode of the CPU is told apart.
 */
#include "oracle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096, LINE = 64 / 8, MAX_CPUS = BYTES / 64 - 1 };
#define MAGIC 0x72746e636f72706bull /* "kprocntr" */

static uint64_t *page;
static unsigned int cpus;
static uint64_t check_begin;
static struct check check;

static uint64_t *count_of(unsigned int cpu)
{
	return page + LINE * (1 + cpu);
}

const char *counters_open(const char *path, unsigned int n)
{
	int fd;

	if (!path)
		return "the machine has no device counters";
	if (n > MAX_CPUS)
		return "the machine has more CPUs than counters";
	fd = open(path, O_RDWR);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		die("%s: %s", path, strerror(errno));
	close(fd);
	cpus = n;
	return NULL;
}

static void on_block(unsigned int cpu, void *instructions)
{
	uint64_t *count = count_of(cpu);

	/* Its own CPU alone writes it; others must see it whole. */
	__atomic_store_n(count, *count + (uintptr_t)instructions, __ATOMIC_RELAXED);
}

void counters_translate(struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (!on(MODE_COUNTERS))
		return;
	if (!page[0]) { /* not at the start: a restored guest brings the page's contents along */
		page[1] = cpus;
		page[0] = MAGIC;
	}
	if (cpus == 1)
		qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, 0), QEMU_PLUGIN_INLINE_ADD_U64,
							   count_of(0), n);
	else
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)n);
}

void counters_region(unsigned int cpu, enum kind kind, bool begin)
{
	if (!on(MODE_COUNTERS) || kind != KIND_CHECK)
		return;
	if (begin)
		check_begin = *count_of(cpu);
	else
		check_done(&check, *count_of(cpu) - check_begin);
}

void counters_report(FILE *json)
{
	if (!on(MODE_COUNTERS))
		return;
	fputs(" \"counters\": {\"check_instructions\": ", json);
	check_report(&check, json);
	fputs(", \"instructions\": [", json);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		fprintf(json, "%s%" PRIu64, cpu ? ", " : "", *count_of(cpu));
	fputs("]},\n", json);
}
